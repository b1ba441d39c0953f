"""What the loops read: layers, options and edges of a model, and the table of its stages.

Times of a stage are multiplied by its number of replicas d, so that one table serves all d: d times the load is

    base + extra(y) + sync(d) weights,      y = micro-batches in flight,

where base is the time of the fastest options with all transfers, and extra(y) what the knapsack adds so that y
micro-batches in flight fit the memory. extra never falls with y. Beyond `last` nothing fits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Layers(NamedTuple):
    """Layers, their options one behind the other, and their edges."""

    bits: Any
    """uint64[downsets, words]: the layers of each downset, as bits"""
    option_start: Any
    """int64[degrees, layers + 1]: where the options of a layer begin; an option costs `time` + transfers"""
    time: Any
    weight: Any
    per_batch: Any
    """in whole units of memory, as floats: their sums are exact"""
    fixed: Any
    gather_start: Any
    """where the bytes of an option's edges begin, in the order of its layer's edges"""
    gather: Any
    edge_start: Any
    """int64[layers + 1]: where the edges of each layer begin"""
    edge_layer: Any
    """the layer at the other end"""
    edge_time: Any
    memory: Any
    """float[degrees]: what layers may take of a device, in whole units"""
    sync: Any
    """float[degrees]: time per byte of weights that is part of an option's cost; 0 where all options weigh the same"""
    only: Any
    """int64[degrees]: the one number of replicas (by its place) that a row of options is for; negative: for all"""
    most: int
    """no more micro-batches in flight than this"""
    simple: Any
    """bool[degrees]: all options of a layer gather the same, so its fastest one is the same in all stages"""
    prefix: Any
    """float[degrees, 9, downsets], for `simple` ones: see `TIME` and the next"""
    fine: bool
    """Are sums of times and weights kept in two parts?"""
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


# Sums over downsets: what the fastest options take, the least memory with one micro-batch in flight, how many layers
# have no option or several, and the rest of times and weights where one number is not enough for their sum.
#
# Memory is counted in whole units, so that its sums are exact.
TIME, WEIGHT, PER_BATCH, FIXED, LEAST, MISSING, SEVERAL, TIME_REST, WEIGHT_REST = range(9)


class Cluster(NamedTuple):
    """What a plan may use, and which degrees its stages may have."""

    devices: int
    batches: int
    """the data-parallel degrees of all stages sum to no more"""
    replicas: Any
    """int64: data-parallel degrees, ascending"""
    sync: Any
    """float[replicas]: time per byte of weights, times the replicas"""
    degree: Any
    """int64[degrees]: the tensor-parallel degrees"""


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
    """extra(y) of the best choice so far"""
    lower: Any
    """no choice has a smaller extra(y)"""


# ---- Quick stages, which need no knapsack -------------------------------------------------------------------------
# Quick stages, which need no knapsack: sums over the larger downset less sums over the smaller one.
#
# They are computed anew in each decision. That is as fast as reading them from a table, and lattices with tens of
# millions of pairs take 4 bytes for each.


def stage_at(x: Layers, t: Table, p: int, i: int, j: int, tau: int) -> tuple[float, float, int, int, int]:
    """Base, weights, fastest, last, and where extra times begin, of a stage in the table or a quick one."""
    r = t.row[p] if t.row.shape[0] else -1
    if r >= 0:
        return t.base[r, tau], t.weight[r, tau], t.fastest[r, tau], t.last[r, tau], t.extra_start[r, tau]
    last = quick_last(x, i, j, tau)
    if last < 1:
        return np.inf, 0.0, 0, 0, 0
    base = x.prefix[tau, TIME, j] - x.prefix[tau, TIME, i]
    if x.fine:
        base += x.prefix[tau, TIME_REST, j] - x.prefix[tau, TIME_REST, i]
    base += x.enter[tau, j] + x.leave[tau, i]
    for e in range(x.from_layer.shape[0]):
        u, v = x.from_layer[e], x.to_layer[e]
        outside = not (x.bits[j, u >> 6] >> np.uint64(u & 63)) & np.uint64(1)
        if outside and (x.bits[i, v >> 6] >> np.uint64(v & 63)) & np.uint64(1):
            base -= x.passing[tau, e]
    weight = x.prefix[tau, WEIGHT, j] - x.prefix[tau, WEIGHT, i] if x.only[tau] < 0 else 0.0
    if x.fine and x.only[tau] < 0:
        weight += x.prefix[tau, WEIGHT_REST, j] - x.prefix[tau, WEIGHT_REST, i]
    return base, weight, last, last, 0


def quick_last(x: Layers, i: int, j: int, tau: int) -> int:
    """Largest number of micro-batches in flight for which a quick stage has memory; 0: there is no such stage."""
    sums = x.prefix[tau]
    if sums[MISSING, j] - sums[MISSING, i] > 0.5:
        return 0
    fixed, each = sums[FIXED, j] - sums[FIXED, i], sums[PER_BATCH, j] - sums[PER_BATCH, i]
    if fixed + each * x.most <= x.memory[tau]:
        return x.most
    if sums[SEVERAL, j] - sums[SEVERAL, i] > 0.5 or fixed + each > x.memory[tau]:
        return 0
    return int((x.memory[tau] - fixed) / each)


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


# ---- The layers of one stage, what their options cost in it, and the fastest ones ---------------------------------
# The layers of one stage, what their options cost in it, and the fastest ones.


