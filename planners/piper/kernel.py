"""The loops of Piper's dynamic program, for compilation: tables of stages, and decisions about a limit.

Times of a stage are multiplied by its number of replicas d, so that one table serves all d: d times the load is

    base + extra(y) + sync(d) weights,      y = micro-batches in flight,

where base is the time of the fastest options with all transfers, and extra(y) what the knapsack adds so that y
micro-batches in flight fit the memory. extra never falls with y. Beyond `last` nothing fits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NONE = 1 << 30
IGNORED_DROP = 1e-9
"""Bytes: the published greedy takes no option that saves less."""


class Layers(NamedTuple):
    """Layers, options and edges: see `model.Options`."""

    bits: Any
    """uint64[downsets, words]"""
    option_start: Any
    time: Any
    weight: Any
    per_batch: Any
    fixed: Any
    gather_start: Any
    gather: Any
    edge_start: Any
    edge_layer: Any
    edge_time: Any
    memory: float
    sync: float
    """time per byte of weights that is part of an option's cost; 0 where all options of a layer weigh the same"""
    most: int
    """no more micro-batches in flight than this"""


class Table(NamedTuple):
    """Stages by pair of downsets and degree; pairs are sorted by the larger downset."""

    pair_start: Any
    """int64[downsets + 1]: the pairs that end in a downset"""
    pair_source: Any
    """int32[pairs]: the smaller downset"""
    base: Any
    """float[pairs, degrees]; infinite where there is no such stage"""
    weight: Any
    fastest: Any
    """int32[pairs, degrees]: up to so many in flight the fastest options fit"""
    last: Any
    extra_start: Any
    """int64[pairs, degrees]: the place of extra(fastest + 1)"""
    upper: Any
    """extra(y) of a choice that is known"""
    lower: Any
    """no choice has less"""


def tabulate(x: Layers, t: Table, first: int, last: int, used: int) -> tuple[int, int]:
    """Fill the table for the pairs of downsets first..last-1; stops where `upper` is full.

    Returns the downset that comes next and how many entries of `upper` are used.
    """
    degrees, layers, words = t.base.shape[1], x.edge_start.shape[0] - 1, x.bits.shape[1]
    mask = np.empty(words, dtype=np.uint64)
    held = np.empty(layers, dtype=np.int64)
    cost = np.empty(x.time.shape[0])
    scratch = new_scratch(x, layers)
    for j in range(first, last):
        begun = used
        for p in range(t.pair_start[j], t.pair_start[j + 1]):
            i = t.pair_source[p]
            for w in range(words):
                mask[w] = x.bits[j, w] & ~x.bits[i, w]
            count = held_layers(mask, layers, held)
            for tau in range(degrees):
                t.base[p, tau] = np.inf
                if not options_of(x, mask, held, count, tau, cost):
                    continue
                base, weight, fastest = fastest_stage(x, held, count, tau, cost, scratch)
                if fastest < 0:
                    continue
                t.base[p, tau] = base
                t.weight[p, tau] = weight
                t.fastest[p, tau] = fastest
                t.extra_start[p, tau] = used
                y = fastest + 1
                while y <= x.most:
                    if used >= t.upper.shape[0]:
                        return j, begun
                    upper, lower = knapsack(x, held, count, tau, cost, y, scratch)
                    if upper == np.inf:
                        break
                    t.upper[used] = upper
                    t.lower[used] = lower
                    used += 1
                    y += 1
                t.last[p, tau] = y - 1
                if y == 1:
                    t.base[p, tau] = np.inf  # not even one micro-batch fits
    return last, used


def held_layers(mask: Any, layers: int, held: Any) -> int:
    count = 0
    for v in range(layers):
        if (mask[v >> 6] >> np.uint64(v & 63)) & np.uint64(1):
            held[count] = v
            count += 1
    return count


