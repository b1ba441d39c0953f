"""What models of periodic schedules need of a problem, in whole numbers: times on a grid, pairs of blocks, and memory.

Whole times lose nothing: the shortest period is a fraction with a small denominator, and every question is asked on
the grid of the largest such fraction up to the cut-off. Other times are rounded down on a fine grid and the period up,
so that refutations hold; a schedule that is found there is timed anew with the true times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, wraps
from itertools import combinations
from typing import Any, TypeVar

from ...instances.base.amounts import as_written, common_unit
from ...instances.base.errors import InputError
from ...instances.schedule.problem import ScheduleProblem
from ..timetable import largest_fraction, next_fraction, unit_of_times
from .period_bounds import (
    Standstill,
    changes,
    exact_bound,
    longest_period,
    most_periods,
    standstill_of,
    stashes_of,
    within_batch,
    workspaces,
)

T = TypeVar("T")

# Relative part of the period that a grid for arbitrary times may cost.
FINE = Fraction(1, 10**9)

# The most whole units of memory in one row: sums stay within the integers of solvers.
MOST_MEMORY = 2**60

# The most blocks for which distances around the period are computed: the time for them grows with the third power.
MOST_LIFTED = 400

# Cut-offs grow by at least this share of the first bound.
GROWTH = Fraction(1, 50)


# A cut-off that asks for one fraction lies this share of the way to the next one below that next one, since what it
# refutes counts as far as the cut-off.
NEXT = Fraction(1, 10**9)


# A cut-off that is longer than a fraction by at most this factor, as a float may be, means the fraction.
AS_LONG = 1 + Fraction(1, 10**12)


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of a device that blocks change or use."""

    name: str
    room: int | None
    """Memory beside what stands there all the time; None: there is no limit."""
    standing: int
    changes: Mapping[int, int]
    workspace: Mapping[int, int]
    early: bool
    """May a micro-batch give back before it takes? Then warm-up and drain have to be looked at on their own."""

    @property
    def at(self) -> list[int]:
        """The blocks at whose start it can hold most."""
        taking = {b for b, change in self.changes.items() if change > 0}
        return sorted(taking | {b for b, used in self.workspace.items() if used})

    @property
    def is_free(self) -> bool:
        """Does its memory forbid nothing?"""
        return self.room is None and not self.early

    def to_json(self) -> dict[str, Any]:
        return {
            "room": self.room,
            "standing": self.standing,
            "changes": dict(self.changes),
            "at": [(b, self.workspace.get(b, 0)) for b in self.at],
            "early": self.early,
        }


@dataclass(frozen=True)
class PeriodicFacts:
    """What the models need of a problem, computed once; the grid follows for each cut-off."""

    problem: ScheduleProblem
    bound: Fraction
    longest: Fraction
    unit: Fraction | None
    """The unit of which all times and lags are whole multiples; None: there is none."""
    most: int
    """The largest denominator that the shortest period has in units."""
    memory: tuple[DeviceMemory, ...]
    pairs: tuple[tuple[int, int], ...]
    """Blocks of one device, at most one of which takes no time."""
    instants: tuple[tuple[int, int], ...]
    """Blocks of one device that take no time and whose order says what it holds; of one micro-batch at one instant the
    first one comes first."""

    @property
    def early(self) -> bool:
        return any(device.early for device in self.memory)

    @cached_property
    def before(self) -> tuple[tuple[tuple[int, Fraction, int], ...], ...]:
        """The blocks for which each block waits: (block, time from its start, offset)."""
        problem = self.problem
        waits: list[list[tuple[int, Fraction, int]]] = [[] for _ in problem.blocks]
        for (a, b), lag, edge in zip(problem.ends, problem.lags, problem.edges, strict=True):
            waits[b].append((a, problem.times[a] + lag, edge.offset))
        return tuple(map(tuple, waits))


@dataclass(frozen=True, slots=True)
class _Same:
    """A key for caches: the same for problems that differ in their names alone."""

    digest: str
    problem: ScheduleProblem = field(compare=False)


def _kept(function: Callable[[ScheduleProblem], T]) -> Callable[[ScheduleProblem], T]:
    """The function, whose answers are kept for problems that differ in their names alone."""
    answers = lru_cache(maxsize=8)(lambda same: function(same.problem))
    return wraps(function)(lambda problem: answers(_Same(problem.hash, problem)))


@_kept
def moving_facts(problem: ScheduleProblem) -> tuple[Standstill, PeriodicFacts]:
    """The standstills, and the facts by a clock that stands still while all devices run one block together. Periods
    stay fractions of the same unit, with denominators as small as those of the whole problem."""
    still, whole = standstill_of(problem), facts_of(problem)
    if not still.together:
        return still, whole
    moving = facts_of(still.moving)
    return still, replace(moving, longest=whole.longest - still.time, unit=whole.unit, most=whole.most)


