"""What the compiled loops know about layers: options, sums over downsets, and the transfers at their borders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...instances.checks import NodeId
from ...instances.referee.staged import TRIPS
from ...instances.staging import Configuration
from ..dp.lattice import held, sums
from .model import PiperModel

if TYPE_CHECKING:
    from .kernel import Layers


def option_rows(model: PiperModel) -> list[tuple[int, int]]:
    """Rows of options: (number of the degree, number of the replicas or -1 for all).

    Where the options of a layer differ in weights, their costs depend on the number of replicas: a row for each.
    """
    degrees = range(len(model.degrees))
    if model.uniform:
        return [(tau, -1) for tau in degrees]
    return [(tau, n) for tau in degrees for n in range(len(model.replicas))]


def layers_of(model: PiperModel, rows: list[tuple[int, int]], sync: Any, most: int) -> Layers:
    """What the loops know about layers, options and edges."""
    import numpy as np

    from . import kernel

    problem, options = model.problem, model.options
    return kernel.Layers(
        bits=model.bits,
        option_start=options.start[[tau for tau, _ in rows]],
        time=options.time,
        weight=options.weight,
        per_batch=options.per_batch,
        fixed=options.fixed,
        gather_start=options.gather_start,
        gather=options.gather,
        edge_start=options.edge_start,
        edge_layer=options.edge_layer,
        edge_time=options.edge_bytes,
        memory=math.inf if problem.memory_bytes is None else problem.memory_bytes,
        sync=np.array([0.0 if n < 0 else sync[n] for _, n in rows]),
        only=np.array([n for _, n in rows], dtype=np.int64),
        most=most,
        **_prefixes(model, rows, sync),
        **_borders(model, rows),
    )


def worst_load(layers: Layers, worst_sync: float) -> float:
    """No stage has a greater load, on any number of replicas: all layers in one, the worst options, all edges cut."""
    import numpy as np

    x, total = layers, 1.0
    gathered = np.add.reduceat(np.append(x.gather, 0.0), x.gather_start[:-1]) if len(x.time) else np.zeros(0)
    gathered[np.diff(x.gather_start) == 0] = 0.0
    cost = x.time + worst_sync * x.weight + gathered
    for v in range(x.option_start.shape[1] - 1):
        ways = [cost[row[v] : row[v + 1]].max() for row in x.option_start if row[v] < row[v + 1]]
        total += max(ways, default=0.0)
    return float(total + x.edge_time.sum())


def _prefixes(model: PiperModel, rows: list[tuple[int, int]], sync: Any) -> dict[str, Any]:
    """Sums over downsets of what the fastest options take, where all options of a layer gather the same."""
    import numpy as np

    alike = [all(_gather_alike(ways) for ways in row) for row in model.ways]
    prefix = np.zeros((len(rows), 7, model.downsets))
    for r, (tau, n) in enumerate(rows):
        if alike[tau]:
            price = 0.0 if n < 0 else float(sync[n])
            columns = [_fastest(ways, price) for ways in model.ways[tau]]
            for q, values in enumerate(zip(*columns, strict=True)):
                prefix[r, q] = sums(model.bits, values)
    return {"simple": np.array([alike[tau] for tau, _ in rows]), "prefix": prefix}


def _gather_alike(ways: Sequence[Configuration]) -> bool:
    return all(way.gather_in == ways[0].gather_in and way.gather_out == ways[0].gather_out for way in ways)


def _fastest(ways: Sequence[Configuration], price: float) -> tuple[float, ...]:
    """In the order of the kernel's names."""
    if not ways:
        return (0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    best = min(ways, key=lambda way: way.time + price * way.weight_bytes)
    least = min(way.memory_bytes(1) for way in ways)
    cost = best.time + price * best.weight_bytes
    several = 1.0 if len(ways) > 1 else 0.0
    return cost, best.weight_bytes, best.memory_per_batch, best.memory_fixed, least, 0.0, several


def _borders(model: PiperModel, rows: list[tuple[int, int]]) -> dict[str, Any]:
    """What the stages on both sides of each downset pay for the edges that it cuts, and for each edge."""
    import numpy as np

    problem, number = model.problem, {i: v for v, i in enumerate(model.order)}
    ends = np.array([(number[u], number[v]) for u, v in problem.arcs], dtype=np.int64).reshape(-1, 2)
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


def _first(ways: Sequence[Configuration], side: str, end: NodeId) -> float:
    """What the first option gathers: where it matters, all do."""
    return getattr(ways[0], side).get(end, 0.0) if ways else 0.0
