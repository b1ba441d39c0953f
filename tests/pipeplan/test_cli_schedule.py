"""`plan schedule`: from a plan in a file to a schedule, its problem and one line on what it gains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Plan, done, has
from problems.graph_pipelines_with_plans import chain_plan, chain_problem

import pipeplan
from pipeplan.instances.chain.problem import ChainProblem


@pytest.fixture
def chain(tmp_path: Path) -> tuple[Path, Path]:
    """Four equal layers, one on each of four GPUs, and the plan that puts them there."""
    problem = ChainProblem((5,) * 4, (10,) * 4, (2,) * 5, (0,) * 4, 4, 8, memory_mode="inputs", time_unit="ms")
    files = tmp_path / "chain.json", tmp_path / "plan.json"
    pipeplan.save(problem, files[0])
    starts = [0, 5, 10, 15, 20, 30, 40, 50]
    plan = {"kind": "pattern", "period": 60, "allocation": [0, 1, 2, 3], "starts": starts, "transfers": {}}
    plan["transfers"] = {
        str(edge): start for edge, start in zip((1, 2, 3, 5, 6, 7), (5, 10, 15, 30, 40, 50), strict=True)
    }
    files[1].write_text(json.dumps(plan))
    return files


LISTED = ("--planner", "list-schedule")
GREEDY = ("--planner", "zb-greedy", "--split-backward", "0.6")
IN_TURN = ("--planner", "1f1b")
"""Finite schedules at once."""


@pytest.mark.slow
def test_the_answer_says_what_it_gains_over_the_plan_and_over_the_best_rule(
    plan: Plan, chain: tuple[Path, Path]
) -> None:
    """1F1B of 12 micro-batches takes 15 x 15, and has four of them in flight on the first GPU: 8 bytes."""
    said = done(plan("schedule", *chain, "--micro-batches", 12, *GREEDY))
    line = said.out.splitlines()[-1]
    has(line, "less than the plan's own schedule (225 ms, 8 B)", "the best named rule that fits")
    data = plan("schedule", *chain, "--micro-batches", 12, *GREEDY, "--json").json
    assert (data["own"]["value"], data["own"]["peak"], data["own"]["fits"]) == (225, 8, True)
    assert data["rule"]["value"] < 225
    assert data["result"]["verified"]
    assert data["result"]["plan"]["kind"] == "schedule"


def test_the_steady_state_of_a_problem_with_micro_batches_is_shown_judged_and_reported(
    plan: Plan, tmp_path: Path
) -> None:
    problem, result, page = (tmp_path / name for name in ("two.json", "steady.json", "steady.html"))
    plan("generate", "pipeline", "--stages", 2, "--micro-batches", 3, "-o", problem)
    assert plan("solve", problem, "--objective", "period", "-o", result).code == 0
    assert "period 15" in plan("show", problem, result).out
    assert plan("verify", problem, result).out.startswith("verified: yes, recomputed period 15")
    assert plan("report", result, "-o", page).code == 0
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(json.loads(result.read_text())["plan"]))
    assert plan("verify", problem, bare, "--objective", "period").out == "verified: yes, recomputed period 15\n"
    assert "recomputed makespan 60" in plan("verify", problem, bare).out  # of its three micro-batches


def test_the_rule_that_the_search_begins_with_is_not_called_the_readers_plan(
    plan: Plan, chain: tuple[Path, Path]
) -> None:
    """The reader's plan takes 225 ms, and no search ends with that."""
    said = plan("schedule", *chain, "--micro-batches", 12, "--split-backward", "0.6", "-v")
    assert "less than the plan's own schedule (225 ms, 8 B)" in said.out
    assert "your plan" not in said.out
    assert "from the best named rule" in " ".join(said.out.split())


def test_with_undivided_backward_passes_the_own_schedule_is_the_rule_1f1b(
    plan: Plan, chain: tuple[Path, Path]
) -> None:
    data = plan("schedule", *chain, "--micro-batches", 12, *IN_TURN, "--json").json
    assert data["own"]["value"] == data["rule"]["value"] == 225
    assert data["rule"]["name"] in ("1f1b", "zb-greedy")


