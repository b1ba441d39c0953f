"""The two notions of contiguity: of each device alone, and of all devices as a chain of stages."""

from __future__ import annotations

from collections.abc import Iterable

from problems.placements import split

from pipeplan import Device, Node, PlacementPlan, PlacementProblem
from pipeplan.instances.placement.referee.structure import returning_path, stage_order
from pipeplan.instances.placement.referee.verify import verify


def graph(edges: str, backward: str = "", colors: str = "", lonely: str = "") -> PlacementProblem:
    """graph("ab bc", backward="c", colors="ac"): letters are nodes; a word of `colors` is one colour class."""
    letters = sorted(set(edges + lonely + backward) - {" "})
    color = {letter: word for word in colors.split() for letter in word}
    nodes = tuple(Node(x, 1, 1, backward=x in backward, color=color.get(x)) for x in letters)
    return PlacementProblem(nodes, tuple((u, v) for u, v in edges.split()), accelerators=5, cpus=2)


def broken(problem: PlacementProblem, plan: PlacementPlan, contiguity: str) -> list[str]:
    found = verify(problem, plan, contiguity)
    assert {violation.rule for violation in found} <= {f"contiguity-{contiguity}"}
    return [violation.message for violation in found]


def is_contiguous_set(problem: PlacementProblem, nodes: Iterable[int | str]) -> bool:
    return returning_path(problem, [problem.index[node] for node in nodes]) is None


# ---- devices ---------------------------------------------------------------------------------------------


def test_the_message_names_the_path() -> None:
    assert broken(graph("ab bc cd"), split("ad", "bc"), "device") == [
        "Device 'A' is not contiguous: a path leaves it at node 'a', passes node 'b' outside and comes back at "
        "node 'd'."
    ]


def test_devices_contiguous_each_may_still_depend_on_each_other_in_a_circle() -> None:
    """a -> b and c -> d with {a, d} and {b, c}: no path returns, yet no order of the two devices exists."""
    problem, plan = graph("ab cd"), split("ad", "bc")
    assert broken(problem, plan, "device") == []
    assert broken(problem, plan, "chain") == [
        "The devices cannot be ordered as a chain of stages: 'A' must come before 'B' (edge 'a' -> 'b'), "
        "'B' must come before 'A' (edge 'c' -> 'd')."
    ]
    assert stage_order(problem, plan) is None


def test_a_circle_of_three_devices_is_named_in_full() -> None:
    [message] = broken(graph("ab cd ef"), split("af", "bc", "de"), "chain")
    for step in ("'A' must come before 'B' (edge 'a' -> 'b')", "(edge 'c' -> 'd')", "(edge 'e' -> 'f')"):
        assert step in message


# ---- the backward part in the chain ----------------------------------------------------------------------


def test_an_orphan_stands_in_mirrored_order() -> None:
    """B reads the orphan X's result in the backward pass, so X belongs to b's stage or a later one."""
    training = graph("ab XB BA", backward="ABX", colors="aA bB")
    assert stage_order(training, split("aA", "bB", "X")) == ("A", "B", "C")
    assert stage_order(training, split("aA", "bBX")) == ("A", "B")
    assert stage_order(training, split("aAX", "bB")) is None
    assert broken(training, split("aAX", "bB"), "chain") == [
        "The devices cannot be ordered as a chain of stages: 'A' must come before 'B' (edge 'a' -> 'b'), "
        "'B' must come before 'A' (backward edge 'X' -> 'B', mirrored)."
    ]


# ---- stage order -----------------------------------------------------------------------------------------


def test_stages_are_listed_in_order_and_idle_devices_last() -> None:
    assert stage_order(graph("ab bc"), split("c", "", "a", "b")) == ("C", "D", "A", "B")


def test_long_chains_need_no_recursion() -> None:
    count = 20_000
    nodes = tuple(Node(i, 1, 1) for i in range(count))
    problem = PlacementProblem(nodes, tuple((i, i + 1) for i in range(count - 1)), accelerators=3, cpus=0)
    devices = [Device(name, "accelerator", tuple(range(d, count, 3))) for d, name in enumerate("ABC")]
    assert stage_order(problem, PlacementPlan(tuple(devices))) is None
    assert not is_contiguous_set(problem, (0, count - 1))
