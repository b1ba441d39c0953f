"""The pruned program on a large lattice: is there a plan below a limit, and which is the best of these?

A run under the limit U is exact for all plans with loads below U: none of their states is pruned (`limits`). So
a run that finds a plan has found an optimal one, and a run that finds none proves that U is a lower bound.
Limits start near the lower bound and grow, because a low limit prunes much; the last one is the best known value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....instances.base.clock import now
from .dense import Stage
from .lattice import Lattice
from .limits import Limited, limited

# ---- What a search reports while it runs -------------------------------------------------------------------


@dataclass
class Progress:
    """What a search has done so far; `hear` is told now and then, and may raise to stop it."""

    hear: Callable[[Progress], None] = lambda progress: None
    bound: float = 0.0
    limit: float | None = None
    done: int = 0
    """Ideals of the present run whose values are final, ..."""
    of: int = 0
    """... and all its live ideals."""
    pairs: int = 0
    runs: int = 0
    warm_up_seconds: float = 0.0


# Relative: how far the first limit is above the lower bound; the distance doubles every time.
FIRST_STEP = 0.0025

# Known value divided by the lower bound: up to this the known value is the only limit that is tried.
NEAR_ENOUGH = 1.05

# Seconds that one call of the compiled loop should take, about: between calls we look at the clock.
CHUNK_SECONDS = 0.2

# Number of targets from which on it pays to share a chunk's work among threads.
PARALLEL_FROM = 20_000


def limits_to_try(bound: float, known: float) -> Iterator[float]:
    """Growing limits, the last one being the known value."""
    if bound > 0 and known > bound * NEAR_ENOUGH:
        step = FIRST_STEP
        while bound * (1 + step) < known:
            yield bound * (1 + step)
            step *= 2
    yield known


def best_plan(
    lattice: Lattice, bound: float, known: float, progress: Progress, threads: int = 1
) -> tuple[float, list[Stage]] | None:
    """The optimum among the plans of this lattice that are better than `known`; None where there is none.

    `progress.bound` grows with every limit that is refuted; it is valid for plans of this lattice only.
    """
    progress.bound = bound
    for limit in limits_to_try(bound, known):
        progress.limit = limit
        progress.runs += 1
        answer = run(lattice, limit, progress, threads)
        if answer is not None:
            progress.bound = answer[0]
            return answer
        progress.bound = max(progress.bound, limit)
        progress.hear(progress)
    return None


def run(lattice: Lattice, limit: float, progress: Progress, threads: int = 1) -> tuple[float, list[Stage]] | None:
    """The value and the stages of the best plan with all loads below the limit; None: there is none."""
    limits = limited(lattice, limit)
    if limits is None:
        return None
    _forward(limits, limits.values, limit, progress, threads)
    final = _values_of(limits, len(limits.alive) - 1)
    place = int(np.argmin(final))
    if not math.isfinite(final[place]):
        return None
    return float(final[place]), [
        Stage(stage.kind, stage.devices, int(limits.alive[stage.smaller]), int(limits.alive[stage.larger]))
        for stage in _backward(limits, place)
    ]


def _forward(limits: Limited, values: Any, limit: float, progress: Progress, threads: int) -> None:
    """Carry values from the empty ideal on to all others, chunk by chunk, and report after each chunk."""
    from concurrent.futures import ThreadPoolExecutor

    process = _loop(limits, values, progress)
    count = len(limits.alive)
    progress.of = count
    first, size = 0, 64
    with ThreadPoolExecutor(threads) as pool:
        while first < count:
            began = now()
            last = min(count, first + size)
            progress.pairs += process(limits.tables, values, limit, first, last, first, last, 0, 1)
            if count - last < PARALLEL_FROM or threads == 1:
                progress.pairs += process(limits.tables, values, limit, first, last, last, count, 0, 1)
            else:
                parts = [
                    pool.submit(process, limits.tables, values, limit, first, last, last, count, part, threads)
                    for part in range(threads)
                ]
                progress.pairs += sum(part.result() for part in parts)
            seconds = now() - began
            first, progress.done = last, last
            size = max(16, min(4 * size, int(size * CHUNK_SECONDS / max(seconds, 1e-3))))
            progress.hear(progress)


def _loop(limits: Limited, values: Any, progress: Progress) -> Callable[..., int]:
    """The compiled loop; `progress` notes the time that it takes to load."""
    from ....instances.base.compiled import compiled
    from . import kernel

    began = now()
    process = compiled(kernel, "process")
    process(limits.tables, values, 0.0, 0, 0, 0, 0, 0, 1)  # nothing to do, but now it is loaded
    if not progress.warm_up_seconds:
        progress.warm_up_seconds = now() - began
    return process


def _values_of(limits: Limited, ideal: int) -> Any:
    """Values of an ideal's states, infinite for those that are not live."""
    t = limits.tables
    ways = len(t.room)
    origin = int(t.origin[ideal])
    values = limits.values[origin + int(t.lowest[ideal]) * ways : origin + (int(t.highest[ideal]) + 1) * ways]
    return np.where(values < 0, np.inf, values)


