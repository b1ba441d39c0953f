"""Random graph-pipeline problems: series-parallel by construction, or any DAG."""

from __future__ import annotations

import random
from itertools import pairwise

from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Link, Operator, TimeCurve


def series_parallel_arcs(count: int, rng: random.Random) -> list[tuple[int, int]]:
    """Every sink of a part is joined to every source of the next."""
    arcs: list[tuple[int, int]] = []

    def grow(low: int, high: int, series: bool) -> tuple[list[int], list[int]]:
        if high - low == 1:
            return [low], [low]
        cuts = sorted(rng.sample(range(low + 1, high), rng.randint(1, min(3, high - low - 1))))
        ends = [grow(a, b, not series) for a, b in zip([low, *cuts], [*cuts, high], strict=True)]
        if not series:
            return [v for sources, _ in ends for v in sources], [v for _, sinks in ends for v in sinks]
        for (_, sinks), (sources, _) in pairwise(ends):
            arcs.extend((u, v) for u in sinks for v in sources)
        return ends[0][0], ends[-1][1]

    grow(0, count, rng.random() < 0.6)
    return arcs


def random_graph_pipeline(
    rng: random.Random,
    *,
    most_operators: int = 8,
    most_devices: int = 4,
    series_parallel: bool = True,
    mini_batch: int = 16,
    tight: float | None = None,
) -> GraphPipelineProblem:
    """Operators of two or three sizes, so that branches can be alike; `tight`: memory as a share of everything's."""
    count = rng.randint(1, most_operators)
    arcs = series_parallel_arcs(count, rng)
    if not series_parallel:
        pairs = [(u, v) for u in range(count) for v in range(u + 1, count)]
        arcs = [pair for pair in pairs if rng.random() < 0.4]
    sizes = [(rng.randint(1, 9), rng.randint(0, 3), rng.randint(0, 6), rng.randint(0, 4)) for _ in range(3)]
    operators = []
    for v in range(count):
        time, weight, stash, output = rng.choice(sizes)
        forward = TimeCurve((1.0, 2.0, 8.0), (time, time * 1.5, time * 5.0))
        backward = TimeCurve((1.0, 2.0, 8.0), (2.0 * time, time * 3.5, time * 11.0))
        operators.append(Operator(f"o{v}", forward, backward, float(weight), float(stash), float(output)))
    total = sum(2 * x.weight_bytes + mini_batch * x.stash_bytes for x in operators)
    return GraphPipelineProblem(
        tuple(operators),
        tuple((f"o{u}", f"o{v}") for u, v in arcs),
        mini_batch=mini_batch,
        devices=rng.randint(1, most_devices),
        memory_bytes=None if tight is None else tight * total,
        link=rng.choice([Link(), Link(8.0, 0.1), Link(2.0, 0.0)]),
    )
