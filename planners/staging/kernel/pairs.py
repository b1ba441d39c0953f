"""Which stages there are: pairs of nested downsets, and those among them that stand in the table."""

from __future__ import annotations

from typing import Any

from .arrays import FIXED, LEAST, MISSING, PER_BATCH, SEVERAL, Layers


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
                if fixed + each * most <= memory or prefix[tau, SEVERAL, j] - prefix[tau, SEVERAL, i] < 0.5:
                    continue
                if prefix[tau, LEAST, j] - prefix[tau, LEAST, i] <= memory:
                    quick = False
                    break
            if noted:
                row[p] = -1 if quick else rows
            rows += not quick
    return rows
