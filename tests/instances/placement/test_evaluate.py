"""Loads of a split, worked out by hand from the load formula."""

from __future__ import annotations

import itertools
import json

import pytest

from pipeplan.instances.base.errors import PipeplanError
from pipeplan.instances.placement.plan import Device, DeviceType, PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import OBJECTIVES, DeviceLoad, NotAnAssignmentError, evaluate


def split(**devices: str) -> PlacementPlan:
    """split(acc0="a b", cpu0="c")"""
    return PlacementPlan(
        tuple(
            Device(name, "cpu" if name.startswith("cpu") else "accelerator", tuple(nodes.split()))
            for name, nodes in devices.items()
        )
    )


def loads(problem: PlacementProblem, plan: PlacementPlan) -> dict[str, DeviceLoad]:
    return {device.name: device for device in evaluate(problem, plan).devices}


@pytest.fixture
def fan() -> PlacementProblem:
    """u sends one tensor (cost 10) to five readers."""
    readers = tuple(Node(name, accelerator_time=2**i, cpu_time=100, size_bytes=1) for i, name in enumerate("abcde"))
    sender = Node("u", accelerator_time=64, cpu_time=500, size_bytes=7, transfer_time=10)
    return PlacementProblem((sender, *readers), tuple(("u", name) for name in "abcde"), accelerators=4, cpus=2)


def test_a_producer_is_counted_once_per_device_however_many_edges_it_has(fan: PlacementProblem) -> None:
    found = loads(fan, split(acc0="u", acc1="a b", acc2="c d", acc3="e"))
    assert (found["acc0"].transfer_in, found["acc0"].transfer_out, found["acc0"].load) == (0, 10, 74)
    assert {name: found[name].transfer_in for name in ("acc1", "acc2", "acc3")} == dict.fromkeys(
        ("acc1", "acc2", "acc3"), 10
    )
    assert [found[name].load for name in ("acc1", "acc2", "acc3")] == [10 + 1 + 2, 10 + 4 + 8, 10 + 16]


def test_what_stays_on_a_device_is_not_transferred(fan: PlacementProblem) -> None:
    found = loads(fan, split(acc0="u a b c d e"))
    assert (found["acc0"].transfer_in, found["acc0"].transfer_out, found["acc0"].load) == (0, 0, 64 + 31)


def test_a_cpu_pays_no_transfers_but_its_neighbours_do(fan: PlacementProblem) -> None:
    found = loads(fan, split(cpu0="u", acc0="a b", cpu1="c", acc1="d e"))
    assert (found["cpu0"].transfer_out, found["cpu0"].load) == (0, 500)
    assert (found["cpu1"].transfer_in, found["cpu1"].load) == (0, 100)
    assert (found["acc0"].transfer_in, found["acc0"].load) == (10, 13)
    back = loads(fan, split(acc0="u a", cpu0="b c d e"))
    assert (back["acc0"].transfer_out, back["acc0"].load) == (10, 64 + 1 + 10)


def test_a_doubled_edge_costs_nothing_more() -> None:
    nodes = (Node("u", 1, 1, transfer_time=3), Node("v", 1, 1))
    problem = PlacementProblem(nodes, (("u", "v"), ("u", "v")), accelerators=2, cpus=0)
    assert evaluate(problem, split(acc0="u", acc1="v")).max_load == 4


def test_idle_devices_have_no_load(fan: PlacementProblem) -> None:
    idle = loads(fan, split(acc0="u a b c d e", acc1="", cpu0=""))["acc1"]
    assert idle == DeviceLoad("acc1", "accelerator", 0, 0, 0, 0, 0, 0, 0)


def test_sizes_are_summed_on_every_device(fan: PlacementProblem) -> None:
    found = loads(fan, split(acc0="u a", cpu0="b c d e"))
    assert (found["acc0"].size_bytes, found["cpu0"].size_bytes) == (8, 4)


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


def test_a_transfer_is_forward_or_backward_by_its_producer(training: PlacementProblem) -> None:
    found = loads(training, split(acc0="f", acc1="g", acc2="G", acc3="F"))
    assert [(found[f"acc{i}"].forward_load, found[f"acc{i}"].backward_load) for i in range(4)] == [
        (1 + 100, 0),
        (100 + 2 + 200, 0),
        (200, 4 + 400),
        (100, 400 + 8),
    ]


def test_the_two_objectives(training: PlacementProblem) -> None:
    """max (FW + BW) is over one device, max FW + max BW over two."""
    found = evaluate(training, split(acc0="f F", acc1="g G"))
    # acc0: FW 1 + 100 out, BW 8 + 400 in; acc1: FW 100 in + 2, BW 4 + 400 out.
    assert found.max_load == max(101 + 408, 102 + 404)
    assert found.max_forward_plus_max_backward == 102 + 408
    assert [found.objective(name) for name in OBJECTIVES] == [509, 510]
    assert found.bottleneck == "acc0"


def test_an_unknown_objective_is_refused_with_the_list(training: PlacementProblem) -> None:
    with pytest.raises(ValueError, match="'speed'; known: max-load, gpipe"):
        evaluate(training, split(acc0="f F g G")).objective("speed")


def test_sums_are_rounded_once() -> None:
    """Ten tenths are one, though adding them one by one is not (`sum` of Python 3.12 and later is another matter)."""
    problem = PlacementProblem(tuple(Node(i, 0.1, 1) for i in range(10)), (), accelerators=1, cpus=0)
    plan = PlacementPlan((Device("acc0", "accelerator", tuple(range(10))),))
    one_by_one = list(itertools.accumulate([0.1] * 10))[-1]
    assert evaluate(problem, plan).max_load == 1.0 != one_by_one


def test_the_first_of_equal_devices_is_the_bottleneck() -> None:
    problem = PlacementProblem((Node("a", 1, 1), Node("b", 1, 1)), (), accelerators=2, cpus=0)
    assert evaluate(problem, split(acc1="a", acc0="b")).bottleneck == "acc1"


def test_an_evaluation_can_be_written_as_json(training: PlacementProblem) -> None:
    data = json.loads(json.dumps(evaluate(training, split(acc0="f F", acc1="g G")).to_json()))
    assert (data["max_load"], data["bottleneck"]) == (509, "acc0")
    assert data["devices"][1]["name"] == "acc1"
    assert (data["devices"][1]["transfer_in"], data["devices"][1]["transfer_out"]) == (100, 400)


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (split(acc0="f g G"), "Node 'F' is on no device."),
        (split(acc0="f g G F", acc1="f"), "Node 'f' is placed twice."),
        (split(acc0="f g G F F"), "Node 'F' is placed twice."),
        (split(acc0="f g G F x"), "Device 'acc0' holds the unknown node 'x'."),
        (PlacementPlan(()), "Node 'f' is on no device."),
    ],
)
def test_what_is_no_assignment_has_no_loads(training: PlacementProblem, plan: PlacementPlan, sentence: str) -> None:
    with pytest.raises(NotAnAssignmentError) as caught:
        evaluate(training, plan)
    assert str(caught.value) == sentence
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, PipeplanError)


def test_a_device_of_unknown_type_has_no_load(training: PlacementProblem) -> None:
    kind: DeviceType = "gpu"  # type: ignore[assignment]
    with pytest.raises(NotAnAssignmentError, match="Device 'acc0' is of the unknown type 'gpu'"):
        evaluate(training, PlacementPlan((Device("acc0", kind, ("f", "g", "G", "F")),)))
