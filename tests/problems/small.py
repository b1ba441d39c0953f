"""Seeded problems that are small enough to enumerate, and mean enough to be worth it."""

from __future__ import annotations

import itertools
import random

from pipeplan.instances.placement.problem import Node, PlacementProblem


def random_problem(seed: int) -> PlacementProblem:
    """At most seven groups: zero costs, ties, unsupported nodes, memory and colour classes all occur."""
    rng = random.Random(seed)
    count = rng.randint(2, 7)
    training = rng.random() < 0.4
    cpus = rng.choice((0, 1, 1, 2))
    accelerators = rng.choice((1, 2, 3)) if cpus else rng.choice((2, 3))
    order = list(range(count))
    edges = [(u, v) for u, v in itertools.combinations(order, 2) if rng.random() < 0.45]
    backward = [training and v >= count // 2 for v in order]
    senders = {u for u, _ in edges}
    nodes = [
        Node(
            v,
            accelerator_time=rng.choice((0, 0, 1, 2, 3)),
            cpu_time=rng.choice((0, 2, 5, 9)),
            size_bytes=rng.choice((0, 0, 1, 2)),
            transfer_time=rng.choice((0, 1, 2, 4)) if v in senders else 0,
            supported=not cpus or rng.random() < 0.85,
            backward=backward[v],
            color=rng.choice((None, "a", "b")) if rng.random() < 0.4 else None,
        )
        for v in order
    ]
    memory = rng.choice((None, 6, 20)) if cpus else None
    return PlacementProblem(tuple(nodes), tuple(edges), accelerators, cpus, memory)