def options_of(x: Layers, mask: Any, held: Any, count: int, tau: int, cost: Any) -> bool:
    """The cost of each option: time, what its border edges cost, weights where they differ. False: none for a layer."""
    for h in range(count):
        v = held[h]
        first, last = x.option_start[tau, v], x.option_start[tau, v + 1]
        if first == last:
            return False
        for o in range(first, last):
            cost[o] = x.time[o] + x.sync * x.weight[o]
        begin = x.edge_start[v]
        for e in range(begin, x.edge_start[v + 1]):
            u = x.edge_layer[e]
            if not (mask[u >> 6] >> np.uint64(u & 63)) & np.uint64(1):
                for o in range(first, last):
                    cost[o] += x.edge_time[e] + x.gather[x.gather_start[o] + e - begin]
    return True


def new_scratch(x: Layers, layers: int) -> tuple[Any, Any, Any, Any, Any]:
    """Fastest option by layer; increments: ratio, drop, rise, order."""
    most = x.time.shape[0] + 1
    return (
        np.empty(layers, dtype=np.int64),
        np.empty(most),
        np.empty(most),
        np.empty(most),
        np.empty(most, dtype=np.int64),
    )


def fastest_stage(
    x: Layers, held: Any, count: int, tau: int, cost: Any, scratch: tuple[Any, Any, Any, Any, Any]
) -> tuple[float, float, int]:
    """Time and weights of the fastest options, and how many micro-batches in flight fit with them (-1: not one fits
    with any options)."""
    fast = scratch[0]
    base, weight, per_batch, fixed = 0.0, 0.0, 0.0, 0.0
    for h in range(count):
        v = held[h]
        best = x.option_start[tau, v]
        for o in range(best + 1, x.option_start[tau, v + 1]):
            if cost[o] < cost[best]:
                best = o
        fast[h] = best
        base += cost[best]
        weight += x.weight[best]
        per_batch += x.per_batch[best]
        fixed += x.fixed[best]
    least = 0.0
    for h in range(count):
        v = held[h]
        leanest = np.inf
        for o in range(x.option_start[tau, v], x.option_start[tau, v + 1]):
            leanest = min(leanest, x.per_batch[o] + x.fixed[o])
        least += leanest
    if least > x.memory:
        return base, weight, -1
    y = 0
    if fixed + per_batch <= x.memory:
        y = x.most if per_batch <= 0.0 else int(min(float(x.most), (x.memory - fixed) / per_batch))
        # Division rounds; what counts is the sum that will be checked.
        while y < x.most and fixed + per_batch * (y + 1) <= x.memory:
            y += 1
        while y > 0 and fixed + per_batch * y > x.memory:
            y -= 1
    return base, weight, y


def knapsack(
    x: Layers, held: Any, count: int, tau: int, cost: Any, y: int, scratch: tuple[Any, Any, Any, Any, Any]
) -> tuple[float, float]:
    """Least extra time with y micro-batches in flight: of the greedy choice, and of its linear relaxation.

    Options of a layer that cost more and save memory form a convex chain from the fastest; the greedy takes
    steps of all chains by falling saving per time until the rest fits. Infinite: nothing fits.
    """
    fast, ratio, drop, rise, order = scratch
    need = -x.memory
    steps = 0
    for h in range(count):
        v = held[h]
        first, last = x.option_start[tau, v], x.option_start[tau, v + 1]
        here = fast[h]
        need += x.per_batch[here] * y + x.fixed[here]
        while True:
            # The next step of the chain: the steepest from here.
            best, best_ratio, best_drop, best_rise = -1, -1.0, 0.0, 0.0
            memory_here = x.per_batch[here] * y + x.fixed[here]
            for o in range(first, last):
                saved = memory_here - (x.per_batch[o] * y + x.fixed[o])
                if saved > IGNORED_DROP:
                    more = max(0.0, cost[o] - cost[here])
                    steep = np.inf if more <= 0.0 else saved / more
                    if steep > best_ratio or (steep == best_ratio and saved > best_drop):
                        best, best_ratio, best_drop, best_rise = o, steep, saved, more
            if best < 0:
                break
            ratio[steps], drop[steps], rise[steps], order[steps] = best_ratio, best_drop, best_rise, steps
            steps += 1
            here = best
    for a in range(1, steps):
        b, moved = a, order[a]
        while b > 0 and (
            ratio[order[b - 1]] < ratio[moved] or (ratio[order[b - 1]] == ratio[moved] and order[b - 1] > moved)
        ):
            order[b] = order[b - 1]
            b -= 1
        order[b] = moved
    upper = 0.0
    for a in range(steps):
        if need <= 0.0:
            break
        s = order[a]
        if drop[s] >= need:
            return upper + rise[s], upper + rise[s] * (need / drop[s])
        need -= drop[s]
        upper += rise[s]
    return (upper, upper) if need <= 0.0 else (np.inf, np.inf)


