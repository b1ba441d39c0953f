"""Graph pipelines, series-parallel or not."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

from problems.graph_pipelines import series_parallel_arcs

from pipeplan.instances.base.amounts import as_written, exact_sum
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Link, Operator, TimeCurve

from .amounts import SIZES, TIMES, Numbers, arcs, ids, limit_at


def graph_pipeline(rng: random.Random, most_operators: int = 5) -> GraphPipelineProblem:
    count = rng.randint(1, most_operators)
    edges = series_parallel_arcs(count, rng) if rng.random() < 0.4 else arcs(rng, count)
    names = ids(rng, count)
    times, bytes_, sizes = Numbers(rng, TIMES), Numbers(rng, TIMES, 0.3), Numbers(rng, SIZES, 0.3)

    def curve() -> TimeCurve:
        points = rng.choice(((1.0,), (2.0,), (0.5, 1.0), (1.0, 4.0), (1.0, 2.0, 4.0)))
        return TimeCurve(points, tuple(sorted(times() for _ in points)))

    mini_batch = rng.choice((1, 2, 4, 6, 8))
    operators = tuple(Operator(name, curve(), curve(), sizes(), sizes(), bytes_()) for name in names)
    copies, workspace = rng.choice((2.0, 1.0, 2.5, 0.1)), rng.choice((0.0, 0.0, sizes()))
    sums = list(_graph_sums(rng, operators, mini_batch, copies, workspace))
    problem = GraphPipelineProblem(
        operators,
        tuple((names[u], names[v]) for u, v in edges),
        mini_batch,
        devices=rng.choice((1, 2, 2, 3, 4)),
        memory_bytes=limit_at(rng, sums),
        link=rng.choice((Link(), Link(8.0, 0.1), Link(0.3), Link(1e9, 0.0), Link(0.1, 1e-9))),
        weight_copies=copies,
        workspace_bytes=workspace,
    )
    if rng.random() < 0.7:
        return problem
    return problem.replace(node_link=rng.choice((Link(), Link(2.0, 0.3))), devices_per_node=rng.randint(1, 2))


def _graph_sums(
    rng: random.Random, operators: Sequence[Operator], mini_batch: int, copies: float, workspace: float
) -> Iterator[Fraction]:
    for _ in range(8):
        held = rng.sample(operators, rng.randint(1, len(operators)))
        samples = Fraction(rng.randint(1, mini_batch), rng.choice((1, 1, 2, 3)))
        weights = as_written(copies) * exact_sum(operator.weight_bytes for operator in held)
        yield weights + samples * exact_sum(operator.stash_bytes for operator in held) + as_written(workspace)
