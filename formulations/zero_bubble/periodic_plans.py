"""From positions and heights of blocks to a periodic schedule, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from ...instances.schedule.plan import PeriodicSchedulePlan
from ..timetable import Wait, tightest
from .periodic_facts import DeviceMemory, PeriodicFacts, anchor

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


def laid_by(facts: PeriodicFacts, values: Mapping[str, float]) -> Laid:
    """Positions and heights from the values of a model."""
    blocks = range(len(facts.problem.blocks))
    return Laid(
        facts,
        tuple(Fraction(round(values[f"s[{b}]"])) for b in blocks),
        tuple(round(values[f"h[{b}]"]) for b in blocks),
    )