@_kept
def facts_of(problem: ScheduleProblem) -> PeriodicFacts:
    """What the models need of a problem."""
    memory = tuple(filter(None, (_memory(problem, d) for d in range(len(problem.devices)))))
    shared = sorted({pair for blocks in problem.on_device for pair in combinations(sorted(blocks), 2)})
    timed = [bool(time) for time in problem.times]
    rank = {b: n for n, b in enumerate(problem.order)}
    concerned = {
        pair
        for device in memory
        for pair in combinations(sorted({*device.changes, *device.workspace}, key=rank.__getitem__), 2)
        if not device.is_free
    }
    instants = sorted(pair for pair in concerned if not timed[pair[0]] and not timed[pair[1]])
    return PeriodicFacts(
        problem,
        exact_bound(problem),
        longest_period(problem),
        unit_of_times((*problem.times, *problem.lags)),
        most_periods(problem),
        memory,
        tuple((a, b) for a, b in shared if timed[a] or timed[b]),
        tuple(instants),
    )


def _memory(problem: ScheduleProblem, d: int) -> DeviceMemory | None:
    device, change, workspace = problem.devices[d], changes(problem, d), workspaces(problem, d)
    if not change and not workspace:
        return None
    unit = common_unit([*change.values(), *workspace.values()])
    standing = as_written(device.standing)
    room = None if device.memory is None else int((as_written(device.memory) - standing) / unit)
    whole = {b: int(amount / unit) for b, amount in change.items()}
    used = {b: int(amount / unit) for b, amount in workspace.items()}
    changed, heights = sum(map(abs, whole.values())), most_heights(problem)
    # Numbers of micro-batches in a row are less than this.
    many = 5 * heights + 2
    if room is not None and room >= changed * many + max(used.values(), default=0):
        room = None  # whatever the order, the device never holds so much
    total = changed + (room or 0)
    if total * (2 * heights + 1) > MOST_MEMORY:
        raise InputError(
            "blocks", f"have amounts on {device.name!r} with too many digits for a model", "round their memory"
        )
    # More than all changes of a row together says the same as their sum and one more, which solvers can hold.
    enough = total * many + 1
    used = {b: min(amount, enough) for b, amount in used.items()}
    early = stashes_of(problem, d) is None
    return DeviceMemory(device.name, room, min(int(standing / unit), enough), whole, used, early)


def most_heights(problem: ScheduleProblem) -> int:
    """Upper bound on the periods by which blocks of one micro-batch need to differ.

    Sort the heights of a schedule whose heights are least in sum, and take a gap between two of them across which no
    edge makes a block wait. The blocks above it may all start a period earlier: no edge forbids it, and devices then
    hold less, since these blocks give back at least as much as they take (wherever none gives before it takes; the
    gap is two or more, so that all blocks below have ended). So every gap is 1, or within an edge that spans no more
    periods than it has to: less than a period for the positions, and the time and lag of the edge.
    """
    least = exact_bound(problem)
    spans = [1] * len(problem.blocks)
    for (a, _), lag, edge in zip(problem.ends, problem.lags, problem.edges, strict=True):
        spans[a] = max(spans[a], 1 + math.ceil((problem.times[a] + lag) / least) - edge.offset)
    return sum(spans)


# ---- the grid ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PeriodGrid:
    """One question: is there a schedule of this period?"""

    steps: Fraction
    """Steps in one time unit."""
    period: int
    times: tuple[int, ...]
    lags: tuple[int, ...]
    exact: bool


def grid_for(facts: PeriodicFacts, cutoff: Fraction | None) -> PeriodGrid:
    """The grid on which to ask whether there is a schedule with a period of at most the cut-off (None: any period).

    Where all times are whole multiples of a unit, the shortest period is a fraction with a small denominator, so the
    period of the grid is the largest such fraction up to the cut-off. Other times are rounded down on a fine grid.

    Memory may ask that one block without time starts before another one, by any amount above 0. Then there is no
    shortest period, only such a fraction that all periods exceed. So the period of the grid is longer than the
    fraction, by less than the distance to the next one, and the steps of the grid are so small that all these blocks
    fit one after the other into the difference. If the cut-off is the fraction itself, its period is that.
    """
    limit = facts.longest if cutoff is None else min(cutoff, facts.longest)
    timeless = len({b for pair in facts.instants for b in pair})
    parts = max(timeless, facts.most) + 1 if facts.instants else 1
    finer = parts * parts
    if facts.unit is None:
        steps = Fraction(len(facts.problem.blocks)) / (limit * FINE)
        period, fraction = math.ceil(limit * steps), Fraction(0)
    else:
        fraction = largest_fraction(limit / facts.unit, facts.most)
        steps, period = fraction.denominator / facts.unit, fraction.numerator
    longer = parts if facts.instants and limit > fraction * (facts.unit or 1) * AS_LONG else 0
    return PeriodGrid(
        steps * finer,
        period * finer + longer,
        tuple(int(time * steps) * finer for time in facts.problem.times),
        tuple(int(lag * steps) * finer for lag in facts.problem.lags),
        facts.unit is not None,
    )


