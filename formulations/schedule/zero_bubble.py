"""`ilp-zero-bubble`: the integer program of Zero Bubble for any schedule problem of given micro-batches, through Pyomo.

Two runs on one device get a binary variable that says which comes first, and rows that a large constant switches off.
As published, these order forward, input and weight passes of a pipeline's stages, and memory is counted by the same
variables. Here blocks may occupy several devices, take memory or workspace as they like, wait for earlier micro-batches
and take no time at all; and what edges say of an order needs no variable.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

from ...instances.amounts import as_written
from ...instances.errors import TooLargeError
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ...instances.schedule.referee.evaluate import evaluate_schedule
from ..contract import FLOAT_ROOM, BuiltModel, CommonFormulation, Options, Refuted, Values, Wanted
from .finite_bounds import path_bound, work_bound
from .finite_grid import Grid, grid_of
from .finite_orders import Timing, in_order, sequences_of, tightest
from .finite_problem import SPAN, DeviceMemory, FiniteProblem, Node, Windows, finite_problem, for_integers

NAME = "ilp-zero-bubble"

MOST_PAIRS = 50_000
"""Runs of one device whose order is open: a program with more of them is hopeless."""


class ZeroBubble(CommonFormulation):
    """Minimise makespan or span: starts, and the order of every two runs of a device."""

    def check(self, problem: ScheduleProblem, options: Options) -> None:
        finite_problem(problem, NAME)

    def solvers(self, problem: ScheduleProblem, options: Options) -> tuple[str, ...]:
        return ("highs", "cp-sat")

    def lower_bound(self, problem: ScheduleProblem, options: Options) -> float:
        finite, objective = finite_problem(problem, NAME), options["objective"]
        return float(max(work_bound(finite, objective), path_bound(finite, objective)) / finite.steps)

    def model(self, problem: ScheduleProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        exact, objective = finite_problem(problem, NAME), options["objective"]
        finite = for_integers(exact)
        cutoff = None if wanted.cutoff is None else as_written(wanted.cutoff)
        grid = grid_of(finite, objective, cutoff)
        room = math.ceil(Fraction(grid.limit, grid.factor) * (1 + Fraction(FLOAT_ROOM)))
        windows = finite.windows(room, objective)
        if windows is None:
            return Refuted("its longest path takes longer")
        program = Program(finite, windows, objective, room)
        if program.impossible:
            return Refuted("a block needs more memory than its device has")
        step = float(1 / (finite.steps * grid.factor))
        continuous = (*program.model.s.values(), program.model.T)
        ranks = (variable.name for variable in program.model.r.values())
        return BuiltModel(
            program.model,
            partial(decode, exact, objective),
            partial(encode, program, exact, objective, grid),
            grids={**{variable.name: step for variable in continuous}, **dict.fromkeys(ranks, 1.0)},
            grid_loss=grid.loss * step,
            size={"blocks": len(problem.blocks), "runs": len(program.runs), "orders": len(program.pairs)},
            coarse=not finite.exact,
        )


FORMULATION = ZeroBubble()


class Program:
    """s: starts. o: of two runs of a device, does the first one come first? r: places of runs without time, which keep
    what happens at one instant free of cycles. T: what is minimised. All in the problem's time unit."""

    def __init__(self, finite: FiniteProblem, windows: Windows, objective: str, limit: int) -> None:
        import pyomo.environ as pyo

        self.pyo, self.finite, self.windows = pyo, finite, windows
        self.unit = float(1 / finite.steps)
        self.runs = [(b, n) for b in range(len(finite.times)) for n in range(finite.batches)]
        self.pairs = sorted(set(self._open_pairs()))
        if len(self.pairs) > MOST_PAIRS:
            raise TooLargeError(
                "blocks", f"give {len(self.pairs)} pairs to order, too many for {NAME}", "choose cp-schedule"
            )
        self.timeless = [run for run in self.runs if not finite.times[run[0]]]
        self.impossible = False
        self.model = pyo.ConcreteModel()
        unit = self.unit
        self.model.s = pyo.Var(
            self.runs, bounds=lambda _, b, n: (windows.early[b][n] * unit, windows.late[b][n] * unit)
        )
        self.model.o = pyo.Var([(*first, *second) for first, second in self.pairs], domain=pyo.Binary)
        self.model.r = pyo.Var(self.timeless, bounds=(0, len(self.timeless)))
        self.model.T = pyo.Var(bounds=(0, limit * unit))
        self._rows("path", self._paths())
        self._rows("exclusive", self._exclusive())
        self._rows("instant", self._instants())
        self._rows("memory", self._memory())
        self._rows("value", self._values(objective))
        self.model.objective = pyo.Objective(expr=self.model.T)

    def _open_pairs(self) -> Iterator[tuple[Node, Node]]:
        """Pairs of different runs of a device, the smaller one first, whose order the edges leave open."""
        finite = self.finite
        for blocks in finite.on_device:
            runs = sorted((b, n) for b in blocks for n in range(finite.batches))
            for first, second in combinations(runs, 2):
                if finite.comes_before(first, second) is None:
                    yield first, second

    def _rows(self, name: str, rows: Iterator[Any]) -> None:
        found = list(rows)
        constraint = self.pyo.Constraint(range(len(found)), rule=lambda _, i: found[i])
        self.model.add_component(name, constraint)

    def _paths(self) -> Iterator[Any]:
        """Edges, and micro-batches in order."""
        s, finite = self.model.s, self.finite
        waits = [(arc.source, arc.target, arc.wait, arc.offset) for arc in finite.arcs]
        waits += [(b, b, time, 1) for b, time in enumerate(finite.times)]
        for i, j, wait, offset in waits:
            for n in range(finite.batches - offset):
                if (i, n) != (j, n + offset):
                    yield s[j, n + offset] >= s[i, n] + wait * self.unit

    def _exclusive(self) -> Iterator[Any]:
        """Whoever comes first ends before the other one starts; each row is off where the order is the other one."""
        for first, second in self.pairs:
            order = self.model.o[(*first, *second)]
            yield self._after(first, second, 1 - order)
            yield self._after(second, first, order)

    def _after(self, first: Node, second: Node, off: Any) -> Any:
        s, time = self.model.s, self.finite.times[first[0]]
        early, late = self.windows.early, self.windows.late
        most = max(0, late[first[0]][first[1]] + time - early[second[0]][second[1]])
        return s[second] >= s[first] + time * self.unit - most * self.unit * off

    def _instants(self) -> Iterator[Any]:
        r, finite, most = self.model.r, self.finite, len(self.timeless) + 1
        for first, second in self.pairs:
            if not finite.times[first[0]] and not finite.times[second[0]]:
                order = self.model.o[(*first, *second)]
                yield r[second] >= r[first] + 1 - most * (1 - order)
                yield r[first] >= r[second] + 1 - most * order
        loops = [(b, b, 0, 1) for b, time in enumerate(finite.times) if not time]
        for i, j, wait, offset in [*((a.source, a.target, a.wait, a.offset) for a in finite.arcs), *loops]:
            if not wait and not finite.times[j]:
                for n in range(finite.batches - offset):
                    yield r[j, n + offset] >= r[i, n] + 1

    def _memory(self) -> Iterator[Any]:
        """Taken and not given back by all runs before: it fits while a run takes or has a workspace, and is there when
        a run gives back."""
        finite = self.finite
        for blocks, memory in zip(finite.on_device, finite.memories, strict=True):
            for k in blocks:
                for u in range(finite.batches):
                    held = self._held_before(memory, (k, u))
                    if memory.room is not None and memory.needed(k):
                        yield from self._held(memory.needed(k) + held - memory.room)
                    if memory.changes.get(k, 0) < 0:
                        yield from self._held(-memory.standing - held - memory.changes[k])

    def _held_before(self, memory: DeviceMemory, run: Node) -> Any:
        return sum(
            change * self.precedes((i, n), run)
            for i, change in memory.changes.items()
            for n in range(self.finite.batches)
            if (i, n) != run
        )

    def _held(self, excess: Any) -> Iterator[Any]:
        """A row, unless it is a number."""
        if isinstance(excess, int):
            self.impossible = self.impossible or excess > 0
        else:
            yield excess <= 0

    def precedes(self, first: Node, second: Node) -> Any:
        known = self.finite.comes_before(first, second)
        if known is not None:
            return int(known)
        return self.model.o[(*first, *second)] if first < second else 1 - self.model.o[(*second, *first)]

    def _values(self, objective: str) -> Iterator[Any]:
        s, value, finite, last = self.model.s, self.model.T, self.finite, self.finite.batches - 1
        for blocks in finite.on_device:
            for b in blocks:
                end = s[b, last] + finite.times[b] * self.unit
                if objective != SPAN:
                    yield value >= end
                else:
                    yield from (value >= end - s[a, 0] for a in blocks if (a, 0) != (b, last))
                    if (b, 0) == (b, last):
                        yield value >= finite.times[b] * self.unit


