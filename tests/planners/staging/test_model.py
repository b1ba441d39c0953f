"""Stages that are computed and not stored, and long rows of layers that save alike."""

from __future__ import annotations

import random

import pytest

from pipeplan import Configuration, Edge, Layer, StagingProblem, solve


def chain_of(ways: list[tuple[Configuration, ...]], memory: float | None, devices: int = 2) -> StagingProblem:
    layers = tuple(Layer(i, {1: row}) for i, row in enumerate(ways))
    edges = tuple(Edge(i, i + 1, 1.0) for i in range(len(ways) - 1))
    return StagingProblem(
        layers, edges, devices=devices, bandwidth=100.0, micro_batches=4, memory_bytes=memory, name="chain"
    )


def test_forty_layers_that_save_alike_are_settled_cheapest_first() -> None:
    """Two devices hold 40 layers, 2 bytes each kept or nothing at some cost: branching over them would never end."""
    rng = random.Random(7)
    extra = [rng.uniform(1.0, 1.2) for _ in range(40)]
    ways = [(Configuration("keep", 5.0, memory_per_batch=2.0), Configuration("recomp", 5.0 + e)) for e in extra]
    problem = chain_of(ways, 19.0, devices=1)
    result = solve(problem, planner="dp-piper")
    assert result.bound == pytest.approx(result.objective, rel=1e-12)
    # 9 layers can be kept, 31 are computed again: the cheapest ones.
    assert result.objective == pytest.approx(200 + sum(sorted(extra)[:31]), rel=1e-12)
