"""The best tree of stages on devices within devices: against enumeration and the flat problem, through `solve`, files
and the command line, and its limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeplan
from pipeplan import (
    Configuration,
    DeviceType,
    Edge,
    InputError,
    Layer,
    LeveledPlan,
    StagedPlan,
    StagingLevel,
    StagingProblem,
    UsageError,
)
from pipeplan.instances.catalogue import best_known, load_packaged
from pipeplan.instances.staging.referee import evaluate_leveled, evaluate_stages, rules_of, verify_leveled
from pipeplan.planners.staging.equal import best_quick_tree, quick_trees
from pipeplan.planners.staging.planner import decisions_of
from pipeplan.planners.staging.search import Found


def plan_levels(problem: StagingProblem) -> Found[LeveledPlan] | None:
    return decisions_of(problem, {}).best()


# ---- limits --------------------------------------------------------------------------------------------


def independent(count: int) -> StagingProblem:
    """Layers without edges: 2^count downsets."""
    layers = tuple(Layer(v, {1: (Configuration("way", 1.0),)}) for v in range(count))
    return StagingProblem(layers, (), 2, 1.0, 2, levels=(StagingLevel(2, 1.0),))


def many_devices(layers: int) -> StagingProblem:
    """A chain of equal layers on 64 servers of 64 devices."""
    return independent(layers).replace(
        edges=tuple(Edge(v, v + 1) for v in range(layers - 1)),
        devices=4096,
        micro_batches=4096,
        levels=(StagingLevel(64, 1.0), StagingLevel(64, 1.0)),
    )


def test_thousands_of_devices_by_hand() -> None:
    """Nothing is sent or synchronised: 4,096 devices share 3 s of work, however they are divided."""
    found = plan_levels(many_devices(3))
    assert not verify_leveled(many_devices(3), found.plan)
    assert found.load == pytest.approx(3 / 4096, rel=1e-9)


def test_too_many_downsets_are_refused() -> None:
    with pytest.raises(InputError, match=r"layers .* more than 300 downsets"):
        plan_levels(independent(40))


ABLE = "one of mip-piper, dp-piper, equi, equi-no-tp, uniform"


def tiny() -> StagingProblem:
    return load_packaged("tiny-levels")


# ---- the library ---------------------------------------------------------------------------------------


def test_tiny_levels_are_known_by_hand() -> None:
    """A copy on each server, cut inside: (8 + 2 x 20 / 10) / 2. The links between the servers carry nothing."""
    problem, known = tiny(), best_known("tiny-levels", "paper")
    result = pipeplan.solve(problem)
    assert isinstance(result.plan, LeveledPlan)
    assert (result.objective, result.bound, known.value, known.proven) == (6.0, 6.0, 6.0, True)
    cost = evaluate_leveled(problem, result.plan)
    assert [(stage.links, stage.inside, stage.binds) for stage in cost.stages] == [(0.0, 6.0, ("inside",))]


@pytest.mark.parametrize("planner", ["dp-piper", "equi"])
def test_time_runs_out(planner: str) -> None:
    result = pipeplan.solve(tiny(), planner=planner, limits=pipeplan.SolveOptions(time_limit_s=0.0))
    assert (result.stop, result.plan) == (pipeplan.Stop.TIME, None)


@pytest.mark.parametrize("planner", ["piper-no-dp", "piper-no-tp", "piper-no-ar", "piper-pipedream"])
def test_other_planners_refuse_levels(planner: str) -> None:
    with pytest.raises(UsageError, match=rf"'{planner}' cannot plan devices within devices.*choose {ABLE}\.$"):
        pipeplan.solve(tiny(), planner=planner)


# ---- files ---------------------------------------------------------------------------------------------


def test_a_flat_plan_is_none_for_levels(tmp_path: Path) -> None:
    flat = pipeplan.solve(load_packaged("tiny-stages"))
    pipeplan.save(flat, tmp_path / "flat.json")
    with pytest.raises(InputError, match="is of the kind stages, but the problem is a staging with levels"):
        pipeplan.load_plan(tmp_path / "flat.json", tiny())


# ---- the command line ----------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [("--bandwidth", "1GB/s"), ("--devices", "8")])
def test_overrides_that_levels_leave_no_room_for(
    plan: Callable[..., Any], option: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "problem.json"
    pipeplan.save(tiny(), file)
    for instance in ("tiny-levels", file):
        said = plan("solve", instance, *option)
        assert (said.code, said.out) == (2, "")
        assert "levels" in said.err
        assert said.err.count("\n") == 1


def test_a_search_that_is_out_of_time_leaves_a_plan() -> None:
    """A model of 70 billion parameters on hundreds of devices, where the search takes minutes."""
    levels, degrees = ((8, 450e9), (64, 50e9)), {"data_parallel": True, "tensor_parallel": (1, 2, 4, 8)}
    facts: dict[str, Any] = {"devices": 512, "batch": 512, "optimizer": "adam-mixed", "recompute": True, **degrees}
    problem = pipeplan.load_profile("llama-3-70b").to_staging(levels=levels, memory_bytes=80e9, **facts)
    result = pipeplan.solve(problem, limits=pipeplan.SolveOptions(time_limit_s=0.5))
    assert (result.stop, result.found, result.verified) == ("time", "feasible", True)


def test_a_quick_tree_is_a_plan_whatever_the_levels() -> None:
    """With one level of devices as well as with three, with and without replicas."""
    for levels in ([(4, 9.0)], [(2, 9.0), (2, 3.0)], [(2, 9.0), (1, 5.0), (2, 3.0)]):
        for replication in (True, False):
            problem = pipeplan.load_packaged("tiny-stages").replace(
                levels=tuple(StagingLevel(*level) for level in levels), replication=replication, memory_bytes=None
            )
            plans = list(quick_trees(problem))
            assert plans
            rules = rules_of(problem, {})
            assert best_quick_tree(problem, rules, lambda: False) in plans
            assert all(rules.violations(problem, plan) == () for plan in plans)


@pytest.mark.parametrize("name", ["tiny-stages", "resnet50-stages"])
def test_what_is_known_of_stagings_is_found_by_another_program(name: str) -> None:
    problem = load_packaged(name)
    found = plan_levels(problem.replace(levels=(StagingLevel(problem.devices, problem.bandwidth),)))
    known = best_known(name, "paper")
    assert found.load == pytest.approx(known.value, rel=1e-9)


# ---- extended ----------------------------------------------------------------------------------------------
# Beyond the paper: flushes behind every batch and devices of several types, through `pipeplan.solve`.


FLUSH = {"objective": "flush"}


# ---- flushes -------------------------------------------------------------------------------------------


def pair(batches: int) -> StagingProblem:
    """Two layers of 4 s, on two devices: a stage each, or one for both; copies need their weights synchronised."""
    way = Configuration("only", 4.0, weight_bytes=100.0)
    layers = (Layer("a", {1: (way,)}), Layer("b", {1: (way,)}))
    return StagingProblem(layers, (Edge("a", "b", 0.0),), 2, 10.0, batches, name="pair")


@pytest.mark.parametrize(("batches", "stages", "value"), [(2, 2, 6.0), (4, 2, 5.0), (1, 1, 8.0)])
def test_a_flush_by_hand(batches: int, stages: int, value: float) -> None:
    """Two stages take (N + 1) x 4 s for a batch of N, one takes N x 8 s: with one micro-batch both take 8 s."""
    result = pipeplan.solve(pair(batches), options=FLUSH)
    assert isinstance(result.plan, StagedPlan)
    assert (result.objective, result.bound) == (value, value)
    assert result.stop == pipeplan.Stop.PROVEN
    assert len(result.plan.stages) >= stages
    costs = evaluate_stages(pair(batches), result.plan)
    assert (costs.flushed_time_per_micro_batch, costs.to_json()["slots"]) == (value, costs.slots)


# ---- what is refused -----------------------------------------------------------------------------------


FOUR_TYPES = tuple(DeviceType(f"type {i}", 1) for i in range(4))


@pytest.mark.parametrize(("problem", "planner", "options", "words"), [
    (pair(4).replace(devices=4, device_types=FOUR_TYPES), *("dp-piper", {}, "device_types are 4; give at most 3")),
    (pair(4), "dp-piper", {**FLUSH, "knapsack": "greedy"}, "option knapsack is greedy, but flushes and types"),
    (pair(4).replace(device_types=FOUR_TYPES[:2]),
     *("piper-no-dp", {}, "cannot plan several types .* choose one of mip-piper, dp-piper, equi, ")),
    *((pair(4), planner, FLUSH, "has no option 'objective'") for planner in ("equi", "piper-no-dp")),
])  # fmt: skip
def test_what_is_refused(problem: StagingProblem, planner: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, UsageError), match=words):
        pipeplan.solve(problem, planner=planner, options=options)
