"""`mip-periodic`: is there a schedule of a given period? A mixed-integer program for any solver.

With the period given nothing is multiplied. Of two blocks i and j of one device, run i of micro-batch n lies between
run j of n + k - 1 and run j of n + k, for one whole number k that is the same for all n. These numbers tell all that
memory asks.

The program checks `cp-periodic` and `exact-schedule`. It therefore reads the problem by itself, and shares with them
nothing but the types of problems and plans.

    given P, find starts x and whole numbers k, for blocks i and j
    (1)  x_j - x_i + offset P >= time_i + lag           edges
    (2)  x_j - x_i + k_ij P >= time_i                   blocks of one device: i comes before j of k_ij later
         x_i - x_j + (1 - k_ij) P >= time_j             and after the j before that
    (3)  z_j - z_i + k_ij Q >= 1, ...                   places of the Q blocks without time: none before itself
    (4)  sum of change_i taken_ij <= room - need_j      what was taken and not given back, when j starts

Here taken_ij is 1 - k_ij, or k_ji: for how many micro-batches i has run when j starts, but for a number that is the
same for all i. Since the changes of one micro-batch sum to 0, that number does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from ...instances.base.amounts import as_written
from ...instances.base.errors import TooLargeError, UsageError
from ...instances.schedule.plan import PeriodicSchedulePlan
from ...instances.schedule.problem import ScheduleProblem, check_repeats
from ..contract import FLOAT_ROOM, BuiltModel, CommonFormulation, Options, Refuted, Values, Wanted, check_type
from .cycles import Wait, least, longest
from .exact_rows import add_rows, at_most

NAME = "mip-periodic"

# The most pairs of blocks of one device: a program with more of them is hopeless.
MOST_PAIRS = 50_000

# The most blocks: the number of distances between them grows with the square, and the time with the third power.
MOST_BLOCKS = 1000

# The most periods that may be the shortest, counted as the longest one in steps times the square of the largest
# denominator. Neighbouring ones then differ by more than the tolerances of float solvers.
MOST_FRACTIONS = 10_000

# Rounds of narrowing, in which orders tell distances and distances orders.
ROUNDS = 5

# Questions about longer periods grow by at least this share of the first bound.
GROWTH = Fraction(1, 50)

# A question ends just below the next period that may be the shortest: this share of the way there is left.
JUST_BELOW = Fraction(1, 10**7)

# A float that is longer than a fraction by at most this factor stands for the fraction.
AS_LONG = 1 + Fraction(1, 10**12)

# Share of the bound between runs without time at one instant that follow another order than the referee's.
HAIR = Fraction(1, 10**10)


@dataclass(frozen=True)
class Reading:
    """The problem in whole steps."""

    problem: ScheduleProblem
    step: Fraction
    """Length of a step in the problem's time unit."""
    times: tuple[int, ...]
    edges: tuple[tuple[int, int, int, int], ...]
    """Equation (1): from, to, time and lag, offset."""

    @cached_property
    def bound(self) -> Fraction:
        """The work of each device, and the longest mean way around a cycle of edges."""
        work = max(sum(self.times[b] for b in blocks) for blocks in self.problem.on_device)
        waits: list[Wait] = [(i, j, Fraction(wait), offset) for i, j, wait, offset in self.edges]
        period_and_starts = least(len(self.times), waits, Fraction(work))
        assert period_and_starts is not None, "every cycle of edges has an offset"
        return period_and_starts[0]

    @cached_property
    def longest(self) -> int:
        """No shortest period of given orders is longer: it is the mean way around a cycle, on which each block adds its
        time and one lag."""
        ways = list(self.times)
        for i, _, wait, _ in self.edges:
            ways[i] = max(ways[i], wait)
        return sum(ways)

    @cached_property
    def most(self) -> int:
        """The largest denominator of a shortest period: the number of periods that a cycle spans."""
        return int(self.longest / self.bound)

    def up_to(self, limit: Fraction) -> Fraction:
        """The longest period of at most the limit that may be the shortest one of some orders."""
        return max(Fraction(math.floor(limit * q), q) for q in range(1, self.most + 1))

    def after(self, period: Fraction) -> Fraction:
        """The next longer period that may be the shortest one of some orders."""
        return min(Fraction(math.floor(period * q) + 1, q) for q in range(1, self.most + 1))

    def comes_first(self, i: int, j: int, periods: int) -> bool:
        """Does block i of some micro-batch run before block j of so many micro-batches later, if both take no time and
        run at one instant? Their order is by micro-batch, depth and place in the file."""
        depths = self.problem.depths
        return periods > 0 or (periods == 0 and (depths[i], i) < (depths[j], j))


