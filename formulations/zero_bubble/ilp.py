"""`ilp-zero-bubble`: the integer program of Zero Bubble for any schedule problem of given micro-batches, through Pyomo.

Two runs on one device get a binary variable that says which comes first, and rows that a large constant switches off.
As published, these order forward, input and weight passes of a pipeline's stages, and memory is counted by the same
variables. Here blocks may occupy several devices, take memory or workspace as they like, wait for earlier micro-batches
and take no time at all; and what edges and the limit say of an order needs no variable.

The program checks `exact-schedule` and `cp-schedule`. It therefore reads the problem by itself, and shares with them
nothing but the types of problems and plans.

    minimise T, for runs u and v of micro-batches m
    (1)  s_v >= s_u + time_u + lag                   edges, and each block runs its micro-batches in order
    (2)  s_v >= s_u + time_u - M (1 - o_uv)          runs of one device, in one order
         s_u >= s_v + time_v - M o_uv                or in the other one
    (3)  r_v >= r_u + 1 - R (1 - o_uv), ...          places of runs without time: none comes before itself
    (4)  sum of change_u o_uv <= room - need_v       what was taken and not given back, when v starts
         sum of -change_u o_uv <= standing + change_v    no more is given back than was ever there
    (5)  T >= s_v + time_v, or of span: T >= s_v + time_v - s_u on each device

Where amounts have seventeen digits, one part in 10^16 may decide what fits, and a float solver does not see it. So rows
of long whole numbers become several rows of short ones (`at_most`): numbers are written to the base `BASE`, and a whole
variable carries from each digit to the next one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

from ...instances.base.amounts import as_written
from ...instances.base.errors import TooLargeError, UsageError
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ..contract import BuiltModel, CommonFormulation, Options, Refuted, Values, Wanted, check_type

NAME = "ilp-zero-bubble"
SPAN = "span"

# The most pairs of runs of one device whose order is open: a program with more of them is hopeless.
MOST_PAIRS = 50_000

# The most steps of the longest schedule; finer times are rounded down to steps that are as long as this asks for.
MOST_STEPS = 10**12

# The most steps for solvers in floating point: with so few, rounding in the sums of a row is within their tolerances.
MOST_FLOAT_STEPS = 10**9

# The most parts of the longest schedule: steps are divided up to this for the sake of spans that are fractions.
MOST_PARTS = 2**40

# Share of a step between runs without time at one instant that follow another order than the referee's.
HAIR = Fraction(1, 10**9)

# (i, j, w, k): the start of j is at least the start of i, plus w, minus k times T.
Wait = tuple[int, int, Fraction, int]


@dataclass(frozen=True)
class Reading:
    """The problem in whole steps. Run b m + n is block b of micro-batch n."""

    problem: ScheduleProblem
    step: Fraction
    """Length of a step in the problem's time unit."""
    block_times: tuple[int, ...]
    lags: tuple[int, ...]
    exact: bool = True
    """Are these the problem's own times? If not, they are rounded down; shorter waits exclude no schedule."""

    @property
    def batches(self) -> int:
        assert self.problem.micro_batches is not None, "checked"
        return self.problem.micro_batches

    @cached_property
    def times(self) -> tuple[int, ...]:
        return tuple(time for time in self.block_times for _ in range(self.batches))

    @cached_property
    def arcs(self) -> tuple[tuple[int, int, int], ...]:
        """Equation (1). Micro-batches are alike, so that those of a block may be named in the order of its runs: the
        n-th start of a block comes after the n-th end of one that it waits for."""
        m, arcs = self.batches, []
        for (i, j), lag, edge in zip(self.problem.ends, self.lags, self.problem.edges, strict=True):
            wait = self.block_times[i] + lag
            arcs += [(i * m + n, j * m + n + edge.offset, wait) for n in range(m - edge.offset)]
        for b, time in enumerate(self.block_times):
            arcs += [(b * m + n, b * m + n + 1, time) for n in range(m - 1)]
        return tuple(arcs)

    @cached_property
    def devices(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Devices that have any blocks, each with all its runs."""
        m = self.batches
        rows = (
            (d, tuple(b * m + n for b in blocks for n in range(m)))
            for d, blocks in enumerate(self.problem.on_device)
        )
        return tuple((d, runs) for d, runs in rows if runs)

    @cached_property
    def longest(self) -> int:
        """No schedule whose runs start as early as their orders let them takes longer: on a path each run adds its time
        and one lag."""
        lag = [0] * len(self.block_times)
        for (i, _), wait in zip(self.problem.ends, self.lags, strict=True):
            lag[i] = max(lag[i], wait)
        return self.batches * (sum(self.block_times) + sum(lag))

    def touches(self, d: int, run: int) -> bool:
        block, name = self.problem.blocks[run // self.batches], self.problem.devices[d].name
        return bool(block.memory.get(name) or block.workspace.get(name))

    def place(self, run: int) -> tuple[int, int, int]:
        """How runs without time follow each other at one instant: by micro-batch, depth, place in the file."""
        b, n = divmod(run, self.batches)
        return n, self.problem.depths[b], b


def read(problem: ScheduleProblem) -> Reading:
    """The problem in steps of its own times; a `UsageError` where it has no given micro-batches."""
    check_type(NAME, problem, ScheduleProblem)
    if problem.micro_batches is None:
        raise UsageError(
            f"{NAME} plans given micro-batches, and the problem has none: give --batch, "
            "or choose cp-periodic for the steady state."
        )
    numbers = [as_written(block.time) for block in problem.blocks], [as_written(edge.lag) for edge in problem.edges]
    parts = math.lcm(*(number.denominator for row in numbers for number in row))
    times, lags = (tuple(int(number * parts) for number in row) for row in numbers)
    return Reading(problem, Fraction(1, parts), times, lags)


def shortened(reading: Reading, most: int) -> Reading:
    """The reading with at most so many steps in the longest schedule, times rounded down."""
    if reading.longest <= most:
        return reading
    share = Fraction(most, reading.longest)
    times, lags = (tuple(int(number * share) for number in row) for row in (reading.block_times, reading.lags))
    return replace(reading, step=reading.step / share, block_times=times, lags=lags, exact=False)


def bound_of(reading: Reading, objective: str) -> int:
    """Lower bound in steps: the work of each device, with the shortest way to it and from it; and the longest paths."""
    arcs, times, bounds = reading.arcs, reading.times, [0]
    back = [(j, i, w - times[i] + times[j]) for i, j, w in reversed(arcs)]
    heads, tails = (longest([0] * len(times), way)[0] for way in (arcs, back))
    for _, runs in reading.devices:
        work = sum(times[u] for u in runs)
        if objective != SPAN:
            bounds.append(work + min(heads[u] or 0 for u in runs) + min(tails[u] or 0 for u in runs))
            bounds.append(max((heads[u] or 0) + times[u] for u in runs))
            continue
        bounds.append(work)
        for first in runs[:: reading.batches]:
            starts: list[int | None] = [None] * len(times)
            starts[first] = 0
            paths = longest(starts, arcs)[0]
            bounds += [path + times[u] for u in runs if (path := paths[u]) is not None]
    return max(bounds)


class ZeroBubble(CommonFormulation):
    """Minimise makespan or span: starts, and the order of every two runs of a device."""

    def check(self, problem: ScheduleProblem, options: Options) -> None:
        read(problem)

    def solvers(self, problem: ScheduleProblem, options: Options) -> tuple[str, ...]:
        return ("highs", "cp-sat")

    def lower_bound(self, problem: ScheduleProblem, options: Options) -> float:
        reading = read(problem)
        return float(bound_of(reading, options["objective"]) * reading.step)

    def model(self, problem: ScheduleProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        exact, objective = read(problem), options["objective"]
        reading = shortened(exact, MOST_STEPS if wanted.native else MOST_FLOAT_STEPS)
        parts, loss = parts_of(reading, objective)
        limit = reading.longest * parts
        if wanted.cutoff is not None:
            cutoff = as_written(wanted.cutoff) / reading.step * parts
            limit = min(limit, math.floor(cutoff) if wanted.native else math.ceil(cutoff))
        program = Program(exact, reading, objective, limit, parts)
        if program.windows is None or not program.build():
            return Refuted("paths or memory leave no schedule that is as short")
        names = [x.name for var in (program.model.s, program.model.T, program.model.r) for x in var.values()]
        return BuiltModel(
            program.model,
            program.decode,
            program.encode,
            grids=dict.fromkeys(names, 1.0),
            grid_loss=loss * program.unit,
            size={"blocks": len(problem.blocks), "runs": len(reading.times), "orders": len(program.pairs)},
            coarse=not reading.exact,
        )


FORMULATION = ZeroBubble()


def parts_of(reading: Reading, objective: str) -> tuple[int, int]:
    """Into how many parts a step is divided, and by how many parts starts in whole parts can raise the least value.

    Of given orders the best makespan is a longest path, which is whole. The best span is a mean: (5) leads from the
    last end of a device to its first start, a cycle of waits takes that way on some devices, and T is its length over
    their number. It passes no device twice, or two shorter cycles would do. So a common multiple of all numbers up to
    that of the devices holds every span. Where these are too many parts, any number will do: starts that are rounded
    down keep (1) and (2), whose numbers are whole, and lose less than one part in (5).
    """
    devices = len(reading.devices)
    if objective != SPAN or devices < 2:
        return 1, 0
    parts, most = math.lcm(*range(1, devices + 1)), max(1, MOST_PARTS // max(1, reading.longest))
    return (parts, 0) if parts <= most else (most, 1)


class Program:
    """s: starts, in parts of a step. o: of two runs of a device, does the first one come first? r: places of runs
    without time. T: what is minimised, in parts of a step."""

    def __init__(self, exact: Reading, reading: Reading, objective: str, limit: int, parts: int) -> None:
        self.exact, self.reading, self.objective, self.limit, self.parts = exact, reading, objective, limit, parts
        self.unit = float(reading.step / parts)
        self.times = [time * parts for time in reading.times]
        self.arcs = [(u, v, wait * parts) for u, v, wait in reading.arcs]
        self.windows = self._windows()
        self.known: dict[tuple[int, int], bool] = {}
        """The pairs whose order is certain: does the first run come first?"""
        self.narrowed: list[tuple[int, int]] = []
        """The known pairs whose order follows from windows alone, with the first run first."""
        self.pairs: list[tuple[int, int]] = []

    def _windows(self) -> tuple[list[int], list[int]] | None:
        """Earliest and latest starts; None: there is no schedule of at most the limit.

        All are longest paths from and to an origin, which is 0. Schedules that start as early as their orders let them
        end within `longest`. For span a device has a first start of its own, and each end is within the limit after
        it; where all runs follow from one, that one starts at 0.
        """
        runs, span = len(self.times), self.objective == SPAN
        origin = runs + len(self.reading.devices)
        most = self.reading.longest * self.parts if span else self.limit
        arcs = [(origin, u, 0) for u in range(origin)] + self.arcs
        arcs += [(u, origin, time - most) for u, time in enumerate(self.times)]
        if span:
            for at, (_, row) in enumerate(self.reading.devices, runs):
                arcs += [arc for u in row for arc in ((at, u, 0), (u, at, self.times[u] - self.limit))]
            waiting = {v for _, v, _ in self.arcs}
            free = [u for u in range(runs) if u not in waiting]
            arcs += [(free[0], origin, 0)] if len(free) == 1 else []
        ways = []
        for way in (arcs, [(j, i, w) for i, j, w in reversed(arcs)]):
            lengths, cycle = longest([None] * origin + [0], way)
            if cycle:
                return None
            ways.append([length or 0 for length in lengths[:runs]])
        return ways[0], [-length for length in ways[1]]

    def build(self) -> bool:
        """Build the model; False: edges, windows or memory leave no order."""
        from ..quick_pyomo import pyo

        assert self.windows is not None, "checked"
        early, late = self.windows
        if not self._orders():
            return False
        self.timeless = [u for u, time in enumerate(self.times) if not time]
        model = self.model = pyo.ConcreteModel(NAME)
        model.s = pyo.Var(range(len(self.times)), bounds=lambda _, u: (early[u], late[u]))
        model.s.doc = "[r] start of run r in steps; run b m + n is block b of micro-batch n"
        model.o = pyo.Var(self.pairs, domain=pyo.Binary, doc="[r, q] of two runs of one device, does r come first?")
        model.r = pyo.Var(self.timeless, bounds=(0, len(self.timeless)))
        model.r.doc = "[r] place of a run without time among those at one instant"
        model.T = pyo.Var(bounds=(0, self.limit))
        model.T.doc = "the makespan or span, in steps: the objective has the step's length as its coefficient"
        model.carry = pyo.VarList(domain=pyo.Integers)
        model.carry.doc = "carries of long amounts, which are added digit by digit"
        model.objective = pyo.Objective(expr=self.unit * model.T)
        return add_rows(
            model,
            ("eq_1", "edges, and each block runs its micro-batches in order", self._paths()),
            ("eq_2", "runs of one device do not overlap, in one order or the other", self._exclusive()),
            ("eq_3", "runs without time do not wait for each other in a circle", self._instants()),
            ("eq_4", "what was taken and not given back fits the memory when a run starts", self._memory()),
            ("eq_5", "T is at least the end of every run, or of each device's span", self._values()),
        )

    def _orders(self) -> bool:
        """Sort pairs of runs by whether their order follows from edges, from windows, or is open; False: a pair has no
        order."""
        assert self.windows is not None, "checked"
        early, late = self.windows
        followed = self._reach()
        for u, v in sorted({pair for _, runs in self.reading.devices for pair in combinations(runs, 2)}):
            first = not (followed[v] >> u & 1 or early[u] + self.times[u] > late[v])
            second = not (followed[u] >> v & 1 or early[v] + self.times[v] > late[u])
            if not first and not second:
                return False
            if first and second:
                self.pairs.append((u, v))
            else:
                self.known[u, v] = first
                a, b = (u, v) if first else (v, u)
                if not followed[a] >> b & 1:
                    self.narrowed.append((a, b))
        if len(self.pairs) > MOST_PAIRS:
            raise TooLargeError(
                "blocks", f"give {len(self.pairs)} pairs to order, too many for {NAME}", "choose cp-schedule"
            )
        return True

    def _reach(self) -> list[int]:
        """The runs that follow from each run, as bits."""
        reach = [1 << u for u in range(len(self.times))]
        m, depths = self.reading.batches, self.reading.problem.depths
        for u, v, _ in sorted(self.arcs, key=lambda arc: (-(arc[0] % m), -depths[arc[0] // m])):
            reach[u] |= reach[v]
        return reach

    def _paths(self) -> Iterator[Any]:
        s = self.model.s
        yield from (s[v] >= s[u] + wait for u, v, wait in self.arcs)
        yield from (s[v] >= s[u] + self.times[u] for u, v in self.narrowed)

    def _exclusive(self) -> Iterator[Any]:
        for u, v in self.pairs:
            order = self.model.o[u, v]
            yield self._after(u, v, 1 - order)
            yield self._after(v, u, order)

    def _after(self, first: int, second: int, off: Any) -> Any:
        """A row: the second run starts after the first one has ended, unless `off` is 1.

        On a device nothing ends later than the limit after something starts, for makespan as for span.
        """
        assert self.windows is not None, "checked"
        early, late = self.windows
        s, time = self.model.s, self.times[first]
        most = max(0, min(late[first] + time - early[second], self.limit))
        return s[second] >= s[first] + time - most * off

    def _instants(self) -> Iterator[Any]:
        r, most = self.model.r, len(self.timeless) + 1
        for u, v in self.pairs:
            if not self.times[u] and not self.times[v]:
                order = self.model.o[u, v]
                yield r[v] >= r[u] + 1 - most * (1 - order)
                yield r[u] >= r[v] + 1 - most * order
        yield from (r[v] >= r[u] + 1 for u, v, wait in self.arcs if not wait and not self.times[v])

    def _memory(self) -> Iterator[Any]:
        problem, m = self.reading.problem, self.reading.batches
        for d, runs in self.reading.devices:
            device = problem.devices[d]
            change = [as_written(block.memory.get(device.name, 0)) for block in problem.blocks]
            workspace = [as_written(block.workspace.get(device.name, 0)) for block in problem.blocks]
            limit, standing = as_written(device.memory or 0), as_written(device.standing)
            parts = math.lcm(*(amount.denominator for amount in (*change, *workspace, limit, standing)))
            for v in runs:
                need = max(change[v // m], Fraction(0)) + workspace[v // m]
                terms = [(int(change[u // m] * parts), u) for u in runs if u != v and change[u // m]]
                if device.memory is not None and need:
                    yield from self._held(terms, v, int((limit - standing - need) * parts))
                if change[v // m] < 0:
                    yield from self._held([(-a, u) for a, u in terms], v, int((standing + change[v // m]) * parts))

    def _held(self, terms: Sequence[tuple[int, int]], run: int, right: int) -> Iterator[Any]:
        """Rows: the sum of the amounts of those that come before the run is at most `right`."""
        o, open_terms = self.model.o, []
        for amount, u in terms:
            pair = (min(u, run), max(u, run))
            first = self.known.get(pair)
            if first is not None:
                right -= amount * (first == (u < run))
            elif u < run:
                open_terms.append((amount, o[pair], 1))
            else:
                right -= amount
                open_terms.append((-amount, o[pair], 1))
        if sum(amount for amount, _, _ in open_terms if amount > 0) > right:
            unit = math.gcd(*(amount for amount, _, _ in open_terms))
            rows = [(amount // unit, x, far) for amount, x, far in open_terms] if unit else []
            yield from at_most(self.model.carry, rows, right // unit if unit else right)

    def _values(self) -> Iterator[Any]:
        s, value, m = self.model.s, self.model.T, self.reading.batches
        for _, runs in self.reading.devices:
            for v in runs[m - 1 :: m]:
                if self.objective != SPAN:
                    yield value >= s[v] + self.times[v]
                else:
                    yield from (value >= s[v] + self.times[v] - s[u] for u in runs[::m] if u != v)
                    yield value >= self.times[v]

    # ---- from a solution to a plan, and back ------------------------------------------------------------

    def decode(self, values: Values) -> SchedulePlan:
        """The orders of a solution, with the best times for them. A run's place is the number of runs before it."""
        rows = []
        for _, runs in self.exact.devices:
            before = dict.fromkeys(runs, 0)
            for u, v in combinations(runs, 2):
                first = self.known.get((u, v))
                before[v if values.get(f"o[{u},{v}]", 0) > 0.5 or first else u] += 1
            rows.append(sorted(runs, key=before.__getitem__))
        order = [values[f"s[{u}]"] for u in range(len(self.times))]
        timed = self._timed(rows, order)
        assert timed is not None, "a solution's times and places follow its orders"
        m, starts = self.exact.batches, [start * self.exact.step for start in timed[1]]
        return SchedulePlan(
            {block.id: tuple(starts[b * m : b * m + m]) for b, block in enumerate(self.exact.problem.blocks)}
        )

    def _timed(
        self, rows: Sequence[Sequence[int]], order: Sequence[float | Fraction]
    ) -> tuple[Fraction, list[Fraction]] | None:
        """The least value of these orders and the starts for it, in steps; `order`: about when each run starts."""
        exact, times = self.exact, self.exact.times
        waits: list[Wait] = [(u, v, Fraction(wait), 0) for u, v, wait in exact.arcs]
        lower = 0
        for (d, runs), row in zip(exact.devices, rows, strict=True):
            waits += [(u, v, Fraction(times[u]), 0) for u, v in pairwise(row)]
            waits += [(u, v, HAIR, 0) for u, v in self._apart(d, row)]
            if self.objective == SPAN:
                waits.append((row[-1], row[0], Fraction(times[row[-1]]), 1))
            lower = max(lower, sum(times[u] for u in runs))
        waits.sort(key=lambda wait: (order[wait[0]], self.exact.place(wait[0])))
        best = least(len(times), waits, Fraction(lower))
        if best is None or self.objective == SPAN:
            return best
        return max(start + time for start, time in zip(best[1], times, strict=True)), best[1]

    def _apart(self, d: int, row: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Neighbours without time that matter to the device's memory, against the referee's order at one instant."""
        exact, before = self.exact, -1
        for u in row:
            if exact.times[u]:
                before = -1
            elif exact.touches(d, u):
                if before >= 0 and exact.place(u) < exact.place(before):
                    yield before, u
                before = u

    def encode(self, plan: SchedulePlan) -> Mapping[str, float] | None:
        """Starts and orders of the plan with its best times; None where it is longer than what is asked for."""
        exact = self.exact
        starts = [start for block in exact.problem.blocks for start in sorted(plan.starts[block.id])]
        rows = [
            sorted(runs, key=lambda u: (starts[u], exact.times[u] > 0, exact.place(u))) for _, runs in exact.devices
        ]
        timed = self._timed(rows, starts)
        share = exact.step / self.reading.step * self.parts
        if timed is None or timed[0] * share > self.limit:
            return None
        values = {f"s[{u}]": float(math.floor(start * share)) for u, start in enumerate(timed[1])}
        for row in rows:
            at = {u: i for i, u in enumerate(row)}
            values |= {
                f"o[{u},{v}]": float(at[u] < at[v])
                for u, v in combinations(sorted(row), 2)
                if (u, v) not in self.known
            }
        ranked = sorted(self.timeless, key=lambda u: (timed[1][u], exact.place(u)))
        values |= {f"r[{u}]": float(i) for i, u in enumerate(ranked)}
        return {**values, "T": float(math.ceil(timed[0] * share))}


# ---- waits between starts, some of which get shorter as T grows --------------------------------------------
# Methods that this program checks time their orders elsewhere: none of them may use these functions.


def least(count: int, waits: Sequence[Wait], lower: Fraction) -> tuple[Fraction, list[Fraction]] | None:
    """The least T of at least `lower`, and the earliest starts from 0 on; None: no T is large enough.

    Around a cycle the waits must not sum to more than 0. A cycle whose waits do at some T asks for a larger T: the sum
    of its w's over the sum of its k's; one whose k's do not sum to more than 0 is impossible at every T.
    """
    parts = math.lcm(*{w.denominator for _, _, w, _ in waits}, 1)
    whole = [(i, j, int(w * parts), k) for i, j, w, k in waits]
    value = lower * parts
    while True:
        top, bottom = value.numerator, value.denominator
        lengths = [(i, j, w * bottom - k * top) for i, j, w, k in whole]
        starts, cycle = longest([0] * count, lengths)
        if not cycle:
            return value / parts, [Fraction(start or 0, bottom * parts) for start in starts]
        periods = sum(whole[a][3] for a in cycle)
        if periods <= 0:
            return None
        value = Fraction(sum(whole[a][2] for a in cycle), periods)


def longest(
    starts: Sequence[int | None], arcs: Sequence[tuple[int, int, int]]
) -> tuple[list[int | None], tuple[int, ...]]:
    """Each start raised to its longest path along the arcs; and a cycle of positive length where there is one, as
    positions of arcs. None: not reached."""
    paths, by = list(starts), [-1] * len(starts)
    for _ in range(len(paths) + 1):
        changed = -1
        for a, (i, j, w) in enumerate(arcs):
            here, there = paths[i], paths[j]
            if here is not None and (there is None or here + w > there):
                paths[j], by[j], changed = here + w, a, j
        if changed < 0:
            return paths, ()
    for _ in paths:
        changed = arcs[by[changed]][0]
    cycle = [by[changed]]
    while arcs[cycle[-1]][0] != changed:
        cycle.append(by[arcs[cycle[-1]][0]])
    return paths, tuple(cycle)


# The tolerance of a float solver in a row whose digits are all below this is less than a unit.
BASE = 2**24


def at_most(carries: Any, terms: Sequence[tuple[int, Any, int]], right: int) -> Iterator[Any]:
    """Rows that hold for some carry where, and only where, the sum of coefficients times whole variables is at most
    `right`; the last number of a term says how far its variable is from 0 at most.

    With a + BASE b in place of each coefficient, and of the right side, the last digit asks for
    sum of a x <= a0 + BASE c with a whole c, and then sum of b x + c <= b0 is the rest. For c to be right it has to be
    the least one, and any larger one makes the rest harder.

    A sum without variables gives no row where it is at most `right`, and the row `False` where it is not.
    """
    while any(abs(a) >= BASE for a, _, _ in terms) or (terms and abs(right) >= BASE * BASE):
        carry = carries.add()
        far = sum(far for _, _, far in terms) + 1
        carry.setlb(-far)
        carry.setub(far)
        digits = [(a % BASE, x) for a, x, _ in terms if a % BASE]
        yield sum(a * x for a, x in digits) - BASE * carry <= right % BASE
        terms = [*((a // BASE, x, far) for a, x, far in terms if a // BASE), (1, carry, far)]
        right //= BASE
    if terms:
        yield sum(a * x for a, x, _ in terms) <= right
    elif right < 0:
        yield False


def add_rows(model: Any, *equations: tuple[str, str, Iterable[Any]]) -> bool:
    """Add the rows of each equation, with its name and what it says; False as soon as a row is false whatever the
    variables are."""
    from ..quick_pyomo import pyo

    for name, doc, rows in equations:
        model.add_component(name, pyo.ConstraintList(doc=doc))
        for row in rows:
            if row is False:
                return False
            if row is not True:
                model.component(name).add(row)
    return True
