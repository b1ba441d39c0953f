"""The pruned program on a large lattice: is there a plan below a limit, and which is the best of these?

A run under the limit U is exact for all plans with loads below U: none of their states is pruned (`limited`). So
a run that finds a plan has found an optimal one, and a run that finds none proves that U is a lower bound.
Limits start near the lower bound and grow, because a low limit prunes much; the last one is the best known value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ...instances.base.clock import now
from ...instances.physics.tolerances import SAFETY
from .dp_dense import Stage
from .dp_kernel import DEAD, TILE, Tables
from .ideals import KEY_STEPS, Kind, Lattice, Model, rounding

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


def best_plan(
    lattice: Lattice, bound: float, known: float, progress: Progress, threads: int = 1
) -> tuple[float, list[Stage]] | None:
    """The optimum among the plans of this lattice that are better than `known`; None where there is none.

    `progress.bound` grows with every limit that is refuted; it is valid for plans of this lattice only.
    """
    progress.bound, step = bound, FIRST_STEP
    limits = []
    while bound > 0 and known > bound * NEAR_ENOUGH and bound * (1 + step) < known:
        limits.append(bound * (1 + step))
        step *= 2
    for limit in (*limits, known):
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
    _forward(limits, limit, progress, threads)
    t = limits.tables
    final = limits.values[int(t.origin[-1]) + int(t.lowest[-1]) * len(t.room) :]  # of the whole
    final = np.where(final < 0, np.inf, final)
    place = int(np.argmin(final))
    if not math.isfinite(final[place]):
        return None
    return float(final[place]), [
        Stage(stage.kind, int(limits.alive[stage.smaller]), int(limits.alive[stage.larger]))
        for stage in _backward(limits, place)
    ]


def _forward(limits: Limited, limit: float, progress: Progress, threads: int) -> None:
    """Carry values from the empty ideal on to all others, chunk by chunk, and report after each chunk."""
    from concurrent.futures import ThreadPoolExecutor

    from ...instances.base.compiled import compiled
    from . import dp_kernel

    began = now()
    process, values = compiled(dp_kernel, "process"), limits.values
    process(limits.tables, values, 0.0, 0, 0, 0, 0, 0, 1)  # nothing to do, but now it is loaded
    if not progress.warm_up_seconds:
        progress.warm_up_seconds = now() - began
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


def _backward(limits: Limited, place: int) -> Iterator[Stage]:
    """Stages of the best plan, last to first: a state's value is that of some state before it, or the stage's load."""
    t = limits.tables
    ideal = len(t.key) - 1
    use, way = int(t.lowest[ideal]) + place // len(t.room), place % len(t.room)
    while ideal > 0:
        stage, use, way = _step_back(limits, ideal, use, way)
        yield stage
        ideal = stage.smaller


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
        use_before, way_before = (use - 1, way) if d == 0 else (use, way - int(t.stride[d]))
        if use_before < 0 or (d > 0 and not t.way_count[way, d]):
            continue
        sources = np.flatnonzero((t.lowest[:j] <= use_before) & (use_before <= t.highest[:j]) & fits)
        before = limits.values[t.origin[sources] + use_before * ways + way_before]
        sources, before = sources[before >= 0], before[before >= 0]
        if not len(sources):
            continue
        total = np.maximum(before, plain[sources])
        x = int(np.argmin(total))
        if best is None or total[x] < best[0]:
            best = (float(total[x]), Stage(d, int(sources[x]), j), use_before, way_before)
    if best is None or best[0] > value * (1 + 1e-9) + limits.rounding:
        raise AssertionError(f"no stage explains the value {value} of ideal {j}")
    return best[1:]


def _shared_with(limits: Limited, j: int) -> Any:
    """For all i < j, what is to be subtracted from cut(i) + cut(j): see `ideals`."""
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


# ---- Which states can be part of a plan with all loads within U, and their tables ---------------------------------
# Which states can be part of a plan with all loads within U, and the tables of the compiled loop for them.
#
# A state is an ideal and the devices used for it: f of the first kind and, as a *way*, numbers of all others.
# With p the work on the first kind and c(I) the transfers that I cuts, it is live only if
#
#     p(I) + c(I) <= f U + A(way)      and      p(V \ I) + c(I) <= (k - f) U + A(the devices left by the way)
#
# Stages on f devices of the first kind hold at most f U of work and transfers together, and all stages inside I
# together pay every net that I cuts at least once; so do those outside. A is what the other kinds can
# take off the first one: a fractional knapsack of groups by their time there. Where a kind pays no transfers, a group
# on it may also save the nets at it, which is added to its value; where it pays them, it may use its time for
# transfers instead of work. The same inequalities without c(I) and without those nets are a second bound; both must
# hold. Loads of single stages exclude no larger stage: one that is too expensive may well become cheaper by one more
# group, which is why only work, size and support may end a search.


@dataclass(frozen=True)
class Limited:
    """The tables for one limit. `alive[x]`: position in the lattice of the x-th live ideal."""

    tables: Tables
    alive: Any
    values: Any
    """The value of each state, which a run improves in place: at first 0 at the empty ideal, infinite at all others."""
    rounding: float
    """By how much rounding may make a load wrong."""


def limited(lattice: Lattice, limit: float) -> Limited | None:
    """The tables for a limit; None: not even the bounds allow a plan within it."""
    model = lattice.model
    absorbed = Absorption.of(model, limit)
    way_count, stride = _ways(model)
    first_use, last_use = _uses(lattice, limit, way_count, absorbed)
    live = (first_use <= last_use).any(axis=1)
    if first_use[0, 0] > last_use[0, 0] or not live[-1]:
        return None
    alive = np.flatnonzero(live)
    lowest, highest, origin, values = _places(first_use[alive], last_use[alive])
    work = np.array([lattice.prefix(kind.work)[alive] for kind in model.kinds])
    slack = SAFETY * (float(work[0, -1]) or 1.0)
    # The most first-kind work of one stage on a device of each kind, and on the devices that a way leaves.
    behind = range(1, len(model.kinds))
    reach = np.array([limit, *(absorbed.plain[d][1] for d in behind)])
    room = [sum(absorbed.plain[d][model.kinds[d].count - int(way[d])] for d in behind) for way in way_count]
    bits = np.ascontiguousarray(lattice.bits[alive].T)
    tables = Tables(
        bits=bits,
        common=np.bitwise_and.reduceat(bits, np.arange(0, len(alive), TILE), axis=1),
        key=lattice.key[alive],
        work=work,
        barred=np.array(
            [lattice.prefix([float(not ok) for ok in kind.supported])[alive] for kind in model.kinds],
            dtype=np.int32,
        ),
        size=lattice.prefix(model.sizes)[alive],
        cut=lattice.cut.sum(axis=0)[alive],
        lowest=lowest,
        highest=highest,
        origin=origin,
        **_net_tables(lattice, alive),
        pays=np.array([float(kind.pays) for kind in model.kinds]),
        count=np.array([kind.count for kind in model.kinds], dtype=np.int64),
        capacity=np.array([kind.capacity for kind in model.kinds]),
        stride=stride,
        way_count=way_count,
        reach=reach,
        room=np.array(room, float),
        slack=slack,
        key_scale=KEY_STEPS / (float(work[0, -1]) or 1.0),
        key_slack=model.count + 1,
    )
    return Limited(tables, alive, values, rounding(lattice))


def _places(first_use: Any, last_use: Any) -> tuple[Any, Any, Any, Any]:
    """Where each state keeps its value, and the values at the start: 0 for the first state, infinite for other live
    ones, DEAD for the rest."""
    ways = first_use.shape[1]
    none = first_use > last_use
    lowest = np.where(none, np.iinfo(np.int32).max, first_use).min(axis=1)
    highest = np.where(none, -1, last_use).max(axis=1)
    widths = (highest - lowest + 1).astype(np.int64)
    base = np.concatenate([[0], np.cumsum(widths * ways)[:-1]])
    uses = np.arange(int(widths.sum())) - np.repeat(base // ways - lowest, widths)
    live = (uses[:, None] >= np.repeat(first_use, widths, axis=0)) & (
        uses[:, None] <= np.repeat(last_use, widths, axis=0)
    )
    values = np.where(live, np.inf, DEAD).reshape(-1)
    values[0] = 0.0  # nothing done, nothing used
    return lowest, highest, base - lowest.astype(np.int64) * ways, values


def _ways(model: Model) -> tuple[Any, Any]:
    """All combinations of numbers of devices of the kinds behind the first, in mixed radix."""
    counts = [kind.count for kind in model.kinds[1:]]
    way_count = np.array([(0, *way) for way in product(*(range(count + 1) for count in counts))], dtype=np.int64)
    stride = [0] * len(model.kinds)
    step = 1
    for d in range(len(model.kinds) - 1, 0, -1):
        stride[d], step = step, step * (model.kinds[d].count + 1)
    return way_count, np.array(stride, dtype=np.int64)


def _uses(lattice: Lattice, limit: float, way_count: Any, absorbed: Absorption) -> tuple[Any, Any]:
    """For each ideal and way, the least and the greatest number of first-kind devices of a live state."""
    model = lattice.model
    first = model.kinds[0]
    work = lattice.prefix(first.work)
    cut = lattice.cut.sum(axis=0) * float(first.pays)
    slack = SAFETY * (float(work[-1] + cut.max()) or 1.0)
    used, left = (
        way_count[:, 1:],
        np.array([kind.count for kind in model.kinds[1:]], dtype=np.int64) - way_count[:, 1:],
    )

    def devices(amount: Any, counts: Any, table: list[list[float]]) -> Any:
        taken = np.array([sum(table[d][int(n)] for d, n in enumerate(row, start=1)) for row in counts], dtype=float)
        excess = amount[:, None] - taken[None, :] - slack
        need = excess / limit if limit > 0 else np.where(excess > 0, first.count + 1.0, 0.0)
        return np.clip(np.ceil(need), 0, first.count + 1).astype(np.int32)

    first_use = np.maximum(devices(work + cut, used, absorbed.saving), devices(work, used, absorbed.plain))
    rest = work[-1] - work
    last_use = first.count - np.maximum(
        devices(rest + cut, left, absorbed.saving), devices(rest, left, absorbed.plain)
    )
    return first_use, last_use.astype(np.int32)


@dataclass(frozen=True)
class Absorption:
    """What the other kinds can take off the first one within the limit."""

    plain: list[list[float]]
    """plain[d][n]: the most first-kind work on n devices of kind d"""
    saving: list[list[float]]
    """the same, with the transfers that it may save"""

    @classmethod
    def of(cls, model: Model, limit: float) -> Absorption:
        first = model.kinds[0]
        worth = list(first.work)
        saved = list(worth)
        for pins, cost, _ in model.nets:
            for g in pins:
                saved[g] += cost
        plain, saving = [], []
        for kind in model.kinds:
            capacities = [n * limit for n in range(kind.count + 1)]
            plain.append([_knapsack(model, worth, kind, capacity) for capacity in capacities])
            most = worth if kind.pays else saved
            saving.append([_knapsack(model, most, kind, capacity, kind.pays) for capacity in capacities])
        return cls(plain, saving)


def _knapsack(model: Model, worth: Sequence[float], kind: Kind, capacity: float, transfers: bool = False) -> float:
    """The best worth of fractions of groups whose time on the kind is within the capacity.

    `transfers`: time may be spent on transfers as well, and is then worth as much as it is long.
    """
    if capacity <= 0:
        return 0.0
    items = [(worth[g], kind.work[g]) for g in range(model.count) if kind.supported[g] and worth[g] > 0]
    total = math.fsum(value for value, time in items if time <= 0)
    for value, time in sorted((item for item in items if item[1] > 0), key=lambda item: item[1] / item[0]):
        if transfers and time > value:
            break
        share = min(1.0, capacity / time)
        total += share * value
        capacity -= share * time
        if capacity <= 0:
            break
    return total + capacity if transfers and capacity > 0 else total


def _net_tables(lattice: Lattice, alive: Any) -> dict[str, Any]:
    """The tables of nets: the rows of the lattice without ideals that are not live, one behind the other."""
    rows = [row for row in lattice.rows if row.end > row.start and row.cost > 0]
    start = np.array([np.searchsorted(alive, row.start) for row in rows], dtype=np.int64)
    end = np.array([np.searchsorted(alive, row.end) for row in rows], dtype=np.int64)
    kept = [row.inside[alive[a:b] - row.start] for row, a, b in zip(rows, start, end, strict=True)]
    lengths = np.array([len(row) for row in kept], dtype=np.int64)
    dtype = np.uint8 if all(row.dtype == np.uint8 for row in kept) else np.uint32
    return {
        "row_cost": np.array([row.cost for row in rows], dtype=float),
        "row_pins": np.array([row.pins for row in rows], dtype=np.int64),
        "row_start": start,
        "row_end": end,
        "row_place": np.cumsum(lengths) - lengths - start,
        "inside": np.concatenate([row.astype(dtype) for row in kept]) if rows else np.zeros(0, dtype=np.uint8),
    }
