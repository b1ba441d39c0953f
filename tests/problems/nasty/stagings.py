"""Stagings on devices that are alike, of two types, or on levels."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pipeplan.instances.base.amounts import as_written, exact_sum
from pipeplan.instances.staging.problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem

from .amounts import SIZES, TIMES, Numbers, arcs, ids, limit_at
from .units import times_power


def staging(rng: random.Random, most_layers: int = 4) -> StagingProblem:
    count = rng.randint(1, most_layers)
    edges, names = arcs(rng, count), ids(rng, count)
    times, bytes_, sizes = Numbers(rng, TIMES), Numbers(rng, TIMES, 0.3), Numbers(rng, SIZES, 0.3)
    devices = rng.randint(1, 4)

    def way(v: int, t: int, number: int) -> Configuration:
        near_in = [names[u] for u, w in edges if w == v and rng.random() < 0.3]
        near_out = [names[w] for u, w in edges if u == v and rng.random() < 0.3]
        return Configuration(
            f"{t}.{number}",
            times(),
            weight_bytes=bytes_(),
            memory_per_batch=sizes(),
            memory_fixed=sizes(),
            gather_in={name: bytes_() for name in near_in},
            gather_out={name: bytes_() for name in near_out},
        )

    def ways(v: int) -> dict[int, tuple[Configuration, ...]]:
        degrees = [t for t in (1, 2, 3) if rng.random() < (0.9 if t == 1 else 0.4)] or [2]
        return {t: tuple(way(v, t, number) for number in range(rng.choice((1, 1, 2, 3)))) for t in degrees}

    layers = tuple(Layer(names[v], ways(v)) for v in range(count))
    exact = rng.random() < 0.2
    return StagingProblem(
        layers,
        tuple(Edge(names[u], names[v], bytes_()) for u, v in edges),
        devices,
        bandwidth=rng.choice((1.0, 0.1, 3.0, 300.0, 1e9, 1e-3)),
        micro_batches=rng.randint(1, devices + 1) if exact else rng.choice((1, 2, 3, 4, 6, 7)),
        exact_batches=exact,
        memory_bytes=limit_at(rng, _staging_sums(rng, layers)),
    )


def _staging_sums(rng: random.Random, layers: Sequence[Layer]) -> Iterator[Fraction]:
    for _ in range(8):
        held = rng.sample(layers, rng.randint(1, len(layers)))
        in_flight = rng.randint(1, 4)
        chosen = [
            rng.choice(rng.choice([ways for ways in layer.configurations.values() if ways])) for layer in held
        ]
        yield exact_sum(
            in_flight * as_written(way.memory_per_batch) + as_written(way.memory_fixed) for way in chosen
        )


def types(rng: random.Random) -> StagingProblem:
    return on_two_types(rng, staging(rng, most_layers=3))


def on_two_types(rng: random.Random, problem: StagingProblem) -> StagingProblem:
    """Its devices in two makes, one of which may be faster, have other memory or be missing."""
    first, memory = rng.randint(0, problem.devices), problem.memory_bytes
    kinds = (
        DeviceType("one", first, rng.choice((0.5, 1.0, 2.0)), memory),
        DeviceType("two", problem.devices - first, 1.0, rng.choice((None, memory, 0.7))),
    )
    return problem.replace(device_types=kinds, memory_bytes=None, exact_batches=False)


SHAPES = ((2, 2), (1, 2), (2, 1), (3,), (1, 1, 2), (1, 3), (1, 1))
"""How many devices stand in each device of the next level."""


def levels(rng: random.Random, most_devices: int = 4) -> StagingProblem:
    """Two levels, mostly; three layers at most."""
    flat = staging(rng, most_layers=3)
    shape = rng.choice([shape for shape in SHAPES if math.prod(shape) <= most_devices])
    found = tuple(
        StagingLevel(devices, times_power(flat.bandwidth, rng.choice((-1, 0, 0, 1)))) for devices in shape
    )
    return flat.replace(devices=math.prod(shape), levels=found)