def test_result_and_problem_go_on_to_the_other_commands(
    plan: Plan, chain: tuple[Path, Path], tmp_path: Path
) -> None:
    result, problem = tmp_path / "result.json", tmp_path / "problem.json"
    files = ("--output", result, "--problem-output", problem)
    assert plan("schedule", *chain, "--micro-batches", 4, *GREEDY, *files).code == 0
    assert json.loads(problem.read_text())["schema"] == "pipeplan.schedule/1"
    assert "verified: yes" in plan("verify", problem, result).out
    assert "F" in plan("show", problem, result).out
    alone, named = plan("export", result, "--to", "torch"), plan("export", result, problem, "--to", "torch")
    assert alone.out == named.out
    assert alone.out.startswith("0F0,")
    page = tmp_path / "page.html"
    assert plan("report", result, "--output", page).code == 0
    assert "</html>" in page.read_text()


def test_an_export_with_a_model_for_the_problem_says_what_to_drop(
    plan: Plan, chain: tuple[Path, Path], tmp_path: Path
) -> None:
    """A schedule is of blocks, of which no model knows; and `plan export` has no options of a cluster."""
    result = tmp_path / "result.json"
    assert plan("schedule", *chain, "--micro-batches", 4, *GREEDY, "-o", result).code == 0
    said = plan("export", result, "llama-3-8b", "--to", "torch")
    assert said.code == 2
    assert "llama-3-8b is a model without a cluster; drop it" in " ".join(said.err.split())
    assert "--devices" not in said.err


@pytest.mark.slow
def test_memory_is_that_of_the_problem_unless_it_is_given(
    plan: Plan, chain: tuple[Path, Path], tmp_path: Path
) -> None:
    problem = tmp_path / "problem.json"
    asked = ("schedule", *chain, "--micro-batches", 4, *GREEDY, "--problem-output", problem)
    held = []
    for memory in ((), ("--memory", "4B"), ("--memory", "none")):
        said = plan(*asked, *memory, "--json").json
        held.append(json.loads(problem.read_text())["devices"][0]["memory"])
        assert said["own"]["fits"] is (memory != ("--memory", "4B"))
    assert held == [8, 4, None]
    assert "more than there is" in plan(*asked, "--memory", "4B").out


def test_memory_is_told_in_the_unit_in_which_it_was_given(plan: Plan, chain: tuple[Path, Path]) -> None:
    """A stage keeps two billion bytes: with a limit in GB, the table and the line below it say GB."""
    problem = json.loads(chain[0].read_text())
    problem["activations"] = [1e9 * size for size in problem["activations"]]
    problem["memory"] *= 1e9
    chain[0].write_text(json.dumps(problem))
    said = plan("schedule", *chain, "--micro-batches", 12, *IN_TURN)
    assert "the plan's own schedule (225 ms, 8 GB)" in said.out
    assert "GiB" not in said.out


def test_without_micro_batches_the_answer_is_a_period(plan: Plan, chain: tuple[Path, Path]) -> None:
    data = plan("schedule", *chain, *LISTED, "--json").json
    assert data["objective"] == "period"
    assert data["own"]["value"] == 15
    assert data["result"]["objective"] >= 15
    assert "a micro-batch every" in plan("schedule", *chain, *LISTED).out


def test_a_stage_graph_is_compared_with_its_own_kfkb(plan: Plan, tmp_path: Path) -> None:
    """Three stages of 1 and 2, one sample at a time: 1F1B in groups of one."""
    problem, file = tmp_path / "problem.json", tmp_path / "plan.json"
    pipeplan.save(chain_problem(3, 8), problem)
    file.write_text(json.dumps(chain_plan(3, 1, 8).to_json()))
    data = plan("schedule", problem, file, "--micro-batches", 8, *IN_TURN, "--json").json
    assert data["own"]["value"] == data["rule"]["value"] == (8 + 3 - 1) * 3
    assert "a micro-batch is one of 1 sample" in data["notes"]


def test_too_little_memory_is_no_plan(plan: Plan, chain: tuple[Path, Path]) -> None:
    assert plan("schedule", *chain, "--micro-batches", 4, "--memory", "1B", *GREEDY).code == 1
