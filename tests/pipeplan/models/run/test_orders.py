"""What ranks run, and in which order: that of the simulator, for the plans of every kind."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from problems.profiles import DIAMOND, ROW

import pipeplan
from pipeplan import Device, InputError, PlacementPlan, PlannedStage, Profile, StagedPlan, UsageError
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.simulate import pipeline_of, simulate
from pipeplan.instances.timeline.model import Pass
from pipeplan.models.run.orders import Layout, Message, Value, schedule_of, synchronised_bytes
from pipeplan.models.run.run import even_split

BANDWIDTH = 1e6


def placed(*held: tuple[str, ...]) -> PlacementPlan:
    return PlacementPlan(tuple(Device(f"acc{d}", "accelerator", nodes) for d, nodes in enumerate(held)))


def twice(*held: tuple[str, ...]) -> StagedPlan:
    """Stages of two replicas each."""
    return StagedPlan(tuple(PlannedStage(nodes, 2, 1, dict.fromkeys(nodes, "vanilla")) for nodes in held))


@pytest.mark.parametrize("kind", ["placement", "chain", "staging"])
def test_a_row_runs_and_takes_what_plan_simulate_says(kind: str) -> None:
    problem = pipeplan.lower(ROW, kind=kind, devices=2, memory_bytes=math.inf, bandwidth=BANDWIDTH).problem
    plan = pipeplan.solve(problem).plan
    assert plan is not None
    schedule = schedule_of(plan, ROW, 8, BANDWIDTH)
    simulated = pipeline_of(problem, plan, micro_batches=8)
    assert [stage.orders for stage in schedule.pipeline.stages] == [stage.orders for stage in simulated.stages]
    expected = simulate(problem, plan, micro_batches=8).iteration / 1e3
    # A placement's transfers count at both of their ends.
    assert schedule.predicted.iteration == pytest.approx(expected, rel=0.01 if kind == "placement" else 1e-9)


def test_a_stage_graph_runs_its_own_kfkb() -> None:
    plan = StageGraphPlan(
        (
            GraphStage(("left",), 1, 2, 1, 4),
            GraphStage(("stem",), 1, 2, 2, 8),
            GraphStage(("right", "head"), 1, 2, 1, 2),
        ),
        ((1, 0), (1, 2), (0, 2)),
    )
    schedule = schedule_of(plan, DIAMOND, 4, BANDWIDTH)
    assert [stage.nodes for stage in schedule.stages] == [("stem",), ("left",), ("right", "head")]
    assert schedule.pipeline.stages[0].orders == ((1, 2, 3, 4, -1, -2, -3, -4),)
    assert schedule.orders[1] == tuple(Pass(1, j) for j in (1, 2, -1, 3, -2, 4, -3, -4))
    problem = pipeplan.lower(
        DIAMOND, kind="graph-pipeline", devices=3, memory_bytes=math.inf, bandwidth=BANDWIDTH, batch=8
    ).problem
    by_name = {stage.orders for stage in pipeline_of(problem, plan).stages}
    assert by_name == {stage.orders for stage in schedule.pipeline.stages}


def test_a_device_with_both_ends_has_two_stages_in_one_order() -> None:
    schedule = schedule_of(placed(("a", "d"), ("b", "c")), ROW, 4, BANDWIDTH)
    assert [(stage.name, stage.nodes, stage.ranks) for stage in schedule.stages] == [
        ("acc0/0", ("a",), (0,)),
        ("acc1", ("b", "c"), (1,)),
        ("acc0/1", ("d",), (0,)),
    ]
    assert {own.stage for own in schedule.orders[0]} == {0, 2}
    assert len(schedule.orders[0]) == 2 * len(schedule.orders[1]) == 16
    assert schedule.predicted.iteration > 4 * 6e-3


def test_replicas_are_ranks_that_take_turns() -> None:
    schedule = schedule_of(twice(("a", "b"), ("c", "d")), ROW, 4, BANDWIDTH)
    assert [stage.ranks for stage in schedule.stages] == [(0, 1), (2, 3)]
    assert schedule.orders[1] == tuple(Pass(0, j) for j in (2, 4, -2, -4))
    assert schedule.stages[1].rank_of(-3) == 2
    assert synchronised_bytes(ROW, schedule.stages, 0) == 8, "twice half of a's and b's four bytes each"


def test_tied_weights_on_two_ranks_are_added_up() -> None:
    schedule = schedule_of(placed(("stem", "left"), ("right", "head")), DIAMOND, 2, BANDWIDTH)
    assert [synchronised_bytes(DIAMOND, schedule.stages, x) for x in (0, 1)] == [4, 4]
    together = schedule_of(placed(("stem", "head"), ("left", "right")), DIAMOND, 2, BANDWIDTH)
    assert not any(synchronised_bytes(DIAMOND, together.stages, x) for x in range(3))


def test_the_even_split_has_equally_many_nodes_on_each_device() -> None:
    schedule = schedule_of(even_split(ROW, 2), ROW, 2, BANDWIDTH)
    assert [stage.nodes for stage in schedule.stages] == [("a", "b"), ("c", "d")]
    assert schedule_of(even_split(ROW, 3), ROW, 2, BANDWIDTH).ranks == 3
    # Figures of real size are checked against hardware, and no link was asked for.
    large = replace(ROW, nodes=tuple(replace(node, parameters={node.id: 1e9}) for node in ROW.nodes))
    assert schedule_of(even_split(large, 2), large, 2, BANDWIDTH).ranks == 2
    own = {passed: 1.0 for order in schedule.orders for passed in order}
    # The virtual clock: forward and backward of the last stage follow each other between the first stage's own.
    assert schedule.replayed(own).iteration == pytest.approx(6.0, abs=0.1)


def one_stage(tensor: int, way: str) -> StagedPlan:
    return StagedPlan((PlannedStage(("a", "b", "c", "d"), 1, tensor, dict.fromkeys("abcd", way)),))


@pytest.mark.parametrize(("plan", "profile", "micro_batches", "message"), [
    (one_stage(2, "vanilla"), ROW, 4, "divides each layer over 2 devices"),
    (one_stage(1, "activation recomp"), ROW, 4, "plan without --recompute"),
    (twice(tuple("abcd")), ROW, 1, "2 replicas for 1 micro-batch; give --micro-batches 2"),
    (StageGraphPlan((GraphStage(DIAMOND.ids, 1, 1),), ()), DIAMOND, 4, "runs 1 sample at once and .* with 2"),
    (StageGraphPlan((GraphStage(DIAMOND.ids, 2, 2),), ()), DIAMOND, 4, "each micro-batch over 2 devices"),
    (placed(tuple("abcd")), ROW, 0, "micro_batches is 0"),
    (placed(("a", "b"), ("c", "d", "e")), ROW, 4, "the node 'e', so it is no plan of the profile"),
    (placed(("a", "b"), ("c",)), ROW, 4, "lacks the node 'd'"),
])  # fmt: skip
def test_what_cannot_be_run_is_refused(plan: Any, profile: Profile, micro_batches: int, message: str) -> None:
    with pytest.raises((InputError, UsageError), match=message):
        schedule_of(plan, profile, micro_batches)


def test_only_what_was_captured_can_be_run() -> None:
    with pytest.raises(UsageError, match="was not captured from a PyTorch model"):
        pipeplan.run(placed(("a", "b"), ("c", "d")), ROW, "my.py:build")


# ---- messages --------------------------------------------------------------------------------------------


def layout() -> Layout:
    """The ends of a row on rank 0, its middle on rank 1; `skip` goes past the middle, `mask` has no gradient."""
    schedule = schedule_of(placed(("a", "d"), ("b", "c")), ROW, 2, BANDWIDTH)
    values = (
        Value("x", 0, (1,), (2, 3), "float32", True),
        Value("skip", 0, (1, 2), (2, 3), "float32", True),
        Value("mask", 1, (2,), (2,), "bool", False),
    )
    return Layout(schedule.stages, values, 2)


def test_every_message_has_one_maker_and_one_reader() -> None:
    own = layout()
    passes = [Pass(x, sign * j) for x in range(3) for j in (1, 2) for sign in (1, -1)]
    made = [message for one in passes for message in own.made_by(one)]
    read = [message for one in passes for message in own.read_by(one)]
    assert sorted(made) == sorted(read)
    assert len(set(made)) == len(made) == 2 * (4 + 3)
    assert len({own.tag(message) for message in made}) == len(made)


def test_messages_go_between_the_ranks_of_their_stages() -> None:
    own = layout()
    there, back = Message(1, 1, 2, False), Message(1, 1, 2, True)
    assert (own.sender(there), own.receiver(there)) == (0, 1)
    assert (own.sender(back), own.receiver(back)) == (1, 0)
    stays = Message(1, 2, 1, False)
    assert own.sender(stays) == own.receiver(stays) == 0
