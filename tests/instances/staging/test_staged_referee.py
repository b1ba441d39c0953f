"""The referee of staged plans: costs by hand, rules broken one at a time, and every published plan."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from oracles.staging import best_stages
from problems.stagings import random_staging

import pipeplan
from pipeplan.instances.placement.referee import evaluate as placement_costs
from pipeplan.instances.placement.referee import verify as placement_rules
from pipeplan.instances.staging.kind_functions import staging_from_published
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingProblem
from pipeplan.instances.staging.referee import NotAStagingError, evaluate_stages, verify_stages

RULES = {
    "assignment", "configuration", "contiguity", "devices", "batches", "replication", "memory", "divides",
}  # fmt: skip

GIB = 2.0**30
BYTES_PER_S = 25 * GIB

# ---- a small problem by hand ---------------------------------------------------------------------------

FULL, LEAN = Configuration("full", 6.0, 10.0, 4.0, 2.0), Configuration("lean", 9.0, 10.0, 1.0, 2.0)
PAIR = Configuration("full", 4.0, 5.0, 2.0, 1.0, gather_in={"a": 3.0}, gather_out={"c": 1.0})
SMALL = StagingProblem(
    layers=(
        Layer("a", {1: (FULL, LEAN)}),
        Layer("b", {1: (FULL, LEAN), 2: (PAIR,)}),
        Layer("c", {1: (FULL,)}),
    ),
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


def test_tensor_parallel_devices_share_what_comes_and_goes() -> None:
    """Time 4; (20 + 3) bytes from a and (10 + 1) to c, both ways; one replica synchronises nothing."""
    cost = evaluate_stages(SMALL, GOOD).stages[1]
    assert (cost.compute, cost.transfers, cost.synchronisation) == (4.0, pytest.approx(6.8), 0.0)
    assert (cost.suffix_sum, cost.in_flight, cost.devices) == (2, 2, 2)
    assert cost.memory_bytes == 2 * 2 + 1


def test_the_plan_is_as_slow_as_its_slowest_stage() -> None:
    found = evaluate_stages(SMALL, GOOD)
    assert (found.time_per_micro_batch, found.bottleneck) == (pytest.approx(10.8), 1)
    assert (found.devices, found.degrees) == (5, 4)
    assert found.to_json()["stages"][1]["load"] == found.time_per_micro_batch
    assert not verify_stages(SMALL, GOOD)


def test_the_published_program_synchronises_once_per_batch() -> None:
    """Once per N = 4 micro-batches instead of once per d = 2."""
    paper, reference = (evaluate_stages(SMALL, GOOD, semantics) for semantics in ("paper", "reference"))
    assert (paper.stages[0].synchronisation, reference.stages[0].synchronisation) == (1.0, 0.5)
    assert paper.stages[1:] == reference.stages[1:]


def test_one_stage_moves_nothing() -> None:
    cost = evaluate_stages(SMALL, StagedPlan((stage("abc"),))).stages[0]
    assert (cost.compute, cost.transfers, cost.load) == (18.0, 0.0, 18.0)


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
    ("empty stage", StagedPlan((stage("abc"), stage(""))), {}, "assignment", "Stage 1 is empty"),
    (
        "no such way",
        StagedPlan((stage("ab"), stage("c", way="lean"))),
        {},
        "configuration",
        "no configuration 'lean'",
    ),
    ("no such degree", StagedPlan((stage("ab"), stage("c", 1, 2))), {}, "configuration", "of degree 2"),
    ("no way chosen", StagedPlan((stage("ab"), PlannedStage(("c",), 1, 1, {}))), {}, "configuration", "null"),
    ("degree 0", StagedPlan((stage("ab"), stage("c", 0))), {}, "configuration", "below 1"),
    ("backwards", StagedPlan((stage("b"), stage("a"), stage("c"))), {}, "contiguity", "'a' -> 'b'"),
    ("too many devices", GOOD, {"devices": 4}, "devices", "uses 5 devices, the problem has 4"),
    ("too many batches", GOOD, {"micro_batches": 3}, "batches", "sum to 4, a batch has 3"),
    ("too few batches", GOOD, {"micro_batches": 5, "exact_batches": True}, "batches", "exactly 5"),
    ("replicas", GOOD, {"replication": False}, "replication", "Stage 0 has 2 replicas; the problem allows none"),
    ("too little memory", GOOD, {"memory_bytes": 9.5}, "memory", "stage 0 holds 10 bytes with 2 micro-batches"),
]


@pytest.mark.parametrize(
    ("plan", "changes", "rule", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_a_broken_rule_is_reported_alone(plan: StagedPlan, changes: dict[str, Any], rule: str, words: str) -> None:
    found = verify_stages(SMALL.replace(**{"memory_bytes": None, **changes}), plan)
    assert [violation.rule for violation in found] == [rule]
    assert words in found[0].message


def test_degrees_divide_the_batch_in_the_reference_semantics_only() -> None:
    problem = SMALL.replace(micro_batches=5)
    assert not verify_stages(problem, GOOD)
    (found,) = verify_stages(problem, GOOD, "reference")
    assert (found.rule, "degree 2 of stage 0" in found.message) == ("divides", True)


def test_every_rule_has_an_example() -> None:
    assert {case[3] for case in BROKEN} | {"divides"} == RULES


def test_several_faults_are_all_reported() -> None:
    plan = StagedPlan((stage("b", 3), stage("a", 3), stage("c")))
    assert {v.rule for v in verify_stages(SMALL, plan)} == {"contiguity", "devices", "batches"}


def test_memory_may_be_full_to_the_brim() -> None:
    assert not verify_stages(SMALL.replace(memory_bytes=10.0), GOOD)
    assert verify_stages(SMALL.replace(memory_bytes=math.nextafter(10.0, 0) * (1 - 1e-8)), GOOD)


def test_a_plan_without_stages_leaves_every_layer_out() -> None:
    assert [v.rule for v in verify_stages(SMALL, StagedPlan(()))] == ["assignment"] * 3


@pytest.mark.parametrize("case", [c for c in BROKEN if c[3] in ("assignment", "configuration")], ids=lambda c: c[0])
def test_what_is_no_staging_has_no_cost(case: tuple[Any, ...]) -> None:
    with pytest.raises(NotAStagingError):
        evaluate_stages(SMALL, case[1])


def test_unknown_semantics_are_refused() -> None:
    for judge in (evaluate_stages, verify_stages):
        with pytest.raises(ValueError, match="paper, reference"):
            judge(SMALL, GOOD, "guess")


# ---- what holds for every plan -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_more_time_bandwidth_or_memory_never_hurts_in_the_wrong_direction(seed: int) -> None:
    """A plan that obeys all rules obeys them with more memory, and takes no longer on faster links."""
    problem = random_staging(seed, layers=(2, 4))
    found = best_stages(problem)
    if found is None:
        assert problem.memory_bytes is not None or problem.exact_batches or problem.degrees[0] > 1
        return
    value, plan = found
    faster = problem.replace(bandwidth=2 * problem.bandwidth)
    assert evaluate_stages(faster, plan).time_per_micro_batch <= value
    roomier = problem if problem.memory_bytes is None else problem.replace(memory_bytes=2 * problem.memory_bytes)
    assert not verify_stages(roomier, plan)


# ---- published values ----------------------------------------------------------------------------------


@lru_cache
def published_problem(folder: Path, name: str) -> StagingProblem:
    file = {"bert32": "bert32a100.json", "resnet50": "resnet.json"}[name]
    return staging_from_published(json.loads((folder / "piper" / file).read_text("utf-8")))


@pytest.mark.workloads
def test_the_hand_check_of_bert32(workloads: Path) -> None:
    """Eight stages of one device: nodes 6 to 9, three of them recomputed, with seven micro-batches in flight."""
    problem = published_problem(workloads, "bert32").replace(
        devices=8, memory_bytes=8 * GIB, micro_batches=1920, bandwidth=BYTES_PER_S
    )
    recomputed = {6, 7, 8}
    starts = (0, 6, 10, 14, 18, 22, 26, 31, 37)
    plan = StagedPlan(
        tuple(
            PlannedStage(
                tuple(range(first, last)),
                1,
                1,
                {v: "activation recomp" if v in recomputed else "vanilla" for v in range(first, last)},
            )
            for first, last in pairwise(starts)
        )
    )
    found = evaluate_stages(problem, plan)
    second, seventh = found.stages[1], found.stages[6]
    assert second.suffix_sum == second.in_flight == 7
    assert second.compute == pytest.approx(0.152371, abs=5e-7)
    assert second.transfers * BYTES_PER_S == pytest.approx(318_767_104)
    assert second.load == pytest.approx(0.164246, abs=5e-7)
    assert second.memory_bytes == 8_349_767_680
    assert seventh.compute == pytest.approx(0.151637, abs=5e-7)
    assert seventh.transfers * BYTES_PER_S == pytest.approx(381_681_664)
    assert seventh.load == pytest.approx(0.16585575, abs=5e-9)


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


def test_the_referee_of_placements_names_the_one_of_stagings() -> None:
    problem = pipeplan.load_packaged("tiny-stages")
    plan = pipeplan.solve(problem).plan
    assert isinstance(plan, pipeplan.StagedPlan)
    assert pipeplan.evaluate(problem, plan).time_per_micro_batch == 6.0
    assert pipeplan.verify(problem, plan) == ()
    wrong: Any = (problem, plan)
    with pytest.raises(pipeplan.UsageError, match="this is a staging problem; use evaluate_stages"):
        placement_costs.evaluate(*wrong)
    with pytest.raises(pipeplan.UsageError, match="this is a staging problem; use verify_stages"):
        placement_rules.verify(*wrong)


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
