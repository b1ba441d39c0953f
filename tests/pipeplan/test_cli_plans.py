"""Commands that read a plan: `plan verify`, `show`, `simulate` and `explore`, and the pictures of a plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, has, refused
from problems import malformed

import pipeplan
from pipeplan.instances.registry import Problem
from pipeplan.instances.staging.problem import DeviceType
from pipeplan.show.views import view_of_simulation


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """a -> b -> c -> d with 1, 2, 3, 4 seconds of work and transfers of 0.5, two accelerators of 10 bytes, one CPU."""
    nodes = [
        pipeplan.Node(name, time, 10 * time, size_bytes=2.0, transfer_time=0.0 if name == "d" else 0.5)
        for name, time in zip("abcd", (1.0, 2.0, 3.0, 4.0), strict=True)
    ]
    path = tmp_path / "abcd.json"
    edges = (("a", "b"), ("b", "c"), ("c", "d"))
    pipeplan.save(pipeplan.PlacementProblem(tuple(nodes), edges, 2, 1, memory_bytes=10.0, name="abcd"), path)
    return path


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A plan file with the given nodes on the given devices."""

    def write(**held: str) -> Path:
        devices = [
            {"name": name, "type": "cpu" if name.startswith("cpu") else "accelerator", "nodes": list(nodes)}
            for name, nodes in held.items()
        ]
        path = tmp_path / "plan.json"
        path.write_text(json.dumps({"kind": "placement", "devices": devices}))
        return path

    return write


def test_a_good_plan(plan: Plan, instance: Path, write: Callable[..., Path]) -> None:
    said = plan("verify", instance, write(acc0="abc", acc1="d"), "--contiguity", "chain")
    assert (said.code, said.out, said.err) == (0, "verified: yes, recomputed max-load 6.5 s\n", "")


def test_the_same_for_machines(plan: Plan, instance: Path, write: Callable[..., Path]) -> None:
    report = plan("verify", instance, write(acc0="abc", acc1="d"), "--json").json
    assert (report["verified"], report["objective"], report["stage_order"]) == (True, 6.5, ["acc0", "acc1"])
    assert report["options"] == {"contiguity": "none", "objective": "max-load"}
    assert [device["load"] for device in report["evaluation"]["devices"]] == [6.5, 4.5]


@pytest.mark.parametrize(("contiguity", "code"), [("none", 0), ("device", 3), ("chain", 3)])
def test_contiguity_is_asked_for(
    plan: Plan, instance: Path, write: Callable[..., Path], contiguity: str, code: int
) -> None:
    assert plan("verify", instance, write(acc0="ad", acc1="bc"), "--contiguity", contiguity).code == code


def test_every_violation_is_listed(plan: Plan, instance: Path, write: Callable[..., Path]) -> None:
    said = plan("verify", instance, write(acc0="abb", acc1="x"))
    assert said.code == 3
    lines = said.out.splitlines()
    assert lines[-1] == f"verified: no, {len(lines) - 1} violation{'s' if len(lines) > 2 else ''}"
    has(said.out, "'x'", "'b' is placed 2 times")


def test_of_many_violations_the_first_are_listed_and_the_others_counted(
    plan: Plan, instance: Path, write: Callable[..., Path]
) -> None:
    plan_file = write(acc0="abcd" + "".join(chr(ord("k") + i) for i in range(14)))
    said = plan("verify", instance, plan_file)
    assert said.out.splitlines()[-2:] == ["  - and 4 others; --json lists all", "verified: no, 14 violations"]
    assert len(plan("verify", instance, plan_file, "--json").json["violations"]) == 14


