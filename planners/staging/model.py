"""A staging problem as arrays: layers in reverse topological order, their options by degree, their edges.

A *downset* holds with a layer all that comes after it: what remains to be run behind some stage. Downsets are the
ideals of the reversed graph, so they come from the same enumeration as those of the placement problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...instances.base.checks import NodeId, check_whole
from ...instances.base.compiled import compiled, repays_loading
from ...instances.base.errors import InputError
from ...instances.physics.tolerances import SAFETY
from ...instances.staging.problem import Configuration, StagingProblem
from ..placement.ideals import MOST_IDEALS, TooManyIdealsError, held, ideal_bits, sums
from ..registry import MAX_DOWNSETS
from . import kernel
from .costs import TRIPS, Bytes, StagingMemory, sync_seconds, whole_memory
from .kernel import Cluster, Layers, Table

# Relative: bounds on sums of work are relaxed by this.
ROUNDING = 1e-11


@dataclass(frozen=True)
class PiperModel:
    """`order[v]`: position in the problem of layer v; `ways[tau][v]`: its configurations of the tau-th degree."""

    problem: StagingProblem
    semantics: str
    order: tuple[int, ...]
    degrees: tuple[int, ...]
    ways: tuple[tuple[tuple[Configuration, ...], ...], ...]
    places: tuple[tuple[tuple[int, ...], ...], ...]
    """where each of the ways stands among its layer's, by which `memory` knows what it holds"""
    memory: StagingMemory
    bits: Any
    """uint64[downsets, words], by growing inclusion: 0 is empty, the last is everything"""
    rest_work: Any
    """per downset: the least device time of all layers outside"""
    replicas: Any
    """data-parallel degrees that may be chosen, ascending"""
    uniform: bool
    """Do all options of a layer and degree have the same weights, and hold the same in any number of replicas? Then one
    table serves all of them."""

    @property
    def layers(self) -> int:
        return len(self.order)

    @property
    def downsets(self) -> int:
        return len(self.bits)

    def limit(self, tau: int, copies: int) -> float:
        """What the layers of a stage may take of a device, in whole units."""
        limit = self.memory.limit(0, self.degrees[tau], copies)
        return math.inf if limit is None else float(limit)

    def bytes(self, tau: int, v: int, copies: int) -> tuple[Bytes, ...]:
        """What each way of a layer holds in so many copies, in whole units."""
        held = self.memory.held(self.order[v], self.degrees[tau], copies)
        return tuple(held[place] for place in self.places[tau][v])

    def inside(self) -> PiperModel:
        """The model with slightly less memory, so that rounding cannot make anything fit."""
        return replace(self, memory=self.memory.inside())

    def sync_time(self, replicas: int) -> float:
        """Time per byte of weights, times the number of replicas: what d replicas add to d times the load."""
        samples = replicas if self.semantics == "paper" else self.problem.micro_batches
        return sync_seconds(self.problem, replicas, samples, self.problem.bandwidth)


@dataclass(frozen=True)
class Restriction:
    """The degrees and configurations that a planner may choose from: this makes the baselines."""

    allowed: Callable[[int, Configuration], bool] = lambda degree, way: True
    replicas: Callable[[int], bool] = lambda d: True


def model_of(problem: StagingProblem, options: Any, restriction: Restriction = Restriction()) -> PiperModel:
    """The model, or an `InputError` where there are too many downsets."""
    most = options.get("max_downsets", MAX_DOWNSETS.default)
    check_whole("option max_downsets", most, MOST_IDEALS)
    try:
        return build(problem, options.get("semantics", "paper"), restriction, most)
    except TooManyIdealsError:
        raise InputError(
            "layers",
            f"have more than {most} downsets",
            "merge parallel layers, or give --option max-downsets for more",
        ) from None


def build(
    problem: StagingProblem,
    semantics: str = "paper",
    restriction: Restriction = Restriction(),
    max_downsets: int = 20_000,
) -> PiperModel:
    """The model of a problem, with all downsets."""
    order = tuple(reversed(problem.topological_order))
    number = {i: v for v, i in enumerate(order)}
    before = [sorted({number[j] for j in problem.successors[i]}) for i in order]
    return _model(problem, semantics, restriction, ideal_bits(before, max_downsets))


