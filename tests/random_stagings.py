"""Small random staging problems: every shape that a formulation or a dynamic program has to agree on."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from pipeplan.instances.staging import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem

DEGREES = (1, 2, 3, 4)


def random_staging(seed: int, *, layers: tuple[int, int] = (2, 6), exact_batches: bool | None = None) -> StagingProblem:
    """The same problem for the same seed; every fourth asks for exactly N, every fifth has no memory limit."""
    rng = random.Random(seed)
    count = rng.randint(*layers)
    arcs = [(u, v) for v in range(count) for u in range(v) if rng.random() < 0.45]
    devices = rng.choice((2, 3, 4, 4, 4))
    exact = seed % 4 == 3 if exact_batches is None else exact_batches
    problem = StagingProblem(
        layers=tuple(_layer(rng, v, arcs) for v in range(count)),
        edges=tuple(Edge(u, v, float(rng.randint(0, 20))) for u, v in arcs),
        devices=devices,
        bandwidth=float(rng.choice((20, 100, 400))),
        micro_batches=rng.randint(2, devices) if exact else rng.choice((2, 3, 4, 6, 12)),
        exact_batches=exact,
        name=f"random staging {seed}",
    )
    return problem if seed % 5 == 4 else problem.replace(memory_bytes=_memory(rng, problem))


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


def _way(rng: random.Random, name: str, time: float, memory: int, v: int, arcs: list[tuple[int, int]]) -> Configuration:
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
                rng.choice(rng.choice([ways for ways in layer.configurations.values() if ways])).memory_bytes(in_flight)
                for layer in problem.layers
                if any(layer.configurations.values()) and rng.random() < share
            )
        )
    return float(sorted(needs)[int(len(needs) * rng.uniform(0.3, 0.7))] + 1)


# ---- numbers that trouble arithmetic ---------------------------------------------------------------------

FORBIDDEN = (1e9, 1e12, 1e16)
"""What people write for "not this one"."""


def nasty_staging(seed: int, *, layers: tuple[int, int] = (1, 4), levels: bool = False) -> StagingProblem:
    """Decimals whose sums meet the memory exactly, zero times, ties, forbidden ways, and graphs in several parts."""
    rng = random.Random(f"nasty {seed}")
    count = rng.randint(*layers)
    arcs = [(u, v) for v in range(count) for u in range(v) if rng.random() < rng.choice((0.0, 0.3, 0.6))]
    devices = rng.choice((1, 2, 3, 4))
    exact = rng.random() < 0.2
    problem = StagingProblem(
        layers=tuple(_nasty_layer(rng, v, arcs) for v in range(count)),
        edges=tuple(Edge(u, v, rng.choice((0.0, 0.1, 0.3, 7.0, rng.choice(FORBIDDEN)))) for u, v in arcs),
        devices=devices,
        bandwidth=rng.choice((0.1, 1.0, 300.0)),
        micro_batches=rng.randint(1, devices + 1) if exact else rng.choice((1, 2, 3, 4, 6, 7)),
        exact_batches=exact,
        levels=_some_levels(rng, devices) if levels else (),
        name=f"nasty staging {seed}",
    )
    return problem if rng.random() < 0.15 else problem.replace(memory_bytes=_exact_memory(rng, problem))


def on_two_types(problem: StagingProblem, seed: int) -> StagingProblem:
    """The devices of a nasty problem in two makes, one of which may be faster, have other memory or be missing."""
    rng = random.Random(f"types {seed}")
    first, memory = rng.randint(0, problem.devices), problem.memory_bytes
    kinds = (
        DeviceType("one", first, rng.choice((0.5, 1.0, 2.0)), memory),
        DeviceType("two", problem.devices - first, 1.0, rng.choice((None, memory, 0.7))),
    )
    return problem.replace(device_types=kinds, memory_bytes=None, exact_batches=False)


def _some_levels(rng: random.Random, devices: int) -> tuple[StagingLevel, ...]:
    inner = rng.choice([n for n in range(1, devices + 1) if devices % n == 0])
    return StagingLevel(inner, rng.choice((1.0, 300.0))), StagingLevel(devices // inner, rng.choice((0.1, 2.0)))


def _nasty_layer(rng: random.Random, v: int, arcs: list[tuple[int, int]]) -> Layer:
    ways = {t: tuple(_nasty_way(rng, f"way {i}", v, arcs) for i in range(rng.randint(1, 3))) for t in (1, 2)}
    return Layer(v, {t: of for t, of in ways.items() if rng.random() < (0.95 if t == 1 else 0.4)} or {1: ways[1]})


def _nasty_way(rng: random.Random, name: str, v: int, arcs: list[tuple[int, int]]) -> Configuration:
    forbidden = rng.random() < 0.2
    return Configuration(
        name,
        rng.choice(FORBIDDEN) if forbidden else rng.choice((0.0, 0.1, 0.2, 1.1, 2.5, 3.8, round(rng.uniform(0, 5), 3))),
        weight_bytes=rng.choice((0.0, 0.0, 0.7, 6.0, rng.choice(FORBIDDEN))),
        memory_per_batch=rng.choice((0.0, 0.1, 0.2, 0.7, 1.0, rng.choice(FORBIDDEN))),
        memory_fixed=rng.choice((0.0, 0.1, 0.3, 1.3, 1e-9)),
        gather_in={u: 0.1 for u, w in arcs if w == v and rng.random() < 0.2},
        gather_out={w: 0.3 for u, w in arcs if u == v and rng.random() < 0.2},
    )


def _exact_memory(rng: random.Random, problem: StagingProblem) -> float:
    """What some choice of ways needs, digit by digit; at times a hair less."""
    total = Fraction(0)
    for layer in problem.layers:
        if rng.random() < 0.7:
            ways = rng.choice([ways for ways in layer.configurations.values() if ways])
            total += rng.choice(ways).memory_bytes(rng.randint(1, 3))
    hair = Fraction(1, 10**10) if rng.random() < 0.2 and total > 1 else 0
    return float(f"{float(total - hair):.15g}")  # more digits would not survive a shift of the point


def scaled_staging(problem: StagingProblem, time: int = 0, memory: int = 0) -> StagingProblem:
    """All times, and all memories, times a power of ten; as decimals, so that no digit is lost."""

    def way(old: Configuration) -> Configuration:
        return replace(
            old,
            time=shifted(old.time, time),
            memory_per_batch=shifted(old.memory_per_batch, memory),
            memory_fixed=shifted(old.memory_fixed, memory),
        )

    return problem.replace(
        layers=tuple(
            replace(layer, configurations={t: tuple(map(way, ways)) for t, ways in layer.configurations.items()})
            for layer in problem.layers
        ),
        bandwidth=shifted(problem.bandwidth, -time),
        levels=tuple(StagingLevel(level.devices, shifted(level.bandwidth, -time)) for level in problem.levels),
        memory_bytes=None if problem.memory_bytes is None else shifted(problem.memory_bytes, memory),
        device_types=tuple(
            kind if kind.memory_bytes is None else replace(kind, memory_bytes=shifted(kind.memory_bytes, memory))
            for kind in problem.device_types
        ),
    )


def shifted(value: float, places: int) -> float:
    """The decimal point moved so many places to the right."""
    return float(Decimal(repr(value)).scaleb(places))
