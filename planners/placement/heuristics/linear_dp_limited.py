"""The best cuts of a topological order whose devices, one after the other, take no longer than a limit.

A sample that passes through the devices of a row in turn needs at most the sum of their loads. So for a largest load
the least such sum is sought, by a dynamic program over the places of the order, and the largest load by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....instances.base.errors import UsageError
from ....instances.verdict import violations_of
from ...contract import Outcome, Request
from ..groups import Groups, capped
from ..incumbent import Incumbent, groups_of
from ..options import ORDERS
from ..orders import various_orders
from .linear_dp import blocked, interval_loads, interval_sums, too_many

MAX_GROUPS = 2_000
"""Each step of the bisection looks at every pair of places for every number of devices."""

STEPS = 24
"""Of the bisection."""


class LimitedLinearDp:
    def plan(self, request: Request) -> Outcome:
        """Contiguous plans, which are fine where contiguity is not asked for, too."""
        limit = request.options.get("latency_limit")
        if limit is None:
            raise UsageError(
                "linear-dp-limited plans within a limit on the latency; give one with --latency-limit."
            )
        if request.problem.has_backward:
            raise UsageError(
                "linear-dp-limited plans inference, and this problem has backward nodes; choose another planner."
            )
        groups = groups_of(request, contiguous=True)
        incumbent = Incumbent(request, groups)
        if groups.count > MAX_GROUPS:
            return too_many(incumbent)
        orders = various_orders(groups, request.options.get("orders", ORDERS.default), request.limits.seed)
        tame = capped(groups, 2 * limit)  # what no plan within the limit pays must not cost the others their digits
        found = (_Cuts(tame, order, limit).best(request) for order in orders)
        cuts = (None if cut is None or not _is_within(request, groups, cut, limit) else cut for cut in found)
        return incumbent.tried(cuts, "no cut of the tried orders is within the limit")


PLANNER = LimitedLinearDp()


def _is_within(request: Request, groups: Groups, cut: Sequence[int], limit: float) -> bool:
    """Sums of loads are floats, and the limit is a matter of the last digit."""
    plan = groups.plan(request.problem, cut)
    broken = violations_of(request.problem, plan, latency_limit=limit)
    return not any(violation.rule in ("latency", "latency-limit") for violation in broken)


class _Cuts:
    """One order; `fast[i, j]` and `slow[i, j]`: load of an accelerator and of a CPU with order[i:j]."""

    def __init__(self, groups: Groups, order: Sequence[int], limit: float) -> None:
        import numpy as np

        self.groups, self.order, self.limit, self.np = groups, order, limit, np
        self.fast = interval_loads(groups, order, 0)
        self.fast[blocked(groups, order)] = np.inf
        places = len(self.fast)
        self.slow = np.where(np.tri(places, dtype=bool), np.inf, interval_sums(order, groups.cpu_times[0]))

    def best(self, request: Request) -> list[int] | None:
        """Device of each group, or None where nothing fits."""
        high = self.limit
        found = self._within(high)
        low = 0.0
        for _ in range(STEPS if found is not None else 0):
            if request.out_of_time():
                break
            middle = (low + high) / 2
            closer = self._within(middle)
            low, high, found = (middle, high, found) if closer is None else (low, middle, closer)
        return found

    def _within(self, load: float) -> list[int] | None:
        """Devices of at most this load, with the least sum; None where that is above the limit."""
        np, groups = self.np, self.groups
        kinds = [np.where(loads <= load, loads, np.inf) for loads in (self.fast, self.slow)]
        start = np.full(len(self.fast), np.inf)
        start[0] = 0.0
        best: dict[tuple[int, int], Any] = {(0, 0): start}
        origin: dict[tuple[int, int], Any] = {}
        for devices in _counts(groups):
            value, came = np.full(len(start), np.inf), np.zeros((2, len(start)), dtype=np.int64)
            for kind, before in enumerate(_before(devices)):
                if before in best:
                    table = best[before][:, None] + kinds[kind]
                    choice = table.argmin(axis=0)
                    sums = table[choice, np.arange(len(start))]
                    better = sums < value
                    value[better], came[0][better], came[1][better] = sums[better], kind, choice[better]
            best[devices], origin[devices] = value, came
        ends = {devices: float(value[-1]) for devices, value in best.items()}
        least = min(ends, key=lambda devices: ends[devices])
        return self._traced(least, origin) if ends[least] <= self.limit else None

    def _traced(self, devices: tuple[int, int], origin: dict[tuple[int, int], Any]) -> list[int]:
        device_of, end = [0] * self.groups.count, self.groups.count
        while end:
            kind, start = int(origin[devices][0][end]), int(origin[devices][1][end])
            number = devices[0] - 1 if kind == 0 else self.groups.accelerators + devices[1] - 1
            for place in range(start, end):
                device_of[self.order[place]] = number
            devices, end = _before(devices)[kind], start
        return device_of


def _counts(groups: Groups) -> Iterator[tuple[int, int]]:
    """How many accelerators and CPUs are used, small numbers first."""
    for f in range(groups.accelerators + 1):
        for c in range(groups.cpus + 1):
            if f or c:
                yield f, c


def _before(devices: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Without an accelerator, and without a CPU."""
    return (devices[0] - 1, devices[1]), (devices[0], devices[1] - 1)
