"""The referee's rules for latency: one pool of CPUs, a limited number of convex pieces, memory per accelerator."""

from __future__ import annotations

import pytest
from oracles.latency import latency_by_definition, random_latency_placement

from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.referee.latency import evaluate_latency
from pipeplan.instances.placement.referee.verify import verify_latency


def chain(**changes: object) -> PlacementProblem:
    """a -> b -> c with 1, 2, 3 on an accelerator, 10 times as much on a CPU, transfers of 0.5."""
    nodes = [
        Node(name, t, 10 * t, 2.0, 0.5 * (name != "c")) for name, t in zip("abc", (1.0, 2.0, 3.0), strict=True)
    ]
    problem = PlacementProblem(tuple(nodes), (("a", "b"), ("b", "c")), 2, 2, memory_bytes=4.0)
    return problem.replace(**changes) if changes else problem


def split(acc0: list[str], acc1: list[str] | None = None, cpu0: str = "", cpu1: str = "") -> PlacementPlan:
    """`acc0`: its pieces; an accelerator that holds nothing is left out."""
    devices = [
        Device(name, "accelerator", tuple("".join(pieces)), tuple(tuple(piece) for piece in pieces))
        for name, pieces in (("acc0", acc0), ("acc1", acc1 or []))
    ]
    return PlacementPlan((*devices, Device("cpu0", "cpu", tuple(cpu0)), Device("cpu1", "cpu", tuple(cpu1))))


def rules(problem: PlacementProblem, plan: PlacementPlan, pieces: int | None = 1) -> set[str]:
    return {violation.rule for violation in verify_latency(problem, plan, pieces)}


def test_a_plan_within_all_limits_has_no_violation() -> None:
    plan = split(["ab"], ["c"])
    assert not rules(chain(), plan)
    assert evaluate_latency(chain(), plan).latency == 1 + 2 + 0.5 + 0.5 + 3


def test_an_accelerator_may_not_have_more_subgraphs_than_allowed() -> None:
    plan = split(["a", "c"], ["b"])
    [violation] = verify_latency(chain(), plan, 1)
    assert str(violation) == "Device 'acc0' has 2 subgraphs, 1 subgraph allowed."
    assert not rules(chain(), plan, 2)
    assert not rules(chain(), plan, None)


def test_empty_subgraphs_do_not_count() -> None:
    assert not rules(chain(), split(["", "ab"], ["c"]))


def test_where_none_are_stated_the_fewest_that_can_run_are_counted() -> None:
    devices = (Device("acc0", "accelerator", ("a", "c")), Device("cpu0", "cpu", ("b",)))
    [violation] = verify_latency(chain(), PlacementPlan(devices), 1)
    assert str(violation) == "Device 'acc0' needs 2 subgraphs, 1 subgraph allowed."
    assert not verify_latency(chain(), PlacementPlan(devices), 2)


def test_memory_is_counted_over_all_subgraphs_of_an_accelerator() -> None:
    assert rules(chain(memory_bytes=3.0), split(["a", "c"], ["b"]), 2) == {"memory"}


def test_a_subgraph_must_be_convex_and_the_order_must_fit() -> None:
    assert rules(chain(), split(["ac"], ["b"])) == {"subgraphs"}
    assert rules(chain(), split(["c", "a"], ["b"]), 2) == {"subgraphs"}


def test_support_is_asked_of_accelerators() -> None:
    nodes = tuple(Node(n.id, n.accelerator_time, n.cpu_time, supported=n.id != "b") for n in chain().nodes)
    assert rules(chain(nodes=nodes), split(["ab"], cpu0="c")) == {"support"}


def test_all_cpus_are_one_device_for_colours() -> None:
    nodes = tuple(
        Node(n.id, n.accelerator_time, n.cpu_time, color=1 if n.id in "ab" else None) for n in chain().nodes
    )
    problem = chain(nodes=nodes)
    assert not rules(problem, split(["c"], cpu0="a", cpu1="b"))
    assert rules(problem, split(["bc"], cpu0="a")) == {"colocation"}


def test_a_node_that_is_nowhere_is_one_violation_and_no_crash() -> None:
    assert rules(chain(), split(["ab"])) == {"assignment"}


def test_a_limit_below_one_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        verify_latency(chain(), split(["ab"]), 0)


@pytest.mark.parametrize("seed", range(30))
def test_values_are_those_of_the_specification(seed: int) -> None:
    """Two pieces on one accelerator, the rest on the CPUs: the referee against a second reading of section 4."""
    problem = random_latency_placement(seed)
    choice = tuple([None, (0, 0), (0, 1)][(seed // 3 + i * i) % 3] for i in range(len(problem.nodes)))
    pieces = [[n.id for n, slot in zip(problem.nodes, choice, strict=True) if slot == (0, j)] for j in range(2)]
    on_cpu = tuple(n.id for n, slot in zip(problem.nodes, choice, strict=True) if slot is None)
    held = tuple(i for piece in pieces for i in piece)
    acc = Device("acc0", "accelerator", held, tuple(tuple(piece) for piece in pieces))
    plan = PlacementPlan((acc, Device("cpu0", "cpu", on_cpu)) if on_cpu else (acc,))
    expected = latency_by_definition(problem, choice) if problem.cpus or not on_cpu else None
    assert (expected is None) == bool(verify_latency(problem, plan, 2))
    if expected is not None:
        assert evaluate_latency(problem, plan).latency == pytest.approx(expected)
