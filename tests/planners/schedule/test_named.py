"""The named schedules of pipelines: their published memory and bubbles, judged by the referee, and what they refuse."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from known_pipelines import random_pipeline
from recipes.other_kinds import measured_uneven

from pipeplan import Block, BlockEdge, ScheduleDevice, ScheduleProblem, UsageError, load_packaged, solve
from pipeplan.instances.schedule.generators import StagePasses, divided_pipeline, equal_stages
from pipeplan.instances.schedule.referee import ScheduleEvaluation, evaluate_schedule, verify_schedule
from pipeplan.planners.schedule.named import (
    DUALPIPE_V,
    GPIPE,
    INTERLEAVED,
    ONE_F_ONE_B,
    ZB_H1,
    ZB_H2,
    ZB_V,
    Named,
    chain_shape,
    greedy_schedules,
    schedule_by,
)

SIZES = [(2, 4), (3, 7), (4, 8), (4, 12), (5, 20), (8, 16)]
"""Devices and micro-batches: at least twice as many, where bubbles are as published."""
SMALL = [(1, 1), (1, 3), (2, 1), (4, 1), (4, 3), (4, 5), (5, 9)]
"""Fewer, where schedules are valid all the same."""


def pipeline(p: int, m: int, times: tuple[float, float, float | None] = (1, 1, 1)) -> ScheduleProblem:
    return divided_pipeline(equal_stages(p, *times), m, None)


def v_shape(p: int, m: int, times: tuple[float, float, float] = (1, 1, 1)) -> ScheduleProblem:
    """Each stage is half of a device's work, and its memory is half as much."""
    stages = equal_stages(2 * p, *times, taken=1, given=0.5)
    return divided_pipeline(stages, m, None, virtual=2, layout="v")


def judged(named: Named, problem: ScheduleProblem) -> ScheduleEvaluation:
    plan = schedule_by(named, problem)
    assert not verify_schedule(problem, plan)
    return evaluate_schedule(problem, plan)


def peaks(found: ScheduleEvaluation) -> list[Fraction]:
    return [use.peak for use in found.devices]


Times = tuple[float, float, float | None]
UNITS, WHOLE = (1, 1, 1), (1, 2, None)
PUBLISHED: list[tuple[Named, Times, Callable[[int, int], float], Callable[[int, int, int], float]]] = [
    # The rule, the times of its passes, its span for p devices and m micro-batches, and what device `rank` holds.
    (GPIPE, WHOLE, lambda p, m: (m + p - 1) * 3, lambda p, m, rank: 2 * m),
    # Nobody gets a gradient before the whole backward pass is done, divided or not.
    *(
        (ONE_F_ONE_B, times, lambda p, m, work=work: (m + p - 1) * work, lambda p, m, rank: 2 * (p - rank))
        for times, work in ((UNITS, 3), ((5, 6, 4), 15), (WHOLE, 3))
    ),
    # A third of the bubble in the same memory; none in about twice of it, or in a V in the same.
    (ZB_H1, UNITS, lambda p, m: 3 * m + (p - 1), lambda p, m, rank: 2 * p - rank),
    (ZB_H2, UNITS, lambda p, m: 3 * m, lambda p, m, rank: 2 * (2 * p - 1) - 2 * rank),
    (ZB_V, UNITS, lambda p, m: 6 * m, lambda p, m, rank: 2 * p),
    # Its passes run beside each other where devices can; one after the other they leave a bubble of p - 1 units.
    (DUALPIPE_V, UNITS, lambda p, m: 6 * m + p - 1, lambda p, m, rank: 2 * p + 1),
]


@pytest.mark.parametrize(("p", "m"), SIZES)
@pytest.mark.parametrize(("named", "times", "span", "held"), PUBLISHED)
def test_spans_and_memory_are_the_published_ones(
    named: Named, times: Any, span: Callable[..., float], held: Callable[..., float], p: int, m: int
) -> None:
    found = judged(named, pipeline(p, m, times) if named.rule.shape == "row" else v_shape(p, m))
    assert found.span == span(p, m)
    assert peaks(found) == [held(p, m, rank) for rank in range(p)]


