"""The loops of Piper's dynamic program, for compilation: tables of stages, and decisions about a limit.

Times of a stage are multiplied by its number of replicas d, so that one table serves all d: d times the load is

    base + extra(y) + sync(d) weights,      y = micro-batches in flight,

where base is the time of the fastest options with all transfers, and extra(y) what the knapsack adds so that y
micro-batches in flight fit the memory. extra never falls with y. Beyond `last` nothing fits.

Only stages that may need a knapsack stand in the table. All others are *quick*: sums over the larger downset less sums
over the smaller one, computed anew in each decision. That is as fast as reading them, and lattices with tens of
millions of pairs take 4 bytes for each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NONE = 1 << 30
IGNORED_DROP = 1e-9
"""Bytes: the published greedy takes no option that saves less."""


GREEDY, EXACT, RELAXED = 0, 1, 2


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
    sync: Any
    """float[degrees]: time per byte of weights that is part of an option's cost; 0 where all options weigh the same"""
    only: Any
    """int64[degrees]: the one number of replicas (by its place) that a row of options is for; negative: for all"""
    most: int
    """no more micro-batches in flight than this"""
    simple: Any
    """bool[degrees]: all options of a layer gather the same, so its fastest one is the same in all stages"""
    prefix: Any
    """float[degrees, 7, downsets], for `simple` ones: see `TIME` and the next"""
    enter: Any
    """float[degrees, downsets]: time of the edges that a downset cuts, as the stage behind them pays it"""
    leave: Any
    """the same as the stage before them pays it"""
    octets: Any
    """uint8[downsets, ..]: `bits` by bytes"""
    from_layer: Any
    to_layer: Any
    """the two ends of each edge"""
    passing: Any
    """float[degrees, edges]: what both its stages pay for an edge"""


TIME, WEIGHT, PER_BATCH, FIXED, LEAST, MISSING, SEVERAL = range(7)
"""Sums over downsets: what the fastest options take, the least memory of one batch, and how many layers have no option
or several."""

HAIR = 1e-12
"""Relative: sums of memory in another order differ by no more; stages so near to the limit are put into the table."""


class Table(NamedTuple):
    """Stages by pair of downsets and degree; pairs are sorted by the larger downset."""

    pair_start: Any
    """int64[downsets + 1]: the pairs that end in a downset"""
    pair_source: Any
    """int32[pairs]: the smaller downset"""
    row: Any
    """int32[pairs]: where a pair stands in the arrays below, negative: it is quick; empty where all are"""
    base: Any
    """float[rows, degrees]; infinite where there is no such stage"""
    weight: Any
    fastest: Any
    """int32[rows, degrees]: up to so many in flight the fastest options fit"""
    last: Any
    extra_start: Any
    """int64[rows, degrees]: the place of extra(fastest + 1)"""
    upper: Any
    """extra(y) of a choice that is known"""
    lower: Any
    """no choice has less"""


def number_rows(x: Layers, pair_start: Any, pair_source: Any, row: Any) -> int:
    """Which pairs may need a knapsack: how many, and into `row` (unless it is empty) their numbers or -1."""
    prefix, simple, memory, most = x.prefix, x.simple, x.memory, x.most
    degrees, noted = prefix.shape[0], row.shape[0] > 0
    rows = 0
    for j in range(pair_start.shape[0] - 1):
        for p in range(pair_start[j], pair_start[j + 1]):
            i = pair_source[p]
            quick = True
            for tau in range(degrees):
                if not simple[tau]:
                    quick = False
                    break
                if prefix[tau, MISSING, j] - prefix[tau, MISSING, i] > 0.5:
                    continue
                fixed = prefix[tau, FIXED, j] - prefix[tau, FIXED, i]
                each = prefix[tau, PER_BATCH, j] - prefix[tau, PER_BATCH, i]
                if (fixed + each * most) * (1 + HAIR) <= memory:
                    continue
                if prefix[tau, SEVERAL, j] - prefix[tau, SEVERAL, i] > 0.5:
                    if (prefix[tau, LEAST, j] - prefix[tau, LEAST, i]) * (1 - HAIR) <= memory:
                        quick = False
                        break
                elif each <= 0.0 or (
                    np.floor((memory * (1 + HAIR) - fixed) / each) != np.floor((memory * (1 - HAIR) - fixed) / each)
                ):
                    quick = False
                    break
            if noted:
                row[p] = -1 if quick else rows
            rows += not quick
    return rows