def read(problem: ScheduleProblem) -> Reading:
    """The problem in steps of the largest unit of which all times and lags are whole multiples."""
    check_type(NAME, problem, ScheduleProblem)
    check_repeats(problem)
    times, lags = [as_written(b.time) for b in problem.blocks], [as_written(edge.lag) for edge in problem.edges]
    parts = math.lcm(*(number.denominator for number in (*times, *lags)))
    step = Fraction(math.gcd(*(int(number * parts) for number in (*times, *lags))), parts)
    edges = (
        (i, j, int((times[i] + lag) / step), edge.offset)
        for (i, j), lag, edge in zip(problem.ends, lags, problem.edges, strict=True)
    )
    return Reading(problem, step, tuple(int(time / step) for time in times), tuple(edges))


def gives_early(problem: ScheduleProblem, device: str) -> bool:
    """May a micro-batch give back on the device before it takes? Not where each give has takes of its own before it.

    If not, then the first micro-batches, which have none before them, hold no more than later ones do.
    """
    before = [1 << b for b in range(len(problem.blocks))]
    within = [ends for ends, edge in zip(problem.ends, problem.edges, strict=True) if not edge.offset]
    for i, j in sorted(within, key=lambda ends: problem.depths[ends[0]]):
        before[j] |= before[i]
    change = [as_written(block.memory.get(device, 0)) for block in problem.blocks]
    left = {b: change[b] for b in problem.order if change[b] > 0}
    for b in problem.order:
        due = max(-change[b], Fraction(0))
        for a in left:
            used = min(left[a], due) if before[b] >> a & 1 else Fraction(0)
            left[a], due = left[a] - used, due - used
        if due:
            return True
    return False


