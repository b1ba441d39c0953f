"""What the compiled loops know about layers: options, sums over downsets, and the transfers at their borders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...instances.base.checks import NodeId
from ...instances.physics.tolerances import SAFETY
from ...instances.staging.problem import Configuration
from ..placement.dp.lattice import held, sums
from .links import TRIPS
from .memory import Bytes
from .model import PiperModel

if TYPE_CHECKING:
    from .kernel import Layers


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
    from . import kernel

    return kernel.Layers(
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
    from . import kernel

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
