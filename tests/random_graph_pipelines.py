"""Random graph-pipeline problems: series-parallel by construction, or any DAG."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from pipeplan.instances.graph_pipeline import GraphPipelineProblem, Link, Operator, TimeCurve


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


# ---- numbers that trouble arithmetic ---------------------------------------------------------------------

FORBIDDEN = (1e9, 1e12, 1e16)
"""What people write for "not this one"."""


def nasty_graph_pipeline(seed: int, *, most_operators: int = 5) -> GraphPipelineProblem:
    """Decimals whose sums meet the memory exactly, zero times, ties, forbidden operators and tensors, several parts."""
    rng = random.Random(f"nasty {seed}")
    count, batch, devices = rng.randint(1, most_operators), rng.choice((1, 4, 6, 8)), rng.randint(1, 4)
    share = rng.choice((0.0, 0.4, 0.7))
    arcs = [(u, v) for u in range(count) for v in range(u + 1, count) if rng.random() < share]
    if rng.random() < 0.5:
        arcs = series_parallel_arcs(count, rng)
    operators = tuple(
        Operator(
            f"o{v}",
            TimeCurve((1.0, 4.0), (rng.choice((0.0, 0.1, 1.1, 2.5)), rng.choice((2.5, 3.8, 4.4)))),
            TimeCurve((1.0,), (rng.choice((0.0, 0.2, 3.8, rng.choice(FORBIDDEN))) if rng.random() < 0.5 else 0.7,)),
            rng.choice((0.0, 0.1, 0.7, 6.0)),
            rng.choice((0.0, 0.1, 0.3, rng.choice(FORBIDDEN) if rng.random() < 0.2 else 1.3)),
            rng.choice((0.0, 0.1, 7.0, rng.choice(FORBIDDEN) if rng.random() < 0.3 else 0.3)),
        )
        for v in range(count)
    )
    problem = GraphPipelineProblem(
        operators,
        tuple((f"o{u}", f"o{v}") for u, v in arcs),
        mini_batch=batch,
        devices=devices,
        link=rng.choice([Link(), Link(8.0, 0.1), Link(0.3, 0.0)]),
        weight_copies=rng.choice((1.0, 2.0, 2.5)),
        workspace_bytes=rng.choice((0.0, 0.1)),
    )
    if rng.random() < 0.15:
        return problem
    chosen = [x for x in operators if rng.random() < 0.7]
    held = sum(Fraction(repr(problem.weight_copies)) * Fraction(repr(x.weight_bytes)) for x in chosen)
    held += rng.randint(1, 2 * batch) * sum(Fraction(repr(x.stash_bytes)) for x in chosen) / rng.choice((1, 2))
    total = float(held + Fraction(repr(problem.workspace_bytes)))
    return problem.replace(memory_bytes=float(f"{total:.15g}"))  # more digits would not survive a shift of the point


def scaled_graph_pipeline(problem: GraphPipelineProblem, time: int = 0, memory: int = 0) -> GraphPipelineProblem:
    """All times, and all bytes, times a power of ten; as decimals, so that no digit is lost."""

    def curve(old: TimeCurve) -> TimeCurve:
        return TimeCurve(old.samples, tuple(shifted(value, time) for value in old.seconds))

    def link(old: Link) -> Link:
        rate = None if old.bandwidth is None else shifted(old.bandwidth, memory - time)
        return Link(rate, shifted(old.latency_s, time))

    return problem.replace(
        operators=tuple(
            replace(
                x,
                forward=curve(x.forward),
                backward=curve(x.backward),
                weight_bytes=shifted(x.weight_bytes, memory),
                stash_bytes=shifted(x.stash_bytes, memory),
                output_bytes=shifted(x.output_bytes, memory),
            )
            for x in problem.operators
        ),
        memory_bytes=None if problem.memory_bytes is None else shifted(problem.memory_bytes, memory),
        workspace_bytes=shifted(problem.workspace_bytes, memory),
        link=link(problem.link),
    )


def shifted(value: float, places: int) -> float:
    """The decimal point moved so many places to the right."""
    return float(Decimal(repr(value)).scaleb(places))
