"""Single-stream latency of a split, worked out by hand."""

from __future__ import annotations

import json

import pytest
from problems.placements import split

from pipeplan import Device, Node, PlacementPlan, PlacementProblem
from pipeplan.instances.placement.referee.latency import evaluate_latency
from pipeplan.instances.placement.referee.verify import verify, verify_latency

WORK = {"a": 1, "b": 2, "c": 4, "d": 8, "e": 16, "f": 32, "g": 64}


def graph(edges: str, lonely: str = "") -> PlacementProblem:
    """Letters take their `WORK` on an accelerator, ten times as long on a CPU; every transfer takes 100."""
    senders = {edge[0] for edge in edges.split()}
    letters = sorted(set(edges + lonely) - {" "})
    nodes = tuple(Node(x, WORK[x], 10 * WORK[x], transfer_time=100 if x in senders else 0) for x in letters)
    return PlacementProblem(nodes, tuple((u, v) for u, v in edges.split()), accelerators=3, cpus=2)


def latency(edges: str, *devices: str, lonely: str = "") -> float | None:
    return evaluate_latency(graph(edges, lonely), split(*devices)).latency


# ---- pieces ----------------------------------------------------------------------------------------------


def chosen(edges: str, *devices: str, lonely: str = "") -> list[str]:
    found = evaluate_latency(graph(edges, lonely), split(*devices))
    return [piece.device + ":" + "".join(map(str, piece.nodes)) for piece in found.pieces]


def test_only_what_waits_in_a_circle_is_divided() -> None:
    """e and f stand behind the circle of A and B at different depths, or before it: C runs them as a whole."""
    circle = ["A:a", "A:d", "B:c", "B:b"]
    assert chosen("ab cd de af", "ad", "bc", "ef") == [*circle, "C:ef"]
    assert chosen("ab cd ea fd", "ad", "bc", "ef") == [*circle, "C:ef"]


def test_a_circle_is_divided_only_where_a_tensor_leaves_an_accelerator() -> None:
    """a and e stay together, as do b and f, which come behind one departure, with or without a CPU on the way."""
    assert chosen("ae eb cd", "aed", "bc") == ["A:ae", "A:d", "B:c", "B:b"]
    assert chosen("ag gb af cd", "ad", "bcf", "!g") == ["A:a", "A:d", "B:c", "B:bf"]


def test_a_divided_circle_keeps_its_place_among_the_pieces_of_its_device() -> None:
    """A runs e first, whose result comes back over a CPU to a and d, and these are in the circle with B."""
    assert chosen("eg ga gd ab cd", "ead", "bc", "!g") == ["A:e", "A:a", "A:d", "B:c", "B:b"]


# ---- what has no latency ---------------------------------------------------------------------------------


def test_given_pieces_that_block_each_other_have_no_latency() -> None:
    problem, plan = graph("ab cd"), split("d|a", "b|c")
    found = evaluate_latency(problem, plan)
    assert (found.latency, found.finish, found.pieces) == (None, {}, ())
    assert found.reason == (
        "The subgraphs wait for each other in a circle: subgraphs[1] of 'A' (with node 'a') waits for "
        "subgraphs[0] of 'A' (with node 'd') waits for subgraphs[1] of 'B' (with node 'c') waits for "
        "subgraphs[0] of 'B' (with node 'b') waits for subgraphs[1] of 'A' (with node 'a')."
    )
    assert [violation.rule for violation in verify(problem, plan)] == ["subgraphs"]


def test_pieces_that_are_no_partition_have_no_latency() -> None:
    plan = PlacementPlan((Device("A", "accelerator", ("a", "b"), (("a",),)),))
    found = evaluate_latency(graph("ab"), plan)
    assert (found.latency, found.reason) == (None, "Node 'b' of device 'A' is in none of its 1 subgraphs.")


def test_a_latency_evaluation_can_be_written_as_json() -> None:
    data = json.loads(json.dumps(evaluate_latency(graph("ab"), split("a", "!b")).to_json()))
    assert data == {
        "latency": 121,
        "finish": [{"node": "a", "time": 101}, {"node": "b", "time": 121}],
        "pieces": [{"device": "A", "nodes": ["a"], "start": 0, "finish": 101}],
        "reason": None,
    }


# ---- The referee's rules for latency: one pool of CPUs, a limited number of convex pieces, memory per accelerator.


def chain(**changes: object) -> PlacementProblem:
    """a -> b -> c with 1, 2, 3 on an accelerator, 10 times as much on a CPU, transfers of 0.5."""
    nodes = [
        Node(name, t, 10 * t, 2.0, 0.5 * (name != "c")) for name, t in zip("abc", (1.0, 2.0, 3.0), strict=True)
    ]
    problem = PlacementProblem(tuple(nodes), (("a", "b"), ("b", "c")), 2, 2, memory_bytes=4.0)
    return problem.replace(**changes) if changes else problem


def rules(problem: PlacementProblem, plan: PlacementPlan, pieces: int | None = 1) -> set[str]:
    return {violation.rule for violation in verify_latency(problem, plan, pieces)}


def test_an_accelerator_may_not_have_more_subgraphs_than_allowed() -> None:
    plan = split("a|c", "b|")
    [violation] = verify_latency(chain(), plan, 1)
    assert str(violation) == "Device 'A' has 2 subgraphs, 1 subgraph allowed."
    assert not rules(chain(), plan, 2)
    assert not rules(chain(), plan, None)


def test_where_none_are_stated_the_fewest_that_can_run_are_counted() -> None:
    devices = (Device("acc0", "accelerator", ("a", "c")), Device("cpu0", "cpu", ("b",)))
    [violation] = verify_latency(chain(), PlacementPlan(devices), 1)
    assert str(violation) == "Device 'acc0' needs 2 subgraphs, 1 subgraph allowed."
    assert not verify_latency(chain(), PlacementPlan(devices), 2)


def test_all_cpus_are_one_device_for_colours() -> None:
    nodes = tuple(
        Node(n.id, n.accelerator_time, n.cpu_time, color=1 if n.id in "ab" else None) for n in chain().nodes
    )
    problem = chain(nodes=nodes)
    assert not rules(problem, split("c|", "!a", "!b"))
    assert rules(problem, split("bc|", "!a")) == {"colocation"}


def test_a_limit_below_one_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        verify_latency(chain(), split("ab|"), 0)
