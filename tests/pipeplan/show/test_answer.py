"""The answer in sentences: what limits the pipeline, how good the plan is proven to be, what an even split costs;
what is said of one iteration, which takes as long as the simulator says; and the command that asks again."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, has

import pipeplan
from pipeplan import AcceleratorType, PlacementPlan, PlacementProblem, SolveOptions, load_packaged, solve
from pipeplan.cli import main
from pipeplan.instances.base.cluster import Cluster
from pipeplan.instances.base.kind import Samples
from pipeplan.instances.base.result import Asked, Found, Stop
from pipeplan.planners.referee import rules_of
from pipeplan.planners.staging.equal import equal_plans
from pipeplan.show.answer import (
    answer,
    cluster_words,
    describe_iteration,
    even_split,
    how_good,
    iteration_of,
    no_plan,
)
from pipeplan.show.views import view_of
from pipeplan.show.views.staging import even_plans


def sentence(problem: Any, **asked: Any) -> str:
    result = solve(problem, **asked)
    rules = rules_of(problem, result.options)
    return answer(problem, result, None if result.plan is None else view_of(problem, result.plan, rules), rules)


@pytest.mark.parametrize(("name", "planner", "words"), [
    ("tiny-chain", "dp",
     "6 ms per micro-batch: acc1 (nodes c-d) limits the pipeline and spends 83.3 % of its time on"),
    ("tiny-chain", "dp",
     ". Proven optimal among contiguous plans, which form a chain of stages; to search more plans, use "
     "--formulation ip-tarnawski --non-contiguous. This is"),
    ("tiny-chain", "latency-greedy",
     "16 ms for one sample: acc0, piece 1 (nodes a-d) takes 10.5 ms of it, the"),
    ("golden-4", "exact-beaumont",
     "13 per batch: gpu1 (layers 2-4) limits the pipeline and is always busy. Proven optimal among"),
    ("golden-4", "exact-beaumont", ". An even split (equally many layers on each GPU) would be 38.5 % slower."),
    ("golden-4", "contiguous", ". The distance from the best plan is not known. An"),
    ("tiny-levels", "dp-piper",
     "6 s per micro-batch: stage 0.0 (layer a) limits the pipeline and spends 66.7 %"),
    ("tiny-levels", "dp-piper", ". This is an even split (equally many layers in each stage, the same degrees"),
    ("tiny-graph", "graphpipe", " per iteration: stage "),
    ("tiny-stages", "equi", ". This is an even split (equally many layers in each stage, the same degrees for all)."),
    ("tiny-chain", "one-device", "No plan was found: the method found none that fits."),
    ("memory-tight", "greedy",
     ". No even split that was tried (equally many nodes on each accelerator) is valid."),
])  # fmt: skip
def test_every_kind_answers_in_one_sentence(name: str, planner: str, words: str) -> None:
    said = sentence(load_packaged(name), planner=planner)
    assert words in said
    assert said.endswith(".")


def test_an_infeasible_problem_is_said_to_be_one() -> None:
    said = sentence(load_packaged("tiny-chain").replace(accelerators=1), planner="dp")
    assert said == "Proven: there is no plan (among contiguous plans, which form a chain of stages)."


def test_whoever_starts_from_a_plan_is_told_how_far_it_is() -> None:
    problem = load_packaged("tiny-chain")
    own = PlacementPlan.from_assignment(problem, dict(zip(problem.index, (0, 0, 0, 1, 1, 2), strict=True)))
    assert rules_of(problem, {}).value(problem, own) == 7.0
    assert ". Your plan would be 16.7 % slower. " in sentence(problem, planner="dp", warm_start=own)


# ---- even splits -------------------------------------------------------------------------------------


def test_of_equal_stages_so_many_are_tried_as_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds would make the plan that others are compared with one of the machine."""
    problem = load_packaged("tiny-stages")
    monkeypatch.setattr("pipeplan.show.views.staging.MOST_LAYERS", 0)
    assert list(even_plans(problem)) == [next(equal_plans(problem, "paper", True))]


def on_two_types(memory_bytes: float | None = None) -> PlacementProblem:
    """The six layers, numbered, on two accelerators of its own and one on which each takes twice as long."""
    problem = load_packaged("tiny-chain")
    name = {node.id: f"h.{i}" for i, node in enumerate(problem.nodes)}
    nodes = (replace(node, id=name[node.id], other_times=(2 * node.accelerator_time,)) for node in problem.nodes)
    edges = tuple((name[source], name[target]) for source, target in problem.edges)
    others = (AcceleratorType("slow", 1, memory_bytes),)
    return problem.replace(accelerators=2, nodes=tuple(nodes), edges=edges, other_types=others)


