"""The referee of stagings: costs by hand on a flat network and on levels, broken rules one by one, published plans."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import pipeplan
from pipeplan.instances.catalogue import best_known, load_packaged
from pipeplan.instances.placement.referee import evaluate as placement_costs
from pipeplan.instances.placement.referee import verify as placement_rules
from pipeplan.instances.staging.kind_functions import staging_from_published
from pipeplan.instances.staging.plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.instances.staging.referee import (
    NotAStagingError,
    evaluate_leveled,
    evaluate_stages,
    full_weight,
    verify_leveled,
    verify_stages,
)

# ---- a small problem by hand ---------------------------------------------------------------------------

FULL, LEAN = Configuration("full", 6.0, 10.0, 4.0, 2.0), Configuration("lean", 9.0, 10.0, 1.0, 2.0)
PAIR = Configuration("full", 4.0, 5.0, 2.0, 1.0, gather_in={"a": 3.0}, gather_out={"c": 1.0})
SMALL = StagingProblem(
    layers=(Layer("a", {1: (FULL, LEAN)}), Layer("b", {1: (FULL, LEAN), 2: (PAIR,)}), Layer("c", {1: (FULL,)})),
    edges=(Edge("a", "b", 20.0), Edge("b", "c", 10.0), Edge("a", "c", 5.0)),
    devices=5,
    bandwidth=10.0,
    micro_batches=4,
    memory_bytes=20.0,
)


def stage(nodes: str, d: int = 1, t: int = 1, way: str = "full") -> PlannedStage:
    return PlannedStage(tuple(nodes), d, t, dict.fromkeys(nodes, way))


GOOD = StagedPlan((stage("a", 2), stage("b", 1, 2), stage("c")))


def test_the_first_stage_by_hand() -> None:
    """Two replicas: time 6/2; 20 + 5 bytes twice, half each, at 10 bytes per second; weights 4 (1/2) 10 bytes / 2."""
    cost = evaluate_stages(SMALL, GOOD).stages[0]
    assert (cost.compute, cost.transfers, cost.synchronisation) == (3.0, 2.5, 1.0)
    assert cost.load == 6.5
    assert (cost.suffix_sum, cost.in_flight, cost.devices) == (4, 2, 2)
    assert cost.memory_bytes == 4 * 2 + 2


def test_the_plan_is_as_slow_as_its_slowest_stage() -> None:
    found = evaluate_stages(SMALL, GOOD)
    assert (found.time_per_micro_batch, found.bottleneck) == (pytest.approx(10.8), 1)
    assert (found.devices, found.degrees) == (5, 4)
    assert found.to_json()["stages"][1]["load"] == found.time_per_micro_batch
    assert not verify_stages(SMALL, GOOD)


def test_four_devices_never_hold_more_than_the_ceiling() -> None:
    """Degrees 3, 1, 1, 1: the first replica holds 2 of the 6 micro-batches, the later stages 3, 2, 1 (figure 5)."""
    layers = tuple(Layer(v, {1: (Configuration("way", 1.0, memory_per_batch=1.0),)}) for v in range(4))
    problem = StagingProblem(layers, tuple(Edge(v, v + 1) for v in range(3)), 6, 1.0, 6)
    plan = StagedPlan(tuple(PlannedStage((v,), 3 if v == 0 else 1, 1, {v: "way"}) for v in range(4)))
    found = evaluate_stages(problem, plan)
    assert [cost.suffix_sum for cost in found.stages] == [6, 3, 2, 1]
    assert [cost.in_flight for cost in found.stages] == [2, 3, 2, 1]
    assert [cost.memory_bytes for cost in found.stages] == [2, 3, 2, 1]


# ---- rules ---------------------------------------------------------------------------------------------

BROKEN: list[tuple[str, StagedPlan, dict[str, Any], str, str]] = [
    ("layer left out", StagedPlan((stage("ab"),)), {}, "assignment", "'c' is in no stage"),
    ("layer twice", StagedPlan((stage("ab"), stage("bc"))), {}, "assignment", "'b' is listed 2 times"),
    ("unknown layer", StagedPlan((stage("abcx"),)), {}, "assignment", "unknown layer 'x'"),
    ("no such way", StagedPlan((stage("ab"), stage("c", way="lean"))), {}, "configuration",
     "no configuration 'lean'"),
    ("no way chosen", StagedPlan((stage("ab"), PlannedStage(("c",), 1, 1, {}))), {}, "configuration", "null"),
    ("degree 0", StagedPlan((stage("ab"), stage("c", 0))), {}, "configuration", "below 1"),
    ("backwards", StagedPlan((stage("b"), stage("a"), stage("c"))), {}, "contiguity", "'a' -> 'b'"),
    ("too many devices", GOOD, {"devices": 4}, "devices", "uses 5 devices, the problem has 4"),
    ("too many batches", GOOD, {"micro_batches": 3}, "batches", "sum to 4, a batch has 3"),
    ("replicas", GOOD, {"replication": False}, "replication", "Stage 0 has 2 replicas; the problem allows none"),
    ("too little memory", GOOD, {"memory_bytes": 9.5}, "memory", "stage 0 holds 10 bytes with 2 micro-batches"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "changes", "rule", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_a_broken_rule_is_reported_alone(plan: StagedPlan, changes: dict[str, Any], rule: str, words: str) -> None:
    found = verify_stages(SMALL.replace(**{"memory_bytes": None, **changes}), plan)
    assert [violation.rule for violation in found] == [rule]
    assert words in found[0].message
    if rule in ("assignment", "configuration"):
        with pytest.raises(NotAStagingError):
            evaluate_stages(SMALL, plan)


def test_the_published_program_synchronises_once_per_batch_which_degrees_divide() -> None:
    """Once per N = 4 micro-batches instead of once per d = 2."""
    paper, reference = (evaluate_stages(SMALL, GOOD, semantics) for semantics in ("paper", "reference"))
    assert (paper.stages[0].synchronisation, reference.stages[0].synchronisation) == (1.0, 0.5)
    assert paper.stages[1:] == reference.stages[1:]
    problem = SMALL.replace(micro_batches=5)
    assert not verify_stages(problem, GOOD)
    (found,) = verify_stages(problem, GOOD, "reference")
    assert (found.rule, "degree 2 of stage 0" in found.message) == ("divides", True)


def test_every_rule_has_an_example() -> None:
    flat = {"assignment", "configuration", "contiguity", "devices", "batches", "replication", "memory"}
    assert {case[3] for case in BROKEN} == flat
    assert {case[3] for case in BROKEN_TREES} == flat - {"replication"} | {"levels"}


def test_unknown_semantics_are_refused() -> None:
    for judge in (evaluate_stages, verify_stages):
        with pytest.raises(ValueError, match="paper, reference"):
            judge(SMALL, GOOD, "guess")


# ---- published values ----------------------------------------------------------------------------------


@lru_cache
def published_problem(folder: Path, name: str) -> StagingProblem:
    file = {"bert32": "bert32a100.json", "resnet50": "resnet.json"}[name]
    return staging_from_published(json.loads((folder / "piper" / file).read_text("utf-8")))


@lru_cache
def published_rows(folder: Path) -> tuple[dict[str, str], ...]:
    csv.field_size_limit(sys.maxsize)
    with (folder / "piper" / "reference.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def problem_of(folder: Path, row: dict[str, str]) -> StagingProblem:
    return published_problem(folder, row["workload"]).replace(
        devices=int(row["K"]),
        memory_bytes=float(row["memory_bytes"]),
        micro_batches=int(row["N"]),
        bandwidth=float(row["bandwidth"]),
    )


def plan_of(row: dict[str, str]) -> StagedPlan:
    def read(entry: dict[str, Any]) -> PlannedStage:
        recomputed = set(entry["recomp"])
        ways = {v: "activation recomp" if v in recomputed else "vanilla" for v in entry["nodes"]}
        return PlannedStage(tuple(entry["nodes"]), entry["d"], entry["t"], ways)

    return StagedPlan(tuple(map(read, json.loads(row["stages_json"]))))


def rows_with_plans(folder: Path) -> Iterator[dict[str, str]]:
    """Rows of the independent checker do not say which nodes recompute."""
    for row in published_rows(folder):
        if row["tps"] != "inf" and not row["algorithm"].startswith("checker"):
            yield row


@pytest.mark.workloads
def test_every_published_plan_is_recomputed(workloads: Path) -> None:
    count = 0
    for row in rows_with_plans(workloads):
        semantics = "paper" if "papersem" in row["algorithm"] else "reference"
        problem, plan = problem_of(workloads, row), plan_of(row)
        assert verify_stages(problem, plan, semantics) == (), row
        value = evaluate_stages(problem, plan, semantics).time_per_micro_batch
        assert value == pytest.approx(float(row["tps"]), rel=1e-9), row
        count += 1
    assert count > 200


@pytest.mark.sweeps
@pytest.mark.workloads
def test_a_published_plan_one_batch_of_memory_short_is_caught(workloads: Path) -> None:
    """The memory that every published plan needs is what the referee says: not a byte less will do."""
    for row in rows_with_plans(workloads):
        semantics = "paper" if "papersem" in row["algorithm"] else "reference"
        problem, plan = problem_of(workloads, row), plan_of(row)
        needed = max(cost.memory_bytes for cost in evaluate_stages(problem, plan, semantics).stages)
        short = verify_stages(problem.replace(memory_bytes=needed * (1 - 1e-8)), plan, semantics)
        assert {violation.rule for violation in short} == {"memory"}


def test_memory_is_met_to_the_last_digit_and_said_in_all_digits() -> None:
    """As floats 0.1 and 0.2 are more than 0.3; a billionth too much is too much."""
    ways = [{1: (Configuration("x", 1.0, memory_per_batch=amount),)} for amount in (0.1, 0.2)]
    problem = StagingProblem(tuple(Layer(v, of) for v, of in zip("ab", ways, strict=True)), (), 1, 1.0, 1, 0.3)
    plan = StagedPlan((PlannedStage(("a", "b"), 1, 1, {"a": "x", "b": "x"}),))
    assert verify_stages(problem, plan) == ()
    (violation,) = verify_stages(problem.replace(memory_bytes=0.299999999999), plan)
    assert violation.message == (
        "A device of stage 0 holds 0.3 bytes with 1 micro-batch in flight, 0.000000000001 more than its memory of "
        "0.299999999999 bytes."
    )


WAY, HALF = Configuration("way", 6.0, 8.0, 2.0, 1.0), Configuration("way", 4.0, 4.0, 1.0, 0.5, gather_in={"a": 1.0})
LEVELED = StagingProblem(
    layers=(Layer("a", {1: (WAY,)}), Layer("b", {1: (WAY,), 2: (HALF,)}), Layer("c", {1: (WAY,)})),
    edges=(Edge("a", "b", 10.0), Edge("b", "c", 5.0)),
    devices=12,
    bandwidth=10.0,
    micro_batches=8,
    memory_bytes=20.0,
    levels=(StagingLevel(4, 10.0), StagingLevel(3, 1.0)),
)


def leaf(nodes: str, d: int = 1, t: int = 1) -> LeveledStage:
    return LeveledStage(tuple(nodes), d, t, dict.fromkeys(nodes, "way"))


def group(d: int, *children: LeveledStage) -> LeveledStage:
    return LeveledStage(tuple(v for child in children for v in child.nodes), d, children=children)


TREE = LeveledPlan((group(2, leaf("a", 2), leaf("b", 1, 2)), group(1, leaf("c", 2))))


# ---- devices within devices, by hand ---------------------------------------------------------------------


def test_stages_of_level_1_cost_what_they_cost_on_a_flat_network() -> None:
    """a: (6 + (2 x 10 + 4 x 8 / 2) / 10) / 2; b on a pair: 4 + 2 (10 + 1 + 5) / 10; c: (6 + (10 + 16) / 10) / 2."""
    loads = [cost.load for cost in evaluate_leveled(LEVELED, TREE).leaves]
    assert loads == pytest.approx([4.8, 7.2, 4.3])


def test_a_higher_stage_takes_the_largest_of_its_levels() -> None:
    """First: links (4 x 16 / 2 + 2 x 5) / 2 / 1 = 21 beat 7.2 / 2 inside. Second: links 2 x 5 = 10 beat 4.3."""
    found = evaluate_leveled(LEVELED, TREE)
    assert found.loads == pytest.approx((21.0, 10.0))
    assert found.time_per_micro_batch == pytest.approx(21.0)
    fast = LEVELED.replace(levels=(LEVELED.levels[0], StagingLevel(3, 1e3)))
    assert evaluate_leveled(fast, TREE).loads == pytest.approx((3.6, 4.3)), (
        "half of b's load: two copies take turns"
    )


def test_copies_multiply_over_levels_and_ceilings_nest() -> None:
    """Copies 4, 2, 2; suffix sums 8, 4, 2; in flight 8 / 4, 4 / 2, 2 / 2."""
    found = evaluate_leveled(LEVELED, TREE)
    assert [(cost.copies, cost.suffix_sum, cost.in_flight) for cost in found.leaves] == [
        (4, 8, 2),
        (2, 4, 2),
        (2, 2, 1),
    ]
    assert found.degrees == 8
    assert [cost.memory_bytes for cost in found.leaves] == [2 * 2 + 1, 2 * 1 + 0.5, 2 * 1 + 1]


def test_weights_above_level_1_are_those_of_whole_layers() -> None:
    """On the smallest degree that is offered, over all of its devices."""
    assert full_weight(LEVELED.layers[1]) == 8.0
    assert full_weight(Layer("x", {2: (HALF, replace(WAY, id="heavier")), 4: (), 1: ()})) == 2 * 8.0


# ---- rules of trees ---------------------------------------------------------------------------------------------

BROKEN_TREES: list[tuple[str, LeveledPlan, dict[str, Any], str, str]] = [
    ("undivided", LeveledPlan((leaf("a"), group(1, leaf("b"), leaf("c")))), {}, "levels", "divided further"),
    ("too deep", LeveledPlan((group(1, group(1, leaf("a")), leaf("b"), leaf("c")),)), {}, "levels",
     "no level below"),
    ("empty", LeveledPlan((*TREE.stages, group(1, leaf("")))), {}, "assignment", "has an empty stage"),
    ("left out", LeveledPlan((group(1, leaf("a"), leaf("b")),)), {}, "assignment", "leaves out layer 'c'"),
    ("twice", LeveledPlan((group(1, leaf("a"), leaf("b")), group(1, leaf("b"), leaf("c")))), {}, "assignment",
     "'b' in two places"),
    ("unknown", LeveledPlan((group(1, leaf("ab"), leaf("c")), group(1, leaf("x")))), {}, "assignment", "'x'"),
    ("degree 0", LeveledPlan((group(0, leaf("ab"), leaf("c")),)), {}, "configuration", "below 1"),
    ("no such degree", LeveledPlan((group(1, leaf("ab"), leaf("c", 1, 2)),)), {}, "configuration", "of degree 2"),
    ("backwards", LeveledPlan((group(1, leaf("b")), group(1, leaf("a"), leaf("c")))), {}, "contiguity", "'a'"),
    ("full below", LeveledPlan((group(1, leaf("a", 3), leaf("b", 1, 2)), group(1, leaf("c")))), {}, "devices",
     "use 5 devices of level 1, where only 4"),
    ("too many batches", TREE, {"micro_batches": 7}, "batches", "sum to 8 and must sum to at most 7"),
    ("memory", TREE, {"memory_bytes": 4.9}, "memory", "begins with layer 'a' holds 5 bytes with 2 micro-batches"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "changes", "rule", "words"), [c[1:] for c in BROKEN_TREES], ids=[c[0] for c in BROKEN_TREES]
)
def test_a_broken_rule_of_a_tree_is_reported_alone(
    plan: LeveledPlan, changes: dict[str, Any], rule: str, words: str
) -> None:
    found = verify_leveled(LEVELED.replace(**changes), plan)
    assert {violation.rule for violation in found} == {rule}
    assert words in found[0].message
    if rule in ("levels", "assignment", "configuration"):
        with pytest.raises(NotAStagingError):
            evaluate_leveled(LEVELED, plan)


# ---- a packaged one ----------------------------------------------------------------------------------------


def test_tiny_stages_are_known_by_hand_and_the_referee_of_placements_names_this_one() -> None:
    """The plan of the recipe's comment: the second stage computes 5 and exchanges two tensors both ways."""
    problem = load_packaged("tiny-stages")
    ways = dict(zip("abcd", ["activation recomp"] * 2 + ["vanilla"] * 2, strict=True))
    plan = StagedPlan(tuple(PlannedStage((v,), 1, 1, {v: way}) for v, way in ways.items()))
    assert not verify_stages(problem, plan)
    loads = [cost.load for cost in evaluate_stages(problem, plan).stages]
    known = best_known("tiny-stages", "paper")
    assert known is not None
    assert (loads, known.value, known.proven) == ([5.5, 6.0, 5.0, 4.5], 6.0, True)
    wrong: Any = (problem, plan)
    for judge, name in ((placement_costs.evaluate, "evaluate"), (placement_rules.verify, "verify")):
        with pytest.raises(pipeplan.UsageError, match=f"this is a staging problem; use {name}_stages"):
            judge(*wrong)