@pytest.mark.parametrize("virtual", [2, 3, 4])
@pytest.mark.parametrize(("p", "groups"), [(2, 2), (4, 2), (4, 3), (3, 5)])
def test_interleaving_divides_the_bubble_by_the_stages_on_a_device(p: int, groups: int, virtual: int) -> None:
    """Forward and backward passes of a stage take 1 and 2 units here, those of a device `virtual` times as long."""
    m = groups * p
    stages = equal_stages(p * virtual, 1, 2, None, taken=1)
    found = judged(INTERLEAVED, divided_pipeline(stages, m, None, virtual=virtual))
    assert found.span == 3 * m * virtual + 3 * (p - 1)
    assert peaks(found) == [2 * (p - 1 - rank) + (virtual - 1) * p + 1 for rank in range(p)]


@pytest.mark.parametrize(("p", "m"), [*SIZES, *SMALL])
@pytest.mark.parametrize(
    "named", [GPIPE, ONE_F_ONE_B, ZB_H1, ZB_H2, ZB_V, DUALPIPE_V], ids=lambda named: named.name
)
def test_every_rule_is_valid_for_any_number_of_devices_and_micro_batches(named: Named, p: int, m: int) -> None:
    problem = v_shape(p, m, (5, 6, 4)) if named.rule.shape != "row" else pipeline(p, m, (5, 6, 4))
    judged(named, problem)


@pytest.mark.parametrize("seed", range(40))
def test_every_rule_is_valid_on_uneven_stages_with_lags(seed: int) -> None:
    problem = random_pipeline(4, 8, 1000, 3, seed)
    for named in (GPIPE, ONE_F_ONE_B, ZB_H1, ZB_H2):
        judged(named, problem)


def linked() -> ScheduleProblem:
    """Two stages whose results pass over a link that takes one transfer at a time."""
    stages = [
        Block(f"{kind}{i}", kind, (f"d{i}",), 2, i, {f"d{i}": change})  # type: ignore[arg-type]
        for i in range(2)
        for kind, change in (("F", 1), ("B", -1))
    ]
    transfers = [Block(name, "X", ("link",), 1) for name in ("there", "back")]
    pairs = ("F0", "there"), ("there", "F1"), ("F1", "B1"), ("B1", "back"), ("back", "B0")
    devices = tuple(map(ScheduleDevice, ("d0", "d1", "link")))
    edges = tuple(BlockEdge(*pair) for pair in pairs)
    return ScheduleProblem(devices, (*stages, *transfers), edges, 6)


def test_transfers_may_be_blocks_of_links() -> None:
    found = judged(ONE_F_ONE_B, linked())
    assert [use.peak for use in found.devices] == [2, 1, 0]


# ---- what they refuse ----------------------------------------------------------------------------------


def without(problem: ScheduleProblem, name: str) -> ScheduleProblem:
    edges = tuple(edge for edge in problem.edges if name not in (edge.source, edge.target))
    blocks = tuple(block for block in problem.blocks if block.id != name)
    return problem.replace(blocks=blocks, edges=edges, leaks=True)


