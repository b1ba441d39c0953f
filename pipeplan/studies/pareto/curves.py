"""From single points to curves: plans hold at every larger memory, bounds at every smaller one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...instances.result import Stop
from .candidates import best_within
from .records import EXACT_METHODS, Candidate, Frame, Point, met


def curves(
    points: Iterable[Point], frame: Frame, candidates: Sequence[Candidate], methods: Sequence[str]
) -> tuple[Point, ...]:
    """All points by method and growing memory; along a curve neither period nor bound ever grows."""
    everything = list(points)
    answer: list[Point] = []
    for method in dict.fromkeys(methods):
        own = sorted((p for p in everything if p.method == method), key=lambda point: point.memory_bytes)
        own = _with_plans_from_below(own)
        if method in EXACT_METHODS:
            own = _with_bounds_from_above(own, frame)
            own = [_with_several_batches(point, frame, candidates) for point in own]
        answer += map(settled, own)
    return tuple(answer)


def _with_plans_from_below(points: Sequence[Point]) -> list[Point]:
    answer: list[Point] = []
    for point in points:
        best = candidate_of(answer[-1]) if answer else None
        if best is not None and (point.period is None or best.period < point.period):
            point = point.with_plan(best, point.seconds)
        answer.append(point)
    return answer


def _with_bounds_from_above(points: Sequence[Point], frame: Frame) -> list[Point]:
    answer: list[Point] = []
    bound = frame.unlimited_bound
    for point in reversed(points):
        if point.bound is not None:
            bound = max(bound, point.bound)
        if point.stop != Stop.INFEASIBLE:
            bound = bound if point.period is None else min(bound, point.period)
            point = replace(point, bound=bound)
        answer.append(point)
    return answer[::-1]


def _with_several_batches(point: Point, frame: Frame, candidates: Sequence[Candidate]) -> Point:
    """Where PipeDream's run repeats itself only after several batches, it may beat every plan that repeats after one.

    Then its plan is shown, with the bound that holds for any number of batches.
    """
    best = best_within(candidates, point.memory_bytes)
    if best is None or (point.period is not None and best.period >= point.period):
        return point
    shown = point.with_plan(best, point.seconds)
    if best.plan.batches_per_period == 1:
        return shown
    stop = Stop.COMPLETED if point.certified else point.stop
    return replace(shown, stop=stop, bound=min(frame.unlimited_bound, best.period))


def candidate_of(point: Point) -> Candidate | None:
    """The point's plan, for other points."""
    if point.plan is None or point.period is None or point.peak_bytes is None:
        return None
    return Candidate(point.plan, point.period, point.peak_bytes, point.source or point.method)


def settled(point: Point) -> Point:
    """Proven is a point exactly where its period and its bound meet."""
    if point.period is None or point.bound is None:
        return point
    if met(point.period, point.bound):
        return replace(point, stop=Stop.PROVEN)
    return replace(point, stop=Stop.COMPLETED) if point.stop == Stop.PROVEN else point
