"""The best assignment of groups to devices that a heuristic has seen, and the bound to measure it by."""

from __future__ import annotations

import math
from functools import partial

from .. import search as incumbent
from ..contract import Request
from ..search import SAFETY
from .groups import Groups, contract


class Incumbent(incumbent.Incumbent):
    """Assignments that break memory or support count for nothing."""

    def __init__(self, request: Request, groups: Groups) -> None:
        plan_of = partial(groups.plan, request.problem)
        super().__init__(request, groups.value, groups.fits, plan_of, lambda: lower_bound(groups))
        self.groups = groups


def groups_of(request: Request, contiguous: bool | None = None) -> Groups:
    """What the options ask for; `contiguous`: whatever they say of it."""
    if contiguous is None:
        contiguous = is_contiguous(request)
    return contract(request.problem, contiguous, objective_of(request))


def is_contiguous(request: Request) -> bool:
    return not request.options.get("non_contiguous", False)


def objective_of(request: Request) -> str:
    return str(request.options.get("objective", "max-load"))


def lower_bound(groups: Groups) -> float | None:
    """No plan is better: all work spread evenly over all devices, and each group on its faster kind of device.

    None where some group fits nowhere. With a weight w for CPU time, (k + l w) T >= the weighted work of any
    plan >= sum over g of min(p_g, w c_g); the best weight is the ratio p_g / c_g of some group. Transfers only
    add to this.
    """
    spread = (math.fsum(_least_work(groups, w)) / (groups.accelerators + w * groups.cpus) for w in _weights(groups))
    bound = max(*spread, *_least_work(groups, 1.0)) * (1 - SAFETY)
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


def _least_work(groups: Groups, w: float) -> list[float]:
    """Of each group on the kind of device that suits it better, CPU time weighted."""
    return [
        min(work if ok else math.inf, w * cpu if groups.cpus else math.inf)
        for work, cpu, ok in zip(groups.work, groups.cpu_work, groups.supported, strict=True)
    ]
