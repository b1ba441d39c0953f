"""The published latency inputs: no worse than the published greedy, with proofs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeplan.formulations.tarnawski_latency.atoms import atoms_of
from pipeplan.formulations.tarnawski_latency.cells import cell_bound
from pipeplan.formulations.tarnawski_latency.path_bound import path_bound
from pipeplan.instances.base.result import Stop
from pipeplan.instances.lookup import load
from pipeplan.instances.placement.problem import PlacementProblem
from pipeplan.instances.placement.referee.verify import verify_latency
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.placement.latency import World
from pipeplan.planners.placement.latency_lns import cell_places
from pipeplan.planners.run.solve import solve

pytestmark = pytest.mark.workloads

GREEDY = {"bert24_inference": 100.219, "gnmt_inference": 268.5, "bert_l-3_inference": 416.204}
"""Printed by the published program (to three digits)."""

BEST = {"bert24_inference": 100.2185, "gnmt_inference": 225.64789062500003, "bert_l-3_inference": 408.4744081857385}
"""The best values known to us, all three proven."""

BOUND_GAP = {"bert24_inference": 1e-6, "gnmt_inference": 0.01, "bert_l-3_inference": 0.001}
"""How close the divided path alone comes, without any solver."""


def problem_of(workloads: Path, name: str) -> PlacementProblem:
    problem = load(workloads / "tarnawski" / "latency" / f"{name}.json")
    assert isinstance(problem, PlacementProblem)
    return problem


@pytest.mark.parametrize("name", GREEDY)
def test_list_scheduling_is_no_worse_than_the_published_greedy(workloads: Path, name: str) -> None:
    problem = problem_of(workloads, name)
    result = solve(problem, planner="latency-greedy")
    assert result.objective is not None
    assert result.objective <= GREEDY[name] + 5e-4 + 1e-3 * (name == "gnmt_inference")  # printed as 268.5
    assert not verify_latency(problem, result.plan, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", BEST)
def test_the_divided_path_comes_close_without_a_solver(workloads: Path, name: str) -> None:
    bound = path_bound(atoms_of(problem_of(workloads, name), 1))
    assert BEST[name] * (1 - BOUND_GAP[name]) <= bound <= BEST[name] * (1 + 1e-9)


@pytest.mark.sweeps
def test_bert_24_is_proven_by_the_divided_path_and_its_start(workloads: Path) -> None:
    problem = problem_of(workloads, "bert24_inference")
    result = solve(problem, formulation="ip-tarnawski-latency", limits=SolveOptions(threads=2))
    assert (result.stop, result.objective) == (Stop.PROVEN, pytest.approx(100.2185))
    assert not verify_latency(problem, result.plan, 1)  # type: ignore[arg-type]


@pytest.mark.at_once(1)
@pytest.mark.parametrize("pieces", [2, 3])
def test_more_subgraphs_per_device_do_not_help_bert_3(workloads: Path, pieces: int) -> None:
    """The divided path alone says so, to 0.1 %."""
    bound = path_bound(atoms_of(problem_of(workloads, "bert_l-3_inference"), pieces))
    assert BEST["bert_l-3_inference"] * (1 - 0.001) <= bound <= BEST["bert_l-3_inference"] * (1 + 1e-9)


@pytest.mark.sweeps
@pytest.mark.parametrize("share", [0.5, 1.6, 3.0])
@pytest.mark.parametrize("name", ["inceptionv3_inference", "resnet50_inference"])
def test_layer_graphs_of_convolutional_networks_are_nearly_solved_without_a_search(
    workloads: Path, name: str, share: float
) -> None:
    """With the cluster of the latency inputs; the accelerators together hold a share of the network."""
    problem = load(workloads / "tarnawski" / "throughput" / "layer" / f"{name}.json")
    assert isinstance(problem, PlacementProblem)
    whole = sum(node.size_bytes for node in problem.nodes)
    problem = problem.replace(accelerators=6, cpus=8, memory_bytes=whole * share / 6)
    world = World(problem, 1)
    places = [place for place in cell_places(world) if world.fits(place)]
    bound = cell_bound(atoms_of(problem, 1))
    value = min(map(world.latency, places))
    assert bound * (1 - 1e-9) <= value <= 1.01 * bound
    assert not verify_latency(problem, world.plan(min(places, key=world.latency)), 1)