def from_downsets(
    problem: StagingProblem, downsets: Sequence[Collection[int]], semantics: str, restriction: Restriction
) -> PiperModel:
    """Stages only between these downsets (positions of layers), the empty one and that of all layers among them."""
    number = {i: v for v, i in enumerate(reversed(problem.topological_order))}
    bits = np.zeros((len(downsets), -(-len(number) // 64)), dtype=np.uint64)
    for row, members in zip(bits, downsets, strict=True):
        for i in members:
            row[number[i] >> 6] |= np.uint64(1 << (number[i] & 63))
    return _model(problem, semantics, restriction, bits)


def _model(problem: StagingProblem, semantics: str, restriction: Restriction, bits: Any) -> PiperModel:
    order = tuple(reversed(problem.topological_order))
    degrees, most = problem.degrees, min(problem.devices, problem.micro_batches)
    kept = [[_kept(problem, i, t, restriction) for i in order] for t in degrees]
    ways = tuple(tuple(tuple(way for way, _ in pairs) for pairs in row) for row in kept)
    places = tuple(tuple(tuple(place for _, place in pairs) for pairs in row) for row in kept)
    work = [
        min((t * way.time for t, row in zip(degrees, ways, strict=True) for way in row[v]), default=0.0)
        for v in range(len(order))
    ]
    # Stable: a downset stands behind all that it contains, since those have fewer layers.
    bits = bits[np.argsort(sums(bits, [1.0] * len(order)), kind="stable")]
    inside = sums(bits, work)
    # Lowered by what rounding may have added: a trace above 0 would cost a device.
    rest_work = np.maximum(inside[-1] - inside - ROUNDING * inside[-1], 0.0)
    replicas = [
        d
        for d in range(1, (most if problem.replication else min(1, most)) + 1)
        if (semantics == "paper" or problem.micro_batches % d == 0) and restriction.replicas(d)
    ]
    alike = all(len({way.weight_bytes for way in row}) <= 1 for rows in ways for row in rows)
    return PiperModel(
        *(problem, semantics, order, degrees, ways, places, whole_memory(problem, most), bits, rest_work),
        np.array(replicas, dtype=np.int64),
        not problem.zero and alike,
    )


def _kept(
    problem: StagingProblem, i: int, degree: int, restriction: Restriction
) -> list[tuple[Configuration, int]]:
    ways = problem.layers[i].configurations.get(degree, ())
    return [(way, place) for place, way in enumerate(ways) if restriction.allowed(degree, way)]


# ---- Layers and options as the loops read them --------------------------------------------------------------------
# What the compiled loops know about layers: options, sums over downsets, and the transfers at their borders.


# Relative error that a sum over all layers may have.
ROUNDED = 2.0**-52

# Sums are kept in two parts if their error is a larger share than this of the least load that a plan can have.
NOISE = 1e-13


def option_rows(model: PiperModel) -> list[tuple[int, int]]:
    """Rows of options: (number of the degree, number of the replicas or -1 for all).

    Where the options of a layer differ in weights, their costs depend on the number of replicas: a row for each.
    """
    degrees = range(len(model.degrees))
    if model.uniform:
        return [(tau, -1) for tau in degrees]
    return [(tau, n) for tau in degrees for n in range(len(model.replicas))]


def _copies(model: PiperModel, n: int) -> int:
    """Replicas of a row of options; where they do not matter, one."""
    return int(model.replicas[n]) if model.problem.zero else 1


def layers_of(model: PiperModel, rows: list[tuple[int, int]], sync: Any, most: int) -> Layers:
    """What the loops know about layers, options and edges."""
    return Layers(
        bits=model.bits,
        memory=np.array([model.limit(tau, _copies(model, n)) for tau, n in rows]),
        sync=np.array([0.0 if n < 0 else sync[n] for _, n in rows]),
        only=np.array([n for _, n in rows], dtype=np.int64),
        most=most,
        **_options(model, rows),
        **_prefixes(model, rows, sync),
        **_borders(model, rows),
    )


def _options(model: PiperModel, rows: list[tuple[int, int]]) -> dict[str, Any]:
    """Options of all layers and degrees, one behind the other, and the edges of each layer."""
    problem = model.problem
    near: list[list[tuple[int, float, str, NodeId]]] = [[] for _ in model.order]
    for (u, v), edge in zip(_ends(model), problem.edges, strict=True):
        time = TRIPS * edge.bytes / problem.bandwidth
        near[v].append((u, time, "gather_in", edge.source))
        near[u].append((v, time, "gather_out", edge.target))
    starts: list[list[int]] = []
    chosen: list[Configuration] = []
    gathers: list[list[float]] = []
    amounts: list[Bytes] = []
    # What is held depends on the replicas where they divide it, and then every row has options of its own.
    listed = rows if model.problem.zero else [(tau, 0) for tau in range(len(model.ways))]
    for tau, n in listed:
        begin = []
        for v, options in enumerate(model.ways[tau]):
            begin.append(len(chosen))
            chosen += options
            amounts += model.bytes(tau, v, _copies(model, n))
            gathers += [[getattr(way, side).get(end, 0.0) for _, _, side, end in near[v]] for way in options]
        starts.append([*begin, len(chosen)])
    own = range(len(rows)) if model.problem.zero else [tau for tau, _ in rows]

    def column(name: str) -> Any:
        return np.array([getattr(way, name) for way in chosen], dtype=float)

    return {
        "option_start": np.array(starts, dtype=np.int64).reshape(-1, model.layers + 1)[own],
        "time": column("time"),
        "weight": column("weight_bytes"),
        "per_batch": np.array([each for each, _ in amounts], dtype=float),
        "fixed": np.array([fixed for _, fixed in amounts], dtype=float),
        "gather_start": np.cumsum([0, *map(len, gathers)], dtype=np.int64),
        "gather": TRIPS * np.array([value for row in gathers for value in row], dtype=float) / problem.bandwidth,
        "edge_start": np.cumsum([0, *map(len, near)], dtype=np.int64),
        "edge_layer": np.array([end for row in near for end, *_ in row], dtype=np.int64),
        "edge_time": np.array([time for row in near for _, time, *_ in row], dtype=float),
    }


def worst_load(layers: Layers, worst_sync: float) -> float:
    """No stage has a greater load, on any number of replicas: all layers in one, the worst options, all edges cut.

    A hair more, since sums in another order round differently.
    """
    x, total = layers, 0.0
    gathered = np.add.reduceat(np.append(x.gather, 0.0), x.gather_start[:-1]) if len(x.time) else np.zeros(0)
    gathered[np.diff(x.gather_start) == 0] = 0.0
    cost = x.time + worst_sync * x.weight + gathered
    for v in range(x.option_start.shape[1] - 1):
        ways = [cost[row[v] : row[v + 1]].max() for row in x.option_start if row[v] < row[v + 1]]
        total += max(ways, default=0.0)
    return float(total + x.edge_time.sum()) * (1 + SAFETY)


def _prefixes(model: PiperModel, rows: list[tuple[int, int]], sync: Any) -> dict[str, Any]:
    """Sums over downsets of what the fastest options take, where all options of a layer gather the same."""
    alike = [all(_gather_alike(ways) for ways in row) for row in model.ways]
    prefix = np.zeros((len(rows), 9, model.downsets))
    least = float(model.rest_work[0]) / model.problem.devices
    fine = False
    for r, (tau, n) in enumerate(rows):
        if alike[tau]:
            price = 0.0 if n < 0 else float(sync[n])
            copies = _copies(model, n)
            columns = [_fastest(ways, model.bytes(tau, v, copies), price) for v, ways in enumerate(model.ways[tau])]
            for q, values in enumerate(zip(*columns, strict=True)):
                prefix[r, q] = sums(model.bits, values)
            dearest = float(sync.max(initial=0.0))
            for q, rest, rate in (
                (kernel.TIME, kernel.TIME_REST, 1.0),
                (kernel.WEIGHT, kernel.WEIGHT_REST, dearest),
            ):
                if prefix[r, q, -1] * rate * ROUNDED > NOISE * least:
                    coarse, small = _split([column[q] for column in columns])
                    prefix[r, q], prefix[r, rest] = sums(model.bits, coarse), sums(model.bits, small)
                    fine = True
    return {"simple": np.array([alike[tau] for tau, _ in rows], dtype=bool), "prefix": prefix, "fine": fine}


def _split(values: Sequence[float]) -> tuple[Any, Any]:
    """The values in two parts: multiples of a power of two, whose sums and differences are exact, and the small rest.

    Where one layer takes 1e16 ("forbidden"), sums that hold it would otherwise have forgotten the others.
    """
    amounts = np.array(values)
    unit = 2.0 ** (math.frexp(float(amounts.sum()))[1] - 52)
    coarse = np.floor(amounts / unit) * unit
    return coarse, amounts - coarse


def _gather_alike(ways: Sequence[Configuration]) -> bool:
    return all(way.gather_in == ways[0].gather_in and way.gather_out == ways[0].gather_out for way in ways)


def _fastest(ways: Sequence[Configuration], held: Sequence[Bytes], price: float) -> tuple[float, ...]:
    """Sums of the fastest option, in the order of the kernel's names (`TIME` and the next)."""
    if not ways:
        return (0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    place = min(range(len(ways)), key=lambda x: ways[x].time + price * ways[x].weight_bytes)
    best, (each, fixed) = ways[place], held[place]
    least = min(each + fixed for each, fixed in held)
    cost = best.time + price * best.weight_bytes
    several = 1.0 if len(ways) > 1 else 0.0
    return cost, best.weight_bytes, each, fixed, least, 0.0, several


def _borders(model: PiperModel, rows: list[tuple[int, int]]) -> dict[str, Any]:
    """What the stages on both sides of each downset pay for the edges that it cuts, and for each edge."""
    problem, ends = model.problem, np.array(_ends(model), dtype=np.int64).reshape(-1, 2)
    enter, leave = np.zeros((len(rows), model.downsets)), np.zeros((len(rows), model.downsets))
    passing = np.zeros((len(rows), len(ends)))
    for e, ((u, v), edge) in enumerate(zip(ends, problem.edges, strict=True)):
        cut = held(model.bits, int(v)) > held(model.bits, int(u))
        for r, (tau, _) in enumerate(rows):
            into = edge.bytes + _first(model.ways[tau][v], "gather_in", edge.source)
            out = edge.bytes + _first(model.ways[tau][u], "gather_out", edge.target)
            enter[r] += TRIPS * into / problem.bandwidth * cut
            leave[r] += TRIPS * out / problem.bandwidth * cut
            passing[r, e] = TRIPS * (into + out) / problem.bandwidth
    return {
        "enter": enter,
        "leave": leave,
        "octets": np.ascontiguousarray(model.bits).view(np.uint8).reshape(model.downsets, -1),
        "from_layer": ends[:, 0].copy(),
        "to_layer": ends[:, 1].copy(),
        "passing": passing,
    }


def _ends(model: PiperModel) -> list[tuple[int, int]]:
    """Numbers of the two layers of each edge."""
    number = {i: v for v, i in enumerate(model.order)}
    return [(number[u], number[v]) for u, v in model.problem.arcs]


def _first(ways: Sequence[Configuration], side: str, end: NodeId) -> float:
    """Bytes that the first option gathers; where this is used, all options gather the same."""
    return getattr(ways[0], side).get(end, 0.0) if ways else 0.0


# ---- All stages of a model ----------------------------------------------------------------------------------------
# The stages of a model: all pairs of nested downsets, and the knapsacks of those that may need one.


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
    cluster = Cluster(
        devices=model.problem.devices,
        batches=model.problem.micro_batches,
        replicas=model.replicas,
        sync=np.array([model.sync_time(int(d)) for d in model.replicas]),
        degree=np.array([model.degrees[tau] for tau, _ in rows], dtype=np.int64),
    )
    starts, sources = _pairs(model)
    tick()
    layers = layers_of(model, rows, cluster.sync, most=min(cluster.devices, cluster.batches))
    row, count = _row_numbers(model, layers, starts, sources)
    tick()
    shape = count, len(rows)
    table = Table(
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
    return Tables(model, rows, cluster, layers, *_tabulated(model, layers, table, tick))


def loop(model: PiperModel, name: str) -> Callable[..., Any]:
    """A loop of the kernel: compiled, but for models so small that it would not repay the loading."""
    plain: Callable[..., Any] = getattr(kernel, name)
    pairs = model.downsets * (model.downsets - 1) // 2
    work = pairs * len(option_rows(model)) * model.problem.devices
    return compiled(kernel, name) if repays_loading(work, COMPILED_FROM) else plain


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
