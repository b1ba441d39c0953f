"""Costs that are far above all others, such as a "forbidden" that is written as a time of 1e12.

The program takes differences of sums over ideals for the loads of stages; in floats 1e16 + 1 is 1e16. So it first
runs on a problem without costs above a limit (`within`). Plans of value at most the limit are the same there and
have the same values, since a device that pays such a cost has a greater load, whatever the number. If the best of them
is within the limit it is the best of all. If not, every plan is above the limit, and a run with a greater limit
loses no digits that matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ....instances.placement.problem import Level
from ..groups import FAR
from .lattice import Lattice
from .model import Kind, Model, weighed

# Relative: twice what one addition of floats may lose.
STEP = 2.0**-52


def first_limit(model: Model, levels: Sequence[Level], bound: float) -> float:
    """The first limit: far above the optimum in all but strange problems, and above 0 where the bound is 0."""
    return FAR * (bound or min((cost for cost in _least_loads(model, levels) if cost > 0), default=0.0))


def next_limit(model: Model, levels: Sequence[Level], limit: float, value: float | None) -> float:
    """The limit after one that no plan keeps: a better plan than `value` pays one of the costs that were left out."""
    left_out = min((cost for cost in _least_loads(model, levels) if cost > limit), default=math.inf)
    return FAR * max(limit, min(left_out, math.inf if value is None else value))


def within(model: Model, levels: Sequence[Level], limit: float) -> Model:
    """The model without costs that make every plan that pays them worse than the limit; if it has none, itself.

    A group whose time is too long for a kind is not supported there. Transfers and weights, which have no such mark,
    are cut to an amount that is still too much.
    """
    if all(cost <= limit for cost in _least_loads(model, levels)):
        return model
    most = _replicas(model)
    nets = tuple((pins, min(cost, 2 * limit * most / _factor(levels)), part) for pins, cost, part in model.nets)
    weights = model.weights
    if model.sync_bandwidth is not None:
        weights = tuple(min(weight, limit * most * _bandwidth(model, levels)) for weight in weights)
    kinds = [replace(kind, supported=_near(kind, limit * _devices(model, kind))) for kind in model.kinds]
    return replace(model, kinds=weighed(kinds), nets=nets, weights=weights)


def _near(kind: Kind, most: float) -> tuple[bool, ...]:
    """Which groups the kind supports with no more time than `most`."""
    return tuple(ok and work <= most for ok, work in zip(kind.supported, kind.work, strict=True))


def _least_loads(model: Model, levels: Sequence[Level]) -> list[float]:
    """For each cost, the least load of a device that pays it."""
    most = _replicas(model)
    loads = [
        work / _devices(model, kind)
        for kind in model.kinds
        for ok, work in zip(kind.supported, kind.work, strict=True)
        if ok
    ]
    loads += [cost * _factor(levels) / most for _, cost, _ in model.nets]
    if model.sync_bandwidth is not None and most > 1:
        loads += [2 * weight / most / _bandwidth(model, levels) for weight in model.weights]
    return loads


def _devices(model: Model, kind: Kind) -> int:
    """Number of devices of the kind that may share one stage as replicas."""
    return kind.count if model.sync_bandwidth is not None and kind.pays else 1


def _replicas(model: Model) -> int:
    return max(_devices(model, kind) for kind in model.kinds)


def _factor(levels: Sequence[Level]) -> float:
    """The least positive factor of several levels on transfers; 1 for one level, whose nets contain its factor."""
    return min((level.transfer_factor for level in levels if level.transfer_factor > 0), default=1.0)


def _bandwidth(model: Model, levels: Sequence[Level]) -> float:
    bandwidths = [level.sync_bandwidth for level in levels if level.sync_bandwidth is not None]
    return max([*bandwidths, model.sync_bandwidth or 0.0])


def rounding(lattice: Lattice, factor: float = 1.0) -> float:
    """By how much rounding may make the loads of stages wrong: they are differences of sums over ideals.

    `factor`: the greatest factor of the levels on transfers.
    """
    model = lattice.model
    work = max(sum(kind.work) for kind in model.kinds)
    if model.sync_bandwidth is not None:
        work += 4 * sum(model.weights) / model.sync_bandwidth
    cut = float(lattice.cut.sum(axis=0).max())
    return STEP * ((model.count / 8 + 16) * work + 3 * max(1.0, factor) * len(model.nets) * cut)