def test_even_splits_of_a_placement_are_over_accelerators_of_every_type() -> None:
    problem = on_two_types()
    for plans in ("even_plans", "block_plans"):
        split = even_split(problem, rules_of(problem, {}), plans)
        assert isinstance(split.plan, PlacementPlan)
        types = [device.accelerator_type for device in split.plan.devices]
        assert types in ([None, None, "slow"], ["slow", None, None])
        assert [len(device.nodes) for device in split.plan.devices] == [2, 2, 2]


@pytest.mark.slow
def test_the_comparison_with_the_even_split_never_vanishes(plan: Plan) -> None:
    """There may be more even splits than can be tried."""
    on = ("--devices", 64, "--levels", "8x450GB/s,8x50GB/s", "--memory", "80GB", "--data-parallel")
    degrees = ("--tensor-parallel", "1,2,4,8", "--planner", "equi", "--time-limit", "600s")
    has(plan("solve", "llama-3-8b", *on, *degrees).out, "even split")


@pytest.mark.parametrize("name", ["tiny-chain", "golden-4", "tiny-stages", "tiny-levels", "tiny-graph"])
def test_no_scope_is_read_as_the_claim_itself(name: str) -> None:
    """What is proven comes first, and the plans that it is proven for behind it, without a colon of their own."""
    problem = load_packaged(name)
    result = solve(problem, limits=SolveOptions(time_limit_s=600))
    assert result.scope
    none = replace(result, stop=Stop.INFEASIBLE, found=Found.NOTHING, plan=None)
    worse = replace(result, stop=Stop.TIME, found=Found.FEASIBLE, objective=2 * result.bound)
    best = replace(result, stop=Stop.PROVEN, found=Found.OPTIMAL, objective=result.bound)
    for told, claim in (
        (no_plan(problem, none), "Proven: there is no plan (among "),
        (how_good(problem, worse), "proven: no plan saves more than 50 % of this time (among "),
        (how_good(problem, best), "proven optimal among "),
    ):
        assert told.startswith(claim)
        assert ":" not in told.partition(" among ")[2]


def test_the_cluster_is_told_as_it_was_typed() -> None:
    asked = Asked("my model.json", Cluster(devices=2, memory_bytes=math.inf).to_json())
    assert list(cluster_words(asked)) == ["--devices", "2", "--memory", "none"]


# ---- one iteration -----------------------------------------------------------------------------------


def test_the_time_is_that_of_the_simulator_and_a_micro_batch_of_four_is_four_samples() -> None:
    problem = load_packaged("tiny-stages")
    plan = solve(problem).plan
    assert plan is not None
    found, said = pipeplan.simulate(problem, plan), describe_iteration(problem, plan)
    assert iteration_of(problem, plan) == found
    assert said.in_words() == (
        f"One iteration of 8 micro-batches: {found.iteration:.7g} s, {8 / found.iteration:.4g} micro-batches/s. "
        f"The plan's devices are idle for {100 * found.bubble:.3g} % of that time."
    )
    of_four, each = describe_iteration(problem, plan, Samples(4, training=True, tokens=1000)), 32 / found.iteration
    assert f", {each:.4g} samples/s, {1000 * each:.4g} tokens/s. " in of_four.in_words()


@pytest.mark.parametrize(("name", "planner", "words"), [
    ("resnet50-inference", "greedy", None),
    ("zero-bubble-4x12", "1f1b", None),  # a schedule
    ("golden-4", "exact-beaumont",
     "One iteration of 8 micro-batches (4 per stage; `plan simulate` takes any number): 109."),
])  # fmt: skip
def test_a_plan_that_does_not_say_how_many_micro_batches_is_simulated_with_some_or_has_no_iteration(
    name: str, planner: str, words: str | None
) -> None:
    problem = load_packaged(name)
    plan = solve(problem, planner=planner).plan
    assert plan is not None
    said = describe_iteration(problem, plan)
    assert said is None if words is None else said is not None and said.in_words().startswith(words)


CLUSTER = ("--devices", 4, "--memory", "40GB", "--bandwidth", "12GB/s")


