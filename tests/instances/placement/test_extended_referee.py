"""The referee on types of accelerators: by hand, by rule, and against the definition."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from oracles.extended_placement import all_plans, tiny_types, value_by_definition

from pipeplan import AcceleratorType, Device, Node, PlacementPlan, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import OBJECTIVES, NotAnAssignmentError, evaluate
from pipeplan.instances.placement.referee.latency import evaluate_latency
from pipeplan.instances.placement.referee.structure import stage_order
from pipeplan.instances.placement.referee.verify import verify


def acc(name: str, nodes: str, **facts: Any) -> Device:
    return Device(name, "accelerator", tuple(nodes), **facts)


def chain(**facts: Any) -> PlacementProblem:
    """a -> b -> c -> d; every transfer takes 1; work 2, 4, 6, 8."""
    works = {"a": 2.0, "b": 4.0, "c": 6.0, "d": 8.0}
    nodes = tuple(
        Node(name, work, 10 * work, 1.0, transfer_time=float(name != "d")) for name, work in works.items()
    )
    return PlacementProblem(nodes, (("a", "b"), ("b", "c"), ("c", "d")), **{"accelerators": 4, "cpus": 0, **facts})


# ---- loads by hand -----------------------------------------------------------------------------------------


def test_each_type_has_its_own_times_memory_and_support() -> None:
    nodes = tuple(replace(node, other_times=(node.accelerator_time / 2, None)) for node in chain().nodes)
    types = (AcceleratorType("fast", 1, 3.0), AcceleratorType("idle", 1))
    problem = chain(other_types=types, accelerators=1).replace(nodes=nodes)
    plan = PlacementPlan((acc("acc0", "a"), acc("fast0", "bcd", accelerator_type="fast")))
    assert verify(problem, plan, "chain") == ()
    assert [load.load for load in evaluate(problem, plan).devices] == [2 + 1, 1 + 9]
    all_on = [PlacementPlan((acc("x", "abcd", accelerator_type=name),)) for name in ("fast", "idle")]
    assert [[violation.rule for violation in verify(problem, plan)] for plan in all_on] == [
        ["memory"],
        ["support"] * 4,
    ]
    assert "Node 'a' is on accelerator 'x', whose type cannot run it." in map(str, verify(problem, all_on[1]))
    with pytest.raises(NotAnAssignmentError, match="Node 'a' has no time on 'idle'"):
        evaluate(problem, all_on[1])


# ---- against the definition --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_the_value_is_that_of_the_definition(seed: int) -> None:
    problem = tiny_types(seed)
    for plan in islice(all_plans(problem, contiguous=seed % 4 > 0), 40):
        if "support" not in {violation.rule for violation in verify(problem, plan)}:
            found = evaluate(problem, plan)
            for objective in OBJECTIVES:
                assert math.isclose(
                    found.objective(objective),
                    value_by_definition(problem, plan, objective),
                    rel_tol=1e-12,
                    abs_tol=1e-12,
                )


@pytest.mark.parametrize("seed", range(60))
def test_every_enumerated_plan_counts_devices_right_and_is_a_chain(seed: int) -> None:
    problem = tiny_types(seed)
    for plan in islice(all_plans(problem), 40):
        assert {violation.rule for violation in verify(problem, plan, "chain")} <= {"memory", "support"}
        assert stage_order(problem, plan) is not None


@pytest.mark.parametrize("seed", range(30))
def test_what_the_referee_calls_a_chain_is_what_the_enumeration_calls_one(seed: int) -> None:
    problem = tiny_types(seed)
    chains = set(all_plans(problem))
    for plan in islice(all_plans(problem, contiguous=False), 300):
        broken = any(violation.rule == "contiguity-chain" for violation in verify(problem, plan, "chain"))
        assert broken == (stage_order(problem, plan) is None) == (plan not in chains)


# ---- rules -------------------------------------------------------------------------------------------------

FAST = chain(other_types=(AcceleratorType("fast", 1),))


def together(**facts: Any) -> PlacementPlan:
    """All nodes on one accelerator."""
    return PlacementPlan((acc("x", "abcd", **facts),))


BROKEN = {
    "devices": [
        (FAST, PlacementPlan(tuple(acc(nodes, nodes, accelerator_type="fast") for nodes in ("ab", "cd"))),
         "The plan has 2 accelerators of type 'fast', the problem only 1."),
        (chain(), together(accelerator_type="fast"), "unknown accelerator type"),
        (FAST.replace(cpus=1), PlacementPlan((Device("cpu0", "cpu", tuple("abcd"), accelerator_type="fast"),)),
         "is a CPU and has the accelerator type 'fast'"),
    ],
    "contiguity-chain": [
        (chain(), PlacementPlan((acc("x", "ac"), acc("y", "bd"))),
         "The devices cannot be ordered as a chain of stages: 'x' must come before 'y' (edge 'a' -> 'b')"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "problem", "plan", "message"), [(rule, *row) for rule, rows in BROKEN.items() for row in rows]
)
def test_each_rule_is_broken_in_words(
    rule: str, problem: PlacementProblem, plan: PlacementPlan, message: str
) -> None:
    violations = verify(problem, plan, "chain")
    assert rule in {violation.rule for violation in violations}
    assert any(message in violation.message for violation in violations), [
        str(violation) for violation in violations
    ]


def test_a_plan_that_means_nothing_has_no_loads() -> None:
    with pytest.raises(NotAnAssignmentError):
        evaluate(chain(), together(accelerator_type="fast"))


# ---- latency -----------------------------------------------------------------------------------------------


def test_latency_takes_the_times_of_the_type() -> None:
    nodes = tuple(replace(node, other_times=(node.accelerator_time / 2,)) for node in chain().nodes)
    problem = chain(other_types=(AcceleratorType("fast", 1),)).replace(nodes=nodes)
    plan = PlacementPlan((acc("acc0", "ab"), acc("fast0", "cd", accelerator_type="fast")))
    assert evaluate_latency(problem, plan).latency == (6 + 1) + (1 + 7)
