"""The most profitable set that one accelerator can hold within a limit on its load, in whole numbers: the hot loops.

A set is a path of `device_sets.SetGraph`. `weight` is the price of a step of load: with it the limit becomes part of
the profit, and what can still be gained from a state on is one number for each state. That bounds every path: a path is
dropped if it cannot come above `floor` any more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# Less than any profit.
NO_WAY = -(2**62)
# More paths than there was room for.
FULL = -1


class Paths(NamedTuple):
    """The graph, and what is asked of it; arrays by state, and by place of the order."""

    first: Any
    without: Any
    within: Any
    cut_without: Any
    cut_within: Any
    work: Any
    profit: Any
    free: Any
    """May the group at this place be in?"""


def potentials(paths: Paths, weight: int, value: Any) -> None:
    """value[s]: the most that a path from s on can gain, where each step of load costs `weight`."""
    last = len(paths.work)
    value[paths.first[last]] = 0
    for place in range(last - 1, -1, -1):
        gain = paths.profit[place] - weight * paths.work[place]
        for s in range(paths.first[place], paths.first[place + 1]):
            best = value[paths.without[s]] - weight * paths.cut_without[s]
            if paths.free[place]:
                best = max(best, value[paths.within[s]] + gain - weight * paths.cut_within[s])
            value[s] = best


def follow(paths: Paths, weight: int, value: Any, chosen: Any) -> tuple[int, int]:
    """The path that attains value[0]: fills `chosen` with its choices and returns its load and profit."""
    s, load, total = 0, 0, 0
    for place in range(len(paths.work)):
        out = value[paths.without[s]] - weight * paths.cut_without[s]
        gain = paths.profit[place] - weight * paths.work[place] - weight * paths.cut_within[s]
        chosen[place] = paths.free[place] and value[paths.within[s]] + gain > out
        if chosen[place]:
            load += paths.work[place] + paths.cut_within[s]
            total += paths.profit[place]
            s = paths.within[s]
        else:
            load += paths.cut_without[s]
            s = paths.without[s]
    return load, total


def multipliers(paths: Paths, limit: int, most: int, weights: Any, values: Any, chosen: Any) -> int:
    """Weights by doubling and bisection, around the least one whose best path is within the limit.

    Fills `weights`, `values` and `chosen`, and returns the number of weights. Each path is the best of all that have no
    more load than it has.
    """
    low, high, weight = 0, -1, 0
    for k in range(len(weights)):
        weights[k] = weight
        potentials(paths, weight, values[k])
        load, total = follow(paths, weight, values[k], chosen[k])
        if load <= limit:
            high = weight
            if weight == 0:
                return 1
        else:
            low = weight
        if high >= 0:
            weight = (low + high) // 2
        elif weight == 0:
            weight = max(1, total // load)
        else:
            weight = 2 * weight
        if weight == low or weight > most:
            return k + 1
    return len(weights)


def best_sets(
    paths: Paths, limit: int, floor: int, weight: int, value: Any, grain: int, room: int
) -> tuple[Any, Any, Any, Any]:
    """Paths with a load of at most `limit` and a profit above `floor`: places, parents and choices to walk back.

    `value` holds the potentials of `weight`, which bound what can still be gained from each state on.
    Of the paths to one state whose loads lie in the same `grain` only one is kept, with the least load and the highest
    profit of them all: what comes out is at least the best profit, and exactly that where the grain is 1.
    Returns the first label of each place, then for each label its parent and its choice, and the profits of the labels
    at the last place. Where there are more than `room` labels, the last entry of the first array is FULL.
    """
    last = len(paths.work)
    parents, choices = np.empty(room, np.int32), np.empty(room, np.bool_)
    begins = np.zeros(last + 2, np.int64)
    begins[1] = 1
    states, loads, gains = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
    parents[0], choices[0] = -1, False
    for place in range(last):
        base, count = paths.first[place + 1], paths.first[place + 2] - paths.first[place + 1]
        size = len(states)
        ahead = np.empty(2 * size, np.int64)
        new_loads, new_gains = np.empty(2 * size, np.int64), np.empty(2 * size, np.int64)
        sources = np.empty(2 * size, np.int32)
        held = np.zeros(count + 1, np.int64)
        found = 0
        for i in range(size):
            s = states[i]
            for choice in range(2):
                if choice == 0:
                    t, load, gain = paths.without[s], loads[i] + paths.cut_without[s], gains[i]
                elif paths.free[place]:
                    t, load, gain = (
                        paths.within[s],
                        loads[i] + paths.cut_within[s] + paths.work[place],
                        gains[i] + paths.profit[place],
                    )
                else:
                    continue
                if load > limit or gain + value[t] + weight * (limit - load) <= floor:
                    continue
                ahead[found], new_loads[found], new_gains[found] = t - base, load, gain
                sources[found] = 2 * i + choice
                held[t - base + 1] += 1
                found += 1
        for t in range(count):
            held[t + 1] += held[t]
        at, spot = np.empty(found, np.int64), held.copy()
        for i in range(found):
            at[spot[ahead[i]]] = i
            spot[ahead[i]] += 1
        states, loads, gains = np.empty(found, np.int64), np.empty(found, np.int64), np.empty(found, np.int64)
        begin, kept = begins[place + 1], 0
        for t in range(count):
            here = at[held[t] : held[t + 1]]
            best, since = NO_WAY, kept
            for j in np.argsort(new_loads[here]):
                i = here[j]
                if new_gains[i] <= best:
                    continue
                best = new_gains[i]
                near = kept > since and new_loads[i] // grain == loads[kept - 1] // grain
                if near or (kept > since and new_loads[i] == loads[kept - 1]):
                    kept -= 1
                else:
                    if begin + kept >= room:
                        begins[last + 1] = FULL
                        return begins, parents, choices, gains
                    loads[kept] = new_loads[i]
                states[kept], gains[kept] = base + t, best
                parents[begin + kept] = begins[place] + sources[i] // 2
                choices[begin + kept] = sources[i] % 2 == 1
                kept += 1
        states, loads, gains = states[:kept], loads[:kept], gains[:kept]
        begins[place + 2] = begin + kept
    return begins, parents, choices, gains
