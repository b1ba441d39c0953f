"""A lower bound that needs no lattice: all work has to fit on all devices."""

from __future__ import annotations

import math

from .limits import Absorption
from .model import Model

STEPS = 60
SAFETY = 1e-9
"""Relative: the bound is lowered by this, so that rounding never lifts it above the optimum."""


def lower_bound(model: Model) -> float | None:
    """The least T within which the devices can take all work, and every group at least fits somewhere; None: never.

    Transfers and the order of stages only add to this. Replicas divide the work of a stage among as many
    devices, so they take no more than these devices could on their own.
    """
    least = max((_alone(model, g) for g in range(model.count)), default=0.0)
    if math.isinf(least):
        return None
    low, high = least, max(least, sum(model.kinds[0].work), *(sum(kind.work) for kind in model.kinds))
    if not _enough(model, low):
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if _enough(model, middle) else (middle, high)
    return low * (1 - SAFETY)


def _alone(model: Model, g: int) -> float:
    """The least load of a stage with this group, on the kind that suits it best."""
    options = []
    for kind in model.kinds:
        if kind.supported[g]:
            replicas = kind.count if model.sync_bandwidth is not None and kind.pays else 1
            options.append(kind.work[g] / replicas)
    return min(options, default=math.inf)


def _enough(model: Model, limit: float) -> bool:
    """Can all devices together take the work that the first kind would have with everything?"""
    absorbed = Absorption.of(model, limit).plain
    first = model.kinds[0]
    taken = first.count * limit + sum(absorbed[d][kind.count] for d, kind in enumerate(model.kinds) if d > 0)
    return taken >= sum(first.work) * (1 - SAFETY)
