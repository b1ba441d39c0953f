"""Types, replicas and groups on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, has, refused

import pipeplan
from pipeplan.instances.placement.plan import Device, DeviceGroup, PlacementPlan
from pipeplan.instances.placement.problem import AcceleratorType, Level, Node, PlacementProblem

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


def test_a_flat_plan_has_no_new_columns(plan: Plan, files: Any) -> None:
    said = done(plan("show", *files(CHAIN, PlacementPlan((Device("acc0", "accelerator", tuple("abcd")),)))))
    assert not {"type", "repl.", "group", "sync", "level"} & set(said.out.split())


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