def decide(
    t: Table,
    limit: float,
    devices: int,
    batches: int,
    replicas: Any,
    sync: Any,
    degree: Any,
    rest_work: Any,
    front_size: Any,
    front: Any,
) -> int:
    """Can everything be placed with all loads within the limit? Fills, for each downset, the front of its plans.

    front[j, x]: (devices, sum of degrees, pair, degree's number, replicas, place in the source's front), by more
    devices and smaller sums; fewer of both are always as good, because loads never fall with the sum. For the same
    reason a stage takes the least number of replicas that keeps the limit. Returns the size of the last front.
    """
    downsets = rest_work.shape[0]
    best = np.empty((devices + 1, 5), dtype=np.int64)
    front_size[0] = 1
    front[0, 0, :] = 0
    for j in range(1, downsets):
        best[:, 0] = NONE
        room = devices
        if limit > 0.0:
            room = devices - int(np.ceil(rest_work[j] / limit * (1 - 1e-12)))
        for p in range(t.pair_start[j], t.pair_start[j + 1]):
            i = t.pair_source[p]
            size = front_size[i]
            if size == 0:
                continue
            for tau in range(t.base.shape[1]):
                base = t.base[p, tau]
                if base >= limit * replicas[replicas.shape[0] - 1]:
                    if base > limit * replicas[replicas.shape[0] - 1]:
                        continue
                left = size
                fastest, last, start = t.fastest[p, tau], t.last[p, tau], t.extra_start[p, tau]
                n = np.searchsorted(replicas, int(np.ceil(base / limit * (1 - 1e-12))) if limit > 0.0 else 1)
                while n < replicas.shape[0] and left > 0:
                    d = replicas[n]
                    if front[i, 0, 0] + d * degree[tau] > room or d > batches:
                        break
                    budget = limit * d - sync[n] * t.weight[p, tau] - base
                    if budget >= 0.0:
                        y = fastest
                        if last > fastest and t.upper[start] <= budget:
                            y = fastest + np.searchsorted(t.upper[start : start + last - fastest], budget, side="right")
                        room_s = min(d * y, batches) - d
                        while left > 0 and front[i, left - 1, 1] <= room_s:
                            left -= 1
                            k = front[i, left, 0] + d * degree[tau]
                            s = front[i, left, 1] + d
                            if k <= room and s < best[k, 0]:
                                best[k, 0], best[k, 1], best[k, 2], best[k, 3], best[k, 4] = s, p, tau, d, left
                    n += 1
        size, least = 0, NONE
        for k in range(1, devices + 1):
            if best[k, 0] < least:
                least = best[k, 0]
                front[j, size, 0] = k
                front[j, size, 1:] = best[k]
                size += 1
        front_size[j] = size
    return front_size[downsets - 1]


def nested_pairs(bits: Any, room: int, pair_start: Any, pair_source: Any) -> int:
    """All pairs of downsets, the smaller inside the larger; -1 where there are more than room."""
    count = 0
    for j in range(bits.shape[0]):
        pair_start[j] = count
        for i in range(j):
            inside = True
            for w in range(bits.shape[1]):
                if bits[i, w] & ~bits[j, w]:
                    inside = False
                    break
            if inside:
                if count == room:
                    return -1
                pair_source[count] = i
                count += 1
    pair_start[bits.shape[0]] = count
    return count