def test_a_result_is_judged_by_the_rules_that_it_was_made_for(plan: Plan, instance: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    plan("solve", instance, "--planner", "linear-dp", "--output", result)
    report = plan("verify", instance, result, "--json").json
    assert report["options"] == {"contiguity": "chain", "objective": "max-load"}
    assert report["objective"] == json.loads(result.read_text())["objective"]


def test_a_plan_need_not_name_backward_nodes(plan: Plan, tmp_path: Path) -> None:
    table, own = tmp_path / "own.csv", tmp_path / "plan.json"
    table.write_text(
        "layer,forward [ms],backward [ms],parameters [MB],activation [MB],output [MB]\na,1,2,0,0,1\nb,1,3,0,0,1\n"
    )
    devices = [{"name": f"acc{i}", "type": "accelerator", "nodes": [name]} for i, name in enumerate("ab")]
    own.write_text(json.dumps({"kind": "placement", "devices": devices}))
    cluster = ("--devices", "2", "--bandwidth", "1GB/s", "--memory", "none", "--kind", "placement")
    assert plan("verify", table, own, *cluster).out == "verified: yes, recomputed max-load 6 ms\n"
    devices[0]["nodes"] = []
    own.write_text(json.dumps({"kind": "placement", "devices": devices}))
    assert "Node 'a/backward' is on no device" in plan("verify", table, own, *cluster).out


def test_another_problem_is_noticed(plan: Plan, instance: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    plan("solve", instance, "--planner", "linear-dp", "--memory", "none", "--output", result)
    assert "was made for another problem" in plan("verify", instance, result, "--memory", "100GB").err
    assert "using the cluster options of" in plan("verify", instance, result).err
    assert "was made for another problem" not in plan("verify", instance, result).err
    assert plan("verify", instance, result, "--memory", "none").err == ""


def test_a_drawing_in_80_columns_without_colours(plan: Plan, instance: Path, write: Callable[..., Path]) -> None:
    said = done(plan("show", instance, write(cpu0="", acc0="ab", acc1="cd")))
    assert "\x1b" not in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
    [slowest] = [line for line in said.out.splitlines() if "<--" in line]
    assert slowest.startswith("acc1")
    for words in (
        "bottleneck: acc1 with load 7.5 s",
        "stages: acc0 -> acc1",
        "idle: 1 of 3 devices",
        "latency of one sample: 11 s",
        "verified: yes, recomputed max-load 7.5 s",
        "40%",
    ):
        assert words in said.out


def test_what_is_no_split_is_told_not_drawn(plan: Plan, instance: Path, write: Callable[..., Path]) -> None:
    said = plan("show", instance, write(acc0="ab"))
    assert said.code == 3
    assert "cannot be drawn" in said.out
    assert plan("show", instance, write(acc0="ab"), "--json").json["latency"] is None


@pytest.mark.parametrize("command", ["verify", "show"])
@pytest.mark.parametrize("case", malformed.MALFORMED_PLANS, ids=lambda case: case.name)
def test_malformed_plans(plan: Plan, tmp_path: Path, command: str, case: malformed.Malformed) -> None:
    """The same table that the reader is tested on, beside a sound instance."""
    sound = tmp_path / "sound.json"
    sound.write_text(json.dumps(malformed.PUBLISHED))
    path = malformed.write(case, tmp_path)
    refused(plan(command, sound, path), path.name, case.field, case.remedy)


# ---- results of another problem, and claims ----------------------------------------------------------


UNCHECKED = "the file claims that its plan is optimal, which was not checked here; add --proof to prove it again"


@pytest.fixture
def forged(tmp_path: Path) -> Path:
    """A plan that is not the best, with an altered bound that meets its value."""
    result = pipeplan.solve("tiny-chain", planner="dp").to_json()
    poor = pipeplan.PlacementPlan.from_assignment(
        pipeplan.load("tiny-chain"), {"a": 0, "b": 0, "c": 0, "d": 1, "e": 1, "f": 2}
    )
    assert isinstance(poor, pipeplan.PlacementPlan)
    value = pipeplan.evaluate("tiny-chain", poor).max_load
    assert value > result["objective"]
    path = tmp_path / "forged.json"
    path.write_text(
        json.dumps({**result, "plan": poor.to_json(), "objective": value, "claimed": value, "bound": value})
    )
    return path


def test_verify_says_that_optimality_is_the_files_claim(plan: Plan, forged: Path) -> None:
    done = plan("verify", "tiny-chain", forged)
    assert done.code == 0
    assert " ".join(done.out.split()).endswith(f"not checked: {UNCHECKED}.")
    assert plan("verify", "tiny-chain", forged, "--json").json["unchecked"] == UNCHECKED
    assert plan("verify", "tiny-chain", forged, "--proof").code == 3


def test_a_plan_that_claims_nothing_of_others_has_nothing_unchecked(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    pipeplan.save(pipeplan.solve("tiny-chain", planner="greedy").unproven(), path)
    done = plan("verify", "tiny-chain", path)
    assert (done.code, "not checked" in done.out) == (0, False)
    assert plan("verify", "tiny-chain", path, "--json").json["unchecked"] is None


@pytest.mark.parametrize("command", ["show", "verify", "simulate", "report"])
def test_a_cluster_that_nobody_typed_is_not_refused_as_an_option(plan: Plan, tmp_path: Path, command: str) -> None:
    result = tmp_path / "r.json"
    assert plan("solve", "tiny-stages", "--bandwidth", "1GB/s", "--planner", "equi", "-o", result).code == 0
    words = (result, "tiny-chain") if command == "report" else ("tiny-chain", result)
    said = plan(command, *words)
    refused(said, f"Error: {result} belongs to 'tiny-stages', not to tiny-chain, where its cluster does not fit")


@pytest.mark.parametrize("command", ["show", "verify"])
def test_whose_result_it_is_is_said(plan: Plan, tmp_path: Path, command: str) -> None:
    result = tmp_path / "r.json"
    pipeplan.save(pipeplan.solve("tiny-chain", planner="greedy"), result)
    done = plan(command, "memory-tight", result)
    assert done.code == 3
    assert "it belongs to 'tiny-chain', not to 'memory-tight'" in done.err
    assert "cluster options" not in done.err


def test_convert_writes_to_standard_output(plan: Plan) -> None:
    done = plan("convert", "tiny-chain", "-o", "-")
    assert (done.code, done.json["schema"], done.err) == (0, "pipeplan.placement/1", "")


def test_the_page_to_explore_is_written(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = plan("explore")
    assert (said.code, said.out) == (0, "page: explore.html; open it in a browser\n")
    assert said.err == "wrote explore.html\n"
    text = (tmp_path / "explore.html").read_text("utf-8")
    assert 'id="stages"' in text
    assert plan("explore", "--json", "-o", "again.html").json == {"page": "again.html", "bytes": len(text.encode())}
    assert (tmp_path / "again.html").read_text("utf-8") == text
    assert plan("explore", "--memory").err == "wrote memory.html\n"
    assert 'id="tables"' in (tmp_path / "memory.html").read_text("utf-8")


@pytest.fixture
def pattern(plan: Plan, tmp_path: Path) -> Path:
    path = tmp_path / "result.json"
    done(plan("solve", "golden-4", "--output", path, "--picture", tmp_path / "solved.svg"))
    return path


@pytest.mark.slow("words1")
@pytest.mark.parametrize("words", [("show", "golden-4", "RESULT"), ("solve", "golden-4")])
def test_terminal_and_picture_show_one_view_of_a_plan(
    plan: Plan, pattern: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A view costs an evaluation by the referee, and often a simulation."""
    from pipeplan.show.views import chain

    views, make = [], chain.view
    monkeypatch.setattr(chain, "view", lambda *asked: views.append(make(*asked)) or views[-1])
    named = [pattern if word == "RESULT" else word for word in words]
    assert plan(*named, "--picture", tmp_path / "drawn.svg").code == 0
    assert len(views) == 1
    assert plan(*named, "--json").code == 0
    assert len(views) == 1, "machines are told facts, no view"


@pytest.mark.slow
def test_the_pipeline_is_unrolled_on_demand(plan: Plan, pattern: Path) -> None:
    said = plan("show", "golden-4", pattern, "--unrolled").out
    has(said, "gpu0 |00", "^ after this, everything repeats")


def test_why_there_is_no_plan_is_said_to_people_and_machines(plan: Plan) -> None:
    said = plan("solve", "golden-4", "--memory", 8)
    told = plan("solve", "golden-4", "--memory", 8, "--json").json["messages"]
    assert any("needs 29 B (proven to be the minimum)" in message for message in told)
    assert all(f"Note: {message}" in said.err for message in told)


def test_an_instance_alone_is_shown_by_its_facts(plan: Plan) -> None:
    assert "2 GPUs with memory" in done(plan("show", "golden-4")).out
    assert plan("show", "golden-4", "--json").json.keys() == {"problem"}


def limited(problem: Problem, limit: float | None) -> Problem:
    changed: Problem = problem.replace(memory_bytes=limit)
    return changed


def limited_type(problem: Any, limit: float | None) -> Problem:
    """The same devices as two types, only one of which has as much as it takes."""
    devices = problem.devices
    kinds = (DeviceType("plenty", 1, 1.0), DeviceType("small", devices - 1, 1.0, limit))
    layers = tuple(
        layer.__class__(layer.id, {t: ways for t, ways in layer.configurations.items() if t == 1})
        for layer in problem.layers
    )
    changed: Problem = problem.replace(layers=layers, memory_bytes=None, device_types=kinds)
    return changed


LARGE = 1e15

CASES: dict[str, tuple[str, Callable[[Any, float | None], Problem]]] = {
    "staging": ("tiny-stages", limited), "levels": ("tiny-levels", limited), "types": ("tiny-stages", limited_type),
    "graph-pipeline": ("tiny-graph", limited), "chain": ("figure-4", limited), "placement": ("tiny-chain", limited),
}  # fmt: skip


@pytest.mark.sweeps("graph-pipeline", "placement")
@pytest.mark.parametrize("case", CASES)
def test_gpipe_needs_more_than_there_is(case: str) -> None:
    instance, limited = CASES[case]
    problem = limited(pipeplan.load_packaged(instance), LARGE)
    plan = pipeplan.solve(problem).plan
    batches = 6 if problem.kind in ("placement", "chain") else None

    def run(problem: Problem) -> Any:
        return pipeplan.simulate(problem, plan, schedule="gpipe", micro_batches=batches)

    stages = run(problem).stages
    held = max(stage.memory_bytes for stage in stages if stage.limit_bytes == LARGE)
    fullest = [stage.name for stage in stages if stage.limit_bytes == LARGE and stage.memory_bytes == held]
    less = limited(problem, held * 0.99)
    again = run(less)
    assert [stage.name for stage in again.stages if stage.is_over_memory] == fullest
    limits = {stage.name: stage.limit_bytes for stage in again.stages}
    assert held * 0.99 in limits.values()
    assert all(curve.limit == limits[curve.name] for curve in view_of_simulation(less, again).memory)
    assert not any(stage.is_over_memory for stage in run(limited(problem, held)).stages)


@pytest.fixture
def allocated(plan: Plan, tmp_path: Path) -> Path:
    """The result of a run whose file is gone."""
    given, result = tmp_path / "given.json", tmp_path / "result.json"
    given.write_text("[1, 0, 0, 1]", "utf-8")
    options = ("--planner", "exact-beaumont", "--allocation", given, "--output", result)
    assert plan("solve", "golden-4", *options).code == 0
    given.unlink()
    return result


def edited(result: Path, **options: Any) -> Path:
    data = json.loads(result.read_text("utf-8"))
    data["options"] |= options
    result.write_text(json.dumps(data), "utf-8")
    return result


def test_a_result_holds_its_allocation_and_names_no_file(plan: Plan, allocated: Path) -> None:
    for command in ("verify", "show"):
        refused(plan(command, "golden-4", edited(allocated, allocation="given.json")), "is 'given.json'")


def test_nonsense_is_refused_in_one_sentence(plan: Plan, allocated: Path) -> None:
    refused(plan("verify", "golden-4", edited(allocated, allocation=[[0], 1, 1, 0])), "puts layer 1 on GPU")


ONE_BLOCK = {
    "schema": "pipeplan.schedule/1",
    "name": "one block",
    "devices": [{"name": "d0", "memory": 1}],
    "blocks": [{"id": "b0", "kind": "F", "devices": ["d0"], "time": 5}],
}


def written(folder: Path, name: str, data: dict[str, Any]) -> str:
    path = folder / name
    path.write_text(json.dumps(data), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("command", ["show", "verify"])
@pytest.mark.parametrize(("period", "start", "code"), [
    (0, 0, 3), (-3, 0, 3), (7, "-1/" + "3" * 400, 3), ("1/" + "3" * 400, 0, 3), (7, "1" * 400, 2),
    ("1" * 400, 0, 2),
])  # fmt: skip
def test_a_schedule_that_cannot_be_laid_out_is_refused(
    plan: Plan, tmp_path: Path, command: str, period: int | str, start: int | str, code: int
) -> None:
    schedule = {"kind": "periodic-schedule", "period": period, "starts": {"b0": start}}
    said = plan(command, written(tmp_path, "problem.json", ONE_BLOCK), written(tmp_path, "plan.json", schedule))
    assert said.code == code