@pytest.fixture
def table(plan: Plan, tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(plan("import", "table", "--template").out, encoding="utf-8")
    return path


def test_solve_show_and_report_say_the_same(plan: Plan, table: Path, tmp_path: Path) -> None:
    result, page = tmp_path / "r.json", tmp_path / "r.html"
    told = json.loads(plan("solve", table, *CLUSTER, "--json", "-o", result).out)["iteration"]
    assert (told["count"], told["counted"]) == (4, "micro-batches")
    assert told["samples_per_second"] is None  # nobody has said what a micro-batch of the table is
    assert told["tokens_per_second"] is None
    assert 0 < told["idle"] < 1
    assert json.loads(plan("show", table, result, "--json").out)["iteration"] == told
    plan("report", result, "-o", page)
    texts = (plan("solve", table, *CLUSTER).out, plan("show", table, result).out, page.read_text("utf-8"))
    for text in texts:
        has(" ".join(text.split()), f"ne iteration of 4 micro-batches: {told['time'] / 1000:.7g} s")


def test_a_table_has_samples_where_somebody_says_how_many(plan: Plan, table: Path, tmp_path: Path) -> None:
    profile = tmp_path / "p.json"
    for count in (1, 4):
        plan("import", "table", table, "--micro-batch", count, "-o", profile)
        told = json.loads(plan("solve", profile, *CLUSTER, "--json").out)["iteration"]
        assert told["samples_per_second"] == pytest.approx(count * told["counted_per_second"])


def test_stages_say_how_many_of_their_layers_recompute(plan: Plan, table: Path) -> None:
    cluster = ("--devices", 4, "--memory", "16GB", "--bandwidth", "12GB/s", "--optimizer", "adam")
    said = plan("solve", table, *cluster, "--recompute").out
    has(" ".join(said.split()), " again ", "again: layers that recompute their activations")
    assert " again " not in plan("solve", table, *CLUSTER, "--recompute").out


# ---- terminal ----------------------------------------------------------------------------------------------
# Output for narrow terminals, for files and for encodings with few characters: nothing is cut, nothing is garbled.


CONFIGURE = ("configure", "llama-3-8b", "--devices", "8xh100-80gb", "--sequence", "8192", "--batch", "128")
COMMANDS = [
    ("solve", "figure-4", "--planner", "contiguous"), ("show", "tiny-graph"), ("solve", "tiny-stages"),
    ("solve", "tiny-chain", "--planner", "dp"), ("show", "llama-3-8b-8xh100"), ("show", "resnet-50"),
    ("show", "tiny-levels"), ("memory", "tiny-stages"), (*CONFIGURE, "--judge", "tensor=2 pipeline=2 virtual=2"),
    ("instances",), ("planners",), ("planners", "dp"), ("formulations", "ip-tarnawski"), ("solvers",),
]  # fmt: skip
NUMBER = re.compile(r"\d+\.\d+")
Said = Callable[..., str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    """What a command prints into a file of an encoding, which takes no other characters."""

    def said(words: tuple[str, ...], encoding: str = "utf-8", columns: int | None = None) -> str:
        file = io.TextIOWrapper(io.BytesIO(), encoding, errors="strict")
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "stdout", file)
        assert main(list(words)) == 0
        file.flush()
        assert isinstance(file.buffer, io.BytesIO)
        return file.buffer.getvalue().decode(encoding)

    return said


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_few_characters_and_few_columns_garble_nothing(words: tuple[str, ...], said: Said) -> None:
    """A sign of a cut cell, a frame or a bar that ASCII lacks would end the command, or stand as an escape sequence."""
    assert "\\u" not in said(words, "ascii", 40)


@pytest.mark.parametrize("words", COMMANDS[:11], ids=" ".join)
def test_a_file_holds_whole_tables(words: tuple[str, ...], said: Said) -> None:
    """Whatever stands in a table of 2000 columns stands in a file, on as many lines."""
    wide = said(words, columns=2000)
    assert "…" not in wide
    assert sorted(NUMBER.findall(wide)) == sorted(NUMBER.findall(said(words)))


def test_every_degree_and_layout_of_a_shortlist_is_in_the_file(said: Said) -> None:
    """And on a terminal of 80 columns a long layout is cut short, with a sign that it is."""
    degrees = ("tensor=1", "context=1", "pipeline=8", "virtual=2", "zero=1", "micro-batch=1", "recompute=none")
    fixed = [word for degree in degrees for word in ("--fix", degree)]
    words = (*CONFIGURE[:4], "--sequence", "4096", "--batch", "16", "--layers", "14", *fixed)
    lines = said(words).splitlines()
    (heading,) = (i for i, line in enumerate(lines) if line.split()[:2] == ["s", "GiB"] or " layout" in line)
    assert {"p", "v", "d", "b", "zero", "recompute", "layout"} <= set(lines[heading].split())
    assert "1/1/1/1/1/1/1/1/1/1/1/1/1/1/1/1" in lines[heading + 2]
    assert "1/1/1/1/1/1/1/1..." in said(words, columns=80)


def test_a_narrow_table_comes_in_parts_that_lose_nothing(said: Said) -> None:
    words = (*CONFIGURE, "--judge", "tensor=2 pipeline=2 virtual=2")
    wide, narrow = (said(words, columns=columns) for columns in (300, 40))
    assert set(NUMBER.findall(wide)) == set(NUMBER.findall(narrow))
    assert max(map(len, narrow.splitlines())) <= 40
