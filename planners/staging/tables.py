"""The stages of a model: all pairs of nested downsets, and the knapsacks of those that may need one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...instances.base.compiled import compiled, repays_loading
from .layers import layers_of, option_rows
from .model import PiperModel

if TYPE_CHECKING:
    from .kernel import Cluster, Layers, Table

# Pairs of downsets times options times devices; with fewer the loops run as plain Python, in about a second or less.
# Machine code takes half a second to load, and a quarter of a minute to make where it is not on disk yet.
COMPILED_FROM = 25_000

# Largest number of pairs of nested downsets: 4 bytes each, 8 where some need a knapsack.
MAX_PAIRS = 200_000_000

# Largest number of pairs that need a knapsack times rows of options, of 32 bytes each.
MAX_ENTRIES = 40_000_000

# Room for extra times at first; it doubles whenever it is full.
FIRST_EXTRAS = 1 << 16


class TooManyPairsError(Exception):
    """More stages than the tables may hold."""


@dataclass(frozen=True)
class Tables:
    """What all decisions about a model look at."""

    model: PiperModel
    rows: list[tuple[int, int]]
    """Rows of options: see `option_rows`."""
    cluster: Cluster
    layers: Layers
    table: Table
    extras: int
    """Number of extra times in the table."""


def build_tables(model: PiperModel, tick: Callable[[], None]) -> Tables:
    """The tables of a model. `tick` is called from time to time: it may raise."""
    rows = option_rows(model)
    cluster = _cluster_of(model, rows)
    starts, sources = _pairs(model)
    tick()
    layers = layers_of(model, rows, cluster.sync, most=min(cluster.devices, cluster.batches))
    row, count = _row_numbers(model, layers, starts, sources)
    tick()
    table, extras = _tabulated(model, layers, _empty_table(starts, sources, row, (count, len(rows))), tick)
    return Tables(model, rows, cluster, layers, table, extras)


def loop(model: PiperModel, name: str) -> Callable[..., Any]:
    """A loop of the kernel: compiled, but for models so small that it would not repay the loading."""
    from . import kernel

    plain: Callable[..., Any] = getattr(kernel, name)
    pairs = model.downsets * (model.downsets - 1) // 2
    work = pairs * len(option_rows(model)) * model.problem.devices
    return compiled(kernel, name) if repays_loading(work, COMPILED_FROM) else plain


def _cluster_of(model: PiperModel, rows: list[tuple[int, int]]) -> Cluster:
    from . import kernel

    return kernel.Cluster(
        devices=model.problem.devices,
        batches=model.problem.micro_batches,
        replicas=model.replicas,
        sync=np.array([model.sync_time(int(d)) for d in model.replicas]),
        degree=np.array([model.degrees[tau] for tau, _ in rows], dtype=np.int64),
    )


def _pairs(model: PiperModel) -> tuple[Any, Any]:
    starts = np.zeros(model.downsets + 1, dtype=np.int64)
    room = min(MAX_PAIRS, model.downsets * (model.downsets - 1) // 2)
    sources = np.empty(room, dtype=np.int32)  # memory is taken only as it is filled
    count = loop(model, "nested_pairs")(model.bits, room, starts, sources)
    if count < 0:
        raise TooManyPairsError
    sources.resize(count, refcheck=False)
    return starts, sources


def _row_numbers(model: PiperModel, layers: Layers, starts: Any, sources: Any) -> tuple[Any, int]:
    """The row of each pair, and how many rows there are; empty where no pair needs one."""
    number, none = loop(model, "number_rows"), np.empty(0, dtype=np.int32)
    count = number(layers, starts, sources, none)
    if count * len(layers.only) > MAX_ENTRIES:
        raise TooManyPairsError
    if not count:
        return none, 0
    row = np.empty(len(sources), dtype=np.int32)
    number(layers, starts, sources, row)
    return row, count


def _empty_table(starts: Any, sources: Any, row: Any, shape: tuple[int, int]) -> Table:
    from . import kernel

    return kernel.Table(
        pair_start=starts,
        pair_source=sources,
        row=row,
        base=np.full(shape, np.inf),
        weight=np.zeros(shape),
        fastest=np.zeros(shape, dtype=np.int32),
        last=np.zeros(shape, dtype=np.int32),
        extra_start=np.zeros(shape, dtype=np.int64),
        upper=np.empty(FIRST_EXTRAS),
        lower=np.empty(FIRST_EXTRAS),
    )


def _tabulated(model: PiperModel, layers: Layers, table: Table, tick: Callable[[], None]) -> tuple[Table, int]:
    """The table with all rows, and how many extra times it holds."""
    if not len(table.row):
        return table, 0
    starts = table.pair_start
    tabulate = loop(model, "tabulate")
    at, used = 1, 0
    while at < model.downsets:
        last = min(model.downsets, at + max(1, 2_000_000 // max(1, int(starts[at + 1] - starts[at]))))
        at, used = tabulate(layers, table, at, last, used)
        if at < last:
            more = np.empty(len(table.upper))
            table = table._replace(
                upper=np.concatenate([table.upper, more]), lower=np.concatenate([table.lower, more])
            )
        tick()
    return table, used
