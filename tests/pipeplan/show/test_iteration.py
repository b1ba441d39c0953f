"""What is said of one iteration: the simulator's time, in samples and tokens where these are known."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, has

import pipeplan
from pipeplan.instances.base.kind import Samples
from pipeplan.show.answer import describe_iteration, iteration_of

CLUSTER = ("--devices", 4, "--memory", "40GB", "--bandwidth", "12GB/s")


def test_the_time_is_that_of_the_simulator() -> None:
    problem = pipeplan.load_packaged("tiny-stages")
    result = pipeplan.solve(problem)
    assert result.plan is not None
    found = pipeplan.simulate(problem, result.plan)
    assert iteration_of(problem, result.plan) == found
    said = describe_iteration(problem, result.plan)
    assert said is not None
    assert said.in_words() == (
        f"one iteration of 8 micro-batches: {found.iteration:.7g} s, {8 / found.iteration:.4g} micro-batches/s; "
        f"devices of the plan idle {100 * found.bubble:.3g} % of it"
    )


def test_a_micro_batch_of_four_is_four_samples() -> None:
    problem = pipeplan.load_packaged("tiny-stages")
    result = pipeplan.solve(problem)
    assert result.plan is not None
    found = pipeplan.simulate(problem, result.plan)
    said = describe_iteration(problem, result.plan, Samples(4, training=True, tokens=1000))
    assert said is not None
    each = 4 * 8 / found.iteration
    assert f", {each:.4g} samples/s, {1000 * each:.4g} tokens/s; " in said.in_words()


def test_inference_and_schedules_have_no_iteration_to_speak_of() -> None:
    for name, options in (("resnet50-inference", {"planner": "greedy"}), ("zero-bubble-4x12", {"planner": "1f1b"})):
        problem = pipeplan.load_packaged(name)
        result = pipeplan.solve(problem, **options)
        assert result.plan is not None
        assert describe_iteration(problem, result.plan) is None


def test_plans_that_do_not_say_how_many_micro_batches_are_simulated_with_some() -> None:
    problem = pipeplan.load_packaged("golden-4")
    result = pipeplan.solve(problem)
    assert result.plan is not None
    said = describe_iteration(problem, result.plan)
    assert said is not None
    assert said.in_words().startswith(
        "one iteration of 8 micro-batches (4 for each stage; plan simulate takes any number): 109;"
    )


@pytest.fixture
def table(plan: Plan, tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(plan("import", "table", "--template").out, encoding="utf-8")
    return path


def test_solve_says_it_behind_the_answer(plan: Plan, table: Path) -> None:
    said = " ".join(plan("solve", table, *CLUSTER).out.split())
    has(said, "one iteration of 4 micro-batches: 1.060", "micro-batches/s; devices of the plan idle")


def test_solve_show_and_report_say_the_same(plan: Plan, table: Path, tmp_path: Path) -> None:
    result, page = tmp_path / "r.json", tmp_path / "r.html"
    told = json.loads(plan("solve", table, *CLUSTER, "--json", "-o", result).out)["iteration"]
    assert told["count"] == 4
    assert told["counted"] == "micro-batches"
    assert told["samples_per_second"] is None  # nobody has said what a micro-batch of the table is
    assert told["tokens_per_second"] is None
    assert 0 < told["idle"] < 1
    assert json.loads(plan("show", table, result, "--json").out)["iteration"] == told
    sentence = f"one iteration of 4 micro-batches: {told['time'] / 1000:.7g} s"
    assert sentence in " ".join(plan("show", table, result).out.split())
    plan("report", result, "-o", page)
    assert sentence in page.read_text(encoding="utf-8")


def test_a_table_has_samples_where_somebody_says_how_many(plan: Plan, table: Path, tmp_path: Path) -> None:
    profile = tmp_path / "p.json"
    for count in (1, 4):
        plan("import", "table", table, "--micro-batch", count, "-o", profile)
        told = json.loads(plan("solve", profile, *CLUSTER, "--json").out)["iteration"]
        assert told["samples_per_second"] == pytest.approx(count * told["counted_per_second"])


def test_stages_say_how_many_of_their_layers_recompute(plan: Plan, table: Path) -> None:
    cluster = ("--devices", 4, "--memory", "16GB", "--bandwidth", "12GB/s", "--optimizer", "adam")
    said = plan("solve", table, *cluster, "--recompute")
    assert " again " in said.out
    assert "again: layers that recompute their activations" in " ".join(said.out.split())
    assert " again " not in plan("solve", table, *CLUSTER, "--recompute").out


@pytest.mark.slow
def test_the_comparison_with_the_even_split_never_vanishes(plan: Plan, table: Path) -> None:
    """There may be more even splits than can be tried, or none that fits."""
    on = ("--devices", 64, "--levels", "8x450GB/s,8x50GB/s", "--memory", "80GB", "--data-parallel")
    degrees = ("--tensor-parallel", "1,2,4,8", "--planner", "equi", "--time-limit", "600s")
    many = plan("solve", "llama-3-8b", *on, *degrees)
    assert "even split" in many.out
    none = plan("solve", "memory-tight", "--planner", "dp")
    said = " ".join(none.out.split())
    has(
        said,
        "no even split that was tried fits (as many nodes on each accelerator): the nearest holds 335 MiB",
        "on its fullest device, 35 MiB more than it has",
    )


@pytest.mark.sweeps("on2")
@pytest.mark.parametrize(
    "on",
    [
        ("--bandwidth", "12GB/s"),
        ("--levels", "2x12GB/s,2x1GB/s"),
        ("--bandwidth", "12GB/s", "--kind", "graph-pipeline", "--batch", 8),
    ],
)
def test_an_even_split_that_does_not_fit_says_by_how_much(plan: Plan, table: Path, on: tuple[Any, ...]) -> None:
    said = " ".join(plan("solve", table, "--devices", 4, "--memory", "14GB", *on).out.split())
    assert re.search(r"the nearest holds 1\d\.\d GB on its fullest device, [\d.]+ [MG]B more than it has\.", said)
