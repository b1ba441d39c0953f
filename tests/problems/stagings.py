"""Small random staging problems: every shape that a formulation or a dynamic program has to agree on."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingLevel, StagingProblem

DEGREES = (1, 2, 3, 4)


def with_zero(problem: StagingProblem, zero: int) -> StagingProblem:
    """The problem where copies divide what it says is fixed, all but a byte of each layer."""
    if not zero:
        return problem
    layers = tuple(
        Layer(
            layer.id,
            {
                t: tuple(
                    replace(
                        way, memory_fixed=min(1.0, way.memory_fixed), memory_divided=max(0.0, way.memory_fixed - 1)
                    )
                    for way in ways
                )
                for t, ways in layer.configurations.items()
            },
        )
        for layer in problem.layers
    )
    return problem.replace(layers=layers, zero=zero, name=f"{problem.name}, ZeRO {zero}")


def random_staging(seed: int, *, layers: tuple[int, int] = (2, 6)) -> StagingProblem:
    """The same problem for the same seed; every fifth has no memory limit."""
    rng = random.Random(seed)
    count = rng.randint(*layers)
    arcs = [(u, v) for v in range(count) for u in range(v) if rng.random() < 0.45]
    devices = rng.choice((2, 3, 4, 4, 4))
    problem = StagingProblem(
        layers=tuple(_layer(rng, v, arcs) for v in range(count)),
        edges=tuple(Edge(u, v, float(rng.randint(0, 20))) for u, v in arcs),
        devices=devices,
        bandwidth=float(rng.choice((20, 100, 400))),
        micro_batches=rng.choice((2, 3, 4, 6, 12)),
        name=f"random staging {seed}",
    )
    return problem if seed % 5 == 4 else problem.replace(memory_bytes=_memory(rng, problem))


CLUSTERS = ((2, 2), (1, 3), (3, 1), (2, 1, 2), (4,), (2, 2))


def leveled_staging(seed: int, layers: tuple[int, int] = (2, 4)) -> StagingProblem:
    """A random problem on one of a few small clusters, the links of higher levels mostly slower."""
    rng, shape = random.Random(1000 + seed), CLUSTERS[seed % len(CLUSTERS)]
    flat = random_staging(seed, layers=layers if len(shape) < 3 else (2, 3))
    bandwidth, levels = flat.bandwidth, []
    for devices in shape:
        levels.append(StagingLevel(devices, bandwidth))
        bandwidth *= rng.choice((0.1, 0.4, 1.0))
    return flat.replace(devices=math.prod(shape), levels=tuple(levels), micro_batches=rng.choice((2, 3, 4, 9)))


def _layer(rng: random.Random, v: int, arcs: list[tuple[int, int]]) -> Layer:
    """Degree 1 is nearly always there, the others often; the more devices, the less time and memory."""
    time, memory = rng.uniform(1, 10), rng.randint(2, 12)
    ways = {}
    for t in DEGREES:
        if rng.random() < (0.95 if t == 1 else 0.6):
            ways[t] = tuple(_way(rng, f"way {i}", time / t**0.8, memory, v, arcs) for i in range(rng.randint(1, 3)))
    if not ways:
        ways[2] = (_way(rng, "way 0", time / 2**0.8, memory, v, arcs),)
    return Layer(v, ways)


def _way(
    rng: random.Random, name: str, time: float, memory: int, v: int, arcs: list[tuple[int, int]]
) -> Configuration:
    """Slower ones tend to need less memory, as recomputation does."""
    saved = rng.random()
    return Configuration(
        name,
        time * (0.7 + saved),
        weight_bytes=float(rng.randint(0, 10)),
        memory_per_batch=float(round(memory * (1 - saved))),
        memory_fixed=float(rng.randint(0, 6)),
        gather_in={u: float(rng.randint(0, 5)) for u, w in arcs if w == v and rng.random() < 0.5},
        gather_out={w: float(rng.randint(0, 5)) for u, w in arcs if u == v and rng.random() < 0.5},
    )


def _memory(rng: random.Random, problem: StagingProblem) -> float:
    """Between what single layers need and what all of them need with several batches in flight."""
    needs = []
    for _ in range(40):
        in_flight, share = rng.randint(1, problem.devices), rng.random()
        needs.append(
            sum(
                rng.choice(rng.choice([ways for ways in layer.configurations.values() if ways])).memory_bytes(
                    in_flight
                )
                for layer in problem.layers
                if any(layer.configurations.values()) and rng.random() < share
            )
        )
    return float(sorted(needs)[int(len(needs) * rng.uniform(0.3, 0.7))] + 1)
