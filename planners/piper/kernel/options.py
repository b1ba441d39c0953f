"""The layers of one stage and what their options cost in it; the fastest ones, and the steps to leaner ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Layers

IGNORED_DROP = 1e-9
"""Bytes: the published greedy takes no option that saves less."""


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