LOOP = divided_pipeline(equal_stages(8, 1, 1, 1), 8, None, virtual=2)
MIXED = divided_pipeline([StagePasses(1, 1, 1), StagePasses(1, 2, None)], 4, None)
REFUSED = [
    (ONE_F_ONE_B, pipeline(4, 8).replace(micro_batches=None), "needs a number of micro-batches"),
    (ONE_F_ONE_B, LOOP, "is for one stage on each device, and here are 2"),
    (INTERLEAVED, pipeline(4, 8), "is for several stages on each device, and here is one"),
    (INTERLEAVED, v_shape(4, 8), "go through the devices in a loop, and these do not"),
    (INTERLEAVED, LOOP.replace(micro_batches=6),
     "is for multiples of 4 micro-batches on 4 devices, and here are 6"),
    (ZB_V, LOOP, "is for two stages on each device in a V, there and back, and these are not"),
    (ZB_H1, pipeline(4, 8, (1, 2, None)),
     "is for backward passes in two parts (I and W), and these are in one (B)"),
    (GPIPE, without(pipeline(4, 8), "I3"),
     "has not one backward pass for each forward pass, in the opposite order"),
    (ZB_H1, without(pipeline(4, 8), "W2"), "only some of its backward passes are divided"),
    (ZB_H1, MIXED, "only some of its backward passes are divided"),
    (GPIPE, load_packaged("nn-shape-4").replace(micro_batches=4), "are not all on one device"),
]  # fmt: skip


