"""Graph pipelines on the command line: generate, show, verify, simulate; and the simulator for plans of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, has, refused
from problems.graph_pipelines_with_plans import chain_plan, chain_problem

import pipeplan
from pipeplan.instances.graph_pipeline.models import GRAPH_MODELS, mmt
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A chain of three equal stages and its plan: (8 + 2) x 3 = 30."""
    problem, plan = tmp_path / "chain.json", tmp_path / "plan.json"
    pipeplan.save(chain_problem(3, memory_bytes=100), problem)
    pipeplan.save(chain_plan(3), plan)
    return problem, plan


# ---- generate --------------------------------------------------------------------------------------------


def test_a_model_for_as_many_devices(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    said = plan("generate", "mmt", "--devices", 32, "-o", path)
    assert (said.code, said.err) == (0, f"wrote {path}\n")
    assert "97 operators" in " ".join(said.out.split())
    assert pipeplan.load(path) == mmt(devices=32)


@pytest.mark.parametrize("name", GRAPH_MODELS)
def test_every_model_can_be_generated_and_is_listed(plan: Plan, name: str) -> None:
    data = plan("generate", name, "--layers", 2, "--mini-batch", 8, "--memory", "none").json
    assert (data["schema"], data["mini_batch"], data["memory_bytes"]) == ("pipeplan.graph-pipeline/1", 8, None)
    row = next(row for row in plan("generate", "--json").json if row["name"] == name)
    assert row["title"]
    assert "--devices" in row["parameters"]


def test_a_network_as_a_graph_pipeline(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "vgg.json"
    arguments = ("--kind", "graph-pipeline", "--devices", 2, "--mini-batch", 16, "--memory", "2GiB")
    assert plan("generate", "vgg16", *arguments, "-o", path).code == 0
    problem = pipeplan.load(path)
    assert isinstance(problem, GraphPipelineProblem)
    assert (problem.devices, problem.mini_batch, problem.memory_bytes) == (2, 16, 2 * 2**30)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mmt", "--no-join"), "'mmt' has no parameter --join"),
        (("mmt", "--devices", 0), "devices is 0"),
        (("mmt", "--half-samples", -1), "half_samples is negative (-1.0)"),
        (("mmt", "--cluster", "frontier"), "choose one of summit-v100"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(plan: Plan, arguments: tuple[Any, ...], words: str) -> None:
    refused(plan("generate", *arguments), words)


# ---- show and verify -------------------------------------------------------------------------------------


def test_a_plan_is_shown_with_its_stages_and_its_timeline(plan: Plan, files: tuple[Path, Path]) -> None:
    said = done(plan("show", *files))
    lines = said.out.splitlines()
    assert any(line.split()[:7] == ["0", "0", "1", "1", "1", "1", "3"] for line in lines), "operators to held"
    assert any("stages: 0" in line for line in lines)
    assert "devices: 3 of 3; depth: 3" in said.out
    row = next(line for line in lines if line.startswith("stage 0 |"))
    passes = [mark for mark, before in zip(row[9:], row[8:], strict=False) if mark != before and mark.isalnum()]
    assert "".join(passes) == "123a4b5c6d7e8fgh"
    assert "iteration 30 s for 8 samples, depth 3, idle 20.0 %" in said.out
    assert said.out.splitlines()[-1] == "verified: yes, recomputed time per sample 3 s"


def test_both_objectives(plan: Plan, files: tuple[Path, Path]) -> None:
    report = plan("verify", *files, "--json").json
    assert (report["objective"], report["options"]) == (3, {"objective": "time-per-sample"})
    assert (report["evaluation"]["iteration"], report["evaluation"]["depth"]) == (30, 3)
    assert plan("verify", *files, "--objective", "iteration", "--json").json["objective"] == 30
    assert "recomputed iteration 30 s" in plan("verify", *files, "--objective", "iteration").out


def test_a_spoilt_plan_is_rejected_and_still_drawn(plan: Plan, files: tuple[Path, Path]) -> None:
    problem, file = files
    spoilt = json.loads(file.read_text())
    spoilt["stages"][0]["in_flight"] = 2
    file.write_text(json.dumps(spoilt))
    said = plan("show", problem, file)
    assert said.code == 3
    assert "1 fewer than the 3" in " ".join(said.out.split())
    assert "stage 0 |" in said.out
    assert plan("verify", problem, file, "--json").json["violations"][0]["rule"] == "in-flight"


def test_what_is_no_assignment_is_said_and_not_drawn(plan: Plan, files: tuple[Path, Path]) -> None:
    problem, file = files
    spoilt = json.loads(file.read_text())
    spoilt["stages"][0]["nodes"] = []
    file.write_text(json.dumps(spoilt))
    said = plan("show", problem, file)
    assert said.code == 3
    assert "the plan cannot be drawn. Operator 0 is in no stage." in " ".join(said.out.split())


def test_the_cluster_can_be_overridden(plan: Plan, files: tuple[Path, Path]) -> None:
    assert plan("verify", *files, "--devices", 4, "--json").json["violations"][0]["rule"] == "devices"
    assert plan("verify", *files, "--memory", "10B", "--json").json["violations"][0]["rule"] == "memory"
    assert plan("verify", *files, "--batch", 16, "--json").json["evaluation"]["iteration"] == 18 * 3
    assert "bandwidth" in plan("verify", *files, "--bandwidth", "1GB/s").err


def test_without_a_plan_the_decomposition_is_shown(plan: Plan) -> None:
    lines = ["series of 2", "  parallel of 2", "    series of 2", "      a1", "      a2", "    series of 2"]
    lines += ["      b1", "      b2", "  join"]
    said = done(plan("show", "tiny-graph"))
    assert said.out.splitlines()[-len(lines) :] == [f"  {line}" for line in lines]
    data = plan("show", "tiny-graph", "--json").json
    assert (data["decomposition"], data["problem"]["operators"]) == (lines, 5)
    said = plan("show", "mmt-8")
    assert said.out.splitlines()[-1].endswith("more lines; --json has all of them")


@pytest.mark.slow
def test_the_table_fits_and_names_its_units(plan: Plan) -> None:
    said = plan("solve", "mmt-8", "--planner", "graphpipe", "-v")
    assert "…" not in said.out
    has(said.out, "load (transfers and synchronisation included): ms per sample", "latency 5 µs")
    bound = next(line for line in said.out.splitlines() if line.split()[:1] == ["bound"])
    assert bound.split()[2:] == ["ms"]


@pytest.mark.sweeps("method0", "method1")
@pytest.mark.parametrize(
    "method",
    [
        ("--planner", "shortest-iteration"),
        ("--planner", "graphpipe"),
        ("--formulation", "cp-graphpipe", "--objective", "iteration"),
    ],
)
def test_what_would_be_wider_can_be_asked_for(plan: Plan, method: tuple[str, ...]) -> None:
    """Instead of the method, or beside it."""
    wider = json.loads(plan("solve", "tiny-graph", *method, "--json").out)["wider"].split()
    asked = wider if "--formulation" in wider else [*method, *wider]
    assert plan("solve", "tiny-graph", *asked).code == 0


def test_no_plan_has_no_unit(plan: Plan) -> None:
    said = plan("solve", "tiny-graph", "--planner", "graphpipe", "--memory", 0, "-v")
    assert said.code == 1
    values = [line.split() for line in said.out.splitlines()]
    assert ["objective", "none"] in values
    assert ["bound", "none"] in values


# ---- simulate --------------------------------------------------------------------------------------------


def test_a_stage_graph_is_simulated(plan: Plan, files: tuple[Path, Path]) -> None:
    data = plan("simulate", *files, "--json").json
    assert (data["iteration"], data["depth"], data["mini_batch"]) == (30, 3, 8)
    assert data["stages"][0]["tasks"][0] == {
        "kind": "forward", "micro_batch": 1, "replica": 0, "start": 0, "end": 1,
    }  # fmt: skip
    gpipe = plan("simulate", *files, "--schedule", "gpipe", "--json").json
    assert [stage["peak_in_flight"] for stage in gpipe["stages"]] == [8, 8, 8]
    assert "idle 20.0 %" in plan("simulate", *files).out


def test_a_split_and_stages_are_simulated(plan: Plan, tmp_path: Path) -> None:
    split, stages = tmp_path / "split.json", tmp_path / "stages.json"
    assert plan("solve", "tiny-chain", "--planner", "dp", "-o", split).code == 0
    assert plan("solve", "tiny-stages", "--planner", "dp-piper", "-o", stages).code == 0
    data = plan("simulate", "tiny-chain", split, "--micro-batches", 10, "--json").json
    # {a, b} {c, d} {e, f} work 5 each, and a transfer takes 0.5 at either end: forward only.
    assert data["iteration"] == pytest.approx((10 + 2) * 5 + 2 * 1.0)
    assert plan("simulate", "tiny-stages", stages, "--json").json["mini_batch"] == 8
    assert plan("simulate", "tiny-stages", stages, "--micro-batches", 4, "--json").json["mini_batch"] == 4
    has(plan("simulate", "tiny-stages", stages).out, "stage 3", "for 8 micro-batches, depth")
    refused(plan("simulate", "tiny-chain", split), "give --micro-batches")


def test_a_simulation_is_drawn(plan: Plan, files: tuple[Path, Path], tmp_path: Path) -> None:
    """With the number of the micro-batch on every pass, a legend, and the memory of each stage with its limit."""
    picture = tmp_path / "iteration.svg"
    assert plan("simulate", *files, "--memory", "1TB", "--picture", picture).code == 0
    text = picture.read_text("utf-8")
    for words in ("1", "8", "forward", "backward", "limit"):
        assert f">{words}</text>" in text
    has(text, ">stage 0, memory up to ", "forward of micro-batch 1, stage 0: 0 to ")
    said = plan("simulate", *files, "--picture", tmp_path / "iteration.gif")
    refused(said, "name a file that ends in .svg, .png or .pdf")


def test_a_simulation_says_what_its_plan_breaks(plan: Plan, files: tuple[Path, Path]) -> None:
    assert plan("simulate", *files).err == ""
    said = done(plan("simulate", *files, "--devices", 4))
    assert "the plan breaks a rule of the problem: The stages have 3 devices" in " ".join(said.err.split())
    assert "iteration 30 s for 8 samples" in said.out
    held = plan("simulate", *files, "--json").json["peak_memory_bytes"]
    said = done(plan("simulate", *files, "--memory", f"{held:.0f}B", "--schedule", "gpipe"))
    assert "with this schedule a device of stage 0 holds" in " ".join(said.err.split())


def test_a_few_passes_are_shown_in_one_window(plan: Plan, tmp_path: Path) -> None:
    """However much shorter than the whole iteration they are."""
    problem, file = tmp_path / "problem.json", tmp_path / "plan.json"
    pipeplan.save(chain_problem(2, 4), problem)
    data = json.loads(problem.read_text())
    for side in ("forward", "backward"):
        data["operators"][0][side]["seconds"] = [0.001]
    problem.write_text(json.dumps(data))
    pipeplan.save(chain_plan(2, 1, 4), file)
    said = plan("simulate", problem, file)
    assert "warm-up  " not in said.out.splitlines()[-2]
    row = next(line for line in said.out.splitlines() if line.startswith("stage 1 |"))
    assert len(row.split("|")) == 3
    assert set("1234abcd") <= set(row)


def test_a_deadlock_is_one_sentence_and_a_rejection(plan: Plan, tmp_path: Path) -> None:
    problem, file = tmp_path / "problem.json", tmp_path / "plan.json"
    pipeplan.save(chain_problem(2, 24), problem)
    stages = (GraphStage((0,), 1, 3, 3, 15), GraphStage((1,), 1, 2, 4, 8))
    pipeplan.save(StageGraphPlan(stages, ((0, 1),)), file)
    said = plan("simulate", problem, file)
    assert said.code == 3
    assert said.err.startswith("Error: The schedule cannot be run: stage")
    assert plan("verify", problem, file, "--json").json["violations"][0]["rule"] == "deadlock"
    assert plan("show", problem, file).code == 3


def test_a_long_iteration_is_shown_in_three_windows(plan: Plan, tmp_path: Path) -> None:
    problem, file = tmp_path / "problem.json", tmp_path / "plan.json"
    pipeplan.save(chain_problem(4, 512), problem)
    pipeplan.save(chain_plan(4, 1, 512), file)
    lines = plan("simulate", problem, file).out.splitlines()
    row = next(line for line in lines if line.startswith("stage 3 |"))
    first, middle, last = row.split("|")[1:4]
    assert len(first) == len(middle) == len(last) == 22
    assert first[:3] in ("···", "...")
    assert first[3:9] == "1aa2bb"
    assert not set(middle) & {"·", "."}
    assert any("warm-up" in line and "steady" in line and "cool-down" in line for line in lines)
    assert any(line.startswith("three windows of ") for line in lines)
