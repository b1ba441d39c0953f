"""What can only help: more subgraphs per device, more memory, faster links, one more accelerator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from oracles.latency import random_latency_placement

from pipeplan.instances.base.result import Stop
from pipeplan.instances.placement.problem import PlacementProblem
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.run.solve import solve


def proven(problem: PlacementProblem, pieces: int = 1) -> float | None:
    """None: there is no plan."""
    result = solve(
        problem,
        formulation="ip-tarnawski-latency",
        options={"subgraphs_per_device": pieces},
        limits=SolveOptions(threads=1),
        warm_start="none",
    )
    assert result.stop in (Stop.PROVEN, Stop.INFEASIBLE), result.messages
    return result.objective


def faster_links(problem: PlacementProblem) -> PlacementProblem:
    return problem.replace(nodes=tuple(replace(n, transfer_time=0.4 * n.transfer_time) for n in problem.nodes))


def more_memory(problem: PlacementProblem) -> PlacementProblem:
    return problem.replace(memory_bytes=None if problem.memory_bytes is None else 1.7 * problem.memory_bytes + 1)


def one_more_accelerator(problem: PlacementProblem) -> PlacementProblem:
    return problem.replace(accelerators=problem.accelerators + 1)


def never_hurts(before: float | None, after: float | None) -> None:
    assert before is None or (after is not None and after <= before * (1 + 2e-6) + 1e-12)


@pytest.mark.parametrize("seed", range(200, 212))
@pytest.mark.parametrize("improve", [faster_links, more_memory, one_more_accelerator])
def test_a_better_cluster_never_hurts(seed: int, improve: Callable[[PlacementProblem], PlacementProblem]) -> None:
    problem, pieces = random_latency_placement(seed, 7), 1 + seed % 2
    never_hurts(proven(problem, pieces), proven(improve(problem), pieces))


@pytest.mark.parametrize("seed", range(200, 212))
def test_more_subgraphs_per_device_never_hurt(seed: int) -> None:
    problem = random_latency_placement(seed, 7)
    values = [proven(problem, pieces) for pieces in (1, 2, 3)]
    never_hurts(values[0], values[1])
    never_hurts(values[1], values[2])