class Scratch(NamedTuple):
    """Room for one stage at a time: the fastest option of each layer, and the steps from there to leaner ones."""

    fast: Any
    """by place in `held`"""
    ratio: Any
    """of a step: memory that it saves for each time that it costs"""
    drop: Any
    """memory that it saves"""
    rise: Any
    """time that it costs"""
    order: Any
    """steps by falling ratio"""


def held_layers(mask: Any, layers: int, held: Any) -> int:
    count = 0
    for v in range(layers):
        if (mask[v >> 6] >> np.uint64(v & 63)) & np.uint64(1):
            held[count] = v
            count += 1
    return count


def options_of(x: Layers, mask: Any, held: Any, count: int, tau: int, cost: Any) -> bool:
    """The cost of each option: time, what its border edges cost, weights where they differ. False: a layer has none."""
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


def new_scratch(x: Layers, layers: int) -> Scratch:
    """Room for the steps of any stage, since a layer has fewer steps than options."""
    most = x.time.shape[0] + 1
    return Scratch(
        np.empty(layers, dtype=np.int64),
        np.empty(most),
        np.empty(most),
        np.empty(most),
        np.empty(most, dtype=np.int64),
    )


def fastest_stage(
    x: Layers, held: Any, count: int, tau: int, cost: Any, scratch: Scratch
) -> tuple[float, float, int]:
    """Time and weights of the fastest options, and how many micro-batches in flight fit with them (-1: not one fits
    with any options)."""
    fast = scratch.fast
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
    if least > x.memory[tau]:
        return base, weight, -1
    y = 0
    if fixed + per_batch <= x.memory[tau]:
        y = x.most if per_batch <= 0.0 else int(min(float(x.most), (x.memory[tau] - fixed) / per_batch))
    return base, weight, y


# ---- Steps to leaner options, and the greedy knapsack -------------------------------------------------------------
# Steps from the fastest option of a layer to leaner ones, and the greedy knapsack, which takes the best first.


def greedy_knapsack(
    x: Layers, held: Any, count: int, tau: int, cost: Any, y: int, scratch: Scratch
) -> tuple[float, float]:
    """Least extra time with y micro-batches in flight: of the greedy choice, and of its linear relaxation.

    Options of a layer that cost more and save memory form a convex chain from the fastest; the greedy takes
    steps of all chains by falling saving per time until the rest fits. Infinite: nothing fits.
    """
    fast, ratio, drop, rise, order = scratch
    need = -x.memory[tau]
    steps = 0
    # Not by `chains`: this is called so often that handing on all arrays once more would take a fifth of the time.
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


def chains(x: Layers, held: Any, count: int, tau: int, cost: Any, y: int, scratch: Scratch) -> tuple[int, Any]:
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


def next_step(x: Layers, v: int, here: int, tau: int, cost: Any, y: int) -> tuple[int, float, float, float]:
    """The steepest way from an option of a layer to a leaner one: option (-1: none), ratio, saving, time."""
    best, best_ratio, best_drop, best_rise = -1, -1.0, 0.0, 0.0
    memory_here = x.per_batch[here] * y + x.fixed[here]
    for o in range(x.option_start[tau, v], x.option_start[tau, v + 1]):
        saved = memory_here - (x.per_batch[o] * y + x.fixed[o])
        if saved > 0.0:
            more = max(0.0, cost[o] - cost[here])
            steep = np.inf if more <= 0.0 else saved / more
            if steep > best_ratio or (steep == best_ratio and saved > best_drop):
                best, best_ratio, best_drop, best_rise = o, steep, saved, more
    return best, best_ratio, best_drop, best_rise


def sort_steps(steps: int, ratio: Any, order: Any) -> None:
    """Sort steps by falling ratio, then by number: by insertion, since they come nearly sorted."""
    for a in range(1, steps):
        b, moved = a, order[a]
        while b > 0 and (
            ratio[order[b - 1]] < ratio[moved] or (ratio[order[b - 1]] == ratio[moved] and order[b - 1] > moved)
        ):
            order[b] = order[b - 1]
            b -= 1
        order[b] = moved


# ---- Finds the stages and fills their table -----------------------------------------------------------------------
# Finds the stages and fills their table: for each number of micro-batches in flight what the greedy knapsack adds.


# ---- Which stages there are: pairs of nested downsets, and those among them that stand in the table --------


def nested_pairs(bits: Any, room: int, pair_start: Any, pair_source: Any) -> int:
    """All pairs of downsets, the smaller inside the larger; -1 where there are more than `room`."""
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


def number_rows(x: Layers, pair_start: Any, pair_source: Any, row: Any) -> int:
    """Count the pairs that may need a knapsack, and write into `row`, unless it is empty, their numbers, or -1 for
    other pairs."""
    prefix, simple, most = x.prefix, x.simple, x.most
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
                memory, fixed = x.memory[tau], prefix[tau, FIXED, j] - prefix[tau, FIXED, i]
                each = prefix[tau, PER_BATCH, j] - prefix[tau, PER_BATCH, i]
                if fixed + each * most <= memory or prefix[tau, SEVERAL, j] - prefix[tau, SEVERAL, i] < 0.5:
                    continue
                if prefix[tau, LEAST, j] - prefix[tau, LEAST, i] <= memory:
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
                    upper, lower = greedy_knapsack(x, held, count, tau, cost, y, scratch)
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