class PeriodicMip(CommonFormulation):
    """A mixed-integer program searches the shortest period of a repeating schedule."""

    def solvers(self, problem: ScheduleProblem, options: Options) -> tuple[str, ...]:
        return ("cp-sat", "highs")

    def check(self, problem: ScheduleProblem, options: Options) -> None:
        reading = read(problem)
        if reading.longest * reading.most**2 > MOST_FRACTIONS:
            raise UsageError(
                f"{NAME} takes times that are small whole multiples of a unit; round them, or choose "
                "--formulation cp-periodic."
            )
        early = next((device.name for device in problem.devices if gives_early(problem, device.name)), None)
        if early is not None:
            raise UsageError(
                f"{NAME} takes problems in which a micro-batch takes memory before it gives it back, and on {early!r} "
                "it may give first; add edges that keep the order, or choose --formulation cp-periodic."
            )

    def lower_bound(self, problem: ScheduleProblem, options: Options) -> float:
        reading = read(problem)
        return float(reading.bound * reading.step)

    def next_cutoff(
        self,
        problem: ScheduleProblem,
        options: Options,
        bound: float | None,
        cutoff: float | None,
        out_of_time: Callable[[], bool],
    ) -> float | None:
        """First the shortest period that the bound allows, then any period, then ever longer ones below the best plan.
        Questions end just below a period that may be the shortest."""
        reading = read(problem)
        first, step = reading.bound, reading.step
        known = first if bound is None else max(first, as_written(bound) / step)
        if known == first:
            asked = reading.up_to(first * AS_LONG)
            asked = asked if asked >= first else reading.after(first)
        elif cutoff is None:
            return None
        else:
            asked = reading.up_to(known + max(GROWTH * first, known - first))
            asked = asked if asked > known else reading.after(known)
        following = reading.after(asked)
        goal = float((following - (following - asked) * JUST_BELOW) * step)
        return goal if cutoff is None else min(goal, cutoff)

    def model(self, problem: ScheduleProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        reading = read(problem)
        period = Fraction(reading.longest)
        if wanted.cutoff is not None:
            # Float solvers are given room above the question, in which there may be another period.
            cutoff = as_written(wanted.cutoff) / (1 if wanted.native else 1 + as_written(FLOAT_ROOM))
            period = min(period, reading.up_to(cutoff / reading.step * AS_LONG))
        program = Program(reading, period)
        if period < reading.bound or not program.build():
            return Refuted("work, paths or memory leave no schedule of so short a period")
        return BuiltModel(
            program.model,
            program.decode,
            program.encode,
            grids={x.name: 1.0 for var in (program.model.x, program.model.z) for x in var.values()},
            size={"blocks": len(problem.blocks), "pairs": len(program.ranges)},
            bound=self.lower_bound(problem, options),
        )


FORMULATION = PeriodicMip()


class Program:
    """x: starts, in parts of a step of which the period is a whole number. k: of two blocks of a device, how many
    micro-batches later is the run of the second one that comes next? z: places of blocks without time."""

    def __init__(self, reading: Reading, period: Fraction) -> None:
        self.reading, self.problem, self.asked = reading, reading.problem, period
        self.period, parts = period.numerator, period.denominator
        self.times = [time * parts for time in reading.times]
        self.edges = [(i, j, wait * parts, offset) for i, j, wait, offset in reading.edges]
        self.timeless = [b for b, time in enumerate(self.times) if not time]
        self.ranges: dict[tuple[int, int], tuple[int, int]] = {}

    def pairs(self) -> list[tuple[int, int]]:
        """Blocks of one device that cannot run at once, or that take no time and meet in its memory."""
        pairs = set()
        for device, blocks in zip(self.problem.devices, self.problem.on_device, strict=True):
            for i, j in combinations(blocks, 2):
                both = (self.problem.blocks[i], self.problem.blocks[j])
                counted = all(block.memory.get(device.name) or block.workspace.get(device.name) for block in both)
                if self.times[i] or self.times[j] or (counted and device.memory is not None):
                    pairs.add((i, j))
        if len(pairs) > MOST_PAIRS or len(self.times) > MOST_BLOCKS:
            size = f"are {len(self.times)} and give {len(pairs)} pairs to order"
            raise TooLargeError("blocks", f"{size}, too many for {NAME}", "choose cp-periodic")
        return sorted(pairs)

    def spread(self) -> int:
        """No two starts of a micro-batch need to be further apart.

        Sort the blocks by their starts. Where two neighbours are further apart than a period and the longest wait, all
        blocks from the second one on may start a period earlier: edges allow it, and devices do not see it. When one of
        the blocks before the gap starts, that adds to what is held the sum of all changes behind the gap; when one of
        those behind it starts, it takes away the sum of all changes before the gap. Since no micro-batch gives before
        it takes, the first sum is at most 0, and the second one at least 0.
        """
        gap = self.period + max((wait for _, _, wait, _ in self.edges), default=0)
        return (len(self.times) - 1) * gap

    def narrow(self) -> bool:
        """The least distance from each start to each other one, and what it leaves of k; False: a contradiction."""
        period, times = self.period, self.times
        apart = np.full((len(times), len(times)), -self.spread(), dtype=np.int64)
        np.fill_diagonal(apart, 0)
        for i, j, wait, offset in self.edges:
            apart[i, j] = max(apart[i, j], wait - offset * period)
        pairs = self.pairs()
        for _ in range(ROUNDS):
            for via in range(len(times)):
                np.maximum(apart, apart[:, via, None] + apart[None, via, :], out=apart)
            if apart.diagonal().max() > 0:
                return False
            ranges = {
                (i, j): (-(-(times[i] + int(apart[j, i])) // period), 1 + (-times[j] - int(apart[i, j])) // period)
                for i, j in pairs
            }
            if any(low > high for low, high in ranges.values()):
                return False
            if ranges == self.ranges:
                break
            self.ranges = ranges
            for (i, j), (low, high) in ranges.items():
                apart[i, j] = max(apart[i, j], times[i] - high * period)
                apart[j, i] = max(apart[j, i], times[j] - (1 - low) * period)
        self.early, self.late = apart[0].tolist(), (-apart[:, 0]).tolist()
        return True

    def build(self) -> bool:
        """Build the model; False: paths or memory leave no order."""
        from ..quick_pyomo import pyo

        if not self.narrow():
            return False
        places = len(self.timeless) * (self.spread() // self.period + 2)
        model = self.model = pyo.ConcreteModel(NAME)
        model.x = pyo.Var(range(len(self.times)), bounds=lambda _, b: (self.early[b], self.late[b]))
        model.x.doc = "[b] start of block b in the period, in steps"
        model.k = pyo.Var(list(self.ranges), domain=pyo.Integers, bounds=lambda _, i, j: self.ranges[i, j])
        model.k.doc = "[i, j] run i of micro-batch n lies between run j of n + k - 1 and of n + k"
        model.z = pyo.Var(self.timeless, bounds=(-places, places))
        model.z.doc = "[b] place of a block without time among those at one instant"
        model.carry = pyo.VarList(domain=pyo.Integers)
        model.carry.doc = "carries of long amounts, which are added digit by digit"
        model.objective = pyo.Objective(expr=float(self.asked * self.reading.step))
        return add_rows(
            model,
            ("eq_1_2", "edges (1), and blocks of one device do not overlap (2)", self.starts()),
            ("eq_3", "blocks without time do not wait for each other in a circle", self.instants()),
            ("eq_4", "what a device holds fits its memory when a block starts", self.memory()),
        )

    def starts(self) -> Iterator[Any]:
        """Equations (1) and (2)."""
        x, period = self.model.x, self.period
        for i, j, wait, offset in self.edges:
            yield x[j] - x[i] >= wait - offset * period if i != j else offset * period >= wait
        for (i, j), k in self.model.k.items():
            yield x[j] - x[i] + k * period >= self.times[i]
            yield x[i] - x[j] + (1 - k) * period >= self.times[j]

    def instants(self) -> Iterator[Any]:
        """Equation (3). Any schedule keeps it with the places of its runs in the order of time, since Q blocks without
        time have Q runs in a period."""
        z, turn = self.model.z, len(self.timeless)
        for i, j, offset in self.at_once():
            yield z[j] - z[i] + offset * turn >= 1
        for (i, j), k in self.model.k.items():
            if not self.times[i] and not self.times[j]:
                yield z[j] - z[i] + k * turn >= 1
                yield z[i] - z[j] + (1 - k) * turn >= 1

    def at_once(self) -> Iterator[tuple[int, int, int]]:
        """Edges whose ends may be at one instant, both without time."""
        for i, j, wait, offset in self.edges:
            if i != j and not wait and not self.times[j]:
                yield i, j, offset

    def memory(self) -> Iterator[Any]:
        """Equation (4), divided by what all amounts have in common."""
        for device, blocks in zip(self.problem.devices, self.problem.on_device, strict=True):
            if device.memory is None:
                continue
            change = {b: as_written(self.problem.blocks[b].memory.get(device.name, 0)) for b in blocks}
            room = as_written(device.memory) - as_written(device.standing)
            for j in blocks:
                need = max(change[j], Fraction(0)) + as_written(
                    self.problem.blocks[j].workspace.get(device.name, 0)
                )
                if need:
                    yield from self.held({i: c for i, c in change.items() if c and i != j}, j, room - need)

    def held(self, change: Mapping[int, Fraction], j: int, room: Fraction) -> Iterator[Any]:
        """Rows: what blocks have taken and not given back when j starts is at most `room`."""
        terms = []
        for i, amount in change.items():
            pair = (min(i, j), max(i, j))
            low, high = self.ranges[pair]
            room -= amount if i < j else 0
            terms.append((-amount if i < j else amount, self.model.k[pair], max(abs(low), abs(high))))
        parts = math.lcm(*(amount.denominator for amount, _, _ in terms))
        unit = Fraction(math.gcd(*(int(amount * parts) for amount, _, _ in terms)) or 1, parts)
        yield from at_most(
            self.model.carry, [(int(amount / unit), k, far) for amount, k, far in terms], math.floor(room / unit)
        )

    # ---- from a solution to a plan, and back ------------------------------------------------------------

    def decode(self, values: Values) -> PeriodicSchedulePlan:
        """The orders of a solution, at the shortest period for them."""
        timed = self.timed({(i, j): round(values[f"k[{i},{j}]"]) for i, j in self.ranges}, self.reading.bound)
        assert timed is not None, "a solution's starts and places follow its orders"
        step = self.reading.step
        starts = {block.id: start * step for block, start in zip(self.problem.blocks, timed[1], strict=True)}
        return PeriodicSchedulePlan(timed[0] * step, starts)

    def timed(
        self, orders: Mapping[tuple[int, int], int], bound: Fraction
    ) -> tuple[Fraction, list[Fraction]] | None:
        """The shortest period of at least the bound for these orders, and the starts, in steps."""
        times = self.reading.times
        waits: list[Wait] = [(i, j, Fraction(wait), offset) for i, j, wait, offset in self.reading.edges]
        for (a, b), k in orders.items():
            for i, j, periods in ((a, b, k), (b, a, 1 - k)):
                apart = times[i] or times[j] or self.reading.comes_first(i, j, periods)
                waits.append((i, j, Fraction(times[i]) if apart else HAIR * self.reading.bound, periods))
        return least(len(times), waits, bound)

    def encode(self, plan: PeriodicSchedulePlan) -> Values | None:
        """The plan's orders, with starts at the period that is asked for; None where the plan's is longer."""
        orders = {pair: self.order(plan, *pair) for pair in self.ranges}
        timed = self.timed(orders, self.asked)
        if timed is None or timed[0] > self.asked:
            return None
        starts, turn = timed[1], len(self.timeless)
        arcs = [(i, j, 1 - offset * turn) for i, j, offset in self.at_once()]
        for (i, j), k in orders.items():
            if not self.times[i] and not self.times[j]:
                arcs += [(i, j, 1 - k * turn), (j, i, 1 - (1 - k) * turn)]
        places = longest([0] * len(self.times), arcs)[0]
        values = {f"k[{i},{j}]": float(k) for (i, j), k in orders.items()}
        values |= {f"x[{b}]": float((start - starts[0]) * self.asked.denominator) for b, start in enumerate(starts)}
        return {**values, **{f"z[{b}]": float(places[b] or 0) for b in self.timeless}}

    def order(self, plan: PeriodicSchedulePlan, i: int, j: int) -> int:
        """The number of micro-batches by which the next run of j after one of i is later."""
        blocks, times = self.problem.blocks, self.times
        periods, rest = divmod(plan.starts[blocks[i].id] - plan.starts[blocks[j].id], plan.period)
        first = not rest and not times[i] and (times[j] > 0 or self.reading.comes_first(i, j, int(periods)))
        return int(periods) + (not first)
