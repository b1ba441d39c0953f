"""`plan verify` and `plan show`: the referee's word, for people and machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Plan, done, has, refused
from problems import malformed

import pipeplan


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


def test_violations_for_machines(plan: Plan, instance: Path, write: Callable[..., Path]) -> None:
    said = plan("verify", instance, write(acc0="abcd"), "--json", "--memory", "7B")
    assert said.code == 3
    assert (said.json["verified"], said.json["objective"]) == (False, None)
    assert [violation["rule"] for violation in said.json["violations"]] == ["memory"]


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


def test_what_a_result_claims_is_not_believed(plan: Plan, instance: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    plan("solve", instance, "--planner", "linear-dp", "--output", result)
    data = json.loads(result.read_text())
    data["objective"] = data["claimed"] = 0.001
    data["plan"]["devices"][0]["nodes"].pop()
    result.write_text(json.dumps(data))
    said = plan("verify", instance, result)
    assert said.code == 3
    assert "is on no device" in said.out


def test_another_problem_is_noticed(plan: Plan, instance: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    plan("solve", instance, "--planner", "linear-dp", "--memory", "none", "--output", result)
    assert "was made for another problem" in plan("verify", instance, result, "--memory", "100GB").err
    assert "on the cluster of" in plan("verify", instance, result).err
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


def test_stages_are_drawn_in_their_order(plan: Plan, instance: Path, write: Callable[..., Path]) -> None:
    assert "stages: acc1 -> acc0" in plan("show", instance, write(acc0="cd", acc1="ab")).out
    assert "stages: none" in plan("show", instance, write(acc0="ad", acc1="bc")).out


def test_a_drawing_for_machines(plan: Plan, instance: Path, write: Callable[..., Path]) -> None:
    drawing = plan("show", instance, write(acc0="ab", acc1="cd"), "--json").json
    assert (drawing["latency"], drawing["objective"]) == (11.0, 7.5)


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


def test_wrong_words(plan: Plan, instance: Path, write: Callable[..., Path]) -> None:
    path = write(acc0="abcd")
    assert "none, device, chain" in plan("verify", instance, path, "--contiguity", "always").err
    assert "max-load, gpipe" in plan("show", instance, path, "--objective", "speed").err


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
    refused(plan("convert", "tiny-chain", "-o", "-", "--json"), "drop --json, or name a file.")
