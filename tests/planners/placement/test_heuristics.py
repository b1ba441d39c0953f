"""What heuristics promise: valid plans, true claims, valid bounds, never better than the best, seeds that hold; and
values of the paper's tables and of the study on the published inputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from oracles.published_optima import CONTIGUOUS as PROVEN
from problems.placements import random_placement

import pipeplan
from pipeplan import InputError, Node, PlacementProblem, Progress, SolveOptions, Stop, UsageError
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.planners.contract import Board, Outcome, Request
from pipeplan.planners.placement import heuristics
from pipeplan.planners.registry import PLANNERS

MANY = ("greedy", "one-device", "pipedream", "partition", "linear-dp", "local-search", "lns")
"""All that need no more than the problem."""

CONTIGUOUS = pytest.mark.parametrize("non_contiguous", [False, True], ids=["contiguous", "any"])
OBJECTIVE = pytest.mark.parametrize("objective", ["max-load", "gpipe"])


def run(name: str, problem: PlacementProblem, board: Board | None = None, **options: Any) -> Outcome:
    limits = SolveOptions(seed=options.pop("seed", 0), time_limit_s=options.pop("time_limit_s", None))
    own = {spec.name: spec.default for spec in PLANNERS[name].options} | {"objective": "max-load"} | options
    own = {key: value for key, value in own.items() if key in {spec.name for spec in PLANNERS[name].options}}
    if name == "lns":
        own.update(cycles=2, steps=2_000)
    return PLANNERS[name].load().plan(Request(problem, own, limits, board=board or Board()))


def truth(problem: PlacementProblem, objective: str, non_contiguous: bool) -> float | None:
    return run("brute-force", problem, objective=objective, non_contiguous=non_contiguous).claimed


STRONG = {"lns": 1.03, "linear-dp": 1.1, "local-search": 1.15, "greedy": 1.4}
"""How far from the best they may be on average."""


@CONTIGUOUS
@OBJECTIVE
@pytest.mark.parametrize("name", MANY)
def test_plans_are_valid_claims_true_and_none_beats_the_best(
    name: str, objective: str, non_contiguous: bool
) -> None:
    """Contiguous planners are held against the best contiguous plan in both variants."""
    ratios, found = [], 0
    contiguous_only = name in ("linear-dp", "greedy")
    for seed in range(30):
        problem = random_placement(seed, layers=4)
        outcome = run(name, problem, objective=objective, non_contiguous=non_contiguous)
        best = truth(problem, objective, non_contiguous)
        assert outcome.bound is None or best is None or outcome.bound <= best * (1 + 1e-12)
        if outcome.plan is None:
            continue
        rules = {broken.rule for broken in verify(problem, outcome.plan, "none" if non_contiguous else "chain")}
        if name == "pipedream" and rules == {"memory"}:
            assert "memory" in outcome.messages[0]
            continue
        assert not rules, f"seed {seed}"
        value, found = evaluate(problem, outcome.plan).objective(objective), found + 1
        assert outcome.claimed == pytest.approx(value, rel=1e-12)
        assert value >= best * (1 - 1e-12)
        near = truth(problem, objective, non_contiguous and not contiguous_only)
        ratios += [value / near] if near else []
    assert found >= (8 if name == "one-device" else 15)
    assert name not in STRONG or objective == "gpipe" or sum(ratios) / len(ratios) <= STRONG[name]


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
def test_one_node_is_proven_and_without_accelerators_everything_is_on_cpus(name: str) -> None:
    outcome = run(name, PlacementProblem((Node("a", 2, 5),), (), accelerators=4, cpus=1))
    assert (outcome.stop, outcome.claimed) == (Stop.PROVEN, 2)
    problem = PlacementProblem((Node("a", 1, 4), Node("b", 1, 4)), (("a", "b"),), accelerators=0, cpus=1)
    outcome = run(name, problem)
    assert outcome.claimed == 8
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


# ---- the expert -----------------------------------------------------------------------------------------


def test_an_expert_split_is_read_and_judged(tmp_path: Path) -> None:
    """One that leaves nodes out is left to the referee."""
    problem = PlacementProblem((Node(1, 1, 4), Node(2, 1, 4)), ((1, 2),), accelerators=2, cpus=1)
    split = tmp_path / "split.json"
    for nodes, verified in (([[1], [2]], True), ([[1]], False)):
        split.write_text(json.dumps({"fpgas": [{"nodes": of} for of in nodes], "cpus": []}))
        result = pipeplan.solve(problem, planner="expert", options={"split": str(split)})
        assert result.verified == verified
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
    edges = [(i, j) for part in (range(4), range(4, 8)) for i in part for j in part if i < j]
    nodes = tuple(Node(i, 1, 50, 10 if i < 4 else 0, transfer_time=0.0 if i in (3, 7) else 5.0) for i in range(8))
    problem = PlacementProblem(nodes, tuple(edges), accelerators=2, cpus=1, memory_bytes=20)
    outcome = run("partition", problem, non_contiguous=True)
    assert outcome.plan is not None
    assert not verify(problem, outcome.plan)


def test_too_many_groups_are_refused_with_the_most_that_the_planner_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heuristics, "MAX_GROUPS", 1)
    result = pipeplan.solve("tiny-chain", planner="linear-dp")
    assert (result.stop, result.plan) == (Stop.MEMORY, None)
    assert any("groups are too many: this planner takes at most 1" in message for message in result.messages)


# ---- published inputs -------------------------------------------------------------------------------------

LAYER, OPERATOR = "tarnawski/throughput/layer", "tarnawski/throughput/operator"

# By planner and options: the value of each input, and how far from it the planner may be. The values are proven optima
# of contiguous plans, the paper's Table 1, the best known without contiguity (in a fixed number of steps, about two
# seconds), and experts' splits.
PIPEDREAM = {
    f"{LAYER}/bert24_inference": 17.79,
    f"{LAYER}/bert24_training": 41.75,
    f"{LAYER}/inceptionv3_inference": 60.42,
}
ANY_DEVICES = {
    f"{LAYER}/bert24_training": 39.7895,
    f"{LAYER}/gnmt_inference": 31.6873,
    f"{OPERATOR}/bert_l-3_inference": 21.9084,
    f"{OPERATOR}/bert_l-3_training": 54.2074,
    f"{OPERATOR}/bert_l-6_inference": 28.3322,
}
EXPERTS = {f"{LAYER}/bert24_inference": 20.08, f"{LAYER}/gnmt_inference": 46.21}

PUBLISHED = [
    *(
        ("linear-dp", f"tarnawski/throughput/{name}", {}, value * 1.0005, 0.00052 * value)
        for name, value in PROVEN.items()
        if name != "operator/bert_L-12_training"  # which is large
    ),
    *(("pipedream", name, {}, value, 0.005) for name, value in PIPEDREAM.items()),
    *(
        pytest.param("lns", name, {"non_contiguous": True, "cycles": 6}, value, 1e-4 * value, marks=mark)
        for mark, (name, value) in zip(
            [pytest.mark.sweeps, *[pytest.mark.slow] * 4], ANY_DEVICES.items(), strict=True
        )
    ),
    *(("expert", name, {"non_contiguous": True}, value, 0.005) for name, value in EXPERTS.items()),
]


@pytest.mark.workloads
@pytest.mark.parametrize(("planner", "name", "options", "value", "near"), PUBLISHED)
def test_published_values(
    workloads: Path, planner: str, name: str, options: dict[str, Any], value: float, near: float
) -> None:
    if planner == "expert":
        split = workloads / "tarnawski" / "experts" / f"{Path(name).name}_expert.json"
        options = {**options, "split": str(split)}
    result = pipeplan.solve(pipeplan.load(workloads / f"{name}.json"), planner=planner, options=options)
    assert result.verified
    assert result.objective == pytest.approx(value, abs=near, rel=1e-5)
