"""Placements for throughput and for latency."""

from __future__ import annotations

import random

from pipeplan.instances.placement.problem import Node, PlacementProblem

from .amounts import SIZES, TIMES, Numbers, arcs, ids, limit_at, some_sums


def placement(rng: random.Random, most_nodes: int = 6, most_accelerators: int = 4) -> PlacementProblem:
    count = rng.choice((1, *range(2, most_nodes + 1), *range(3, most_nodes + 1)))
    edges, names = arcs(rng, count), ids(rng, count)
    cpus = rng.choice((0, 0, 1, 1, 2))
    accelerators = rng.choice((0, *range(1, most_accelerators + 1))) if cpus else rng.randint(1, most_accelerators)
    backward = count - rng.randrange(count) if rng.random() < 0.4 else count
    colors = rng.choice(((None,), (None, None, "a"), (None, "a", 7)))
    times, transfers, sizes = Numbers(rng, TIMES), Numbers(rng, TIMES, 0.4), Numbers(rng, SIZES, 0.3)
    if rng.random() < 0.6:
        transfers = times  # otherwise the magnitudes of the two have nothing to do with each other
    senders = {u for u, _ in edges}
    nodes = tuple(
        Node(
            names[v],
            accelerator_time=times(),
            cpu_time=times(),
            size_bytes=sizes(),
            transfer_time=transfers() if v in senders else 0.0,
            supported=not cpus or rng.random() < 0.85,
            backward=v >= backward,
            color=rng.choice(colors),
        )
        for v in range(count)
    )
    memory = limit_at(rng, some_sums(rng, [node.size_bytes for node in nodes]))
    return PlacementProblem(nodes, tuple((names[u], names[v]) for u, v in edges), accelerators, cpus, memory)


def latency(rng: random.Random) -> PlacementProblem:
    """With few nodes: pieces multiply the plans."""
    problem = placement(rng, most_nodes=5, most_accelerators=2)
    return problem if len(problem.nodes) > 2 or rng.random() < 0.5 else problem.replace(accelerators=3)