@pytest.mark.parametrize(("named", "problem", "words"), REFUSED)
def test_what_does_not_fit_a_rule_is_refused_in_a_sentence(
    named: Named, problem: ScheduleProblem, words: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        schedule_by(named, problem)


def test_micro_batches_that_wait_for_each_other_are_refused() -> None:
    problem = pipeline(2, 4)
    with pytest.raises(UsageError, match="wait for each other"):
        schedule_by(GPIPE, problem.replace(edges=(*problem.edges, BlockEdge("W0", "F0", 0, 2))))


# ---- as planners ---------------------------------------------------------------------------------------


def test_too_little_memory_is_told_with_what_the_rule_needs() -> None:
    problem = divided_pipeline(equal_stages(4, 5, 6, 4), 12, 8)
    result = solve(problem, planner="gpipe")
    assert result.plan is None
    assert "gpipe needs 24 half-activation on 'd0', above its memory of 8 half-activation" in result.messages


def test_exactly_the_published_memory_is_enough() -> None:
    for planner, memory in (("1f1b", 8), ("zb-h1", 8), ("zb-h2", 14)):
        for enough in (True, False):
            problem = divided_pipeline(equal_stages(4, 5, 6, 4), 12, memory - (not enough))
            assert (solve(problem, planner=planner).plan is not None) == enough


@pytest.mark.parametrize("objective", ["makespan", "span"])
def test_the_objective_is_what_is_told(objective: str) -> None:
    result = solve(pipeline(4, 8), planner="zb-h2", options={"objective": objective})
    assert result.objective == {"makespan": 27, "span": 24}[objective]


# ---- Which pipelines the named rules recognise, whatever their blocks are called and however the file orders them.


@pytest.mark.parametrize("layout", ["loop", "v"])
@pytest.mark.parametrize("virtual", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_stages_are_found_in_the_order_of_the_network(layout: str, virtual: int, seed: int) -> None:
    problem = divided_pipeline(equal_stages(4 * virtual, 1, 1, 1), 8, None, virtual=virtual, layout=layout)
    blocks, edges = list(problem.blocks), list(problem.edges)
    random.Random(seed).shuffle(blocks)
    random.Random(seed).shuffle(edges)
    mixed = problem.replace(blocks=tuple(blocks), edges=tuple(edges))
    shape = chain_shape(mixed, "test")
    assert [mixed.blocks[stage.forward].id for stage in shape.stages] == [f"F{i}" for i in range(4 * virtual)]
    assert [mixed.blocks[stage.backward].id for stage in shape.stages] == [f"I{i}" for i in range(4 * virtual)]
    assert shape.devices == (0, 1, 2, 3)
    assert shape.virtual == virtual
    assert shape.layout == ("loop" if virtual == 1 else layout)
    assert shape.divided


def test_other_layouts_are_none() -> None:
    """Both stages of each device come one after the other."""
    problem = divided_pipeline(equal_stages(4, 1, 2, None), 8, None)
    places = {"d0": "d0", "d1": "d0", "d2": "d1", "d3": "d1"}
    blocks = tuple(
        Block(block.id, block.kind, (places[block.devices[0]],), block.time, block.stage)
        for block in problem.blocks
    )
    shape = chain_shape(
        problem.replace(blocks=blocks, devices=(ScheduleDevice("d0"), ScheduleDevice("d1"))), "test"
    )
    assert shape.layout is None
    assert shape.virtual == 2
    assert not shape.divided


def test_work_of_another_kind_on_the_stages_devices_is_refused() -> None:
    problem = divided_pipeline(equal_stages(2, 1, 2, None), 4, None)
    with pytest.raises(UsageError, match="block 'update' of the kind X runs on a device of the stages"):
        chain_shape(problem.replace(blocks=(*problem.blocks, Block("update", "X", ("d0",), 1))), "test")


# ---- Zero bubble by greedy choices: beside the published heuristic, and within any memory.

NEAR = [
    # Devices, micro-batches, times, lag, memory; the span of the published heuristic, and how much more may be taken.
    (4, 6, (5, 6, 4), 0, 10, 105, 1.03),
    # Between the memory of ZB-H1 and that of ZB-H2, beside the optimum, which the bounds of exact-schedule meet.
    (8, 24, (5, 6, 4), 0, 24, 382, 1.002),
    (16, 64, (10, 11, 9), 1, 48, 2035, 1.002),
    (8, 32, (10, 12, 8), 2, 24, 1032, 1.002),
    (8, 32, (10, 12, 8), 2, 28, 1012, 1.002),
    # The published heuristic again.
    (4, 12, (5, 6, 4), 0, 8, 201, 1.03),
    (4, 12, (5, 6, 4), 0, 10, 193, 1.03),
    (4, 12, (5, 6, 4), 0, 11, 193, 1.03),
    (4, 12, (5, 6, 4), 0, 12, 188, 1.03),
    (4, 12, (5, 6, 4), 0, 14, 183, 1.03),
    (4, 12, (5, 6, 4), 0, 16, 183, 1.03),
    (4, 12, (5478, 5806, 3534), 200, 32, 178898, 1.03),
]


@pytest.mark.at_once(2)
@pytest.mark.parametrize(("p", "m", "times", "lag", "memory", "span", "above"), NEAR)
def test_it_is_near_the_published_heuristic_and_the_optimum(
    p: int, m: int, times: tuple[float, float, float], lag: float, memory: float, span: float, above: float
) -> None:
    """Its choices are of the same sort as those that were published, and not the same."""
    problem = divided_pipeline(equal_stages(p, *times), m, memory, lag)
    spans = (evaluate_schedule(problem, plan).span for plan in greedy_schedules(problem, "span"))
    assert any(found is not None and found <= above * span for found in spans)


@pytest.mark.sweeps
def test_the_uneven_pipeline_is_scheduled_as_well_as_its_work_lets() -> None:
    problem = measured_uneven()
    result = solve(problem, planner="zb-greedy", options={"objective": "span"})
    assert result.objective == float(max(problem.loads) * 32) == 3623744


@pytest.mark.parametrize("seed", range(40))
def test_every_variant_is_valid_in_any_memory_that_one_micro_batch_fits(seed: int) -> None:
    problem = random_pipeline(2 + seed % 4, 3 + seed % 6, 2 + seed % 7, seed % 3, seed)
    plans = list(greedy_schedules(problem, "makespan"))
    assert plans
    assert not any(verify_schedule(problem, plan) for plan in plans)


def test_backward_passes_in_one_part_are_refused() -> None:
    problem = divided_pipeline(equal_stages(4, 1, 2, None), 4, None)
    with pytest.raises(UsageError, match=r"in two parts \(I and W\)"):
        list(greedy_schedules(problem, "span"))


def test_too_little_memory_is_told() -> None:
    problem = divided_pipeline(equal_stages(4, 5, 6, 4), 4, 1)
    result = solve(problem, planner="zb-greedy")
    assert result.plan is None
    assert any("not even one micro-batch" in message for message in result.messages)
