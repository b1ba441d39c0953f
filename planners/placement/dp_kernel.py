"""The inner loop of the program, compiled: from each ideal to all that may follow it within the limit.

Plain Python that numba understands (`instances/base/compiled.py`). Tables are in the order of the lattice's key and
hold live ideals only (`dp.limited`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# Targets that are looked at together, so that their sums stay in the nearest cache.
TILE = 2048


# The value of states that no plan within the limit has. It is below all others, so no value replaces it.
DEAD = -1.0


class Tables(NamedTuple):
    """What does not change during a run. N ideals, D kinds, E nets, S ways to use the kinds behind the first."""

    bits: Any
    """uint64[words, N]: the groups of each ideal, as bits"""
    common: Any
    """uint64[words, tiles]: the groups that all ideals of a tile hold"""
    key: Any
    work: Any
    """float[D, N]: time of a whole ideal on each kind"""
    barred: Any
    """int32[D, N]: how many groups of an ideal the kind cannot hold"""
    size: Any
    cut: Any
    lowest: Any
    """int32[N]: the least number of first-kind devices of any live state"""
    highest: Any
    """int32[N]: the greatest one"""
    origin: Any
    """int64[N]: the value with f devices of the first kind, in way w, is at origin + f * S + w"""
    row_cost: Any
    row_pins: Any
    row_start: Any
    row_end: Any
    row_place: Any
    """pins of net e in ideal j: inside[row_place[e] + j]"""
    inside: Any
    pays: Any
    """float[D]: 1 where transfers are paid, else 0"""
    count: Any
    """int64[D]: devices of each kind"""
    capacity: Any
    stride: Any
    """int64[D]: what one device of a kind adds to the way; 0 for the first kind, which is counted apart"""
    way_count: Any
    """int64[S, D]: devices of each kind that each way uses"""
    reach: Any
    """float[D]: the most first-kind work in a stage on a device of a kind"""
    room: Any
    """float[S]: the most first-kind work on the devices that a way leaves, without the first kind"""
    slack: float
    """by how much rounding may make sums of work wrong"""
    key_scale: float
    key_slack: int


def process(
    t: Tables, values: Any, limit: float, first: int, last: int, begin: int, end: int, part: int, parts: int
) -> int:
    """Carry the values of ideals first..last-1 on to the ideals begin..end-1, in every `parts`-th tile of these.

    Plans that would not be better than `limit`, or than a plan that is already there, are left out. Returns how
    many pairs of ideals were looked at. Values of first..last-1 must be final, but for what they give each other.
    """
    longest = 1
    for i in range(first, last):
        longest = max(longest, (t.highest[i] - t.lowest[i] + 1) * t.room.shape[0])
    states = np.empty((longest, 2), dtype=np.int64)
    state_values = np.empty(longest)
    larger = np.empty(TILE, dtype=np.int64)
    inside = np.empty(TILE, dtype=np.bool_)
    near = nets_between(t, first, last)
    open_here = np.empty(near.shape[0], dtype=np.int64)
    pairs = 0
    for i in range(first, last):
        best = min(limit, best_plan(t, values))
        count = live_states(t, values, i, best, states, state_values)
        if count == 0:
            continue
        low, high = target_range(t, i, limit, states, count)
        low, high = max(low, begin), min(high, end)
        if low >= high:
            continue
        opened = open_nets(t, i, near, open_here)
        # Tiles stand at fixed places, so that those who share the work never share a target.
        for tile in range(low // TILE, (high - 1) // TILE + 1):
            if parts == 1 or tile % parts == part:
                a, b = max(low, tile * TILE), min(high, (tile + 1) * TILE)
                found = larger_ideals(t, i, tile, a, b, inside, larger)
                carry(t, values, i, larger[:found], best, open_here[:opened], states[:count], state_values)
                pairs += b - a
    return pairs


def best_plan(t: Tables, values: Any) -> float:
    """The value of the best whole plan so far."""
    best = np.inf
    last = t.key.shape[0] - 1
    for place in range(t.origin[last] + t.lowest[last] * t.room.shape[0], values.shape[0]):
        if values[place] > DEAD:
            best = min(best, values[place])
    return best


def live_states(t: Tables, values: Any, i: int, best: float, states: Any, state_values: Any) -> int:
    """Write the states of ideal i that can still become a better plan into `states` (first-kind devices, way) and
    `state_values`; return their number."""
    ways = t.room.shape[0]
    count = 0
    for way in range(ways):
        least = best
        for use in range(t.lowest[i], t.highest[i] + 1):
            value = values[t.origin[i] + use * ways + way]
            if DEAD < value < least:  # otherwise fewer devices do as well
                least = value
                states[count, 0], states[count, 1], state_values[count] = use, way, value
                count += 1
    return count


def target_range(t: Tables, i: int, limit: float, states: Any, count: int) -> tuple[int, int]:
    """The range of ideals, [first, behind the last), that a next stage can end with: behind ideal i, near
    enough for one stage, and far enough that the remaining devices can do the rest within the limit."""
    total = t.work[0, t.key.shape[0] - 1]
    low_work, high_work = total, 0.0
    for s in range(count):
        use, way = states[s, 0], states[s, 1]
        for d in range(t.count.shape[0]):
            left = t.count[d] - (use if d == 0 else t.way_count[way, d])
            if left > 0:
                left_first = t.count[0] - use - (1 if d == 0 else 0)
                low_work = min(low_work, total - left_first * limit - t.room[way + t.stride[d]])
                high_work = max(high_work, t.reach[d])
    low_key = int(max(0.0, low_work - t.slack) * t.key_scale)
    high_key = int((min(t.work[0, i] + high_work, total) + t.slack) * t.key_scale) + t.key_slack
    low: Any = np.searchsorted(t.key, max(low_key, t.key[i] + 1))
    high: Any = np.searchsorted(t.key, high_key, side="right")
    return low, high


def nets_between(t: Tables, first: int, last: int) -> Any:
    """Nets that some of these ideals may cut."""
    near = np.empty(t.row_start.shape[0], dtype=np.int64)
    count = 0
    for e in range(t.row_start.shape[0]):
        if t.row_start[e] < last and t.row_end[e] > first:
            near[count] = e
            count += 1
    return near[:count]


def open_nets(t: Tables, i: int, near: Any, open_here: Any) -> int:
    """Write the nets that ideal i cuts into `open_here`; return their number."""
    count = 0
    for e in near:
        if t.row_start[e] <= i < t.row_end[e]:
            inside = t.inside[t.row_place[e] + i]
            if 0 < inside < t.row_pins[e]:
                open_here[count] = e
                count += 1
    return count


def larger_ideals(t: Tables, i: int, tile: int, a: int, b: int, inside: Any, larger: Any) -> int:
    """Write the ideals of a..b-1 that contain ideal i into `larger`, and return their number. Words of ideal i whose
    groups all ideals of the tile hold are not compared."""
    asked = False
    for w in range(t.bits.shape[0]):
        mine = t.bits[w, i]
        if mine & ~t.common[w, tile]:
            row = t.bits[w, a:b]
            if asked:
                for x in range(b - a):
                    inside[x] &= (mine & ~row[x]) == 0
            else:
                for x in range(b - a):
                    inside[x] = (mine & ~row[x]) == 0
            asked = True
    count = 0
    if asked:
        for x in range(b - a):
            larger[count] = a + x
            count += inside[x]
    else:
        for x in range(b - a):
            larger[x] = a + x
        count = b - a
    return count


def carry(
    t: Tables, values: Any, i: int, targets: Any, best: float, open_here: Any, states: Any, state_values: Any
) -> None:
    """Improve the values of each target by one stage from ideal i, on each kind of device that can hold it.

    This is one long function, because a call costs more than what is done for most targets: they are left again as soon
    as their work alone shows that no value there becomes better.
    """
    kinds, ways = t.count.shape[0], t.room.shape[0]
    work, size, barred, cut = t.work, t.size, t.barred, t.cut
    lowest, highest, origin, count, way_count = t.lowest, t.highest, t.origin, t.count, t.way_count
    row_end, row_pins, row_cost, inside = t.row_end, t.row_pins, t.row_cost, t.inside
    places = t.row_place
    for j in targets:
        crossing = -1.0
        for d in range(kinds):
            plain = work[d, j] - work[d, i]
            if plain >= best or size[j] - size[i] > t.capacity[d] or barred[d, j] != barred[d, i]:
                continue
            for s in range(states.shape[0]):
                use, way = states[s, 0], states[s, 1]
                if d == 0:
                    use += 1
                elif way_count[way, d] < count[d]:
                    way += t.stride[d]
                else:
                    continue
                if use < lowest[j] or use > highest[j]:
                    continue
                place = origin[j] + use * ways + way
                if max(state_values[s], plain) >= min(values[place], best):
                    continue
                if crossing < 0.0:
                    # What cut(i) + cut(j) counts too much: see `ideals`.
                    shared = 0.0
                    for e in open_here:
                        if j < row_end[e]:
                            pins_inside = inside[places[e] + j]
                            if pins_inside < row_pins[e]:
                                shared += row_cost[e]
                                if pins_inside == inside[places[e] + i]:
                                    shared += row_cost[e]
                    crossing = max(0.0, cut[i] + cut[j] - shared)
                load = plain + t.pays[d] * crossing
                value = max(state_values[s], load)
                if load < best and value < values[place]:
                    values[place] = value
