"""`plan verify` and `plan show`: the referee's word, for people and machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from problems import malformed

import pipeplan

Plan = Callable[..., Any]


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
    assert "'x'" in said.out
    assert "'b' is placed 2 times" in said.out


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
    said = plan("show", instance, write(cpu0="", acc0="ab", acc1="cd"))
    assert said.code == 0
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
    said = plan(command, sound, path)
    assert (said.code, said.out) == (2, "")
    [sentence] = said.err.splitlines()
    for words in (path.name, case.field, case.remedy):
        assert words in sentence


def test_wrong_words(plan: Plan, instance: Path, write: Callable[..., Path]) -> None:
    path = write(acc0="abcd")
    assert "none, device, chain" in plan("verify", instance, path, "--contiguity", "always").err
    assert "max-load, gpipe" in plan("show", instance, path, "--objective", "speed").err
