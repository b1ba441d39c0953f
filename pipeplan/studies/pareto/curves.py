"""From single points to curves: plans hold at every larger memory, bounds at every smaller one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...instances.base.result import Stop
from .candidates import best_within
from .curve import no_more_than, with_bounds_from_above, with_plans_from_below
from .records import EXACT_METHODS, Candidate, Frame, Point


def curves(
    points: Iterable[Point], frame: Frame, candidates: Sequence[Candidate], methods: Sequence[str]
) -> tuple[Point, ...]:
    """All points by method and growing memory; along a curve neither period nor bound ever grows."""
    everything = list(points)
    answer: list[Point] = []
    for method in dict.fromkeys(methods):
        own = with_plans_from_below(point for point in everything if point.method == method)
        if method in EXACT_METHODS:
            own = with_bounds_from_above(own, frame.unlimited_bound)
            own = [_with_several_batches(point, frame, candidates) for point in own]
        answer += (point.settled() for point in own)
    return tuple(answer)


def _with_several_batches(point: Point, frame: Frame, candidates: Sequence[Candidate]) -> Point:
    """Where PipeDream's run repeats itself only after several batches, it may beat every plan that repeats after one.

    Then its plan is shown, with the bound that holds for any number of batches.
    """
    best = best_within(candidates, point.memory_bytes)
    if best is None or (point.period is not None and best.period >= point.period):
        return point
    shown = point.with_plan(best)
    if best.plan.batches_per_period == 1:
        return shown
    stop = Stop.COMPLETED if point.certified else point.stop
    return replace(shown, stop=stop, bound=no_more_than(frame.unlimited_bound, best.period))
