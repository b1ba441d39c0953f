"""The best assignment that a heuristic has seen, posted as soon as it is found; and a bound to measure it by."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...instances.result import PROVEN_TOLERANCE, Stop, WarmStart, relative_gap
from ..contract import Outcome, Request
from .groups import Groups

SAFETY = 1e-9
"""Relative: bounds are lowered by this, so that rounding never lifts one above the optimum."""


class Incumbent:
    """Takes assignments of groups to devices; those that break memory or support count for nothing."""

    def __init__(self, request: Request, groups: Groups, source: str) -> None:
        self.request = request
        self.groups = groups
        self.source = source
        self.device_of: list[int] | None = None
        self.value = math.inf

    def offer(self, device_of: Sequence[int]) -> bool:
        """Keep and post it if it is better than everything before."""
        value = self.groups.value(device_of)
        if value >= self.value or not self.groups.fits(device_of):
            return False
        self.device_of, self.value = list(device_of), value
        plan = self.groups.plan(self.request.problem, self.device_of)
        self.request.board.post(plan, value, source=self.source)
        return True

    def outcome(self, stop: Stop, *messages: str, warm_start: WarmStart | None = None) -> Outcome:
        """What the planner answers: `stop`, unless the value meets the bound."""
        warm_start = warm_start or WarmStart()
        bound = lower_bound(self.groups)
        if self.device_of is None:
            return Outcome(stop, bound=bound, warm_start=warm_start, messages=messages)
        gap = relative_gap(self.value, bound)
        if gap is not None and gap <= PROVEN_TOLERANCE:
            stop = Stop.PROVEN
        plan = self.groups.plan(self.request.problem, self.device_of)
        bound = None if bound is None else min(bound, self.value)
        return Outcome(stop, plan, self.value, bound, warm_start, messages=messages)


def lower_bound(groups: Groups) -> float | None:
    """No plan is better: all work spread evenly over all devices, and each group on its faster kind of device.

    None where some group fits nowhere. With a weight w for CPU time, (k + l w) T >= the weighted work of any
    plan >= sum over g of min(p_g, w c_g); the best weight is the ratio p_g / c_g of some group. Transfers only
    add to this.
    """
    least = [
        min(work if ok else math.inf, cpu if groups.cpus else math.inf)
        for work, cpu, ok in zip(groups.work, groups.cpu_work, groups.supported, strict=True)
    ]
    bound = max([_spread(groups, w) for w in _weights(groups)] + [max(least)]) * (1 - SAFETY)
    return bound if math.isfinite(bound) else None


def _weights(groups: Groups) -> list[float]:
    """Ratios worth trying, thinned out where there are many; any positive weight gives a valid bound."""
    if not groups.accelerators or not groups.cpus:
        return [1.0]
    ratios = sorted(
        {
            work / cpu
            for work, cpu, ok in zip(groups.work, groups.cpu_work, groups.supported, strict=True)
            if ok and cpu > 0 and work > 0
        }
    )
    return ratios[:: 1 + len(ratios) // 200] or [1.0]


def _spread(groups: Groups, w: float) -> float:
    shares = [
        min(work if ok else math.inf, w * cpu if groups.cpus else math.inf)
        for work, cpu, ok in zip(groups.work, groups.cpu_work, groups.supported, strict=True)
    ]
    return math.fsum(shares) / (groups.accelerators + w * groups.cpus)
