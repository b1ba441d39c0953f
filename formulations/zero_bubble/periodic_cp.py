"""`cp-periodic`: the shortest period of a schedule that repeats, as a native CP-SAT model for one period at a time.

Each block has a position s in [0, P) and a height h: micro-batch n starts it at s + P (h + n). For blocks a and b of
one device the literal before(a, b) says that a comes first within the period. The number of micro-batches of which a
has changed the device's memory when b starts is then before(a, b) - h(a), beside a number that is the same for all a;
since the changes of one micro-batch sum to 0, it does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from ...instances.base.amounts import as_written
from ...instances.schedule.plan import PeriodicSchedulePlan
from ...instances.schedule.problem import ScheduleProblem, check_repeats
from ..contract import (
    BuiltModel,
    CommonFormulation,
    NativeModel,
    NativeOnlyError,
    Options,
    Refuted,
    Stage,
    Values,
    Wanted,
    check_type,
    side_by_side,
)
from ..native import NativeBuilder, NativeBuilt
from ..timetable import Wait, float_below, tightest
from .period_bounds import lower_bound
from .periodic_facts import DeviceMemory, PeriodicFacts, anchor, grid_for, moving_facts, next_question, payload

# Seconds of the first turn; each turn after it takes twice as long as the one before.
FIRST_TURN_S = 2.0
# Number of turns, in each of which both questions are asked.
TURNS = 6
ASKED: tuple[Literal["decide"], Literal["improve"]] = ("decide", "improve")


class PeriodicCp(CommonFormulation):
    """CP-SAT searches the shortest period of a repeating schedule."""

    def check(self, problem: ScheduleProblem, options: Options) -> None:
        check_type("cp-periodic", problem, ScheduleProblem)
        check_repeats(problem)

    def lower_bound(self, problem: ScheduleProblem, options: Options) -> float:
        return lower_bound(problem)

    def portfolio(self, problem: ScheduleProblem, options: Options, *, found: bool) -> tuple[Stage, ...]:
        """A period near the bound may be open for long, while one just below the best plan is found at once: both
        questions are asked in turn, each time for longer."""
        turns = [Stage(kind, ("cp-sat",), FIRST_TURN_S * 2**number) for number in range(TURNS) for kind in ASKED]
        return (*turns, *side_by_side("cp-sat"))

    def next_cutoff(
        self,
        problem: ScheduleProblem,
        options: Options,
        bound: float | None,
        cutoff: float | None,
        out_of_time: Callable[[], bool],
    ) -> float | None:
        """The next longer question, since a period that is too short is refuted much faster than one that is almost
        long enough; `cutoff` where no float between the bound and the next fraction holds a question."""
        still, facts = moving_facts(problem)
        known, most = (None if value is None else as_written(value) - still.time for value in (bound, cutoff))
        goal = next_question(facts, known, most)
        asked = cutoff if goal is None or goal == most else float_below(goal + still.time)
        return cutoff if asked is None or (bound is not None and asked <= bound) else asked

    def model(self, problem: ScheduleProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        if not wanted.native:
            raise NativeOnlyError("cp-periodic")
        still, facts = moving_facts(problem)
        cutoff = None if wanted.cutoff is None else as_written(wanted.cutoff)
        if cutoff is not None and cutoff < as_written(lower_bound(problem)):
            return Refuted("some device has too much to do, or too little memory, for so short a period")
        grid = grid_for(facts, None if cutoff is None else cutoff - still.time)
        model = NativeModel(BUILDER, payload(facts, grid, still.time))

        def decode(values: Values) -> PeriodicSchedulePlan:
            blocks = range(len(facts.problem.blocks))
            starts = tuple(Fraction(round(values[f"s[{b}]"])) for b in blocks)
            plan = best_timed(Laid(facts, starts, tuple(round(values[f"h[{b}]"]) for b in blocks)))
            assert plan is not None, "orders and heights of a period that is possible do not contradict each other"
            return still.expanded(plan)

        def encode(plan: PeriodicSchedulePlan) -> Values | None:
            if cutoff is not None and plan.period > cutoff:
                return None
            return values_of(laid_out(facts, still.compressed(plan)))

        size = {"blocks": len(facts.problem.blocks), "pairs": len(facts.pairs)}
        bound = float_below(still.time + facts.bound)
        return BuiltModel(model, decode, encode, size=size, coarse=not grid.exact, bound=bound)


FORMULATION = PeriodicCp()


# The wait between two blocks without time where any amount above 0 will do, relative to the bound.
HAIR = Fraction(1, 10**10)


@dataclass(frozen=True)
class Laid:
    """Micro-batch n starts block b at starts[b] + (heights[b] + n) x period, with 0 <= starts[b] < period.

    Times are in whatever unit the starts are.
    """

    facts: PeriodicFacts
    starts: tuple[Fraction, ...]
    heights: tuple[int, ...]

    def is_before(self, a: int, b: int) -> bool:
        """Does block a come before b of the same device within the period? At one instant what takes no time is first,
        and of two such blocks the one of the earlier micro-batch, then the one that comes first in a micro-batch."""
        return self._key(a) < self._key(b)

    def _key(self, b: int) -> tuple[object, ...]:
        problem = self.facts.problem
        return self.starts[b], bool(problem.times[b]), -self.heights[b], problem.depths[b], b

    def waits(self) -> list[Wait]:
        """The waits between starts of the first micro-batch that keep orders and heights as they are."""
        problem, heights = self.facts.problem, self.heights
        waits = [
            Wait(a, b, problem.times[a] + lag, edge.offset)
            for (a, b), lag, edge in zip(problem.ends, problem.lags, problem.edges, strict=True)
        ]
        for pair in self.facts.pairs:
            a, b = pair if self.is_before(*pair) else pair[::-1]
            waits.append(Wait(a, b, problem.times[a], heights[a] - heights[b]))
            waits.append(Wait(b, a, problem.times[b], 1 + heights[b] - heights[a]))
        for pair in self.facts.instants:
            a, b = pair if self.is_before(*pair) else pair[::-1]
            waits.append(self._instant(a, b, heights[a] - heights[b]))
            waits.append(self._instant(b, a, 1 + heights[b] - heights[a]))
        return waits

    def _instant(self, a: int, b: int, periods: int) -> Wait:
        """The wait by which block a of a micro-batch runs before b of the one `periods` later; at one instant only
        where a comes first there."""
        depths = self.facts.problem.depths
        first = periods > 0 or (periods == 0 and (depths[a], a) < (depths[b], b))
        return Wait(a, b, Fraction(0) if first else HAIR * self.facts.bound, periods)

    def timed(self) -> PeriodicSchedulePlan | None:
        """The shortest period of these orders and heights, and the earliest starts at it; None: they contradict."""
        problem = self.facts.problem
        table = tightest(len(problem.blocks), self.waits(), self.facts.bound)
        if table is None:
            return None
        starts = {block.id: start for block, start in zip(problem.blocks, table.starts, strict=True)}
        return PeriodicSchedulePlan(table.period, starts)

    # ---- as low as possible ----------------------------------------------------------------------------

    def lowered(self, period: Fraction) -> Laid:
        """The same positions with blocks a period earlier, and those that they wait for, as far as memory allows it.

        A micro-batch then spends less time under way, and the steady state begins earlier. Where the warm-up has to be
        looked at on its own nothing is moved.
        """
        if self.facts.early:
            return self
        laid, moved = self, True
        while moved:
            moved = False
            for b in self.facts.problem.order:
                group = laid._held_up_by(b, period)
                if len(group) == len(self.heights) or min(laid.heights[a] for a in group) == min(laid.heights):
                    continue
                heights = tuple(height - (a in group) for a, height in enumerate(laid.heights))
                lower = Laid(self.facts, self.starts, heights)
                if all(lower._fits(device) for device in self.facts.memory if not device.is_free):
                    laid, moved = lower, True
        return laid

    def _held_up_by(self, b: int, period: Fraction) -> set[int]:
        """The block, and those that must start a period earlier if it does."""
        group, waiting = {b}, [b]
        while waiting:
            target = waiting.pop()
            for a, least, offset in self.facts.before[target]:
                waits = self.heights[target] - 1 - self.heights[a] + offset
                if a not in group and self.starts[target] - self.starts[a] + period * waits < least:
                    group.add(a)
                    waiting.append(a)
        return group

    def _fits(self, device: DeviceMemory) -> bool:
        """Does memory suffice in the steady state, at the start of each block that takes or has a workspace?"""
        changes = device.changes
        for b in device.at if device.room is not None else ():
            held = device.workspace.get(b, 0) + changes.get(b, 0) * ((changes.get(b, 0) > 0) - self.heights[b])
            held += sum(c * (self.is_before(a, b) - self.heights[a]) for a, c in changes.items() if a != b)
            if held > (device.room or 0):
                return False
        return True


def best_timed(laid: Laid) -> PeriodicSchedulePlan | None:
    """The plan at the shortest period of these orders and heights, then with no block a period later than it must be;
    the earliest starts leave room for that which positions on a grid did not show."""
    plan = laid.timed()
    for _ in laid.heights:
        if plan is None:
            break
        current = laid_out(laid.facts, plan)
        lower = current.lowered(plan.period)
        if lower.heights == current.heights:
            break
        plan = lower.timed()
    return plan


def laid_out(facts: PeriodicFacts, plan: PeriodicSchedulePlan) -> Laid:
    """Positions and heights of a plan, such that the anchor has both at 0."""
    problem = facts.problem
    first = plan.starts[problem.blocks[anchor(problem)].id]
    absolute = [plan.starts[block.id] - first for block in problem.blocks]
    heights = tuple(int(start // plan.period) for start in absolute)
    starts = tuple(start - height * plan.period for start, height in zip(absolute, heights, strict=True))
    return Laid(facts, starts, heights)


def values_of(laid: Laid) -> dict[str, float]:
    """Values of heights and orders, by the names of the models; for positions their grid is too coarse."""
    values = {f"h[{b}]": float(height) for b, height in enumerate(laid.heights)}
    for a, b in (*laid.facts.pairs, *laid.facts.instants):
        values[f"w[{a},{b}]"] = float(laid.is_before(a, b))
    for a, b in laid.facts.instants:
        values[f"g[{a},{b}]"] = float(laid.heights[a] >= laid.heights[b])
    return values


BUILDER = f"{__name__}:build"

# These models are logic: clauses refute them many times faster than linear relaxations, but for some whose memory
# is tight on average; so one worker has no relaxation, another one the strongest, and none looks for solutions at
# random. Symmetries are not looked for, either: in ortools 9.15 that raises an IndexError on some models of
# periods.
SEARCH: Mapping[str, Any] = {
    "linearization_level": 0,
    "subsolvers": ["no_lp", "max_lp", "quick_restart_no_lp", "default_lp", "quick_restart", "reduced_costs"],
    "ignore_subsolvers": [
        *("fj", "fs_random", "fs_random_no_lp", "fs_random_quick_restart", "fs_random_quick_restart_no_lp")
    ],
    "use_feasibility_jump": False,
    "num_violation_ls": 0,
    "symmetry_level": 0,
}

# Above this, products of times and sizes would come near the limits of the solver's integers: no area rows are made.
AREA_STEPS = 2**55


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker."""
    return PeriodModel(data).build()