def next_question(facts: PeriodicFacts, bound: Fraction | None, cutoff: Fraction | None) -> Fraction | None:
    """How far to ask now: up to just below the period that comes next after the bound, or further where the bound has
    grown before; never above the cut-off. None: all periods, which are asked for where the first bound was too short
    and no plan is known."""
    first = bound is None or bound <= facts.bound
    if not first and cutoff is None:
        return None
    known = facts.bound if first or bound is None else bound
    goal = known if first else known + max(GROWTH * facts.bound, known - facts.bound)
    if facts.unit is not None:
        goal = facts.unit * _fraction_to_ask(facts, known / facts.unit, goal / facts.unit, first)
    if cutoff is not None:
        return min(goal, cutoff)
    return None if goal >= facts.longest else goal


def _fraction_to_ask(facts: PeriodicFacts, known: Fraction, goal: Fraction, first: bool) -> Fraction:
    """Up to just below the next fraction after the goal; or up to the goal, where that is a question of its own."""
    most = facts.most
    last = largest_fraction(known * AS_LONG, most)
    if facts.instants and not first and known <= last * AS_LONG:
        asked = last  # refuted itself, not what is longer
    else:
        asked = largest_fraction(goal, most)
        if asked < known or (asked == known and not first):
            asked = next_fraction(known, most)
        if facts.instants:
            return asked * AS_LONG
    following = next_fraction(asked, most)
    return following - (following - asked) * NEXT


# ---- the model's data ----------------------------------------------------------------------------------


def payload(facts: PeriodicFacts, grid: PeriodGrid, stands: Fraction) -> dict[str, Any]:
    """Plain data for models of this grid; `stands`: for how long in a period the clock stands still."""
    problem = facts.problem
    ends = zip(problem.ends, grid.lags, problem.edges, strict=True)
    return {
        "period": grid.period,
        "value": float(grid.period / grid.steps + stands),
        "times": list(grid.times),
        "most": most_heights(problem),
        "anchor": anchor(problem),
        "edges": [(a, b, grid.times[a] + lag, edge.offset) for (a, b), lag, edge in ends],
        "pairs": list(facts.pairs),
        "instants": list(facts.instants),
        "distances": distances(facts, grid) if len(problem.blocks) <= MOST_LIFTED else [],
        "memory": [device.to_json() for device in facts.memory if not device.is_free],
    }


def anchor(problem: ScheduleProblem) -> int:
    """Which block starts the period, since a schedule may be shifted: one that many devices share, since none of their
    other blocks then runs around the end of the period, and of those the first in the middle of the micro-batch, by
    the number of blocks.

    What is held is decided by pairs of blocks around the middle, as forward and backward passes are. Seen from there
    refutations are a hundred times shorter than from the first block.
    """
    following = within_batch(problem)
    after = [0] * len(problem.blocks)
    for a in reversed(problem.order):
        after[a] = max((after[b] + 1 for b, _ in following[a]), default=0)

    def merit(b: int) -> tuple[int, int, int]:
        devices = len(problem.blocks[b].devices) * bool(problem.times[b])
        return devices, -max(problem.depths[b], after[b]), -b

    return max(range(len(after)), key=merit)


def distances(facts: PeriodicFacts, grid: PeriodGrid) -> list[tuple[int, int, int, int]]:
    """(a, b, n, m) for blocks of one device with a path from a to b: b is at least n heights above a where it comes
    later within the period, and m where it comes earlier.

    b starts no earlier than the longest path after a, and further where the two would meet around the period: the next
    time at which both fit on their device. Paths of such lifted pieces are longer still.
    """
    period, times, problem = grid.period, grid.times, facts.problem
    sharing = {(a, b) for pair in facts.pairs for a, b in (pair, pair[::-1])}
    apart: dict[tuple[int, int], int] = {}
    following: list[dict[int, int]] = [{} for _ in times]
    for (a, b), lag, edge in zip(problem.ends, grid.lags, problem.edges, strict=True):
        if not edge.offset:
            following[a][b] = max(following[a].get(b, 0), times[a] + lag)
    for a in reversed(problem.order):
        reached = {a: 0}
        for c in problem.order:
            before = [reached[b] + following[b][c] for b in reached if c in following[b]]
            if before:
                least = max([*before, *(reached[b] + apart[b, c] for b in reached if b != a and (b, c) in apart)])
                reached[c] = _lifted(least, times[a], times[c], period) if (a, c) in sharing else least
                apart[a, c] = reached[c]
    return [
        (a, b, -((period - times[b] - least) // period), -(-(least + times[b]) // period))
        for (a, b), least in sorted(apart.items())
        if (a, b) in sharing
    ]


def _lifted(least: int, first: int, second: int, period: int) -> int:
    """The least distance from `least` on between the starts of two blocks of one device at which they do not meet;
    `first` and `second`: their times."""
    rest = least % period
    if rest < first and (rest or second):  # what takes no time may run as the other one starts
        return least + first - rest
    return least if rest <= period - second else least + period - rest + first
