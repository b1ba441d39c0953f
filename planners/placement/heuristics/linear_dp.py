"""The linearised dynamic program (DPL): the best cuts of one topological order into devices.

Exact for the order, an upper bound for the problem. All interval loads come from a two-dimensional difference
array: a transfer is free for the intervals that lie between two of its pins or hold them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....instances.base.result import Stop
from ...contract import Outcome, Request
from ...registry import ORDERS
from ..groups import FAR, Groups, Incumbent, capped, groups_of, lower_bound
from ..orders import various_orders

# Interval loads take 8 bytes for each pair of groups.
MAX_GROUPS = 6_000

# For gpipe: number of limits on the forward load that are tried, if the tables are not too large for it.
FORWARD_LIMITS = 24

# Table entries times limits, at most, beyond which fewer limits are tried.
WORK_ON_LIMITS = 10_000_000


class LinearDp:
    def plan(self, request: Request) -> Outcome:
        """Contiguous plans, which are valid also where contiguity is not asked for."""
        groups = groups_of(request, contiguous=True)
        incumbent = Incumbent(request, groups)
        if groups.count > MAX_GROUPS:
            return too_many(incumbent, MAX_GROUPS)
        orders = various_orders(groups, request.options.get("orders", ORDERS.default), request.limits.seed)
        cuts = (best_cuts(groups, order) for order in orders)
        return incumbent.tried(cuts, "no cut of the tried orders fits the memory")


PLANNER = LinearDp()


def too_many(incumbent: Incumbent, most: int) -> Outcome:
    return incumbent.outcome(
        Stop.MEMORY, f"{incumbent.groups.count} groups are too many: this planner takes at most {most}"
    )


def best_cuts(groups: Groups, order: Sequence[int], borders: Sequence[int] | None = None) -> list[int] | None:
    """Device of each group for the best contiguous cuts of `order`, or None where nothing fits.

    `borders`: the places where it may be cut, 0 and the number of groups among them; None: anywhere.
    """
    limit = FAR * (lower_bound(groups) or 0.0)
    tame = capped(groups, limit)
    cuts = _best_cuts(tame, order, borders)
    if tame is groups or cuts is None or groups.value(cuts) <= limit:
        return cuts
    return _best_cuts(groups, order, borders)


def _best_cuts(groups: Groups, order: Sequence[int], borders: Sequence[int] | None) -> list[int] | None:
    """`best_cuts` with the costs as they are."""
    fast = [interval_loads(groups, order, part) for part in range(groups.parts)]
    slow = [interval_sums(order, groups.cpu_times[part]) for part in range(groups.parts)]
    impossible = blocked(groups, order)
    for loads in fast:
        loads[impossible] = np.inf
    if borders is not None:
        chosen = np.ix_(borders, borders)
        fast, slow = ([loads[chosen] for loads in kind] for kind in (fast, slow))
    cuts = _cut(groups, fast[0], slow[0]) if groups.parts == 1 else _cut_two_parts(groups, fast, slow)
    if cuts is None:
        return None
    places = range(groups.count + 1) if borders is None else borders
    device_of = [0] * groups.count
    for device, start, end in cuts:
        for g in order[places[start] : places[end]]:
            device_of[g] = device
    return device_of


def interval_loads(groups: Groups, order: Sequence[int], part: int) -> Any:
    """loads[i, j]: load of an accelerator with order[i:j]."""
    n = groups.count
    position = [0] * n
    for place, g in enumerate(order):
        position[g] = place
    change = np.zeros((n + 2, n + 2))

    def add(i_low: int, i_high: int, j_low: int, j_high: int, cost: float) -> None:
        """`cost` for all i_low <= i <= i_high and j_low <= j <= j_high."""
        change[i_low, j_low] += cost
        change[i_high + 1, j_low] -= cost
        change[i_low, j_high + 1] -= cost
        change[i_high + 1, j_high + 1] += cost

    everywhere = 0.0
    for pins, cost, net_part in groups.nets:
        if net_part != part:
            continue
        everywhere += cost
        places = sorted(position[g] for g in pins)
        for before, after in zip([-1, *places], [*places, n], strict=True):
            add(before + 1, after, before + 1, after, -cost)
        add(0, places[0], places[-1] + 1, n, -cost)
    cut = change.cumsum(axis=0).cumsum(axis=1)[: n + 1, : n + 1] + everywhere
    np.maximum(cut, 0.0, out=cut)  # rounding of sums that cancel
    return cut + interval_sums(order, groups.times[part])


def interval_sums(order: Sequence[int], values: Sequence[float]) -> Any:
    """sums[i, j]: the values of order[i:j] together."""
    prefix = np.concatenate([[0.0], np.cumsum([values[g] for g in order])])
    return prefix[None, :] - prefix[:, None]


def blocked(groups: Groups, order: Sequence[int]) -> Any:
    """Intervals that no accelerator can hold, and empty or reversed ones."""
    n = groups.count
    is_blocked = np.tril(np.ones((n + 1, n + 1), dtype=bool))
    is_blocked |= interval_sums(order, [float(not ok) for ok in groups.supported]) > 0.5
    if groups.memory is not None:
        is_blocked |= interval_sums(order, groups.sizes) > groups.capacity
    return is_blocked


# (device, first position, end position).
Cut = tuple[int, int, int]


def _cut(groups: Groups, fast: Any, slow: Any) -> list[Cut] | None:
    """The best cuts, by a table: best[f, c][j] is the smallest largest load of order[:j] on f accelerators and c CPUs.

    Once one more accelerator changes nothing, the table ends, since further ones would change nothing either.
    """
    places = len(fast)
    slow = np.where(np.tri(places, dtype=bool), np.inf, slow)
    start = np.full(places, np.inf)
    start[0] = 0.0
    best: dict[tuple[int, int], Any] = {(0, 0): start}
    came: dict[tuple[int, int], tuple[Any, Any]] = {}
    for f in range(groups.accelerators + 1):
        for c in range(groups.cpus + 1):
            if f == c == 0:
                continue
            value, origin = np.full(places, np.inf), np.zeros(places, dtype=np.int64)
            kind = np.zeros(places, dtype=np.int8)
            for number, (before, loads) in enumerate((((f - 1, c), fast), ((f, c - 1), slow)), start=1):
                if before in best:
                    _extend(best[before], loads, number, value, origin, kind)
            best[f, c], came[f, c] = value, (origin, kind)
        if f and all(np.array_equal(best[f, c], best[f - 1, c]) for c in range(groups.cpus + 1)):
            break
    return _trace(groups, best, came, f)


def _extend(previous: Any, loads: Any, number: int, value: Any, origin: Any, kind: Any) -> None:
    """Improve `value` by one more device, of the kind with this number, which takes order[i:j] or nothing."""
    reachable = np.flatnonzero(np.isfinite(previous))
    if not len(reachable):
        return
    table = np.maximum(previous[reachable, None], loads[reachable])
    choice = table.argmin(axis=0)
    columns = np.arange(len(value))
    for candidate, source in ((table[choice, columns], reachable[choice]), (previous, columns)):
        better = candidate < value
        value[better], origin[better], kind[better] = candidate[better], source[better], number


def _trace(
    groups: Groups, best: dict[tuple[int, int], Any], came: dict[tuple[int, int], tuple[Any, Any]], f: int
) -> list[Cut] | None:
    """The cuts behind the last entry for f accelerators and all CPUs."""
    c = groups.cpus
    j = len(best[f, c]) - 1
    if not math.isfinite(best[f, c][j]):
        return None
    cuts: list[Cut] = []
    while f or c:
        origin, kind = came[f, c]
        i, number = int(origin[j]), int(kind[j])
        device = f - 1 if number == 1 else groups.accelerators + c - 1
        if i < j:
            cuts.append((device, i, j))
        f, c, j = (f - 1, c, i) if number == 1 else (f, c - 1, i)
    return cuts


def _cut_two_parts(groups: Groups, fast: Sequence[Any], slow: Sequence[Any]) -> list[Cut] | None:
    """max FW + max BW: the best cuts for the backward part under each of several limits on the forward part."""
    whole = _cut(groups, fast[0] + fast[1], slow[0] + slow[1])
    if whole is None:
        return None

    def largest(cuts: Sequence[Cut], part: int) -> float:
        return max(float((fast if d < groups.accelerators else slow)[part][i, j]) for d, i, j in cuts)

    best, value = whole, largest(whole, 0) + largest(whole, 1)
    least = math.fsum(groups.times[0]) / groups.devices / 2
    limits = max(4, min(FORWARD_LIMITS, WORK_ON_LIMITS // len(fast[0]) ** 2))
    for limit in np.linspace(least, 2 * largest(whole, 0), limits):
        cuts = _cut(
            groups,
            np.where(fast[0] <= limit, fast[1], np.inf),
            np.where(slow[0] <= limit, slow[1], np.inf),
        )
        if cuts is not None and largest(cuts, 0) + largest(cuts, 1) < value:
            best, value = cuts, largest(cuts, 0) + largest(cuts, 1)
    return best
