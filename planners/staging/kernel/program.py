"""Finds the stages and fills their table: for each number of micro-batches in flight what the greedy knapsack adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import FIXED, LEAST, MISSING, PER_BATCH, SEVERAL, Layers, Table
from .options import fastest_stage, held_layers, new_scratch, options_of
from .steps import greedy_knapsack

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
