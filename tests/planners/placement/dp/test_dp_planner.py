"""The dynamic program equals brute force, by both of its ways, and says what it knows about too large problems."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from typing import Any

import pytest
from problems.placements import limited_placement, optimum, random_placement, relaxed

from pipeplan.instances.base.result import Found, Result, StartOutcome, Stop
from pipeplan.instances.placement.generators import GENERATORS
from pipeplan.instances.placement.problem import PlacementProblem
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.planners.options import Progress, SolveOptions
from pipeplan.planners.placement.dp import planner as dp
from pipeplan.planners.run.solve import solve

CASES = range(300)
"""Seeds of the problems that are held against brute force."""


def plan(problem: PlacementProblem, **options: Any) -> Result:
    limits = SolveOptions(**{"threads": 1, **options.pop("limits", {})})
    return solve(
        problem, planner="dp", options=options, limits=limits, warm_start=options.pop("warm_start", "auto")
    )


def assert_equals(result: Result, problem: PlacementProblem, value: float | None) -> None:
    if value is None:
        assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING)
        return
    assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
    assert result.objective == pytest.approx(value, rel=1e-9)
    assert result.bound == pytest.approx(value, rel=1e-9)
    assert result.plan is not None
    assert not verify(problem, result.plan, contiguity="chain")


@pytest.fixture
def pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled way, however small the lattice."""
    monkeypatch.setattr(dp, "SMALL_IDEALS", 0)


@pytest.mark.parametrize("seeds", [CASES[start::10] for start in range(10)], ids=lambda seeds: f"{seeds[0]} mod 10")
def test_equals_brute_force(seeds: range) -> None:
    for seed in seeds:
        problem = limited_placement(seed)
        assert_equals(plan(problem), problem, optimum(problem))


@pytest.mark.parametrize("seeds", [CASES[start::10] for start in range(10)], ids=lambda seeds: f"{seeds[0]} mod 10")
@pytest.mark.usefixtures("pruned")
def test_the_pruned_program_equals_brute_force(seeds: range) -> None:
    for seed in seeds:
        problem = limited_placement(seed)
        assert_equals(plan(problem), problem, optimum(problem))


@pytest.mark.sweeps
def test_in_at_least_half_of_these_problems_a_limit_decides() -> None:
    """Feasible, and better without the limits on memory, support and CPUs; and all hard things occur."""
    problems = [limited_placement(seed) for seed in CASES]
    binding = 0
    for problem in problems:
        value, free = optimum(problem), optimum(relaxed(problem))
        assert free is not None
        binding += value is not None and value > free * (1 + 1e-9)
    assert binding >= len(CASES) / 2
    assert sum(problem.has_backward for problem in problems) > 100
    assert sum(any(not node.accelerator_time for node in problem.nodes) for problem in problems) > 60
    assert sum(problem.memory_bytes is not None for problem in problems) > 100
    assert sum(any(not node.supported for node in problem.nodes) for problem in problems) > 60


@pytest.mark.parametrize("seed", range(40))
def test_gpipe_objective_equals_brute_force(seed: int) -> None:
    problem = random_placement(seed, layers=5, training=True)
    assert_equals(plan(problem, objective="gpipe"), problem, optimum(problem, "gpipe"))


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_integer_program_on_medium_problems(seed: int) -> None:
    rng = random.Random(seed)
    name = rng.choice(["series-parallel", "layered", "dnn", "heterogeneous", "blocks"])
    arguments: dict[str, Any] = {"nodes": rng.randint(16, 30), "accelerators": rng.randint(2, 4), "seed": seed}
    if name != "dnn":
        arguments["training"] = seed % 3 == 0
    if name == "blocks":
        arguments["length"] = 3
    problem = GENERATORS[name](**arguments)
    if seed % 2:
        size = sum(node.size_bytes for node in problem.nodes)
        problem = problem.replace(memory_bytes=size / problem.accelerators * 1.1, cpus=1)
    result = solve(problem, formulation="ip-tarnawski", limits=SolveOptions(threads=1), cross_check=True)
    assert (result.stop, result.contradicted) == (Stop.PROVEN, False), result.messages
    assert result.cross_check is not None
    assert result.cross_check["found"] == "optimal"
    assert result.cross_check["objective"] == pytest.approx(result.objective, rel=2e-6)


@pytest.mark.usefixtures("pruned")
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_share_the_work_and_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeplan.planners.placement.dp.search.PARALLEL_FROM", 0)
    problem = GENERATORS["blocks"](nodes=60, branches=3, length=7, accelerators=5, seed=3)
    result = plan(problem, limits={"threads": threads})
    assert result.stop == Stop.PROVEN
    assert result.objective == pytest.approx(38.141, abs=1e-9)


def test_a_small_problem_needs_no_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert plan(GENERATORS["series-parallel"](nodes=30, accelerators=4, seed=1)).stop == Stop.PROVEN


# ---- limits --------------------------------------------------------------------------------------------


