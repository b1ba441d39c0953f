"""Every rule by its stable name, in one sentence that names nodes, devices and numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeplan import Node, PipeplanError, PlacementProblem
from pipeplan.instances.placement.plan import Device, DeviceType, PlacementPlan
from pipeplan.instances.placement.referee.evaluate import NotAnAssignmentError, evaluate
from pipeplan.instances.placement.referee.verify import verify

PROBLEM = PlacementProblem(
    nodes=(
        Node("a", 1, 1, size_bytes=60, transfer_time=1),
        Node("b", 1, 1, size_bytes=50, transfer_time=1, color="twin"),
        Node("c", 1, 1, size_bytes=40, color="twin"),
        Node(4, 1, 1, supported=False),
    ),
    edges=(("a", "b"), ("b", "c")),
    accelerators=2,
    cpus=1,
    memory_bytes=100,
)


def split(*devices: tuple[str, ...]) -> PlacementPlan:
    """The devices acc0, acc1, ... and cpu0, which is the last."""
    *accelerators, cpu = devices
    return PlacementPlan(
        (
            *(Device(f"acc{d}", "accelerator", nodes) for d, nodes in enumerate(accelerators)),
            Device("cpu0", "cpu", cpu),
        )
    )


GOOD = split(("a",), ("b", "c"), (4,))


def said(
    plan: PlacementPlan, problem: PlacementProblem = PROBLEM, contiguity: str = "none"
) -> list[tuple[str, str]]:
    return [(violation.rule, violation.message) for violation in verify(problem, plan, contiguity)]


def test_an_unknown_notion_of_contiguity_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match="'strict'; known: none, device, chain"):
        verify(PROBLEM, GOOD, "strict")


# ---- assignment and devices ------------------------------------------------------------------------------


@pytest.mark.parametrize(("plan", "sentence"), [
    (split((), ("b", "c"), (4,)), "Node 'a' is on no device."),
    (split(("a",), ("b", "c"), (4, "a")), "Node 'a' is placed 2 times (on 'acc0', 'cpu0')."),
    (split(("a", "a"), ("b", "c"), (4,)), "Node 'a' is placed 2 times (on 'acc0')."),
    (split(("a",), ("b", "c"), (4, "4")), "Device 'cpu0' holds the unknown node '4'."),
])  # fmt: skip
def test_a_missing_a_repeated_and_an_unknown_node_are_named(plan: PlacementPlan, sentence: str) -> None:
    assert said(plan) == [("assignment", sentence)]


def test_more_devices_than_the_problem_has_are_counted() -> None:
    assert said(split(("a",), ("b", "c"), (), (4,))) == [
        ("devices", "The plan has 3 devices of type accelerator, the problem only 2.")
    ]
    second = PlacementPlan((*GOOD.devices, Device("cpu1", "cpu", ())))
    assert said(second) == [("devices", "The plan has 2 devices of type cpu, the problem only 1.")]


def test_a_repeated_device_name_is_told() -> None:
    twice = PlacementPlan(tuple(replace(device, name="acc0") for device in GOOD.devices[:2]) + GOOD.devices[2:])
    assert said(twice) == [("devices", "The device name 'acc0' is used 2 times.")]


def test_an_unknown_device_type_is_named() -> None:
    kind: DeviceType = "gpu"  # type: ignore[assignment]
    odd = PlacementPlan((replace(GOOD.devices[0], type=kind), *GOOD.devices[1:]))
    assert said(odd) == [("devices", "Device 'acc0' is of the unknown type 'gpu'.")]


def test_long_and_strange_names_stay_short_and_harmless() -> None:
    [(_, sentence)] = said(split(("a",), ("b", "c"), (4, "x\x1b[2J" + "y" * 500)))
    assert sentence.isprintable()
    assert len(sentence) < 130


# ---- memory, support, colocation -------------------------------------------------------------------------


def test_more_than_the_memory_of_a_device_is_told_in_bytes() -> None:
    assert said(split(("a", "b", "c"), (), (4,))) == [
        ("memory", "Device 'acc0' holds 150 bytes, 50 more than its memory of 100 bytes.")
    ]


@pytest.mark.parametrize(
    ("bytes_of_a", "limit", "multiples"),
    [(3 * 2**33, 2**34, " (24 of 16 GiB)"), (9e10, 8e10, " (90 of 80 GB)"), (2**34 + 1, 2**34, ""), (2, 1, "")],
)
def test_memory_in_all_digits_and_in_the_multiple_that_suits_it(
    bytes_of_a: float, limit: float, multiples: str
) -> None:
    """The multiples are left out where they look alike, or where there is nothing to shorten."""
    problem = PlacementProblem((Node(0, 1.0, 1.0, size_bytes=bytes_of_a),), (), 1, 1, limit)
    [(_, message)] = said(PlacementPlan.from_assignment(problem, {0: 0}), problem)
    assert message.endswith(f" more than its memory of {limit:.0f} bytes{multiples}.")


@pytest.mark.parametrize(("sizes", "memory", "message"), [
    ((0.1, 0.2), 0.3, None),
    ((0.1, 0.2), 0.2999999999999999, "0.3 bytes, 0.0000000000000001 more than its memory of 0.2999999999999999"),
    ((2**33, 2**33 + 1), 2**34, "17179869185 bytes, 1 more than its memory of 17179869184"),
    ((1 / 3, 1 / 3, 1 / 3), 1, None),
])  # fmt: skip
def test_what_fits_is_decided_on_decimals_as_written(
    sizes: tuple[float, ...], memory: float, message: str | None
) -> None:
    """Sums are exact and there is no tolerance; a message shows all digits."""
    nodes = tuple(Node(i, 1.0, 1.0, size_bytes=size) for i, size in enumerate(sizes))
    problem = PlacementProblem(nodes, (), 1, 1, memory)
    plan = PlacementPlan.from_assignment(problem, dict.fromkeys(range(len(sizes)), 0))
    expected = [] if message is None else [("memory", f"Device 'acc0' holds {message} bytes.")]
    assert said(plan, problem) == expected


def test_nodes_of_one_colour_on_two_devices_are_named() -> None:
    assert said(split(("a",), ("b",), (4, "c"))) == [
        (
            "colocation",
            "Nodes 'b' and 'c' of colour 'twin' are on 'acc1' and 'cpu0'; the 2 nodes of this colour are on 2 devices "
            "and must share one.",
        )
    ]


# ---- plans that are no assignment ------------------------------------------------------------------------


def test_a_missing_node_still_lies_between_its_neighbours() -> None:
    problem = PROBLEM.replace(nodes=tuple(replace(node, color=None, size_bytes=0) for node in PROBLEM.nodes))
    plan = split(("a", "c"), (), (4,))
    assert said(plan, problem, "device")[1:] == [
        (
            "contiguity-device",
            "Device 'acc0' is not contiguous: a path leaves it at node 'a', passes node 'b' outside and comes back "
            "at node 'c'.",
        )
    ]
    assert said(plan, problem, "chain")[1:] == [
        (
            "contiguity-chain",
            "The devices cannot be ordered as a chain of stages: the unplaced node 'b' must come before 'acc0' "
            "(edge 'b' -> 'c'), 'acc0' must come before the unplaced node 'b' (edge 'a' -> 'b').",
        )
    ]


# ---- subgraphs of latency plans --------------------------------------------------------------------------


def cut(plan: PlacementPlan, d: int, *pieces: tuple[str, ...]) -> PlacementPlan:
    devices = list(plan.devices)
    devices[d] = replace(devices[d], subgraphs=pieces)
    return PlacementPlan(tuple(devices))


@pytest.mark.parametrize(("pieces", "sentence"), [
    ((("b",),), "Node 'c' of device 'acc1' is in none of its 1 subgraphs."),
    ((("b", "c"), ("b",)), "The subgraphs of device 'acc1' hold node 'b' 2 times."),
    ((("b", "c"), ("a",)), "The subgraphs of device 'acc1' hold node 'a', which the device does not."),
    (
        (("c",), ("b",)),
        "The piece subgraphs[0] of device 'acc1' runs before subgraphs[1], but its node 'c' needs node 'b' of that "
        "later piece.",
    ),
])  # fmt: skip
def test_pieces_partition_a_device_in_processing_order(pieces: tuple[tuple[str, ...], ...], sentence: str) -> None:
    assert said(cut(GOOD, 1, *pieces)) == [("subgraphs", sentence)]


def free_chain(*edges: str) -> PlacementProblem:
    nodes = tuple(Node(x, 1, 1) for x in sorted(set("".join(edges))))
    return PlacementProblem(nodes, tuple((u, v) for u, v in edges), accelerators=2, cpus=1)


def test_a_piece_is_convex() -> None:
    plan = cut(split(("a", "c"), ("b",), ()), 0, ("a", "c"))
    assert said(plan, free_chain("ab", "bc")) == [
        (
            "subgraphs",
            "The piece subgraphs[0] of device 'acc0' is not convex: a path leaves it at node 'a', passes node 'b' "
            "outside and comes back at node 'c'.",
        )
    ]


# ---- Loads of a split, worked out by hand from the load formula.


def placed(**devices: str) -> PlacementPlan:
    """placed(acc0="a b", cpu0="c")"""
    return PlacementPlan(
        tuple(
            Device(name, "cpu" if name.startswith("cpu") else "accelerator", tuple(nodes.split()))
            for name, nodes in devices.items()
        )
    )


@pytest.fixture
def training() -> PlacementProblem:
    """f -> g, then backward G -> F, and f's activation is kept for F."""
    nodes = (
        Node("f", accelerator_time=1, cpu_time=9, transfer_time=100),
        Node("g", accelerator_time=2, cpu_time=9, transfer_time=200),
        Node("G", accelerator_time=4, cpu_time=9, transfer_time=400, backward=True),
        Node("F", accelerator_time=8, cpu_time=9, backward=True),
    )
    return PlacementProblem(nodes, (("f", "g"), ("g", "G"), ("G", "F"), ("f", "F")), accelerators=4, cpus=1)


def test_an_unknown_objective_is_refused_with_the_list(training: PlacementProblem) -> None:
    with pytest.raises(ValueError, match="'speed'; known: max-load, gpipe"):
        evaluate(training, placed(acc0="f F g G")).objective("speed")


@pytest.mark.parametrize(("plan", "sentence"), [
    (placed(acc0="f g G"), "Node 'F' is on no device."),
    (placed(acc0="f g G F", acc1="f"), "Node 'f' is placed twice."),
    (placed(acc0="f g G F F"), "Node 'F' is placed twice."),
    (placed(acc0="f g G F x"), "Device 'acc0' holds the unknown node 'x'."),
    (PlacementPlan(()), "Node 'f' is on no device."),
])  # fmt: skip
def test_what_is_no_assignment_has_no_loads(training: PlacementProblem, plan: PlacementPlan, sentence: str) -> None:
    with pytest.raises(NotAnAssignmentError) as caught:
        evaluate(training, plan)
    assert str(caught.value) == sentence
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, PipeplanError)
