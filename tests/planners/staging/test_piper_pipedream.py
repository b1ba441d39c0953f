"""PipeDream's partitioner for stagings: what is no articulation point stays together, memory does not matter to it."""

from __future__ import annotations

import pytest
from oracles.staging import best_stages
from problems.stagings import random_staging

from pipeplan.instances.base.result import Found
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingProblem
from pipeplan.instances.staging.referee.stages import verify_stages
from pipeplan.planners.run.solve import solve
from pipeplan.planners.staging.planner import path_of


def chain(*times: float, memory: float | None = None) -> StagingProblem:
    ways = [
        {1: (Configuration("keep", time, memory_per_batch=1.0), Configuration("recomp", 2 * time))}
        for time in times
    ]
    layers = tuple(Layer(i, way) for i, way in enumerate(ways))
    edges = tuple(Edge(i, i + 1, 0.0) for i in range(len(times) - 1))
    return StagingProblem(layers, edges, devices=3, bandwidth=1.0, micro_batches=8, memory_bytes=memory)


def diamond() -> StagingProblem:
    """0 -> 1 -> (2 | 3) -> 4 -> 5."""
    arcs = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)]
    layers = tuple(Layer(i, {1: (Configuration("keep", 1.0 + i),)}) for i in range(6))
    return StagingProblem(layers, tuple(Edge(*arc, 0.0) for arc in arcs), devices=6, bandwidth=1.0, micro_batches=9)


def test_cuts_and_replicas_of_a_chain() -> None:
    """Loads 6 on one device, or 3 layers of 2, 2, 8 on 1 + 2: (2 + 2), 8 / 2."""
    result = solve(chain(2.0, 2.0, 8.0), planner="piper-pipedream")
    assert result.objective == pytest.approx(4.0)
    assert result.plan is not None
    assert result.bound is None


def test_it_is_blind_to_memory() -> None:
    """Every layer keeps one byte per batch in flight: with half a byte, only recomputation fits."""
    result = solve(chain(2.0, 2.0, 8.0, memory=0.5), planner="piper-pipedream")
    assert result.found == Found.REJECTED
    assert any("exceeds the memory" in message for message in result.messages)
    assert solve(chain(2.0, 2.0, 8.0, memory=0.5), planner="dp-piper").objective == pytest.approx(8.0)


def test_branches_stay_in_one_piece() -> None:
    blocks = [sorted(block) for block in path_of(diamond())]
    assert sorted(i for block in blocks for i in block) == list(range(6))
    assert {2, 3} <= set(next(block for block in blocks if 2 in block))
    assert len(blocks) >= 4
    plan = solve(diamond(), planner="piper-pipedream").plan
    assert plan is not None
    stage_of = {node: number for number, stage in enumerate(plan.stages) for node in stage.nodes}
    assert stage_of[2] == stage_of[3]


def test_on_a_path_it_is_the_optimum_without_memory_and_tensor_parallelism() -> None:
    """Brute force over the same stages, on random chains."""
    for seed in range(0, 40, 2):
        base = random_staging(seed, exact_batches=False)
        layers = tuple(
            Layer(layer.id, {1: next(iter(layer.configurations.values()))}, layer.name) for layer in base.layers
        )
        edges = tuple(Edge(i, i + 1, 3.0) for i in range(len(layers) - 1))
        problem = base.replace(layers=tuple(_bare(layer) for layer in layers), edges=edges, memory_bytes=None)
        best = best_stages(problem, "paper")
        result = solve(problem, planner="piper-pipedream")
        assert best is not None
        assert result.objective == pytest.approx(best[0], rel=1e-9)
        assert result.plan is not None
        assert not verify_stages(problem, result.plan)


def _bare(layer: Layer) -> Layer:
    """Without anything gathered: the edges are others now."""
    ways = {
        t: tuple(Configuration(w.id, w.time, w.weight_bytes) for w in row)
        for t, row in layer.configurations.items()
    }
    return Layer(layer.id, ways)


def test_it_is_never_better_than_the_optimum() -> None:
    better = 0
    for seed in range(30):
        problem = random_staging(seed, exact_batches=False).replace(memory_bytes=None)
        theirs, ours = (solve(problem, planner=name).objective for name in ("piper-pipedream", "dp-piper"))
        if theirs is not None:
            assert ours is not None
            assert ours <= theirs * (1 + 1e-12)
            better += ours < theirs * (1 - 1e-6)
    assert better
