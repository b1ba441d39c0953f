"""Steps from the fastest option of a layer to leaner ones, and the greedy knapsack, which takes the best first."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Layers
from .options import Scratch


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
