"""Every kind of problem on the command line: chains, stagings, placements by their latency and beyond the flat
problem, graph pipelines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, has, refused
from problems.graph_pipelines_with_plans import chain_plan, chain_problem

import pipeplan
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.graph_pipeline.models import GRAPH_MODELS, mmt
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.instances.placement.plan import Device, DeviceGroup, PlacementPlan
from pipeplan.instances.placement.problem import AcceleratorType, Level, Node, PlacementProblem
from pipeplan.instances.staging.problem import DeviceType


def test_a_chain_is_planned_drawn_and_verified(plan: Plan, tmp_path: Path) -> None:
    """Without an instance a packaged chain is taken; its optimum is 13."""
    result = tmp_path / "result.json"
    said = done(plan("solve", "--formulation", "ilp-beaumont", "--output", result, "-v"))
    for words in ("optimal, proven", "period 13", "gpu0 |", "verified: yes, recomputed period per batch 13"):
        assert words in said.out
    assert plan("verify", "golden-4", result).code == 0
    shown = plan("show", "golden-4", result)
    assert "gpu0 holds the most" in shown.out
    facts = plan("verify", "golden-4", result, "--json").json
    assert (facts["verified"], facts["objective"]) == (True, 13)
    assert facts["evaluation"]["devices"][0]["peak_bytes"] <= 34


def test_the_cluster_can_be_overridden(plan: Plan, tmp_path: Path) -> None:
    less = plan("solve", "golden-4", "--planner", "exact-beaumont", "--memory", "none", "--json").json
    assert less["objective"] == pytest.approx(9.0, rel=1e-6)  # its answer without a limit
    one = plan("solve", "tiny-stages", "--planner", "dp-piper", "--devices", 1, "--memory", "none", "--json").json
    assert len(one["plan"]["stages"]) == 1
    assert (
        plan("solve", "tiny-stages", "--planner", "dp-piper", "--batch", 1, "--json").json["problem"][
            "micro_batches"
        ]
        == 1
    )


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


def test_the_schedule_as_a_gantt(plan: Plan, abc: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    plan("solve", abc, *METHOD, "--subgraphs-per-device", "2", "--output", result)
    said = done(plan("show", abc, result))
    assert all(len(line) <= 80 for line in said.out.splitlines())
    rows = {line.split("|")[0].strip(): line.split("|")[1] for line in said.out.splitlines() if "|" in line}
    accelerator, pool = rows["acc0"], rows["CPU pool"]
    assert accelerator.index("2") > accelerator.rindex("1")
    assert "#" in pool
    assert not any(x in "12" and y == "#" for x, y in zip(accelerator, pool, strict=True))
    has(said.out, "CPU pool: 1 node, work 1", "verified: yes, recomputed latency 3.2 s")
    assert plan("show", abc, result, "--json").json["latency"] == pytest.approx(3.2)


def test_any_split_can_be_judged_for_latency(plan: Plan, abc: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    devices = [
        {"name": "acc0", "type": "accelerator", "nodes": ["a", "c"]},
        {"name": "cpu0", "type": "cpu", "nodes": ["b"]},
    ]
    path.write_text(json.dumps({"kind": "placement", "devices": devices}))
    assert "recomputed latency 3.2" in plan("verify", abc, path, "--objective", "latency").out
    said = plan("verify", abc, path, "--objective", "latency", "--subgraphs-per-device", "1")
    assert said.code == 3
    assert "needs 2 subgraphs" in said.out


def test_the_objective_finds_the_formulation(plan: Plan, abc: Path) -> None:
    facts = plan("solve", abc, "--objective", "latency", "--threads", "1", "--json").json
    assert (facts["formulation"], facts["stop"]) == ("ip-tarnawski-latency", "proven")


CHAIN = PlacementProblem(
    tuple(Node(name, 4.0, 40.0, 2.0, float(name != "d"), weight_bytes=2.0) for name in "abcd"),
    (("a", "b"), ("b", "c"), ("c", "d")), accelerators=4, cpus=0,
)  # fmt: skip
NESTED = CHAIN.replace(levels=(Level(2, 1.0, 8.0), Level(2, 3.0, 8.0)))
NESTED_PLAN = PlacementPlan(
    (
        Device("s0", "accelerator", ("a", "b"), replicas=2, group="g0"),
        Device("s1", "accelerator", ("c", "d"), group="g1"),
    ),
    (DeviceGroup("g0", 2), DeviceGroup("g1", 2)),
)
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


def test_show_draws_replicas_and_groups_in_80_columns(plan: Plan, files: Any) -> None:
    said = plan("show", *files(NESTED, NESTED_PLAN))
    rows = [line.split() for line in said.out.splitlines()]
    assert ["device", "nodes", "count", "repl.", "group", "share", "load"] in [row[:7] for row in rows]
    (replicated,) = [row for row in rows if row[:5] == ["s0", "a-b", "2", "x2", "g0"]]
    assert {"5", "0.5"} <= set(replicated), "load and synchronisation"
    assert ["s1", "c-d", "2", "g1", "9"] in [[*row[:4], row[5]] for row in rows if len(row) > 5]
    assert any(row[:3] == ["g0", "2", "x1"] for row in rows)
    assert "The latency of replicas and of devices within" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    assert said.code == 0


def test_show_draws_types(plan: Plan, files: Any) -> None:
    said = plan("show", *files(TYPED, TYPED_PLAN))
    rows = [line.split() for line in said.out.splitlines()]
    assert ["acc1", "c-d", "2", "fast"] in [row[:4] for row in rows]
    assert "50%" in said.out, "of the memory of that type"
    assert said.code == 0


def test_verify_names_the_rule(plan: Plan, files: Any) -> None:
    said = plan("verify", *files(CHAIN, NESTED_PLAN), "--json")
    assert said.code == 3
    assert {violation["rule"] for violation in said.json["violations"]} == {"replication", "hierarchy"}


def test_show_of_a_plan_that_means_nothing_says_why(plan: Plan, files: Any) -> None:
    said = plan("show", *files(CHAIN, NESTED_PLAN))
    assert said.code == 3
    assert "the plan cannot be drawn. Device 's0' has 2 replicas" in said.out


def test_solve_without_a_name_tells_the_cluster_and_the_plan(plan: Plan, files: Any) -> None:
    problem, _ = files(NESTED, NESTED_PLAN)
    said = done(plan("solve", problem, "-v"))
    has(said.out, "level 2", "verified: yes")
    typed, _ = files(TYPED, TYPED_PLAN)
    assert "1 fast with memory 8 B" in plan("solve", typed, "--verbose").out


@pytest.mark.parametrize(
    "arguments", [("--planner", "greedy"), ("--formulation", "ip-tarnawski"), ("--devices", "3")]
)
def test_what_cannot_be_is_refused_with_one_sentence(plan: Plan, files: Any, arguments: tuple[str, ...]) -> None:
    said = plan("solve", files(NESTED, NESTED_PLAN)[0], *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1


def test_convert_keeps_them_in_our_own_format_alone(plan: Plan, files: Any, tmp_path: Path) -> None:
    problem, _ = files(NESTED, NESTED_PLAN)
    assert plan("convert", problem, "-o", tmp_path / "own.json").code == 0
    assert pipeplan.load(tmp_path / "own.json") == NESTED
    said = plan("convert", problem, "-o", tmp_path / "published.json", "--to", "published")
    refused(said, "levels has no place in the published format")


def test_the_lists_say_who_can_plan_them(plan: Plan) -> None:
    assert plan("planners", "dp", "--json").json["extensions"] == ["levels", "types"]
    assert plan("formulations", "ip-tarnawski", "--json").json["extensions"] == []
    assert "beyond the flat problem: levels, types" in plan("planners", "dp").out


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


def test_a_plan_on_unknown_or_too_many_devices_of_a_type_is_rejected(
    plan: Plan, typed_stages: Path, tmp_path: Path
) -> None:
    file, problem = tmp_path / "plan.json", load_packaged("tiny-stages")
    pipeplan.save(pipeplan.solve(problem), file)
    untyped = plan("verify", typed_stages, file)
    assert untyped.code == 3
    assert "Stage 0 does not say on which type of devices it is." in untyped.out.replace("\n", " ")
    file.write_text(file.read_text().replace('"tensor_parallel"', '"device_type": "big", "tensor_parallel"'))
    crowded = plan("verify", typed_stages, file)
    assert crowded.code == 3
    assert "uses 4 devices of type 'big', the problem has 2" in crowded.out.replace("\n", " ").replace('"', "'")


def test_levels_show_what_each_layer_runs(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    assert plan("solve", "tiny-levels", "--output", file).code == 0
    assert "vanilla" not in plan("show", "tiny-levels", file).out  # there is no other way
    recomputing = tmp_path / "recomputing.json"
    assert plan("solve", "bert-large-stages", "--memory", "3GB", "--output", recomputing).code == 0
    assert re.search(
        r"stage 0: \d+ (vanilla|activation recomp)", plan("show", "bert-large-stages", recomputing).out
    )


# ---- sensitivity ---------------------------------------------------------------------------------------


@pytest.fixture
def chained(tmp_path: Path) -> tuple[Path, Path]:
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


def test_what_is_no_assignment_is_said_and_not_drawn(plan: Plan, chained: tuple[Path, Path]) -> None:
    problem, file = chained
    spoilt = json.loads(file.read_text())
    spoilt["stages"][0]["nodes"] = []
    file.write_text(json.dumps(spoilt))
    said = plan("show", problem, file)
    assert said.code == 3
    assert "the plan cannot be drawn. Operator 0 is in no stage." in " ".join(said.out.split())


def test_the_cluster_of_a_graph_pipeline_can_be_overridden(plan: Plan, chained: tuple[Path, Path]) -> None:
    assert plan("verify", *chained, "--devices", 4, "--json").json["violations"][0]["rule"] == "devices"
    assert plan("verify", *chained, "--memory", "10B", "--json").json["violations"][0]["rule"] == "memory"
    assert plan("verify", *chained, "--batch", 16, "--json").json["evaluation"]["iteration"] == 18 * 3
    assert "bandwidth" in plan("verify", *chained, "--bandwidth", "1GB/s").err


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


def test_a_simulation_is_drawn(plan: Plan, chained: tuple[Path, Path], tmp_path: Path) -> None:
    """With the number of the micro-batch on every pass, a legend, and the memory of each stage with its limit."""
    picture = tmp_path / "iteration.svg"
    assert plan("simulate", *chained, "--memory", "1TB", "--picture", picture).code == 0
    text = picture.read_text("utf-8")
    for words in ("1", "8", "forward", "backward", "limit"):
        assert f">{words}</text>" in text
    has(text, ">stage 0, memory up to ", "forward of micro-batch 1, stage 0: 0 to ")
    said = plan("simulate", *chained, "--picture", tmp_path / "iteration.gif")
    refused(said, "name a file that ends in .svg, .png or .pdf")


def test_a_simulation_says_what_its_plan_breaks(plan: Plan, chained: tuple[Path, Path]) -> None:
    assert plan("simulate", *chained).err == ""
    said = done(plan("simulate", *chained, "--devices", 4))
    assert "the plan breaks a rule of the problem: The stages have 3 devices" in " ".join(said.err.split())
    assert "iteration 30 s for 8 samples" in said.out
    held = plan("simulate", *chained, "--json").json["peak_memory_bytes"]
    said = done(plan("simulate", *chained, "--memory", f"{held:.0f}B", "--schedule", "gpipe"))
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