class PeriodModel(NativeBuilder):
    """One method per family of constraints; blocks by their positions in the problem."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__()
        self.data = data
        self.period, self.times, self.most = data["period"], data["times"], data["most"]
        self.starts, self.heights = [], []
        for b in range(len(self.times)):
            fixed = b == data["anchor"]
            self.starts.append(self.integer(f"s[{b}]", 0, 0 if fixed else self.period - 1))
            self.heights.append(self.integer(f"h[{b}]", 0 if fixed else -self.most, 0 if fixed else self.most))
        self.before: dict[tuple[int, int], Any] = {}

    def build(self) -> NativeBuilt:
        self.order_pairs()
        self.order_instants()
        self.keep_edges()
        self.keep_distances()
        for device in self.data["memory"]:
            self.memory(device)
            self.area(device)
            if device["early"]:
                self.warm_up_and_drain(device)
        return NativeBuilt(self.model, self.variables, offset=self.data["value"], parameters=SEARCH)

    def order_pairs(self) -> None:
        """Two blocks of one device come one after the other, around the period; at most one of them takes no time."""
        for a, b in self.data["pairs"]:
            first = self.flag(f"w[{a},{b}]")
            for x, y, before in ((a, b, first), (b, a, first.negated())):
                self.before[x, y] = before
                gap = self.starts[y] - self.starts[x]
                self.require(gap >= self.times[x], before)
                self.require(gap <= self.period - self.times[y], before)

    def order_instants(self) -> None:
        """Blocks without time may share an instant; then the earlier micro-batch comes first, and in the same one a."""
        for a, b in self.data["instants"]:
            first, older = self.flag(f"w[{a},{b}]"), self.flag(f"g[{a},{b}]")
            self.before[a, b], self.before[b, a] = first, first.negated()
            ahead = self.heights[a] - self.heights[b]
            self.require(ahead >= 0, older)
            self.require(ahead <= -1, older.negated())
            gap = self.starts[b] - self.starts[a]
            self.require(gap >= 0, first)
            self.require(gap >= 1, first, older.negated())
            self.require(gap <= 0, first.negated())
            self.require(gap <= -1, first.negated(), older)

    def keep_edges(self) -> None:
        """A block starts as many whole periods later as its wait asks for beyond the gap of the two positions."""
        for a, b, least, offset in self.data["edges"]:
            waits = self.heights[b] - self.heights[a] + offset
            gap = self.starts[b] - self.starts[a]
            self.model.add(gap + self.period * waits >= least)
            if (a, b) in self.before:
                if a != b and least + self.times[b] > 0:
                    self.model.add(waits >= 1 - self.before[a, b])
            elif a != b and least > 1 - self.period:
                within = self.flag()
                self.require(gap >= least, within)
                self.require(gap <= least - 1, within.negated())
                self.model.add(waits >= 1 - within)

    def keep_distances(self) -> None:
        """Whole periods that the longest path between two blocks of one device takes: implied rows, and strong ones."""
        for a, b, if_first, if_later in self.data["distances"]:
            apart = self.heights[b] - self.heights[a]
            self.model.add(apart >= if_later - (if_later - if_first) * self.before[a, b])

    def changed(self, a: int, b: int) -> Any:
        """Number of micro-batches for which `a` has changed the memory when `b` starts."""
        return self.before[a, b] - self.heights[a]

    def memory(self, device: Mapping[str, Any]) -> None:
        """Memory suffices when a block starts that takes some or has a workspace; and where a micro-batch may give back
        before it takes, it gives no more than is there."""
        changes = device["changes"]
        for b, workspace in device["at"]:
            own = [] if b not in changes else [changes[b] * ((changes[b] > 0) - self.heights[b])]
            others = [change * self.changed(a, b) for a, change in changes.items() if a != b]
            if device["room"] is not None:
                self.model.add(workspace + sum(own + others) <= device["room"])
        if device["early"]:
            for b, change in changes.items():
                if change < 0:
                    others = [other * self.changed(a, b) for a, other in changes.items() if a != b]
                    self.model.add(change * (1 - self.heights[b]) + sum(others) >= -device["standing"])

    def area(self, device: Mapping[str, Any]) -> None:
        """Little's law: what the rows above say about instants, summed over the period. The linear relaxation sees by
        it that waiting costs memory."""
        room, period = device["room"], self.period
        largest = max([1, *(workspace for _, workspace in device["at"])])
        if room is None or 2 * self.most * period * max(room, largest) > AREA_STEPS:
            return
        held = [
            -change * (self.starts[b] + period * self.heights[b] + self.times[b] * (change < 0))
            for b, change in device["changes"].items()
        ]
        used = sum(workspace * self.times[b] for b, workspace in device["at"])
        self.model.add(sum(held) <= period * room - used)

    def warm_up_and_drain(self, device: Mapping[str, Any]) -> None:
        """The first micro-batches have none before them, the last ones none after them: events that the steady state
        counts for those are left out. Where no micro-batch gives before it takes, that never makes a device fuller."""
        changes, gives = device["changes"], {b: c for b, c in device["changes"].items() if c < 0}
        full = {} if device["room"] is None else dict(device["at"])
        for b in sorted({*full, *gives}):
            ahead = {a: self.heights[b] + self.changed(a, b) for a in changes if a != b}
            for n in range(-2 * self.most, 2 * self.most):
                # For n >= 0 this is micro-batch n; for n < 0 the one that comes -n before the first that does not come
                # any more.
                others = sum(changes[a] * self.counted(n, events) for a, events in ahead.items())
                own = n + 1 if n >= 0 else min(0, n + 1)
                if b in full:
                    taken = own if changes.get(b, 0) > 0 else own - 1
                    self.model.add(full[b] + changes.get(b, 0) * taken + others <= device["room"])
                if b in gives:
                    self.model.add(changes[b] * own + others >= -device["standing"])

    def counted(self, n: int, events: Any) -> Any:
        """n + events, but no less than 0 from the first micro-batch on, and no more than 0 before the end."""
        counted = self.model.new_int_var(-5 * self.most, 5 * self.most, "")
        if n >= 0:
            self.model.add_max_equality(counted, [n + events, 0])
        else:
            self.model.add_min_equality(counted, [n + events, 0])
        return counted
