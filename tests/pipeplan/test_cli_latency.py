"""Latency on the command line: solve, verify and show agree, and the options travel with the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Plan, done, has, refused

import pipeplan

METHOD = ("--formulation", "ip-tarnawski-latency", "--threads", "1")


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """a -> b -> c on memory for two; b is slow on accelerators, so two pieces of one accelerator are worth while."""
    nodes = [
        pipeplan.Node("a", 1.0, 9.0, 1.0, 0.1),
        pipeplan.Node("b", 9.0, 1.0, 1.0, 0.1),
        pipeplan.Node("c", 1.0, 9.0, 1.0),
    ]
    path = tmp_path / "abc.json"
    pipeplan.save(pipeplan.PlacementProblem(tuple(nodes), (("a", "b"), ("b", "c")), 1, 2, 2.0, name="abc"), path)
    return path


def test_subgraphs_per_device_count_and_travel_with_the_result(plan: Plan, instance: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    one = plan("solve", instance, *METHOD, "--json").json
    assert (one["stop"], one["objective"]) == ("proven", pytest.approx(1.1 + 1 + 9))
    two = plan("solve", instance, *METHOD, "--subgraphs-per-device", "2", "--json", "--output", result).json
    assert (two["stop"], two["objective"]) == ("proven", pytest.approx(1.1 + 1 + 1.1))
    assert two["options"]["subgraphs_per_device"] == 2
    assert two["options"]["objective"] == "latency"

    said = plan("verify", instance, result)
    assert (said.code, said.out.splitlines()[0]) == (0, "verified: yes, recomputed latency 3.2 s")
    strict = plan("verify", instance, result, "--subgraphs-per-device", "1", "--json")
    assert strict.code == 3
    assert [violation["rule"] for violation in strict.json["violations"]] == ["subgraphs"]
    report = plan("verify", instance, result, "--json").json
    assert report["options"] == {"objective": "latency", "subgraphs_per_device": 2}
    assert len(report["evaluation"]["pieces"]) == 2


def test_the_schedule_as_a_gantt(plan: Plan, instance: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    plan("solve", instance, *METHOD, "--subgraphs-per-device", "2", "--output", result)
    said = done(plan("show", instance, result))
    assert all(len(line) <= 80 for line in said.out.splitlines())
    rows = {line.split("|")[0].strip(): line.split("|")[1] for line in said.out.splitlines() if "|" in line}
    accelerator, pool = rows["acc0"], rows["CPU pool"]
    assert accelerator.index("2") > accelerator.rindex("1")
    assert "#" in pool
    assert not any(x in "12" and y == "#" for x, y in zip(accelerator, pool, strict=True))
    has(said.out, "CPU pool: 1 node, work 1", "verified: yes, recomputed latency 3.2 s")
    assert plan("show", instance, result, "--json").json["latency"] == pytest.approx(3.2)


def test_any_split_can_be_judged_for_latency(plan: Plan, instance: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    devices = [
        {"name": "acc0", "type": "accelerator", "nodes": ["a", "c"]},
        {"name": "cpu0", "type": "cpu", "nodes": ["b"]},
    ]
    path.write_text(json.dumps({"kind": "placement", "devices": devices}))
    assert "recomputed latency 3.2" in plan("verify", instance, path, "--objective", "latency").out
    said = plan("verify", instance, path, "--objective", "latency", "--subgraphs-per-device", "1")
    assert said.code == 3
    assert "needs 2 subgraphs" in said.out


def test_subgraphs_without_latency_are_refused(plan: Plan, instance: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"kind": "placement", "devices": []}))
    refused(plan("verify", instance, path, "--subgraphs-per-device", "2"), "only with --objective latency")


def test_no_subgraphs_at_all_are_refused(plan: Plan, instance: Path) -> None:
    refused(plan("solve", instance, *METHOD, "--subgraphs-per-device", "0"), "whole number from 1 to")


def test_the_objective_finds_the_formulation(plan: Plan, instance: Path) -> None:
    facts = plan("solve", instance, "--objective", "latency", "--threads", "1", "--json").json
    assert (facts["formulation"], facts["stop"]) == ("ip-tarnawski-latency", "proven")
    refused(plan("solve", instance, "--objective", "speed"), "give one of max-load, gpipe, latency")
