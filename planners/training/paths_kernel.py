"""The longest path through the passes of a schedule; for numba."""

from __future__ import annotations

from typing import Any

import numpy as np


def longest_path(
    order: Any, homes: Any, chunks: Any, forward: Any, inputs: Any, weights: Any, delays: Any, tails: Any, m: int
) -> Any:
    """Seconds, and the rank on which the path ends, and [(forward, inputs, weights, message), chunk]: how often the
    path has each. The message of a chunk is the one between it and the next chunk, down or up."""
    p, places = order.shape[0], order.shape[1]
    count = homes.shape[0]
    down, up = np.full((count, m), -1.0), np.full((count, m), -1.0)
    # Passes by number: those of rank 0 come first.
    down_pass, up_pass = np.zeros((count, m), np.int64), np.zeros((count, m), np.int64)
    before = np.full(p * places, -1, np.int64)
    by_message = np.zeros(p * places, np.bool_)
    at, free = np.zeros(p, np.int64), np.zeros(p)
    left = p * places
    while left > 0:
        moved = False
        for r in range(p):
            while at[r] < places:
                kind, own, n = order[r, at[r], 0], order[r, at[r], 1], order[r, at[r], 2]
                j, number, start = chunks[r, own], r * places + at[r], free[r]
                before[number] = number - 1 if at[r] > 0 else -1
                if kind == 0:
                    if j > 0:
                        if down[j - 1, n] < 0:
                            break
                        if down[j - 1, n] + delays[j - 1] > start:
                            start = down[j - 1, n] + delays[j - 1]
                            before[number], by_message[number] = down_pass[j - 1, n], True
                    free[r] = start + forward[j]
                    down[j, n], down_pass[j, n] = free[r], number
                elif kind == 3:
                    free[r] = start + weights[j]
                else:
                    if j < count - 1:
                        if up[j + 1, n] < 0:
                            break
                        if up[j + 1, n] + delays[j] > start:
                            start = up[j + 1, n] + delays[j]
                            before[number], by_message[number] = up_pass[j + 1, n], True
                    free[r] = start + inputs[j]
                    if kind == 1:
                        free[r] += weights[j]
                    up[j, n], up_pass[j, n] = free[r], number
                at[r] += 1
                left -= 1
                moved = True
        if not moved:
            break
    last = 0
    for r in range(1, p):
        if free[r] + tails[r] > free[last] + tails[last]:
            last = r
    counts = np.zeros((4, count))
    number = last * places + places - 1
    while number >= 0:
        r, place = number // places, number % places
        kind, j = order[r, place, 0], chunks[r, order[r, place, 1]]
        if kind == 0:
            counts[0, j] += 1
        if kind == 1 or kind == 2:
            counts[1, j] += 1
        if kind == 1 or kind == 3:
            counts[2, j] += 1
        if by_message[number]:
            counts[3, j - 1 if kind == 0 else j] += 1
        number = before[number]
    return free[last] + tails[last], last, counts
