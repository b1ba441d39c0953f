"""Every kind of problem on the command line: chains, stagings, placements by their latency and beyond the flat
problem, graph pipelines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, has
from problems.graph_pipelines_with_plans import chain_plan, chain_problem

import pipeplan
from pipeplan import Device, DeviceType, GraphStage, PlacementPlan, StageGraphPlan, load_packaged
from pipeplan.instances.placement.problem import AcceleratorType, Node, PlacementProblem

METHOD = ("--formulation", "ip-tarnawski-latency", "--threads", "1")


@pytest.fixture
def abc(tmp_path: Path) -> Path:
    """a -> b -> c on memory for two; b is slow on accelerators, so two pieces of one accelerator are worth while."""
    nodes = [
        pipeplan.Node("a", 1.0, 9.0, 1.0, 0.1),
        pipeplan.Node("b", 9.0, 1.0, 1.0, 0.1),
        pipeplan.Node("c", 1.0, 9.0, 1.0),
    ]
    path = tmp_path / "abc.json"
    pipeplan.save(pipeplan.PlacementProblem(tuple(nodes), (("a", "b"), ("b", "c")), 1, 2, 2.0, name="abc"), path)
    return path


def test_subgraphs_per_device_count_and_travel_with_the_result(plan: Plan, abc: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    one = plan("solve", abc, *METHOD, "--json").json
    assert (one["stop"], one["objective"]) == ("proven", pytest.approx(1.1 + 1 + 9))
    two = plan("solve", abc, *METHOD, "--subgraphs-per-device", "2", "--json", "--output", result).json
    assert (two["stop"], two["objective"]) == ("proven", pytest.approx(1.1 + 1 + 1.1))
    assert two["options"]["subgraphs_per_device"] == 2
    assert two["options"]["objective"] == "latency"

    said = plan("verify", abc, result)
    assert (said.code, said.out.splitlines()[0]) == (0, "verified: yes, recomputed latency 3.2 s")
    strict = plan("verify", abc, result, "--subgraphs-per-device", "1", "--json")
    assert strict.code == 3
    assert [violation["rule"] for violation in strict.json["violations"]] == ["subgraphs"]
    report = plan("verify", abc, result, "--json").json
    assert report["options"] == {"objective": "latency", "subgraphs_per_device": 2}
    assert len(report["evaluation"]["pieces"]) == 2


CHAIN = PlacementProblem(
    tuple(Node(name, 4.0, 40.0, 2.0, float(name != "d")) for name in "abcd"),
    (("a", "b"), ("b", "c"), ("c", "d")), accelerators=4, cpus=0,
)  # fmt: skip
TYPED = CHAIN.replace(accelerators=1, other_types=(AcceleratorType("fast", 1, 8.0),))
TYPED_PLAN = PlacementPlan(
    (Device("acc0", "accelerator", ("a", "b")), Device("acc1", "accelerator", ("c", "d"), accelerator_type="fast"))
)


@pytest.fixture
def files(tmp_path: Path) -> Callable[[PlacementProblem, PlacementPlan], tuple[Path, Path]]:
    def files(problem: PlacementProblem, plan: PlacementPlan) -> tuple[Path, Path]:
        paths = tmp_path / "problem.json", tmp_path / "plan.json"
        pipeplan.save(problem, paths[0])
        pipeplan.save(plan, paths[1])
        return paths

    return files


def test_show_draws_types(plan: Plan, files: Any) -> None:
    said = plan("show", *files(TYPED, TYPED_PLAN))
    rows = [line.split() for line in said.out.splitlines()]
    assert ["acc1", "c-d", "2", "fast"] in [row[:4] for row in rows]
    assert "50%" in said.out, "of the memory of that type"
    assert said.code == 0


def test_solve_without_a_name_tells_the_cluster_and_the_plan(plan: Plan, files: Any) -> None:
    typed, _ = files(TYPED, TYPED_PLAN)
    has(done(plan("solve", typed, "--verbose")).out, "1 fast with memory 8 B", "verified: yes")


def test_the_lists_say_who_can_plan_them(plan: Plan) -> None:
    assert plan("planners", "dp", "--json").json["extensions"] == ["types"]
    assert plan("formulations", "ip-tarnawski", "--json").json["extensions"] == []
    assert "supported extensions: types" in plan("planners", "dp").out


@pytest.fixture
def typed_stages(tmp_path: Path) -> Path:
    """tiny-stages on devices of two types."""
    kinds = (DeviceType("big", 2, 1.0, 70.0), DeviceType("small", 2, 0.8, 35.0))
    file = tmp_path / "typed.json"
    pipeplan.save(load_packaged("tiny-stages").replace(memory_bytes=None, device_types=kinds), file)
    return file


def test_a_flush_is_named_and_remembered(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "flush.json"
    solved = done(plan("solve", "tiny-stages", "--objective", "flush", "--output", file, "-v"))
    assert "a batch of 8 micro-batches takes 9 slots" in solved.out
    assert "verified: yes, recomputed time per micro-batch, flushes included, 7.3125 s" in solved.out
    same = plan("verify", "tiny-stages", file, "--json").json
    assert (same["objective"], same["options"]["objective"]) == (7.3125, "flush")
    other = plan("verify", "tiny-stages", file, "--json", "--objective", "throughput").json
    assert (other["objective"], other["options"]) == (6.5, {"semantics": "paper"})


def test_stages_show_their_type(plan: Plan, typed_stages: Path, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    assert plan("solve", typed_stages, "--output", file).code == 0
    shown = done(plan("show", typed_stages, file))
    assert {line.split()[3] for line in shown.out.splitlines() if "█" in line} == {"big", "small"}
    data = plan("show", typed_stages, file, "--json").json
    assert all(stage["binds"] for stage in data["evaluation"]["stages"])
    assert "2 devices of speed 0.8 with memory 35 B" in plan("solve", typed_stages, "-v").out


def test_levels_show_what_each_layer_runs(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    assert plan("solve", "tiny-levels", "--output", file).code == 0
    assert "vanilla" not in plan("show", "tiny-levels", file).out  # there is no other way
    recomputing = tmp_path / "recomputing.json"
    assert plan("solve", "bert-large-stages", "--memory", "3GB", "--output", recomputing).code == 0
    assert re.search(
        r"stage 0: \d+ (vanilla|activation recomp)", plan("show", "bert-large-stages", recomputing).out
    )


@pytest.fixture
def chained(tmp_path: Path) -> tuple[Path, Path]:
    """A chain of three equal stages and its plan: (8 + 2) x 3 = 30."""
    problem, plan = tmp_path / "chain.json", tmp_path / "plan.json"
    pipeplan.save(chain_problem(3, memory_bytes=100), problem)
    pipeplan.save(chain_plan(3), plan)
    return problem, plan


# ---- show and verify -------------------------------------------------------------------------------------


def test_a_plan_is_shown_with_its_stages_and_its_timeline(plan: Plan, chained: tuple[Path, Path]) -> None:
    said = done(plan("show", *chained))
    lines = said.out.splitlines()
    assert any(line.split()[:7] == ["0", "0", "1", "1", "1", "1", "3"] for line in lines), "operators to held"
    assert any("stages: 0" in line for line in lines)
    assert "devices: 3 of 3; depth: 3" in said.out
    row = next(line for line in lines if line.startswith("stage 0 |"))
    passes = [mark for mark, before in zip(row[9:], row[8:], strict=False) if mark != before and mark.isalnum()]
    assert "".join(passes) == "123a4b5c6d7e8fgh"
    assert "iteration 30 s for 8 samples, depth 3, idle 20.0 %" in said.out
    assert said.out.splitlines()[-1] == "verified: yes, recomputed time per sample 3 s"


def test_both_objectives(plan: Plan, chained: tuple[Path, Path]) -> None:
    report = plan("verify", *chained, "--json").json
    assert (report["objective"], report["options"]) == (3, {"objective": "time-per-sample"})
    assert (report["evaluation"]["iteration"], report["evaluation"]["depth"]) == (30, 3)
    assert plan("verify", *chained, "--objective", "iteration", "--json").json["objective"] == 30
    assert "recomputed iteration 30 s" in plan("verify", *chained, "--objective", "iteration").out


def test_a_spoilt_plan_is_rejected_and_still_drawn(plan: Plan, chained: tuple[Path, Path]) -> None:
    problem, file = chained
    spoilt = json.loads(file.read_text())
    spoilt["stages"][0]["in_flight"] = 2
    file.write_text(json.dumps(spoilt))
    said = plan("show", problem, file)
    assert said.code == 3
    assert "1 fewer than the 3" in " ".join(said.out.split())
    assert "stage 0 |" in said.out
    assert plan("verify", problem, file, "--json").json["violations"][0]["rule"] == "in-flight"


def test_the_cluster_of_a_graph_pipeline_can_be_overridden(plan: Plan, chained: tuple[Path, Path]) -> None:
    assert plan("verify", *chained, "--devices", 4, "--json").json["violations"][0]["rule"] == "devices"
    assert plan("verify", *chained, "--memory", "10B", "--json").json["violations"][0]["rule"] == "memory"
    assert plan("verify", *chained, "--batch", 16, "--json").json["evaluation"]["iteration"] == 18 * 3
    assert "bandwidth" in plan("verify", *chained, "--bandwidth", "1GB/s").err


@pytest.mark.sweeps("method0", "method1")
@pytest.mark.parametrize("method", [
    ("--planner", "shortest-iteration"),
    ("--planner", "graphpipe"),
    ("--formulation", "cp-graphpipe", "--objective", "iteration"),
])  # fmt: skip
def test_what_would_be_wider_can_be_asked_for(plan: Plan, method: tuple[str, ...]) -> None:
    """Instead of the method, or beside it."""
    wider = json.loads(plan("solve", "tiny-graph", *method, "--json").out)["wider"].split()
    asked = wider if "--formulation" in wider else [*method, *wider]
    assert plan("solve", "tiny-graph", *asked).code == 0


# ---- simulate --------------------------------------------------------------------------------------------


def test_a_stage_graph_is_simulated(plan: Plan, chained: tuple[Path, Path]) -> None:
    data = plan("simulate", *chained, "--json").json
    assert (data["iteration"], data["depth"], data["mini_batch"]) == (30, 3, 8)
    assert data["stages"][0]["tasks"][0] == {
        "kind": "forward", "micro_batch": 1, "replica": 0, "start": 0, "end": 1,
    }  # fmt: skip
    gpipe = plan("simulate", *chained, "--schedule", "gpipe", "--json").json
    assert [stage["peak_in_flight"] for stage in gpipe["stages"]] == [8, 8, 8]
    assert "idle 20.0 %" in plan("simulate", *chained).out


def test_a_simulation_is_drawn(plan: Plan, chained: tuple[Path, Path], tmp_path: Path) -> None:
    """With the number of the micro-batch on every pass, a legend, and the memory of each stage with its limit."""
    picture = tmp_path / "iteration.svg"
    assert plan("simulate", *chained, "--memory", "1TB", "--picture", picture).code == 0
    text = picture.read_text("utf-8")
    for words in ("1", "8", "forward", "backward", "limit"):
        assert f">{words}</text>" in text
    has(text, ">stage 0, memory up to ", "forward of micro-batch 1, stage 0: 0 to ")


def test_a_simulation_says_what_its_plan_breaks(plan: Plan, chained: tuple[Path, Path]) -> None:
    assert plan("simulate", *chained).err == ""
    said = done(plan("simulate", *chained, "--devices", 4))
    assert "the plan breaks a rule of the problem: The stages have 3 devices" in " ".join(said.err.split())
    assert "iteration 30 s for 8 samples" in said.out
    held = plan("simulate", *chained, "--json").json["peak_memory_bytes"]
    tight = ("--memory", f"{held:.0f}B", "--schedule", "gpipe")
    said = done(plan("simulate", *chained, *tight))
    assert "with this schedule a device of stage 0 needs" in " ".join(said.err.split())
    assert plan("simulate", *chained, *tight, "--json").json["over_memory"] == ["stage 0", "stage 1", "stage 2"]


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
