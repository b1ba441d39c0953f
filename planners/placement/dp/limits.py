"""Which states can be part of a plan with all loads within U, and the tables of the compiled loop for them.

A state is an ideal and the devices used for it: f of the first kind and, as a *way*, numbers of all others.
With p the work on the first kind and c(I) the transfers that I cuts, it is live only if

    p(I) + c(I) <= f U + A(way)      and      p(V \\ I) + c(I) <= (k - f) U + A(the devices left by the way)

Stages on f devices of the first kind hold at most f U of work and transfers together, replicated or not, and all
stages inside I together pay every net that I cuts at least once; so do those outside. A is what the other kinds
can take off the first one: a fractional knapsack of groups by their time there. Where a kind pays no transfers,
a group on it may also save the nets at it, which is added to its value; where it pays them, it may use its time
for transfers instead of work. The same inequalities without c(I) and without those nets are a second bound; both must
hold. Loads of single stages exclude no larger stage: one that is too expensive may well become cheaper by one more
group, which is why only work, size and support may end a search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ....instances.physics.tolerances import SAFETY
from .kernel import DEAD, TILE, Tables
from .lattice import KEY_STEPS, Lattice
from .magnitudes import rounding
from .model import Kind, Model


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
        weight=lattice.prefix(model.weights)[alive],
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
        reach=_reach(model, limit, absorbed),
        room=_room(model, absorbed, way_count),
        slack=slack,
        key_scale=KEY_STEPS / (float(work[0, -1]) or 1.0),
        key_slack=model.count + 1,
        sync=-1.0 if model.sync_bandwidth is None else 1.0 / model.sync_bandwidth,
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


def _reach(model: Model, limit: float, absorbed: Absorption) -> Any:
    """reach[d, r]: the most first-kind work of one stage on r devices of kind d."""
    reach = np.zeros((len(model.kinds), max(kind.count for kind in model.kinds) + 1))
    for d, kind in enumerate(model.kinds):
        for r in range(1, kind.count + 1):
            reach[d, r] = r * limit if d == 0 else absorbed.plain[d][r]
    return reach


def _room(model: Model, absorbed: Absorption, way_count: Any) -> Any:
    """room[way]: the most first-kind work on the other kinds' devices that the way leaves."""
    behind = range(1, len(model.kinds))
    return np.array(
        [sum(absorbed.plain[d][model.kinds[d].count - int(way[d])] for d in behind) for way in way_count], float
    )


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
