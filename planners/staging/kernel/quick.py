"""Quick stages, which need no knapsack: sums over the larger downset less sums over the smaller one.

They are computed anew in each decision. That is as fast as reading them from a table, and lattices with tens of
millions of pairs take 4 bytes for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import FIXED, MISSING, PER_BATCH, SEVERAL, TIME, TIME_REST, WEIGHT, WEIGHT_REST, Layers, Table


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
