"""The layers of one stage, what their options cost in it, and the fastest ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .arrays import Layers


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
