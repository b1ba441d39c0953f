"""The referee on types of accelerators, replicas and levels: by hand, by rule, and against the definition."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from oracles.extended_placement import all_plans, best_value, tiny_extended, tiny_levels, value_by_definition

from pipeplan.instances.placement.plan import Device, DeviceGroup, PlacementPlan
from pipeplan.instances.placement.problem import AcceleratorType, Level, Node, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import OBJECTIVES, NotAnAssignmentError, evaluate
from pipeplan.instances.placement.referee.latency import evaluate_latency
from pipeplan.instances.placement.referee.structure import stage_order
from pipeplan.instances.placement.referee.verify import verify


def acc(name: str, nodes: str, **facts: Any) -> Device:
    return Device(name, "accelerator", tuple(nodes), **facts)


def chain(**facts: Any) -> PlacementProblem:
    """a -> b -> c -> d; every transfer takes 1; work 2, 4, 6, 8; one byte of weight for each unit of work."""
    works = {"a": 2.0, "b": 4.0, "c": 6.0, "d": 8.0}
    nodes = tuple(
        Node(name, work, 10 * work, 1.0, transfer_time=float(name != "d"), weight_bytes=work)
        for name, work in works.items()
    )
    return PlacementProblem(nodes, (("a", "b"), ("b", "c"), ("c", "d")), **{"accelerators": 4, "cpus": 0, **facts})


REPLICATED = chain(levels=(Level(4, 1.0, 8.0),))
NESTED = chain(levels=(Level(2, 1.0, 8.0), Level(2, 3.0, 4.0)))


# ---- loads by hand -----------------------------------------------------------------------------------------


def test_replicas_share_work_and_transfers_and_pay_for_synchronisation() -> None:
    """cd on 2: (14 + 1) / 2 + 4 (1/2) 14 / (2 * 8) = 7.5 + 1.75."""
    found = evaluate(REPLICATED, PlacementPlan((acc("acc0", "ab"), acc("acc1", "cd", replicas=2))))
    first, second = found.devices
    assert (first.load, first.divisor, first.sync) == (7.0, 1, 0.0)
    assert (second.compute, second.transfer_in, second.divisor, second.sync) == (14.0, 1.0, 2, 1.75)
    assert (second.load, found.max_load, found.bottleneck) == (9.25, 9.25, "acc1")
    assert second.size_bytes == 2.0, "each replica holds all of it"


def test_groups_pay_for_their_own_boundary_and_stages_for_theirs() -> None:
    """The tensor of b leaves its stage for 1 and its group for 3."""
    devices = (
        acc("s0", "a", group="g0"), acc("s1", "b", group="g0"), acc("s2", "c", group="g1"), acc("s3", "d", group="g1"),
    )  # fmt: skip
    plan = PlacementPlan(devices, (DeviceGroup("g0", 2), DeviceGroup("g1", 2)))
    assert verify(NESTED, plan, "chain") == ()
    found = evaluate(NESTED, plan)
    assert [load.load for load in found.devices] == [2 + 1, 1 + 4 + 1, 1 + 6 + 1, 1 + 8]
    assert [(load.transfer_in, load.transfer_out, load.load) for load in found.groups] == [(0, 3, 3), (3, 0, 3)]
    assert (found.max_load, found.bottleneck) == (9, "s3")


def test_a_group_can_be_the_bottleneck() -> None:
    problem = NESTED.replace(levels=(Level(2), Level(2, 20.0)))
    plan = PlacementPlan(
        (acc("s0", "ab", group="g0"), acc("s1", "cd", group="g1")), (DeviceGroup("g0", 2), DeviceGroup("g1", 2))
    )
    found = evaluate(problem, plan)
    assert (found.max_load, found.bottleneck) == (20.0, "g0")


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
    problem = tiny_extended(seed)
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
    problem = tiny_extended(seed)
    for plan in islice(all_plans(problem), 40):
        assert {violation.rule for violation in verify(problem, plan, "chain")} <= {"memory", "support"}
        assert stage_order(problem, plan) is not None


@pytest.mark.parametrize("seed", range(30))
def test_what_the_referee_calls_a_chain_is_what_the_enumeration_calls_one(seed: int) -> None:
    problem = tiny_levels(seed)
    chains = set(all_plans(problem))
    for plan in islice(all_plans(problem, contiguous=False), 300):
        broken = any(violation.rule == "contiguity-chain" for violation in verify(problem, plan, "chain"))
        assert broken == (stage_order(problem, plan) is None) == (plan not in chains)


@pytest.mark.parametrize("seed", range(20))
def test_one_level_that_only_counts_changes_nothing(seed: int) -> None:
    flat = tiny_levels(seed).replace(levels=(), accelerators=3)
    counted = flat.replace(levels=(Level(3),))
    for plan in all_plans(flat):
        assert verify(counted, plan, "chain") == verify(flat, plan, "chain")
        assert evaluate(counted, plan) == evaluate(flat, plan)
    assert best_value(counted) == best_value(flat)


# ---- rules -------------------------------------------------------------------------------------------------

GROUPS = (DeviceGroup("g0", 2), DeviceGroup("g1", 2))
FAST = chain(other_types=(AcceleratorType("fast", 1),))
THREE_LEVELS = NESTED.replace(levels=(Level(2), Level(1), Level(2)))


def together(*groups: DeviceGroup, **facts: Any) -> PlacementPlan:
    """All nodes on one accelerator."""
    return PlacementPlan((acc("x", "abcd", **facts),), groups)


def on_cpu(**facts: Any) -> PlacementPlan:
    return PlacementPlan((Device("cpu0", "cpu", tuple("abcd"), **facts),), GROUPS if "group" in facts else ())


BROKEN = {
    "replication": [
        (chain(), together(replicas=2), "to synchronise them on level 1"),
        (REPLICATED, together(replicas=0), "'x' has 0 replicas"),
        (chain(cpus=2), on_cpu(replicas=2), "a CPU has only one"),
        (NESTED.replace(levels=(Level(2, 1.0, 8.0), Level(2))), together(DeviceGroup("g", 2, 2), group="g"),
         "Group 'g' has 2 replicas, but the problem has no bandwidth to synchronise them on level 2"),
    ],
    "devices": [
        (REPLICATED, PlacementPlan((acc("x", "ab", replicas=3), acc("y", "cd", replicas=2))),
         "The plan has 5 devices of type accelerator, the problem only 4."),
        (FAST, PlacementPlan(tuple(acc(nodes, nodes, accelerator_type="fast") for nodes in ("ab", "cd"))),
         "The plan has 2 accelerators of type 'fast', the problem only 1."),
        (chain(), together(accelerator_type="fast"), "unknown accelerator type"),
        (FAST.replace(cpus=1), on_cpu(accelerator_type="fast"), "is a CPU and has the accelerator type 'fast'"),
    ],
    "hierarchy": [
        (NESTED, together(), "Device 'x' stands in no group of level 2."),
        (NESTED, together(group="h"), "stands in the unknown group 'h'"),
        (chain(), together(DeviceGroup("g", 2), group="g"), "only one level"),
        (NESTED, together(DeviceGroup("g", 3), group="g"),
         "Group 'g' is of level 3, but the problem has levels from 1 to 2."),
        (NESTED, together(DeviceGroup("g0", 2, parent="g1"), DeviceGroup("g1", 2), group="g0"),
         "Group 'g0' is on the highest level and stands in the group 'g1'."),
        (THREE_LEVELS, together(DeviceGroup("top", 3), DeviceGroup("mid", 2, parent="top"), group="top"),
         "Device 'x' is of level 1 and stands in the group 'top' of level 3, not 2."),
        (NESTED.replace(cpus=1), on_cpu(group="g0"), "Device 'cpu0' is a CPU and stands in the group 'g0'."),
        (NESTED, together(DeviceGroup("g0", 2), DeviceGroup("g0", 2), group="g0"),
         "The group name 'g0' is used 2 times."),
        (NESTED, PlacementPlan((*(acc(name, name, group="g0") for name in "abc"), acc("d", "d", group="g1")), GROUPS),
         "Group 'g0' holds 3 devices of level 1, but has room for 2."),
        (NESTED, together(DeviceGroup("g0", 2, 2), DeviceGroup("g1", 2), group="g0"),
         "The cluster holds 3 devices of level 2, but has room for 2."),
    ],
    "contiguity-chain": [
        (NESTED, PlacementPlan((acc("x", "ac", group="g0"), acc("y", "bd", group="g1")), GROUPS),
         "The devices cannot be ordered as a chain of stages: 'g0' must come before 'g1' (edge 'a' -> 'b')"),
        (NESTED, PlacementPlan((acc("x", "ac", group="g0"), acc("y", "bd", group="g0")), GROUPS[:1]),
         "What stands in group 'g0' cannot be ordered as a chain of stages: 'x' must come before 'y'"),
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


def test_groups_in_a_circle_are_judged_and_not_followed() -> None:
    plan = together(DeviceGroup("p", 2, parent="q"), DeviceGroup("q", 2, parent="p"), group="p")
    assert {violation.rule for violation in verify(THREE_LEVELS, plan, "chain")} == {"hierarchy"}
    with pytest.raises(
        NotAnAssignmentError, match="Group 'p' is of level 2 and stands in the group 'q' of level 2"
    ):
        evaluate(THREE_LEVELS, plan)


def test_stages_of_different_groups_may_not_interleave_even_where_all_stages_form_a_chain() -> None:
    """a | b | c is a chain of three stages, but the group of a and c is left and entered again."""
    plan = PlacementPlan((acc("x", "a", group="g0"), acc("y", "b", group="g1"), acc("z", "cd", group="g0")), GROUPS)
    assert verify(NESTED, plan, "none") == ()
    assert [violation.rule for violation in verify(NESTED, plan, "device")] == ["contiguity-device"]
    assert [violation.rule for violation in verify(NESTED, plan, "chain")] == ["contiguity-chain"]
    assert stage_order(NESTED, plan) is None


def test_the_stage_order_goes_through_the_groups() -> None:
    plan = PlacementPlan(
        (
            acc("s3", "d", group="g0"),
            acc("s1", "b", group="g1"),
            acc("s2", "c", group="g0"),
            acc("s0", "a", group="g1"),
        ),
        GROUPS,
    )
    assert stage_order(NESTED, plan) == ("s0", "s1", "s2", "s3")


@pytest.mark.parametrize("plan", [together(replicas=2), together(group="g")])
def test_a_plan_that_means_nothing_has_no_loads(plan: PlacementPlan) -> None:
    with pytest.raises(NotAnAssignmentError):
        evaluate(chain(), plan)


# ---- latency -----------------------------------------------------------------------------------------------


def test_latency_takes_the_times_of_the_type_and_the_factor_of_the_level() -> None:
    nodes = tuple(replace(node, other_times=(node.accelerator_time / 2,)) for node in chain().nodes)
    problem = chain(other_types=(AcceleratorType("fast", 1),), levels=(Level(4, 2.0),)).replace(nodes=nodes)
    plan = PlacementPlan((acc("acc0", "ab"), acc("fast0", "cd", accelerator_type="fast")))
    assert evaluate_latency(problem, plan).latency == (6 + 2) + (2 + 7)


@pytest.mark.parametrize(
    ("problem", "plan"), [(REPLICATED, together(replicas=2)), (NESTED, together(*GROUPS[:1], group="g0"))]
)
def test_latency_of_replicas_and_groups_is_refused_in_words(problem: PlacementProblem, plan: PlacementPlan) -> None:
    found = evaluate_latency(problem, plan)
    assert found.latency is None
    assert "is not defined" in str(found.reason)