def tabulate(x: Layers, t: Table, first: int, last: int, used: int) -> tuple[int, int]:
    """Fill the rows of the pairs of downsets first..last-1; stops where `upper` is full.

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
            r = t.row[p]
            if r < 0:
                continue
            i = t.pair_source[p]
            for w in range(words):
                mask[w] = x.bits[j, w] & ~x.bits[i, w]
            count = held_layers(mask, layers, held)
            for tau in range(degrees):
                t.base[r, tau] = np.inf
                if not options_of(x, mask, held, count, tau, cost):
                    continue
                base, weight, fastest = fastest_stage(x, held, count, tau, cost, scratch)
                if fastest < 0:
                    continue
                t.base[r, tau] = base
                t.weight[r, tau] = 0.0 if x.only[tau] >= 0 else weight
                t.fastest[r, tau] = fastest
                t.extra_start[r, tau] = used
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
                t.last[r, tau] = y - 1
                if y == 1:
                    t.base[r, tau] = np.inf  # not even one micro-batch fits
    return last, used


def quick_last(x: Layers, i: int, j: int, tau: int) -> int:
    """How many micro-batches in flight a quick stage has memory for; 0: there is no such stage."""
    sums = x.prefix[tau]
    if sums[MISSING, j] - sums[MISSING, i] > 0.5:
        return 0
    fixed, each = sums[FIXED, j] - sums[FIXED, i], sums[PER_BATCH, j] - sums[PER_BATCH, i]
    if (fixed + each * x.most) * (1 + HAIR) <= x.memory:
        return x.most
    if sums[SEVERAL, j] - sums[SEVERAL, i] > 0.5:
        return 0
    return max(0, int(np.floor((x.memory * (1 - HAIR) - fixed) / each)))


def stage_at(x: Layers, t: Table, p: int, i: int, j: int, tau: int) -> tuple[float, float, int, int, int]:
    """Base, weights, fastest, last, and where extra times begin, of a stage in the table or a quick one."""
    r = t.row[p] if t.row.shape[0] else -1
    if r >= 0:
        return t.base[r, tau], t.weight[r, tau], t.fastest[r, tau], t.last[r, tau], t.extra_start[r, tau]
    last = quick_last(x, i, j, tau)
    if last < 1:
        return np.inf, 0.0, 0, 0, 0
    base = x.prefix[tau, TIME, j] - x.prefix[tau, TIME, i] + x.enter[tau, j] + x.leave[tau, i]
    for e in range(x.from_layer.shape[0]):
        u, v = x.from_layer[e], x.to_layer[e]
        outside = not (x.bits[j, u >> 6] >> np.uint64(u & 63)) & np.uint64(1)
        if outside and (x.bits[i, v >> 6] >> np.uint64(v & 63)) & np.uint64(1):
            base -= x.passing[tau, e]
    weight = x.prefix[tau, WEIGHT, j] - x.prefix[tau, WEIGHT, i] if x.only[tau] < 0 else 0.0
    return base, weight, last, last, 0


def passing_tables(x: Layers, j: int, table: Any, active: Any) -> int:
    """Into `table`, by degree, what edges from outside D_j into a set cost, for each byte of the set.

    Such edges pass by a stage that ends in D_j: the larger and the smaller downset cut them, the stage pays neither.
    Returns how many bytes matter, with their numbers in `active`.
    """
    degrees, octets = x.prefix.shape[0], x.octets.shape[1]
    into = np.zeros((degrees, 8 * octets))
    reached = np.zeros(8 * octets, dtype=np.bool_)
    for e in range(x.from_layer.shape[0]):
        u, v = x.from_layer[e], x.to_layer[e]
        if not (x.bits[j, u >> 6] >> np.uint64(u & 63)) & np.uint64(1):
            # Layers outside D_j are in no smaller downset: what leads to them does not matter.
            if (x.bits[j, v >> 6] >> np.uint64(v & 63)) & np.uint64(1):
                reached[v] = True
            for tau in range(degrees):
                into[tau, v] += x.passing[tau, e]
    count = 0
    for o in range(octets):
        if not reached[8 * o : 8 * o + 8].any():
            continue
        active[count] = o
        count += 1
        for tau in range(degrees):
            table[tau, o, 0] = 0.0
            for b in range(8):
                high = 1 << b
                for low in range(high):
                    table[tau, o, high + low] = table[tau, o, low] + into[tau, 8 * o + b]
    return count


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
            cost[o] = x.time[o] + x.sync[tau] * x.weight[o]
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
        here = fast[h]
        need += x.per_batch[here] * y + x.fixed[here]
        while True:
            best, best_ratio, best_drop, best_rise = next_step(x, v, here, tau, cost, y)
            if best < 0:
                break
            ratio[steps], drop[steps], rise[steps], order[steps] = best_ratio, best_drop, best_rise, steps
            steps += 1
            here = best
    sort_steps(steps, ratio, order)
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


def next_step(x: Layers, v: int, here: int, tau: int, cost: Any, y: int) -> tuple[int, float, float, float]:
    """The steepest way from an option of a layer to a leaner one: option (-1: none), ratio, saving, time."""
    best, best_ratio, best_drop, best_rise = -1, -1.0, 0.0, 0.0
    memory_here = x.per_batch[here] * y + x.fixed[here]
    for o in range(x.option_start[tau, v], x.option_start[tau, v + 1]):
        saved = memory_here - (x.per_batch[o] * y + x.fixed[o])
        if saved > IGNORED_DROP:
            more = max(0.0, cost[o] - cost[here])
            steep = np.inf if more <= 0.0 else saved / more
            if steep > best_ratio or (steep == best_ratio and saved > best_drop):
                best, best_ratio, best_drop, best_rise = o, steep, saved, more
    return best, best_ratio, best_drop, best_rise


def sort_steps(steps: int, ratio: Any, order: Any) -> None:
    """By falling ratio, then by number: by insertion, since they come nearly sorted."""
    for a in range(1, steps):
        b, moved = a, order[a]
        while b > 0 and (
            ratio[order[b - 1]] < ratio[moved] or (ratio[order[b - 1]] == ratio[moved] and order[b - 1] > moved)
        ):
            order[b] = order[b - 1]
            b -= 1
        order[b] = moved


def decide(
    x: Layers,
    t: Table,
    mode: int,
    limit: float,
    devices: int,
    batches: int,
    replicas: Any,
    sync: Any,
    degree: Any,
    rest_work: Any,
    front_size: Any,
    front: Any,
) -> tuple[int, int]:
    """Can everything be placed with all loads within the limit? Fills, for each downset, the front of its plans.

    front[j, n]: (devices, sum of degrees, pair, degree's number, replicas, place in the source's front), by more
    devices and smaller sums; fewer of both are always as good, because loads never fall with the sum. For the same
    reason a stage takes the least number of replicas that keeps the limit. Returns the size of the last front, and
    how many knapsacks were left undecided. `mode` says what a knapsack is: the published greedy, the optimum, or a
    relaxation that no choice is below.
    """
    downsets, degrees, count = rest_work.shape[0], degree.shape[0], replicas.shape[0]
    most = replicas[count - 1]
    pair_source, row, tabled = t.pair_source, t.row, t.row.shape[0] > 0
    prefix, enter, leave, octets = x.prefix, x.enter, x.leave, x.octets
    best = np.empty((devices + 1, 5), dtype=np.int64)
    choice = np.empty(x.edge_start.shape[0], dtype=np.int64)
    least = np.full(downsets, NONE, dtype=np.int64)  # devices, of the first plan in a front
    sparest = np.full(downsets, NONE, dtype=np.int64)  # sum of degrees, of the last plan in a front
    upto = np.empty(devices + 1, dtype=np.int64)  # least sum on so many devices or fewer
    table = np.empty((degrees, octets.shape[1], 256))
    active = np.empty(octets.shape[1], dtype=np.int64)
    enough = np.searchsorted(replicas, np.arange(most + 2))
    per_time = (1 - 1e-12) / limit if limit > 0.0 else 0.0
    hair = 1e-10 * rest_work[0]
    undecided = 0
    front_size[0] = 1
    front[0, 0, :] = 0
    least[0] = sparest[0] = 0
    for j in range(1, downsets):
        front_size[j] = 0
        room = devices - int(np.ceil(rest_work[j] * per_time))
        if room < 1:
            continue
        best[:, 0] = NONE
        upto[:] = NONE
        bytes_active = -1
        for p in range(t.pair_start[j], t.pair_start[j + 1]):
            i = pair_source[p]
            free = room - least[i]
            if free < 1 or np.ceil((rest_work[i] - rest_work[j] - hair) * per_time) > free:
                continue
            r = row[p] if tabled else -1
            for tau in range(degrees):
                if r >= 0:
                    base, weight = t.base[r, tau], t.weight[r, tau]
                    fastest, last, start = t.fastest[r, tau], t.last[r, tau], t.extra_start[r, tau]
                else:
                    base = prefix[tau, TIME, j] - prefix[tau, TIME, i]
                    d = max(1, int(np.ceil(base * per_time)))
                    if d * degree[tau] > free or upto[least[i] + d * degree[tau]] <= sparest[i] + d:
                        continue
                    last = quick_last(x, i, j, tau)
                    if last < 1:
                        continue
                    if bytes_active < 0:
                        bytes_active = passing_tables(x, j, table, active)
                    base += enter[tau, j] + leave[tau, i]
                    for a in range(bytes_active):
                        base -= table[tau, active[a], octets[i, active[a]]]
                    weight = prefix[tau, WEIGHT, j] - prefix[tau, WEIGHT, i] if x.only[tau] < 0 else 0.0
                    fastest, start = last, 0
                if base > limit * most:
                    continue
                d = int(np.ceil(base * per_time))
                if d * degree[tau] > free or d > batches:
                    continue
                if upto[least[i] + d * degree[tau]] <= sparest[i] + d:
                    continue  # no better than what is known
                n = enough[max(d, 0)]  # rounding may leave less than nothing
                left = front_size[i]
                while n < count and left > 0:
                    if x.only[tau] >= 0 and n != x.only[tau]:
                        n += 1
                        continue
                    d = replicas[n]
                    if d * degree[tau] > free or d > batches:
                        break
                    budget = limit * d - sync[n] * weight - base
                    while budget >= 0.0 and left > 0:
                        s = front[i, left - 1, 1] + d
                        y = (s + d - 1) // d
                        if s > batches or y > last:
                            break
                        if y > fastest:
                            e = start + y - fastest - 1
                            if t.upper[e] > budget:
                                if mode == GREEDY or t.lower[e] > budget:
                                    break
                                if mode == EXACT:
                                    answer = settle_knapsack(x, t, i, j, r, tau, y, budget, choice)
                                    undecided += answer < 0
                                    if answer <= 0:
                                        break
                        left -= 1
                        k = front[i, left, 0] + d * degree[tau]
                        if k <= room and s < best[k, 0]:
                            best[k, 0], best[k, 1], best[k, 2], best[k, 3], best[k, 4] = s, p, tau, d, left
                            while k <= devices and upto[k] > s:
                                upto[k] = s
                                k += 1
                    n += 1
        size, fewest = 0, NONE
        for k in range(1, devices + 1):
            if best[k, 0] < fewest:
                fewest = best[k, 0]
                front[j, size, 0] = k
                front[j, size, 1:] = best[k]
                size += 1
        front_size[j] = size
        if size:
            least[j], sparest[j] = front[j, 0, 0], front[j, size - 1, 1]
    return front_size[downsets - 1], undecided


def decide_sums(
    x: Layers,
    t: Table,
    mode: int,
    limit: float,
    devices: int,
    batches: int,
    replicas: Any,
    sync: Any,
    degree: Any,
    came: Any,
) -> tuple[int, int]:
    """The same where the degrees must sum to `batches` exactly: every sum counts, so all of them are kept.

    came[j, k, s]: (pair, degree's number, place of the replicas) of a plan of downset j on k devices with sum s;
    the pair is negative where there is none. Returns the least number of devices for everything, and how many
    knapsacks were left undecided.
    """
    downsets = came.shape[0]
    choice = np.empty(x.edge_start.shape[0], dtype=np.int64)
    undecided = 0
    came[:, :, :, 0] = -1
    came[0, 0, 0, 0] = 0
    for j in range(1, downsets):
        for p in range(t.pair_start[j], t.pair_start[j + 1]):
            i = t.pair_source[p]
            for tau in range(degree.shape[0]):
                base, weight, fastest, last, start = stage_at(x, t, p, i, j, tau)
                for n in range(replicas.shape[0]):
                    d = replicas[n]
                    budget = limit * d - sync[n] * weight - base
                    if not budget >= 0.0 or (x.only[tau] >= 0 and n != x.only[tau]):
                        continue
                    for s in range(d, batches + 1):
                        y = (s + d - 1) // d
                        if y > last:
                            break
                        e = start + y - fastest - 1
                        if y > fastest and t.upper[e] > budget:
                            if mode == GREEDY or t.lower[e] > budget:
                                break
                            if mode == EXACT:
                                answer = settle_knapsack(x, t, i, j, t.row[p], tau, y, budget, choice)
                                undecided += answer < 0
                                if answer <= 0:
                                    break
                        for k in range(d * degree[tau], devices + 1):
                            if came[i, k - d * degree[tau], s - d, 0] >= 0 and came[j, k, s, 0] < 0:
                                came[j, k, s, 0], came[j, k, s, 1], came[j, k, s, 2] = p, tau, n
    for k in range(1, devices + 1):
        if came[downsets - 1, k, batches, 0] >= 0:
            return k, undecided
    return 0, undecided


def fill_values(
    x: Layers, t: Table, exact: bool, first: int, last: int, replicas: Any, sync: Any, degree: Any, value: Any
) -> int:
    """value[j, s, k]: the least largest load of downset j on at most k devices, degrees of at most s in sum.

    For the downsets first..last-1, those before being filled. Returns how many knapsacks were left undecided.
    """
    sums, devices = value.shape[1] - 1, value.shape[2] - 1
    choice = np.empty(x.edge_start.shape[0], dtype=np.int64)
    undecided = 0
    for j in range(first, last):
        here = value[j]
        here[:, :] = np.inf
        for p in range(t.pair_start[j], t.pair_start[j + 1]):
            i = t.pair_source[p]
            there = value[i]
            for tau in range(degree.shape[0]):
                base, weight, fastest, longest, start = stage_at(x, t, p, i, j, tau)
                if base == np.inf:
                    continue
                for n in range(replicas.shape[0]):
                    d = replicas[n]
                    wide = d * degree[tau]
                    if d > sums or wide > devices:
                        break
                    if x.only[tau] >= 0 and n != x.only[tau]:
                        continue
                    load, y = (base + sync[n] * weight) / d, 0
                    for s in range(d, sums + 1):
                        if y != (s + d - 1) // d:
                            y = (s + d - 1) // d
                            if y > longest:
                                break
                            if y > fastest:
                                e = start + y - fastest - 1
                                load = (base + sync[n] * weight + t.lower[e]) / d
                                if exact and load < here[s, wide] and t.lower[e] < t.upper[e]:
                                    undecided += not optimal_knapsack(x, t, i, j, t.row[p], tau, y, choice)
                                load = (base + sync[n] * weight + t.upper[e]) / d
                        for k in range(wide, devices + 1):
                            if load >= here[s, k]:
                                break  # it is no better with more devices either
                            here[s, k] = min(here[s, k], max(load, there[s - d, k - wide]))
        for s in range(1, sums + 1):
            for k in range(1, devices + 1):
                here[s, k] = min(here[s, k], here[s - 1, k], here[s, k - 1])
    return undecided


def optimal_knapsack(x: Layers, t: Table, i: int, j: int, r: int, tau: int, y: int, choice: Any) -> bool:
    """Close the knapsack of a stage; False where that takes too many branches."""
    e = t.extra_start[r, tau] + y - t.fastest[r, tau] - 1
    while t.lower[e] < t.upper[e]:
        budget = np.nextafter(t.upper[e] * (1 - HAIR), -np.inf)
        answer, extra = exact_knapsack(x, i, j, tau, y, budget, choice)
        if answer < 0:
            return False
        if answer == 0:
            t.lower[e] = t.upper[e]
        else:
            t.upper[e] = extra
    return True


def settle_knapsack(x: Layers, t: Table, i: int, j: int, r: int, tau: int, y: int, budget: float, choice: Any) -> int:
    """Solve the knapsack of a stage as far as the budget asks for it, and note what was learned."""
    e = t.extra_start[r, tau] + y - t.fastest[r, tau] - 1
    answer, extra = exact_knapsack(x, i, j, tau, y, budget, choice)
    if answer == 0:
        t.lower[e] = np.nextafter(budget, np.inf)
    elif answer > 0:
        t.upper[e] = extra
    return answer


MAX_BRANCHES = 300_000
"""Of one knapsack; then it is left undecided."""


def exact_knapsack(x: Layers, i: int, j: int, tau: int, y: int, budget: float, choice: Any) -> tuple[int, float]:
    """Is there a choice of options for the stage from downset i to j, y in flight, with no more extra time?

    1 and its extra time, with `choice` filled by layer; 0: none; -1: too many branches. Depth first, layers with
    the best savings per time first; a branch is left when even fractions of the remaining steps cost too much,
    and it ends when the greedy completion is good enough: with an infinite budget that is the greedy choice. Of layers
    that are alike the first saves the most: no other order is better.
    """
    layers = x.edge_start.shape[0] - 1
    mask = np.empty(x.bits.shape[1], dtype=np.uint64)
    for w in range(mask.shape[0]):
        mask[w] = x.bits[j, w] & ~x.bits[i, w]
    held = np.empty(layers, dtype=np.int64)
    count = held_layers(mask, layers, held)
    cost = np.empty(x.time.shape[0])
    options_of(x, mask, held, count, tau, cost)
    scratch = new_scratch(x, layers)
    fastest_stage(x, held, count, tau, cost, scratch)
    fast = scratch[0]
    need = -x.memory
    for h in range(count):
        need += x.per_batch[fast[h]] * y + x.fixed[fast[h]]
        choice[held[h]] = fast[h]
    steps, layer_of = chains(x, held, count, tau, cost, y, scratch)
    _, _, drop, rise, order = scratch
    rank, in_rank, ranked = ranks(count, steps, order, layer_of)
    twin = twins(x, held, tau, cost, in_rank, ranked, fast)
    # Per depth: which option is tried, what is still to be saved and may still be spent.
    trying = np.full(ranked + 1, -1, dtype=np.int64)
    needs = np.empty(ranked + 1)
    budgets = np.empty(ranked + 1)
    saving = np.zeros(ranked + 1)
    spent_before = np.zeros(ranked + 1)
    needs[0], budgets[0] = need, budget
    depth, branches = 0, 0
    while depth >= 0:
        if trying[depth] < 0:
            branches += 1
            if branches > MAX_BRANCHES:
                return -1, 0.0
            fits, spent = complete(depth, needs[depth], budgets[depth], steps, order, layer_of, rank, drop, rise)
            if fits == 1:
                take_greedy(x, held, tau, cost, y, depth, needs[depth], steps, order, layer_of, rank, drop, choice)
                return 1, spent_before[depth] + spent
            if fits < 0 or depth == ranked:
                depth -= 1
                continue
            trying[depth] = x.option_start[tau, held[in_rank[depth]]]
        h = in_rank[depth]
        v = held[h]
        o = trying[depth]
        if o >= x.option_start[tau, v + 1]:
            trying[depth] = -1
            choice[v] = fast[h]
            depth -= 1
            continue
        trying[depth] = o + 1
        saved = (x.per_batch[fast[h]] - x.per_batch[o]) * y + x.fixed[fast[h]] - x.fixed[o]
        extra = cost[o] - cost[fast[h]]
        if (o != fast[h] and saved <= 0.0) or extra > budgets[depth]:
            continue
        if twin[depth] >= 0 and saved > saving[twin[depth]]:
            continue
        choice[v] = o
        saving[depth] = saved
        needs[depth + 1] = needs[depth] - saved
        budgets[depth + 1] = budgets[depth] - extra
        spent_before[depth + 1] = spent_before[depth] + extra
        trying[depth + 1] = -1
        depth += 1
    return 0, 0.0


def chains(
    x: Layers, held: Any, count: int, tau: int, cost: Any, y: int, scratch: tuple[Any, Any, Any, Any, Any]
) -> tuple[int, Any]:
    """The steps of all layers, sorted, and whose step each is."""
    fast, ratio, drop, rise, order = scratch
    layer_of = np.empty(ratio.shape[0], dtype=np.int64)
    steps = 0
    for h in range(count):
        here = fast[h]
        while True:
            best, best_ratio, best_drop, best_rise = next_step(x, held[h], here, tau, cost, y)
            if best < 0:
                break
            ratio[steps], drop[steps], rise[steps], order[steps] = best_ratio, best_drop, best_rise, steps
            layer_of[steps] = h
            steps += 1
            here = best
    sort_steps(steps, ratio, order)
    return steps, layer_of


def ranks(count: int, steps: int, order: Any, layer_of: Any) -> tuple[Any, Any, int]:
    """Layers by their first step; those without any are left out (rank -1)."""
    rank = np.full(count, -1, dtype=np.int64)
    in_rank = np.empty(count, dtype=np.int64)
    ranked = 0
    for a in range(steps):
        h = layer_of[order[a]]
        if rank[h] < 0:
            rank[h], in_rank[ranked] = ranked, h
            ranked += 1
    return rank, in_rank, ranked


ALIKE = 1e-14
"""Relative: costs that differ by no more differ by rounding."""


def twins(x: Layers, held: Any, tau: int, cost: Any, in_rank: Any, ranked: int, fast: Any) -> Any:
    """For each layer by rank the last one before it that need not save less than it does; -1: there is none.

    Two options that save the same in both layers: the earlier one saves it at no higher cost. More options: they have
    to be the same in memory and in what they cost more than the fastest.
    """
    twin = np.full(ranked + 1, -1, dtype=np.int64)
    for r in range(1, ranked):
        h = in_rank[r]
        b, count = x.option_start[tau, held[h]], x.option_start[tau, held[h] + 1] - x.option_start[tau, held[h]]
        for q in range(r - 1, -1, -1):
            g = in_rank[q]
            a = x.option_start[tau, held[g]]
            alike = x.option_start[tau, held[g] + 1] - a == count and fast[g] - a == fast[h] - b
            for o in range(count):
                if not alike:
                    break
                alike = x.per_batch[a + o] == x.per_batch[b + o] and x.fixed[a + o] == x.fixed[b + o]
                apart = (cost[a + o] - cost[fast[g]]) - (cost[b + o] - cost[fast[h]])
                alike = alike and ((count == 2 and apart <= 0.0) or abs(apart) <= ALIKE * cost[b + o])
            if alike:
                twin[r] = q
                break
    return twin


def complete(
    depth: int, need: float, budget: float, steps: int, order: Any, layer_of: Any, rank: Any, drop: Any, rise: Any
) -> tuple[int, float]:
    """The layers from `depth` on: 1 where the greedy steps fit the budget, -1 where not even fractions do, else 0."""
    spent = 0.0
    for a in range(steps):
        if need <= 0.0:
            break
        s = order[a]
        if rank[layer_of[s]] < depth:
            continue
        if drop[s] >= need:
            if spent + rise[s] * (need / drop[s]) > budget:
                return -1, 0.0
            spent += rise[s]
            need = 0.0
        else:
            spent += rise[s]
            need -= drop[s]
    if need > 0.0:
        return -1, 0.0
    return (1, spent) if spent <= budget else (0, 0.0)


def take_greedy(
    x: Layers, held: Any, tau: int, cost: Any, y: int, depth: int, need: float,
    steps: int, order: Any, layer_of: Any, rank: Any, drop: Any, choice: Any,
) -> None:  # fmt: skip
    """Fill `choice` with the greedy steps of the layers from `depth` on."""
    for a in range(steps):
        if need <= 0.0:
            break
        s = order[a]
        if rank[layer_of[s]] >= depth:
            v = held[layer_of[s]]
            choice[v] = next_step(x, v, choice[v], tau, cost, y)[0]
            need -= drop[s]


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
