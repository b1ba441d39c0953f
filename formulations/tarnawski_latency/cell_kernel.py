"""The loops of the bound by cells, written for compilation; they run as they stand on small graphs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

# The cost of what is impossible.
NEVER = math.inf


class Pairs(NamedTuple):
    """What the pairs of ideals of one cell cost is computed from this.

    An ideal is one of each part of the cell: number i has number i // strides[k + 1] % (strides[k] / strides[k + 1])
    of part k, which has the chains from firsts[k] on. The first ideal is empty, the last one whole.
    """

    place: Any
    """[i, c]: how many nodes of chain c ideal i holds"""
    fast: Any
    slow: Any
    least: Any
    """[c]: times of the first nodes of chain c on an accelerator, on the CPUs, and on the faster of the two"""
    moved: Any
    """[0, c, k, l], [1, c, k, l]: what a piece reads and sends at least that touches the nodes of chain c from k to
    l - 1; [2, c, k, l]: what these take then, one after the other"""
    each: Any
    """what any piece reads and sends"""
    before: Any
    """[i]: load of ideal i as the end of a piece"""
    behind: Any
    """[j]: load of all but ideal j as the beginning of one"""
    steps: Any
    """where their memory is in the table"""
    sizes: Any
    """[c]: memory of the first nodes of chain c"""
    relief: Any
    """what it costs to do with less memory: see `Row.relief`"""
    room: float
    """how much memory a piece has"""
    ratio: float
    gaps: Any
    """scratch space, as is `places`"""
    strides: Any
    twins: Any
    """[k]: is part k equal to the one before? Then of pairs that differ in which is which only one is looked at"""
    firsts: Any
    places: Any


def divisions(x: Pairs, table: Any, begin: int, budget: int) -> int:
    """Fill table[held before, held behind, own pieces, step before, step behind] of one cell with its least costs.

    Begin with ideal `begin`, look at about `budget` pairs, and return the ideal to go on with.
    """
    ideals, parts = x.place.shape[0], x.twins.shape[0]
    lower, upper, since = x.places[0], x.places[1], budget
    for i in range(begin, ideals):
        if budget <= 0:
            return i
        budget -= 1
        twice = False
        for k in range(parts):
            lower[k] = i % x.strides[k] // x.strides[k + 1]
            upper[k] = lower[k]
            twice = twice or (x.twins[k] and lower[k] > lower[k - 1])
        if twice:
            continue
        j = i
        while j >= 0:
            budget -= 1
            _divide_at(x, i, j, table)
            j = _next_above(x, j)
        if since - budget > table[1, 1].size:  # it takes about as long as those pairs
            _spread(table[1, 1])
            since = budget
    return int(ideals)


def _next_above(x: Pairs, j: int) -> int:
    """The next ideal after j that holds all of the lower one, -1 behind the last."""
    lower, upper, strides = x.places[0], x.places[1], x.strides
    for k in range(x.twins.shape[0] - 1, -1, -1):
        size = strides[k + 1]
        end = upper[k - 1] + 1 if x.twins[k] and lower[k] == lower[k - 1] else strides[k] // size
        for number in range(upper[k] + 1, end):
            above = True
            for c in range(x.firsts[k], x.firsts[k + 1]):
                above = above and x.place[lower[k] * size, c] <= x.place[number * size, c]
            if above:
                j += (number - upper[k]) * size
                upper[k] = number
                return int(j)
        j -= (upper[k] - lower[k]) * size
        upper[k] = lower[k]
    return -1


def _divide_at(x: Pairs, i: int, j: int, table: Any) -> None:
    """Lower the table by one division: ideal i goes to the piece before, all but ideal j to the one behind."""
    m, n = x.steps[0, i], x.steps[1, j]
    loads = x.before[i] + x.behind[j]
    first, last = i == 0, j == x.place.shape[0] - 1
    if not (first or last or _promising(x, i, j, table[1, 1, :, m, n], loads)):
        return
    remainders(x, i, j)
    for own in range(table.shape[2]):
        gap = x.gaps[own]
        _lower(table, 1, 1, own, m, n, loads + gap)
        if first:
            _lower(table, 0, 1, own, 0, n, x.behind[j] + gap)
        if last:
            _lower(table, 1, 0, own, m, 0, x.before[i] + gap)
            if first:
                _lower(table, 0, 0, own, 0, 0, gap)


def _spread(table: Any) -> None:
    """Lower the costs of steps with more memory to those of steps with less, whose divisions fit there as well."""
    for own in range(table.shape[0]):
        for m in range(table.shape[1]):
            for n in range(table.shape[2]):
                if m:
                    table[own, m, n] = min(table[own, m, n], table[own, m - 1, n])
                if n:
                    table[own, m, n] = min(table[own, m, n], table[own, m, n - 1])


def pair_of(x: Pairs, held_before: int, held_behind: int, own: int, m: int, n: int, cost: float) -> tuple[int, int]:
    """A pair of ideals that has the cost of one entry of the table of `divisions`."""
    ideals = x.place.shape[0]
    for i in range(ideals if held_before else 1):
        if held_before and (x.steps[0, i] > m or x.before[i] > cost):
            continue
        j = i if held_behind else ideals - 1
        for k in range(x.twins.shape[0]):
            x.places[0, k] = i % x.strides[k] // x.strides[k + 1]
            x.places[1, k] = j % x.strides[k] // x.strides[k + 1]
        while j >= 0:
            loads = (x.before[i] if held_before else 0.0) + (x.behind[j] if held_behind else 0.0)
            if loads <= cost and not (held_behind and x.steps[1, j] > n):
                remainders(x, i, j)
                if loads + x.gaps[own] <= cost:
                    return i, j
            j = _next_above(x, j)
    return 0, ideals - 1


def _promising(x: Pairs, i: int, j: int, known: Any, loads: float) -> bool:
    """Could the pair cost less than the table knows for some number of own pieces?"""
    path, pool, slow, least = 0.0, 0.0, x.slow, x.least
    for c in range(x.place.shape[1]):
        path = max(path, least[c, x.place[j, c]] - least[c, x.place[i, c]])
        pool = max(pool, slow[c, x.place[j, c]] - slow[c, x.place[i, c]])
    cheaper = loads + pool < known[0]
    for own in range(1, known.shape[0]):
        cheaper = cheaper or loads + path < known[own]
    return bool(cheaper)


def _lower(table: Any, a: int, b: int, own: int, m: int, n: int, cost: float) -> None:
    table[a, b, own, m, n] = min(table[a, b, own, m, n], cost)


def remainders(x: Pairs, i: int, j: int) -> None:
    """Fill gaps[own]: a lower bound on the time of what ideal j has beyond ideal i on the CPUs and on `own` pieces."""
    place, fast, slow, least, moved, each, gaps = x.place, x.fast, x.slow, x.least, x.moved, x.each, x.gaps
    chains, most = place.shape[1], gaps.shape[0]
    path, pool, nodes = 0.0, 0.0, 0
    for c in range(chains):
        first, last = place[i, c], place[j, c]
        nodes += last - first
        path = max(path, least[c, last] - least[c, first])
        pool = max(pool, slow[c, last] - slow[c, first])
    for own in range(most):
        gaps[own] = pool if own <= nodes else NEVER
    for slowest in range(chains):  # pieces touch this chain and those that are no faster on the CPUs
        bar = slow[slowest, place[j, slowest]] - slow[slowest, place[i, slowest]]
        work, size, touched, rest, read, sent = 0.0, 0.0, 0, 0.0, 0.0, 0.0
        for c in range(chains):
            first, last = place[i, c], place[j, c]
            time = slow[c, last] - slow[c, first]
            if time < bar:
                rest = max(rest, time)
            elif first < last:
                read += moved[0, c, first, last]
                sent += moved[1, c, first, last]
                work += fast[c, last] - fast[c, first]
                size += x.sizes[c, last] - x.sizes[c, first]
                rest = max(rest, moved[2, c, first, last])
                touched += 1
        shared = NEVER
        for own in range(1, min(most, nodes + 1)):  # so many of them touch these chains, or fewer
            load = work + max(read, own * each[0]) + max(sent, own * each[1])
            time = load / _shared_by(min(own, chains), touched, x.ratio)
            alone = touched - own + 1
            if 0 < alone <= x.ratio:  # then CPUs help only where it costs more time than it saves
                relieved = (load + _relieved(x.relief[alone], size - own * x.room)) / own
                time = max(time, relieved if own == 1 else min(relieved, load / (own - 1 + alone / x.ratio)))
            shared = min(shared, time)
            gaps[own] = min(gaps[own], max(path, rest, shared))


def _relieved(relief: Any, excess: float) -> float:
    """What it costs at least to have so much memory on the CPUs: see `Row.relief`."""
    if excess <= 0:
        return 0.0
    k = 1
    while k < relief.shape[1] - 1 and relief[0, k] < excess:
        k += 1
    share = min(1.0, (excess - relief[0, k - 1]) / (relief[0, k] - relief[0, k - 1]))
    return float(relief[1, k - 1] + share * (relief[1, k] - relief[1, k - 1]))


def _shared_by(own: int, touched: int, ratio: float) -> float:
    """Upper bound on the work of the touched chains, in multiples of the time that they take: see `cells`."""
    if ratio < 1:
        return max(float(own), touched / ratio)
    return own - 1 + max(1.0, (touched - own + 1) / ratio)


def best_row(
    tables: Any, room_before: Any, room_behind: Any, work: Any, sizes: Any, cpu: Any, capacity: float,
    pooled: Any, begun: Any,
) -> float:  # fmt: skip
    """The least cost of a row of cells.

    `tables[j]`: what cell j costs where it is divided, with the memory of its steps in `room_before`, `room_behind`.
    `work[0, j]`, `sizes[0, j]`: of the nodes inside cell j, `work[1, j]`, `sizes[1, j]`: of the cut node behind, where
    an accelerator holds them (work is infinite where none can); `cpu[j]`: of the cut node on the CPUs.
    To be filled, from `NEVER`, with p pieces so far: `pooled[j, p]` where that node is on the CPUs, `begun[j, p, step]`
    where a piece begins in the cell.
    """
    cells, steps = tables.shape[0], tables.shape[4]
    pieces = pooled.shape[1] - 1
    for j in range(cells):
        for p in range(pieces + 1):
            value = pooled[j - 1, p] if j > 0 else (0.0 if p == 0 else NEVER)
            if value < NEVER:
                _divide(tables[j, 0], 0, value, p, pooled[j], begun[j], cpu[j])
        load, held = 0.0, 0.0
        for i in range(j - 1, -1, -1):  # a piece that began in cell i ends in cell j
            load += work[1, i] + (work[0, i + 1] if i < j - 1 else 0.0)
            held += sizes[1, i] + (sizes[0, i + 1] if i < j - 1 else 0.0)
            if load == NEVER or held > capacity:
                break
            for p in range(1, pieces + 1):
                for m in range(steps):
                    value = NEVER
                    for n in range(steps):
                        if held + room_before[j, m] + room_behind[i, n] <= capacity:
                            value = min(value, begun[i, p, n])
                    if value < NEVER:
                        _divide(tables[j, 1], m, value + load, p, pooled[j], begun[j], cpu[j])
    best = NEVER
    for p in range(pieces + 1):
        best = min(best, pooled[cells - 1, p])
    return best


def _divide(table: Any, m: int, value: float, p: int, pooled: Any, begun: Any, cpu: float) -> None:
    """All ways to go on behind a divided cell: with its node on the CPUs, or with a new piece."""
    pieces, steps = begun.shape[0] - 1, begun.shape[1]
    for own in range(min(table.shape[1], pieces - p + 1)):
        pooled[p + own] = min(pooled[p + own], value + table[0, own, m, 0] + cpu)
        if p + own < pieces:
            for n in range(steps):
                begun[p + own + 1, n] = min(begun[p + own + 1, n], value + table[1, own, m, n])