def _backward(limits: Limited, place: int) -> list[Stage]:
    """Stages of the best plan, last to first: a state's value is that of some state before it, or the stage's load."""
    t = limits.tables
    ways = len(t.room)
    ideal = len(t.key) - 1
    use, way = int(t.lowest[ideal]) + place // ways, place % ways
    stages = []
    while ideal > 0:
        stage, use, way = _step_back(limits, ideal, use, way)
        stages.append(stage)
        ideal = stage.smaller
    return stages


def _step_back(limits: Limited, j: int, use: int, way: int) -> tuple[Stage, int, int]:
    """A stage that ends in ideal j and explains its value, and the devices that the stages before it have."""
    t = limits.tables
    ways = len(t.room)
    value = limits.values[t.origin[j] + use * ways + way]
    crossing = np.maximum(t.cut[:j] + t.cut[j] - _shared_with(limits, j), 0.0)
    nested = ~(t.bits[:, :j] & ~t.bits[:, j : j + 1]).any(axis=0)
    best: tuple[float, Stage, int, int] | None = None
    for d in range(len(t.count)):
        plain = t.work[d, j] - t.work[d, :j] + t.pays[d] * crossing
        fits = nested & (t.size[j] - t.size[:j] <= t.capacity[d]) & (t.barred[d, j] == t.barred[d, :j])
        most = (use if d == 0 else int(t.way_count[way, d])) if t.sync >= 0 and t.pays[d] else 1
        for r in range(1, most + 1):
            use_before, way_before = (use - r, way) if d == 0 else (use, way - r * int(t.stride[d]))
            if use_before < 0 or (d > 0 and t.way_count[way, d] < r):
                continue
            sources = np.flatnonzero((t.lowest[:j] <= use_before) & (use_before <= t.highest[:j]) & fits)
            before = limits.values[t.origin[sources] + use_before * ways + way_before]
            sources, before = sources[before >= 0], before[before >= 0]
            if not len(sources):
                continue
            loads = plain[sources] / r
            if r > 1:
                loads += 4.0 * (r - 1) / r * (t.weight[j] - t.weight[sources]) / r * t.sync
            total = np.maximum(before, loads)
            x = int(np.argmin(total))
            if best is None or total[x] < best[0]:
                best = (float(total[x]), Stage(d, r, int(sources[x]), j), use_before, way_before)
    if best is None or best[0] > value * (1 + 1e-9) + limits.rounding:
        raise AssertionError(f"no stage explains the value {value} of ideal {j}")
    return best[1:]


def _shared_with(limits: Limited, j: int) -> Any:
    """For all i < j, what is to be subtracted from cut(i) + cut(j): see `lattice`."""
    t = limits.tables
    shared = np.zeros(j)
    for e in np.flatnonzero((t.row_start <= j) & (j < t.row_end)):
        start, pins = int(t.row_start[e]), int(t.row_pins[e])
        row = t.inside[t.row_place[e] + start : t.row_place[e] + j + 1]
        here = int(row[-1])
        if 0 < here < pins:
            earlier = row[:-1]
            shared[start:j] += t.row_cost[e] * ((earlier > 0) * (1.0 + (earlier == here)))
    return shared
