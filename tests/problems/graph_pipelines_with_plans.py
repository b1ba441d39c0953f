"""Small graph pipelines and valid plans for them, by seed: what the referee, the simulator and the files agree on."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise

from oracles.graph_pipeline import more_in_flight

from pipeplan import GraphPipelineProblem, GraphStage, Link, Operator, StageGraphPlan, TimeCurve


def operator(name: int | str, forward: float = 1.0, backward: float = 2.0, **sizes: float) -> Operator:
    """An operator whose times are in proportion to the samples."""
    return Operator(name, TimeCurve((1,), (forward,)), TimeCurve((1,), (backward,)), **sizes)


def chain_problem(count: int, mini_batch: int = 8, **changes: object) -> GraphPipelineProblem:
    """Equal operators in a row, one device for each."""
    operators = tuple(operator(i, weight_bytes=4, stash_bytes=1, output_bytes=1) for i in range(count))
    problem = GraphPipelineProblem(
        operators, tuple(pairwise(range(count))), mini_batch, count, name=f"chain of {count}"
    )
    return problem.replace(**changes) if changes else problem


def chain_plan(count: int, micro_batch: int = 1, mini_batch: int = 8) -> StageGraphPlan:
    """One stage per operator with the smallest warm-up that keeps the pipeline full."""
    stages = tuple(
        GraphStage((i,), 1, micro_batch, 1, min((count - i) * micro_batch, mini_batch)) for i in range(count)
    )
    return StageGraphPlan(stages, tuple(pairwise(range(count))))


def random_graph_problem(seed: int) -> GraphPipelineProblem:
    """Curves, a two-level network and latencies at random; every third has no network at all."""
    rng = random.Random(seed)
    count = rng.randint(2, 9)
    arcs = tuple((u, v) for v in range(count) for u in range(v) if rng.random() < 0.35)
    problem = GraphPipelineProblem(
        operators=tuple(_random_operator(rng, v) for v in range(count)),
        edges=arcs,
        mini_batch=rng.choice((8, 16, 32)),
        devices=rng.choice((1, 2, 4, 8)),
        name=f"random graph pipeline {seed}",
    )
    if seed % 3 == 0:
        return problem
    link = Link(float(rng.choice((5, 20, 100))), rng.choice((0.0, 0.01)))
    problem = problem.replace(link=link, workspace_bytes=float(rng.randint(0, 3)))
    return (
        problem if seed % 3 == 1 else problem.replace(node_link=Link(3.0, 0.1), devices_per_node=rng.randint(1, 4))
    )


def _random_operator(rng: random.Random, v: int) -> Operator:
    points = (1.0, 4.0, 32.0)
    forward = sorted(rng.uniform(0.1, 5) for _ in points)
    curves = [
        TimeCurve(points, tuple(scale * value for value in forward)) for scale in (1.0, rng.choice((1.0, 2.0)))
    ]
    return Operator(v, *curves, float(rng.randint(0, 9)), float(rng.randint(0, 9)), float(rng.randint(0, 5)))


def random_plan(problem: GraphPipelineProblem, seed: int) -> StageGraphPlan:
    """A valid plan but for memory: runs of a topological order as stages, any degrees, micro-batches, and k."""
    rng = random.Random(seed)
    order = list(problem.topological_order)
    count = rng.randint(1, min(len(order), problem.devices))
    cuts = sorted(rng.sample(range(1, len(order)), count - 1))
    sets = [order[a:b] for a, b in pairwise([0, *cuts, len(order)])]
    stage_of = {v: s for s, members in enumerate(sets) for v in members}
    edges = tuple(sorted({(stage_of[u], stage_of[v]) for u, v in problem.arcs if stage_of[u] != stage_of[v]}))
    degrees = _degrees(rng, problem.devices, count)
    shapes = [(d, *_shape(rng, problem.mini_batch, d)) for d in degrees]
    in_flight = needed_samples(edges, [(b, k) for _, b, k in shapes], problem.mini_batch)
    stages = tuple(
        GraphStage(tuple(problem.operators[v].id for v in members), d, b, k, flight)
        for members, (d, b, k), flight in zip(sets, shapes, in_flight, strict=True)
    )
    return StageGraphPlan(stages, edges)


def _degrees(rng: random.Random, devices: int, count: int) -> list[int]:
    """Powers of two that use all devices: one degree of all, split in halves again and again."""
    degrees = [devices]
    while len(degrees) < count:
        half = degrees.pop(rng.choice([i for i, d in enumerate(degrees) if d > 1])) // 2
        degrees += [half, half]
    return rng.sample(degrees, count)


def _shape(rng: random.Random, mini_batch: int, degree: int) -> tuple[int, int]:
    sizes = [2**e for e in range(20) if degree <= 2**e <= mini_batch]
    return rng.choice(sizes), rng.choice((1, 1, 2, 4))


def needed_samples(
    edges: Sequence[tuple[int, int]], shapes: Sequence[tuple[int, int]], mini_batch: int
) -> list[int]:
    """In-flight samples of each stage by the table of ten rows, from the last stage to the first."""
    found = [0] * len(shapes)
    for x in reversed(range(len(shapes))):
        b, k = shapes[x]
        needs = [found[y] + more_in_flight(b, k, *shapes[y]) for u, y in edges if u == x] or [k * b]
        found[x] = min(math.ceil(max(needs) / b) * b, mini_batch)
    return found