def test_too_many_ideals_end_in_a_plan_with_its_gap() -> None:
    """Ten thousand ideals and a thousand allowed: the best of some, and it says so."""
    problem = GENERATORS["blocks"](nodes=38, branches=4, length=9, accelerators=4)
    result = plan(problem, max_ideals=1000)
    assert (result.stop, result.found, result.verified) == (Stop.MEMORY, Found.FEASIBLE, True)
    assert result.gap is not None
    assert 0 < result.gap < 0.1
    assert "give --option max-ideals" in result.messages[0]
    assert "restricted to" in result.messages[1]
    best = plan(problem)
    assert best.objective is not None
    assert result.objective is not None
    assert result.bound is not None
    assert result.bound <= best.objective <= result.objective


def test_the_memory_limit_counts_too() -> None:
    problem = GENERATORS["blocks"](nodes=38, branches=4, length=9, accelerators=4)
    assert plan(problem, limits={"memory_limit_bytes": 10**6}).stop == Stop.MEMORY
    assert plan(problem, limits={"memory_limit_bytes": 10**8}).stop == Stop.PROVEN


def test_a_gap_that_is_asked_for_ends_the_run_and_bounds_the_optimum() -> None:
    problem = GENERATORS["blocks"](nodes=80, branches=4, length=9, accelerators=8)
    best, near = plan(problem), plan(problem, limits={"rel_gap": 0.05})
    assert best.stop == Stop.PROVEN
    assert near.stop in (Stop.GAP, Stop.PROVEN)
    assert near.gap is not None
    assert near.gap <= 0.05
    assert near.bound is not None
    assert best.objective is not None
    assert near.bound <= best.objective


def test_no_time_is_no_success() -> None:
    problem = GENERATORS["blocks"](nodes=38, branches=4, length=9)
    result = plan(problem, limits={"time_limit_s": 0.0})
    assert (result.stop, result.found) == (Stop.TIME, Found.NOTHING)
    assert result.bound is not None


@pytest.mark.usefixtures("pruned")
def test_progress_tells_ideals_incumbent_and_bound() -> None:
    heard: list[Progress] = []
    problem = GENERATORS["blocks"](nodes=42, branches=4, length=9, accelerators=6)
    result = solve(problem, planner="dp", on_progress=heard.append)
    assert result.stop == Stop.PROVEN
    assert any(record.nodes for record in heard)
    assert [record.bound for record in heard if record.bound is not None] == sorted(
        record.bound for record in heard if record.bound is not None
    )
    assert (
        result.model_size["ideals"] == 10_006
    )  # 10 ** 4 in the block, and one for each node around it and for none
    assert "warm_up" in result.seconds


# ---- starts --------------------------------------------------------------------------------------------


def test_an_optimal_start_is_kept_and_proven() -> None:
    problem = random_placement(5)
    best = plan(problem).plan
    assert best is not None
    result = solve(problem, planner="dp", warm_start=best)
    assert (result.stop, result.warm_start.outcome) == (Stop.PROVEN, StartOutcome.ACCEPTED)


@pytest.mark.usefixtures("pruned")
def test_a_poor_start_is_improved() -> None:
    problem = GENERATORS["blocks"](nodes=42, branches=4, length=9, accelerators=6)
    poor = solve(problem, planner="one-device").plan
    assert poor is not None
    result = solve(problem, planner="dp", warm_start=poor)
    assert (result.stop, result.warm_start.outcome) == (Stop.PROVEN, StartOutcome.ACCEPTED)
    assert result.objective == plan(problem).objective


@pytest.mark.parametrize("non_contiguous", [False, pytest.param(True, marks=pytest.mark.sweeps)])
def test_it_starts_the_integer_program(non_contiguous: bool) -> None:
    problem = GENERATORS["series-parallel"](nodes=30, accelerators=4, seed=1)
    result = solve(
        problem,
        formulation="ip-tarnawski",
        options={"non_contiguous": non_contiguous},
        warm_start="dp",
        limits=SolveOptions(rel_gap=0.05),
    )
    assert (result.warm_start.outcome, result.warm_start.source) == (StartOutcome.ACCEPTED, "dp")
    assert result.warm_start.value == plan(problem).objective
    assert result.options["warm_start"] == "dp"


# ---- what never hurts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_more_devices_more_memory_and_faster_links_never_hurt(seed: int) -> None:
    problem = limited_placement(seed)
    value = plan(problem).objective
    faster = tuple(replace(node, transfer_time=node.transfer_time / 2) for node in problem.nodes)
    richer = [
        problem.replace(accelerators=problem.accelerators + 1),
        problem.replace(cpus=problem.cpus + 1),
        problem.replace(nodes=faster),
        problem.replace(memory_bytes=problem.memory_bytes and problem.memory_bytes * 1.5),
    ]
    for better in richer:
        other = plan(better).objective
        assert value is None or (other is not None and other <= value * (1 + 1e-12))
