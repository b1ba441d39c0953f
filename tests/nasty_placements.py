"""Seeded tiny placement problems at the edges of arithmetic: memories that sums just reach or miss, sizes of too many
digits, times that mean "forbidden", CPUs alone, zero times, colours."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from pipeplan.instances.errors import InputError
from pipeplan.instances.placement import Node, PlacementProblem

SIZES = (
    tuple(n / 10 for n in range(1, 8)),
    (1 / 3, 2 / 3, 1 / 9, 0.1111111111111111, 0.2, 0.7),
    (2**33, 2**33 + 1, 2**33 + 17, 2**33 - 1, 2**32),
    (0.12345678901234567, 98765.43210987654, 1e-7, 33333.333333333336),
)
TIMES = ((0, 1, 2, 3), (0.1, 0.2, 0.3, 0.7), (1e-9, 3e-9, 1e6, 2e6), (1.3, 2.7, 1.1, 0.0))
SENTINELS = (1e9, 1e12, 1e16, 1e30)


def nasty_placement(seed: int, most: int = 6) -> PlacementProblem:
    """At most so many nodes; every seed gives a problem that passes the door."""
    rng = random.Random(seed)
    while True:
        try:
            return _drawn(rng, most)
        except InputError:
            continue


def _drawn(rng: random.Random, most: int) -> PlacementProblem:
    count = rng.randint(1, most)
    edges = [(u, v) for u in range(count) for v in range(u + 1, count) if rng.random() < 0.4]
    senders = {u for u, _ in edges}
    sizes, times, wild = rng.choice(SIZES), rng.choice(TIMES), rng.random() < 0.4

    def time() -> float:
        return rng.choice(SENTINELS) if wild and rng.random() < 0.3 else float(rng.choice(times))

    accelerators = rng.choice((0, 1, 2, 2, 3))
    cpus = rng.choice((0, 1, 2)) if accelerators else rng.choice((1, 2))
    nodes = [
        Node(
            v,
            accelerator_time=time(),
            cpu_time=time(),
            size_bytes=rng.choice(sizes),
            transfer_time=time() if v in senders and rng.random() < 0.6 else 0.0,
            supported=not cpus or rng.random() < 0.85,
            color=rng.choice("ab") if rng.random() < 0.25 else None,
        )
        for v in range(count)
    ]
    return PlacementProblem(tuple(nodes), tuple(edges), accelerators, cpus, _memory(rng, nodes))


def _memory(rng: random.Random, nodes: list[Node]) -> float | None:
    """What some nodes take together, as written, or the next number below or above; sometimes no limit."""
    if rng.random() < 0.15:
        return None
    some = rng.sample(nodes, rng.randint(1, len(nodes)))
    exact = float(sum(Fraction(repr(node.size_bytes)) for node in some))
    return rng.choice((exact, exact, math.nextafter(exact, 0), math.nextafter(exact, math.inf)))
