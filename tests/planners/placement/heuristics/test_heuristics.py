"""What heuristics promise: valid plans, true claims, valid bounds, never better than the best, seeds that hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from problems.placements import random_placement

import pipeplan
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.base.result import Stop
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.planners.contract import Board, Outcome, Request
from pipeplan.planners.options import Progress, SolveOptions
from pipeplan.planners.placement.heuristics import linear_dp
from pipeplan.planners.registry import PLACEMENT_OPTIONS, PLANNERS

MANY = ("greedy", "one-device", "pipedream", "partition", "linear-dp", "local-search", "lns")
"""All that need no more than the problem."""

CONTIGUOUS = pytest.mark.parametrize("non_contiguous", [False, True], ids=["contiguous", "any"])
OBJECTIVE = pytest.mark.parametrize("objective", ["max-load", "gpipe"])


def run(name: str, problem: PlacementProblem, board: Board | None = None, **options: Any) -> Outcome:
    limits = SolveOptions(seed=options.pop("seed", 0), time_limit_s=options.pop("time_limit_s", None))
    own = {spec.name: spec.default for spec in PLACEMENT_OPTIONS[name]} | {"objective": "max-load"} | options
    own = {key: value for key, value in own.items() if key in {spec.name for spec in PLACEMENT_OPTIONS[name]}}
    if name == "lns":
        own.update(cycles=2, steps=2_000)
    return PLANNERS[name].load().plan(Request(problem, own, limits, board=board or Board()))


def truth(problem: PlacementProblem, objective: str, non_contiguous: bool) -> float | None:
    return run("brute-force", problem, objective=objective, non_contiguous=non_contiguous).claimed


@CONTIGUOUS
@OBJECTIVE
@pytest.mark.parametrize("name", MANY)
def test_plans_are_valid_claims_true_and_none_beats_the_best(
    name: str, objective: str, non_contiguous: bool
) -> None:
    found = 0
    for seed in range(30):
        problem = random_placement(seed, layers=4)
        outcome = run(name, problem, objective=objective, non_contiguous=non_contiguous)
        best = truth(problem, objective, non_contiguous)
        assert outcome.bound is None or best is None or outcome.bound <= best * (1 + 1e-12)
        if outcome.plan is None:
            continue
        rules = {
            violation.rule for violation in verify(problem, outcome.plan, "none" if non_contiguous else "chain")
        }
        if name == "pipedream" and rules == {"memory"}:
            assert "memory" in outcome.messages[0]
            continue
        found += 1
        assert not rules, f"seed {seed}"
        value = evaluate(problem, outcome.plan).objective(objective)
        assert outcome.claimed == pytest.approx(value, rel=1e-12)
        assert best is not None
        assert value >= best * (1 - 1e-12)
    assert found >= (8 if name == "one-device" else 15)


STRONG = {"lns": 1.03, "linear-dp": 1.1, "local-search": 1.15, "greedy": 1.4}


@CONTIGUOUS
@pytest.mark.parametrize("name", STRONG)
def test_how_far_from_the_best_they_are_on_average(name: str, non_contiguous: bool) -> None:
    """Contiguous planners are held against the best contiguous plan in both variants."""
    contiguous_only = name in ("linear-dp", "greedy")
    ratios = []
    for seed in range(30):
        problem = random_placement(seed, layers=4)
        outcome = run(name, problem, non_contiguous=non_contiguous)
        best = truth(problem, "max-load", non_contiguous and not contiguous_only)
        if outcome.claimed is not None and best:
            ratios.append(outcome.claimed / best)
    assert len(ratios) >= 15
    assert sum(ratios) / len(ratios) <= STRONG[name]


@pytest.mark.parametrize("name", MANY)
def test_the_same_seed_gives_the_same_plan(name: str) -> None:
    for seed in range(5):
        problem = random_placement(seed, layers=6)
        first, second = (run(name, problem, non_contiguous=seed % 2 == 1, seed=seed) for _ in range(2))
        assert (first.plan, first.claimed) == (second.plan, second.claimed)


def large(count: int = 120) -> PlacementProblem:
    """Two long chains that exchange data now and then, on three accelerators and a CPU."""
    nodes = tuple(Node(i, 1 + i % 3, 9, size_bytes=1, transfer_time=float(i < count - 2)) for i in range(count))
    edges = [(i, i + 2) for i in range(count - 2)] + [(i, i + 3) for i in range(0, count - 3, 10)]
    return PlacementProblem(nodes, tuple(edges), accelerators=3, cpus=1, memory_bytes=count / 2)


@pytest.mark.parametrize("name", MANY)
def test_a_time_limit_of_nothing_returns_at_once(name: str) -> None:
    PLANNERS[name].load()
    outcome = run(name, large(), time_limit_s=0.0, non_contiguous=True)
    assert outcome.stop in (Stop.TIME, Stop.COMPLETED)


@pytest.mark.parametrize("name", MANY)
def test_incumbents_are_posted_as_they_come(name: str) -> None:
    seen: list[Progress] = []
    outcome = run(name, random_placement(3, layers=4), board=Board(seen.append, name), non_contiguous=True)
    values = [progress.incumbent for progress in seen]
    assert values
    assert values[-1] == outcome.claimed
    assert all(progress.source == name for progress in seen)


@pytest.mark.parametrize("name", MANY)
def test_meeting_the_bound_is_a_proof(name: str) -> None:
    """One node: nothing is left to search for."""
    problem = PlacementProblem((Node("a", 2, 5),), (), accelerators=4, cpus=1)
    outcome = run(name, problem)
    assert (outcome.stop, outcome.claimed) == (Stop.PROVEN, 2)


@pytest.mark.parametrize("name", MANY)
def test_without_accelerators_everything_is_on_cpus(name: str) -> None:
    problem = PlacementProblem((Node("a", 1, 4), Node("b", 1, 4)), (("a", "b"),), accelerators=0, cpus=1)
    outcome = run(name, problem)
    assert outcome.claimed == 8
    assert outcome.plan is not None
    assert [device.type for device in outcome.plan.devices] == ["cpu"]


@pytest.mark.sweeps
@pytest.mark.parametrize("name", MANY)
def test_many_devices_cost_nothing(name: str) -> None:
    """The CPUs' names are the problem's own even where most accelerators are left out of the search."""
    nodes = (Node("a", 1, 4), Node("b", 9, 4, supported=False))
    problem = PlacementProblem(nodes, (), accelerators=50_000, cpus=2)
    outcome = run(name, problem, non_contiguous=True)
    assert outcome.plan is not None
    assert not verify(problem, outcome.plan)
    assert outcome.claimed in ((8,) if name == "one-device" else (4, 5, 8))


def test_nothing_fits_is_said() -> None:
    nodes = tuple(Node(i, 1, 1, size_bytes=3) for i in range(3))
    problem = PlacementProblem(nodes, (), accelerators=2, cpus=0, memory_bytes=4)
    for name in MANY:
        outcome = run(name, problem)
        assert "memory" in outcome.messages[0]
        if name != "pipedream":
            assert (outcome.plan, outcome.stop) == (None, Stop.COMPLETED)


def test_the_table_of_options_is_what_the_planners_obey() -> None:
    for name, specs in PLACEMENT_OPTIONS.items():
        assert PLANNERS[name].options == specs


# ---- the expert -----------------------------------------------------------------------------------------


def test_an_expert_split_is_read_and_judged(tmp_path: Path) -> None:
    problem = PlacementProblem((Node(1, 1, 4), Node(2, 1, 4)), ((1, 2),), accelerators=2, cpus=1)
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"fpgas": [{"nodes": [1]}, {"nodes": [2]}], "cpus": []}))
    result = pipeplan.solve(problem, planner="expert", options={"split": str(split)})
    assert (result.objective, result.verified) == (1, True)


def test_an_expert_split_that_leaves_nodes_out_is_left_to_the_referee(tmp_path: Path) -> None:
    problem = PlacementProblem((Node(1, 1, 4), Node(2, 1, 4)), ((1, 2),), accelerators=2, cpus=1)
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"fpgas": [{"nodes": [1]}], "cpus": []}))
    result = pipeplan.solve(problem, planner="expert", options={"split": str(split)})
    assert not result.verified
    assert "Node 2 is on no device" in result.violations[0]


def test_an_expert_needs_a_split_of_this_problem(tmp_path: Path) -> None:
    problem = PlacementProblem((Node(1, 1, 4),), (), accelerators=1, cpus=0)
    with pytest.raises(UsageError, match="--option split"):
        run("expert", problem)
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"fpgas": [{"nodes": [9]}], "cpus": []}))
    with pytest.raises(InputError, match="unknown node 9"):
        run("expert", problem, split=str(split))


# ---- METIS ----------------------------------------------------------------------------------------------


def test_without_metis_there_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(UsageError, match=r"pip install 'pipeplan\[partition\]'"):
        run("partition", large())


def test_parts_that_break_memory_are_mended() -> None:
    """Work balances 1 : 1 only with all the heavy weights together, which no accelerator can hold."""
    nodes = (*(Node(i, 1, 50, size_bytes=10) for i in range(4)), *(Node(i, 1, 50) for i in range(4, 8)))
    edges = [(i, j) for part in (range(4), range(4, 8)) for i in part for j in part if i < j]
    linked = {u for u, _ in edges}
    nodes = tuple(Node(n.id, 1, 50, n.size_bytes, transfer_time=5.0 if n.id in linked else 0.0) for n in nodes)
    problem = PlacementProblem(nodes, tuple(edges), accelerators=2, cpus=1, memory_bytes=20)
    outcome = run("partition", problem, non_contiguous=True)
    assert outcome.plan is not None
    assert not verify(problem, outcome.plan)


def test_too_many_groups_are_refused_with_the_most_that_the_planner_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_dp, "MAX_GROUPS", 1)
    result = pipeplan.solve("tiny-chain", planner="linear-dp")
    assert (result.stop, result.plan) == (Stop.MEMORY, None)
    assert any("groups are too many: this planner takes at most 1" in message for message in result.messages)
