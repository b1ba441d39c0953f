"""Filling the table of stages: for each number of micro-batches in flight what the greedy knapsack adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Layers, Table
from .options import fastest_stage, held_layers, new_scratch, next_step, options_of, sort_steps


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