# ---- from a solution to a plan, and back ----------------------------------------------------------------


def decode(finite: FiniteProblem, objective: str, values: Values) -> SchedulePlan:
    """The orders of a solution, with the best times for them. A run comes after as many as are before it."""
    batches = range(finite.batches)

    def place(run: Node, runs: list[Node]) -> int:
        return sum(_comes_first(finite, values, other, run) for other in runs if other != run)

    rows = []
    for blocks in finite.on_device:
        runs = [(b, n) for b in blocks for n in batches]
        rows.append(tuple(sorted(runs, key=lambda run, runs=runs: place(run, runs))))  # type: ignore[misc]
    plan = tightest(finite, tuple(rows), objective)
    assert plan is not None, "a solution's times and places follow its orders"
    return plan


def _comes_first(finite: FiniteProblem, values: Values, first: Node, second: Node) -> bool:
    known = finite.comes_before(first, second)
    if known is not None:
        return known
    if first < second:
        return values[_named(first, second)] > 0.5
    return values[_named(second, first)] < 0.5


def _named(first: Node, second: Node) -> str:
    return f"o[{first[0]},{first[1]},{second[0]},{second[1]}]"


def encode(
    program: Program, finite: FiniteProblem, objective: str, grid: Grid, plan: SchedulePlan
) -> Values | None:
    """Starts and orders of the plan with its best times; None where it is longer than what is asked for."""
    sequences = sequences_of(finite.problem, in_order(plan))
    best = tightest(finite, sequences, objective)
    value = None if best is None else evaluate_schedule(finite.problem, best).objective(objective)
    if best is None or value is None or value * program.finite.steps * grid.factor > grid.limit:
        return None
    values = {
        f"s[{b},{n}]": float(start)
        for b, block in enumerate(finite.problem.blocks)
        for n, start in enumerate(best.starts[block.id])
    }
    at: list[Mapping[Node, int]] = [{run: i for i, run in enumerate(row)} for row in sequences]
    for first, second in program.pairs:
        places = next(row for row in at if first in row and second in row)
        values[_named(first, second)] = float(places[first] < places[second])
    timeless = [run for run in Timing(finite, sequences).order or () if not finite.times[run[0]]]
    values |= {f"r[{b},{n}]": float(i) for i, (b, n) in enumerate(timeless)}
    return {**values, "T": float(value)}
