"""Bounds by what ranks hold and do in all, whichever of their chunks it is in; for numba.

A rank has units of one major type and of a few minor ones, and an end of the row if it is there. No layout is better
than the best division of all units among ranks, since a division forgets in which order units come.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def room(states: Any, state: int, most: int, seconds: float, m: int, r: int, ranks: Any, units_: Any) -> int:
    """Number of units of the major type that rank r takes besides its minor ones; -1 where not even these fit.

    `ranks` has for each rank its ramp, seconds and bytes of the ends that are there, both tables of `in_flight`, the
    least number of layers that compute again, how many units of each group can come to it at all, and how many it has
    at least. `units_` has seconds and bytes of a unit of each group, the major one first (of bytes there are two, as of
    the ends: what stands, and one stash), the smallest stash and the limit, and of layers that compute again the
    seconds, the bytes that each of them saves in a stash, and their greatest number. As few compute again as memory
    asks for, those first that take least.
    """
    ramps, ends_seconds, ends_bytes, all_together, all_each, least_agains, all_caps, least = ranks
    unit_seconds, unit_bytes, low_stash, limit, again, saved, most_again = units_
    together, each, caps, least_units = all_together[r], all_each[r], all_caps[r], least[r]
    for k in range(states.shape[1]):
        if states[state, k] > caps[k + 1]:
            return -1
    busy, standing, stash, units, low = ends_seconds[r], ends_bytes[r, 0], ends_bytes[r, 1], 0, np.inf
    for k in range(states.shape[1]):
        busy += states[state, k] * unit_seconds[k + 1]
        standing += states[state, k] * unit_bytes[k + 1, 0]
        stash += states[state, k] * unit_bytes[k + 1, 1]
        units += states[state, k]
        if states[state, k] > 0:
            low = min(low, unit_bytes[k + 1, 1])
    for n in range(min(most, caps[0]), max(-1, least_units - units - 1), -1):
        count = n + units
        more = together[count] - count * each[count]
        need = standing + n * unit_bytes[0, 0] + each[count] * (stash + n * unit_bytes[0, 1]) - limit
        repeated = min(least_agains[r], count)
        floor = 0.0
        if count > 0:
            floor = more * (min(low, unit_bytes[0, 1]) if n > 0 else low)
        if repeated > 0 or need + floor > 0:
            if most_again == 0:
                continue
            less = each[count] * saved
            need += more * low_stash
            repeated = max(repeated, 1)
            if need > repeated * less:
                if less <= 0:
                    continue
                repeated = int(np.ceil(need / less - 1e-9))
            if repeated > most_again or repeated > count:
                continue
        if m * (busy + n * unit_seconds[0] + least_sum(repeated, again, n, states[state])) + ramps[r] <= seconds:
            return n
    return -1


def least_sum(count: int, each: Any, majors: int, minors: Any) -> float:
    """The least that so many units take together, of so many of each group; the major one comes first."""
    total, beyond = 0.0, -np.inf
    while count > 0:
        # The next dearer group; those that are alike are taken together.
        cheapest, there = np.inf, 0
        for k in range(each.shape[0]):
            if each[k] <= beyond or each[k] > cheapest:
                continue
            if each[k] < cheapest:
                cheapest, there = each[k], 0
            there += majors if k == 0 else minors[k - 1]
        if cheapest == np.inf:
            break
        taken = min(count, there)
        total += taken * cheapest
        count -= taken
        beyond = cheapest
    return total


def divides(p: int, table: Any, seconds: float, m: int, ranks: Any, units: Any, counts: Any) -> bool:
    """Can all units be divided so that each rank is done in time? `counts` then says how: [rank, (state, majors)]."""
    states, steps, majors = table
    size = states.shape[0]
    best = np.full((p + 1, size), -1)
    chosen = np.zeros((p + 1, size), np.int64)
    best[0, 0] = 0
    rooms = np.zeros((p, size), np.int64)
    for r in range(p):
        for own in range(size):
            rooms[r, own] = room(states, own, majors, seconds, m, r, ranks, units)
        for before in range(size):
            if best[r, before] < 0:
                continue
            for own in range(size):
                after = steps[before, own]
                if after >= 0 and rooms[r, own] >= 0 and best[r, before] + rooms[r, own] > best[r + 1, after]:
                    best[r + 1, after] = best[r, before] + rooms[r, own]
                    chosen[r + 1, after] = own
    if best[p, size - 1] < majors:
        return False
    at = size - 1
    for r in range(p - 1, -1, -1):
        own = chosen[r + 1, at]
        counts[r, 0], counts[r, 1] = own, rooms[r, own]
        for before in range(size):
            if (
                steps[before, own] == at
                and best[r, before] >= 0
                and best[r, before] + rooms[r, own] == best[r + 1, at]
            ):
                at = before
                break
    return True


def least_seconds(
    p: int, table: Any, low: float, high: float, m: int, ranks: Any, units: Any, counts: Any
) -> float:
    """The least time in which every rank is done, a little less at most; infinite where no division fits.

    `table` has all numbers of minor units that a rank may have, their sums, and the number of major units; the rest
    is as in `room`. After the longest time and the shortest one, the middle of what is left is tried; `counts` are
    those of the shortest time that was enough.
    """
    step, tried = 0, high
    while step < 2 or high - low > 1e-6 * high:
        enough = divides(p, table, tried, m, ranks, units, counts)
        if step == 0 and not enough:
            return np.inf
        if step == 1 and enough:
            return low
        if step > 1:
            low, high = (low, tried) if enough else (tried, high)
        step += 1
        tried = low if step == 1 else (low + high) / 2
    return low
