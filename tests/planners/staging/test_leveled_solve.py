"""Staging problems with levels through `pipeplan.solve`, files and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from oracles.leveled_staging import best_leveled
from oracles.staging import best_stages
from problems.stagings import random_staging

import pipeplan
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.catalogue import best_known, load_packaged
from pipeplan.instances.schemas import read_schema
from pipeplan.instances.staging.kind_functions import staging_to_json
from pipeplan.instances.staging.leveled_plan import LeveledPlan, LeveledStage
from pipeplan.instances.staging.problem import VARIANTS, StagingLevel, StagingProblem
from pipeplan.instances.staging.referee.levels import evaluate_leveled
from pipeplan.instances.staging.rules import rules_of
from pipeplan.planners.staging.equal import best_quick_tree, quick_trees

ABLE = "one of mip-piper, dp-piper, equi, equi-no-tp, uniform"
SHAPES = ((2, 2), (1, 3), (3, 1), (4,))


def leveled(seed: int) -> StagingProblem:
    shape = SHAPES[seed % len(SHAPES)]
    flat = random_staging(seed, layers=(2, 3), exact_batches=False)
    levels = tuple(StagingLevel(devices, flat.bandwidth * 0.4**i) for i, devices in enumerate(shape))
    total = 1
    for devices in shape:
        total *= devices
    return flat.replace(devices=total, levels=levels, name=f"random levels {seed}")


def tiny() -> StagingProblem:
    return load_packaged("tiny-levels")


# ---- the library ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(16))
def test_solve_finds_the_best_tree(seed: int, variant: str) -> None:
    problem = leveled(seed)
    result, expected = pipeplan.solve(problem, options={"hierarchy": variant}), best_leveled(problem, variant)
    assert result.planner == "dp-piper"
    if expected is None:
        assert result.stop == pipeplan.Stop.INFEASIBLE
    else:
        assert (result.stop, result.found) == (pipeplan.Stop.PROVEN, pipeplan.Found.OPTIMAL)
        assert result.objective == pytest.approx(expected[0], rel=1e-9)
        assert result.verified


@pytest.mark.parametrize("seed", range(16))
def test_single_devices_above_make_the_flat_problem(seed: int) -> None:
    """As `dp-piper` plans it, and as brute force does."""
    flat = random_staging(seed, layers=(2, 4))
    upper = (StagingLevel(1, flat.bandwidth / 10),) * (1 + seed % 2)
    nested = flat.replace(levels=(StagingLevel(flat.devices, flat.bandwidth), *upper))
    found, known, expected = pipeplan.solve(nested), pipeplan.solve(flat), best_stages(flat)
    assert found.stop == known.stop
    if expected is None:
        assert found.objective is known.objective is None
    else:
        assert found.objective == pytest.approx(expected[0], rel=1e-9)
        assert known.objective == pytest.approx(expected[0], rel=1e-9)


def test_tiny_levels_are_known_by_hand() -> None:
    """A copy on each server, cut inside: (8 + 2 x 20 / 10) / 2. The links between the servers carry nothing."""
    problem, known = tiny(), best_known("tiny-levels", "paper")
    result = pipeplan.solve(problem)
    assert known is not None
    assert isinstance(result.plan, LeveledPlan)
    assert (result.objective, result.bound, known.value, known.proven) == (6.0, 6.0, 6.0, True)
    cost = evaluate_leveled(problem, result.plan)
    assert [(stage.links, stage.inside, stage.binds) for stage in cost.stages] == [(0.0, 6.0, ("inside",))]


def test_the_larger_level_counts_and_not_the_sum() -> None:
    """A cut between the servers: 40 for the links above, 8 + 4 for a stage below; 40 and not 52."""
    problem = tiny()
    ways = [{name: "vanilla"} for name in "ab"]
    inner = [LeveledStage((name,), 1, 1, way) for name, way in zip("ab", ways, strict=True)]
    plan = LeveledPlan(tuple(LeveledStage(stage.nodes, 1, children=(stage,)) for stage in inner))
    cost = evaluate_leveled(problem, plan)
    assert cost.time_per_micro_batch == 40.0
    assert [(stage.links, stage.inside, stage.binds) for stage in cost.stages] == [(40.0, 12.0, ("links",))] * 2


def test_time_runs_out() -> None:
    result = pipeplan.solve(tiny(), limits=pipeplan.SolveOptions(time_limit_s=0.0))
    assert (result.stop, result.plan) == (pipeplan.Stop.TIME, None)


@pytest.mark.parametrize("planner", ["piper-no-dp", "piper-no-tp", "piper-no-ar", "piper-pipedream"])
def test_other_planners_refuse_levels(planner: str) -> None:
    with pytest.raises(
        UsageError,
        match=rf"'{planner}' cannot plan devices within devices.*choose {ABLE}\.$",
    ):
        pipeplan.solve(tiny(), planner=planner)


@pytest.mark.parametrize(("option", "value"), [("semantics", "reference"), ("knapsack", "greedy")])
def test_options_of_flat_networks_are_refused(option: str, value: str) -> None:
    with pytest.raises(InputError, match=f"option {option} is {value} and the problem has levels"):
        pipeplan.solve(tiny(), options={option: value})


def test_the_hierarchy_is_for_levels() -> None:
    with pytest.raises(InputError, match="option hierarchy is given and the problem has no levels"):
        pipeplan.solve(load_packaged("tiny-stages"), options={"hierarchy": "crude"})


# ---- files ---------------------------------------------------------------------------------------------


def test_problem_plan_and_result_come_back_from_files(tmp_path: Path) -> None:
    problem = tiny()
    result = pipeplan.solve(problem)
    for name, value in (("problem", problem), ("plan", result.plan), ("result", result)):
        assert value is not None
        pipeplan.save(value, tmp_path / f"{name}.json")
    again = pipeplan.load(tmp_path / "problem.json")
    assert again == problem
    for name in ("plan", "result"):
        assert pipeplan.load_plan(tmp_path / f"{name}.json", again) == result.plan


def test_written_files_obey_the_schemas() -> None:
    result = pipeplan.solve(tiny())
    assert result.plan is not None
    jsonschema.validate(staging_to_json(tiny()), read_schema("staging-1"))
    jsonschema.validate(result.plan.to_json(), read_schema("staged-plan-1"))


GOOD = {"nodes": ["a"], "data_parallel": 1, "tensor_parallel": 1, "configurations": [["a", "vanilla"]]}


@pytest.mark.parametrize(
    "stage",
    [
        {key: value for key, value in GOOD.items() if key != "tensor_parallel"},
        {**GOOD, "configurations": {"a": "vanilla"}},
        {**GOOD, "configurations": [["a"]]},
        {"nodes": ["a"], "data_parallel": 1, "children": [{"nodes": ["a"]}]},
        {"nodes": ["a"], "data_parallel": "1", "children": []},
    ],
)
def test_schema_and_reader_refuse_the_same_trees(stage: dict[str, Any]) -> None:
    data = {"kind": "leveled-stages", "stages": [stage]}
    jsonschema.validate({**data, "stages": [GOOD]}, read_schema("staged-plan-1"))
    LeveledPlan.from_json({**data, "stages": [GOOD]})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, read_schema("staged-plan-1"))
    with pytest.raises(InputError):
        LeveledPlan.from_json(data)


def test_a_flat_plan_is_none_for_levels(tmp_path: Path) -> None:
    flat = pipeplan.solve(load_packaged("tiny-stages"))
    pipeplan.save(flat, tmp_path / "flat.json")
    with pytest.raises(InputError, match="is of the kind stages, but the problem is a staging with levels"):
        pipeplan.load_plan(tmp_path / "flat.json", tiny())


# ---- the command line ----------------------------------------------------------------------------------


def test_solve_show_and_verify(plan: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    solved = plan("solve", "tiny-levels", "--planner", "dp-piper", "--output", file)
    assert solved.code == 0
    assert solved.err.startswith("wrote ")
    shown = plan("show", "tiny-levels", file)
    assert shown.code == 0
    rows = [line.split() for line in shown.out.splitlines() if "█" in line]
    known = {"inside", "links", "computation"}
    assert [(row[0], known & set(row)) for row in rows] == [
        ("0", {"inside"}), ("│", {"computation"}), ("│", {"computation"}),
    ]  # fmt: skip
    verified = plan("verify", "tiny-levels", file, "--json").json
    assert (verified["verified"], verified["objective"]) == (True, 6.0)
    assert verified["options"] == {"hierarchy": "precise"}
    assert verified["evaluation"]["stages"][0]["binds"] == ["inside"]
    assert [leaf["binds"] for leaf in verified["evaluation"]["leaves"]] == [["computation"]] * 2


def test_a_result_is_judged_by_its_variant(plan: Callable[..., Any], tmp_path: Path) -> None:
    """The basic variant forgets memory; the precise one does not."""
    problem, result, file = tiny().replace(memory_bytes=1.0), tmp_path / "basic.json", tmp_path / "problem.json"
    pipeplan.save(problem, file)
    assert plan("solve", file).code == 1
    assert plan("solve", file, "--hierarchy", "basic", "--output", result).code == 0
    assert plan("verify", file, result).code == 0
    refused = plan("verify", file, result, "--hierarchy", "precise")
    assert refused.code == 3
    assert "bytes with" in refused.out


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


def test_a_tree_without_levels_is_refused_in_a_sentence(plan: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "tree.json"
    file.write_text(json.dumps({"kind": "leveled-stages", "stages": [GOOD]}))
    said = plan("verify", "tiny-stages", file)
    assert said.code == 2
    assert "is of the kind leveled-stages, but the problem is a staging; give a plan of the kind stages" in said.err


def test_a_tree_has_a_report_page(plan: Callable[..., Any], tmp_path: Path) -> None:
    result, page = tmp_path / "result.json", tmp_path / "page.html"
    assert plan("solve", "tiny-levels", "--output", result).code == 0
    assert plan("report", result, "--output", page).code == 0
    assert "Load of each stage of each level" in page.read_text("utf-8")


def test_a_search_that_is_out_of_time_leaves_a_plan() -> None:
    """A model of 70 billion parameters on hundreds of devices, where the search takes minutes."""
    problem = pipeplan.load_profile("llama-3-70b").to_staging(
        devices=512,
        levels=((8, 450e9), (64, 50e9)),
        memory_bytes=80e9,
        batch=512,
        optimizer="adam-mixed",
        recompute=True,
        data_parallel=True,
        tensor_parallel=(1, 2, 4, 8),
    )
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
