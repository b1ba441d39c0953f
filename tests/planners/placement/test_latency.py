"""The latency planners: what they offer stands before the referee, and their kernel counts as the referee does."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from oracles.latency import best_latency, random_latency_placement
from random_placements import layered

from pipeplan import Found, InputError, Node, PlacementProblem, Result, SolveOptions, Stop, UsageError, solve
from pipeplan.instances.placement.referee.latency import evaluate_latency
from pipeplan.planners.placement.latency import Annealing, World, lower_bound
from pipeplan.planners.registry import PLANNERS

pytestmark = pytest.mark.xdist_group("latency")  # one worker compiles

NAMES = [name for name in PLANNERS if name.startswith("latency-")]
SELF_MADE = [name for name in NAMES if name not in ("latency-expert", "latency-partition")]


def planned(problem: PlacementProblem, name: str, pieces: int = 1, **options: Any) -> Result:
    return solve(problem, planner=name, options={"subgraphs_per_device": pieces, **options})


@pytest.mark.parametrize("name", SELF_MADE)
@pytest.mark.parametrize("seed", range(12))
def test_every_offer_is_a_plan_no_better_than_the_optimum(name: str, seed: int) -> None:
    problem, pieces = random_latency_placement(seed, 4), 1 + seed % 2
    result = planned(problem, name, pieces)
    best = best_latency(problem, pieces)
    assert result.found in (Found.FEASIBLE, Found.OPTIMAL, Found.NOTHING), result.violations
    if result.objective is not None:
        assert result.objective >= best - 1e-9
        assert result.bound is None or result.bound <= best + 1e-9
    if name == "latency-lns" and problem.cpus:
        assert result.objective == pytest.approx(best)  # tiny problems, and a sure start


def test_the_partition_is_evaluated_for_latency() -> None:
    pytest.importorskip("pymetis")
    problem = layered(nodes=12, accelerators=2, seed=1)
    result = planned(problem, "latency-partition")
    assert result.objective == evaluate_latency(problem, result.plan).latency  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_the_kernel_agrees_with_the_referee(seed: int) -> None:
    """Random placements, most of which wait in circles: then both say so."""
    problem, rng = random_latency_placement(seed, 7), random.Random(seed)
    world = World(problem, 2)
    place = [rng.choice([0] * (problem.cpus > 0) + list(range(1, world.slots + 1))) for _ in problem.nodes]
    expected = evaluate_latency(problem, world.plan(place)).latency
    value = world.latency(place)
    assert (expected is None) == (value == float("inf"))
    if expected is not None:
        assert value == pytest.approx(expected)
        again = world.places(world.plan(place))
        assert again is not None
        assert world.latency(again) == pytest.approx(expected)


@pytest.mark.sweeps
def test_compiled_and_plain_loops_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = layered(nodes=30, accelerators=2, seed=3)
    found = []
    for threshold in (1, 10_000):
        monkeypatch.setattr("pipeplan.planners.placement.latency.COMPILED_FROM", threshold)
        annealing = Annealing(World(problem, 2), [0] * len(problem.nodes), seed=5)
        found.append(annealing.run(400, 10.0, 0.1, float("inf")))
    assert found[0] == found[1] is not None


def chain(**changes: Any) -> PlacementProblem:
    nodes = [
        Node(name, t, 10 * t, 2.0, 0.5 * (name != "c")) for name, t in zip("abc", (1.0, 2.0, 3.0), strict=True)
    ]
    return PlacementProblem(tuple(nodes), (("a", "b"), ("b", "c")), 2, 1, 4.0).replace(**changes)


def test_a_chain_by_hand() -> None:
    """The bound is the longest path on the faster devices; a warm start is kept."""
    best = planned(chain(), "latency-greedy")
    assert (best.objective, planned(chain(), "latency-cpu").objective) == (pytest.approx(7), pytest.approx(60))
    assert (lower_bound(chain()), lower_bound(chain(accelerators=0))) == (pytest.approx(6), pytest.approx(60))
    result = solve(chain(), planner="latency-lns", warm_start=best.plan)  # type: ignore[arg-type]
    assert (result.warm_start.outcome.value, result.objective) == ("accepted", pytest.approx(7))


def test_an_experts_split_is_taken_as_it_stands(tmp_path: Path) -> None:
    devices = [
        {"name": "acc0", "type": "accelerator", "nodes": ["a", "c"]},
        {"name": "cpu0", "type": "cpu", "nodes": ["b"]},
    ]
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"kind": "placement", "devices": devices}))
    result = planned(chain(), "latency-expert", split=str(path))
    assert (result.found, len(result.violations)) == (Found.REJECTED, 1)
    assert planned(chain(), "latency-expert", 2, split=str(path)).objective == pytest.approx(1.5 + 20 + 3.5)
    with pytest.raises(UsageError, match="--option split=FILE"):
        planned(chain(), "latency-expert")


@pytest.mark.parametrize("name", SELF_MADE)
def test_no_pieces_at_all_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="whole number from 1 to"):
        planned(chain(), name, 0)


def test_no_cpu_no_plan_on_cpus() -> None:
    result = planned(chain(cpus=0, memory_bytes=6.0), "latency-cpu")
    assert (result.stop, result.found) == (Stop.COMPLETED, Found.NOTHING)
    assert "no CPU" in result.messages[0]


def test_the_formulation_starts_from_these_planners() -> None:
    for asked, source in (("auto", "latency-lns"), ("dp", "latency-dp")):
        limits = SolveOptions(threads=1)
        result = solve(chain(), formulation="ip-tarnawski-latency", limits=limits, warm_start=asked)
        assert (result.warm_start.outcome.value, result.warm_start.source) == ("accepted", source)
