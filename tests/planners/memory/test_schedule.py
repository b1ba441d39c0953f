"""The least memory of schedules, that of one micro-batch after the other: by hand, against enumeration, and in
sentences in the problem's own unit."""

from __future__ import annotations

from fractions import Fraction

import pytest
from oracles.schedule import UnsettledError, least_makespan, least_period, tiny_problem

import pipeplan
from pipeplan import InputError, PeriodicSchedulePlan, SchedulePlan, SolveOptions
from pipeplan.formulations.zero_bubble.period_bounds import stashes_of
from pipeplan.instances.least_memory import said
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.kind_functions import held, with_memory
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.schedule.referee import verify_schedule
from pipeplan.planners.memory.schedule import explain

LIMITS = SolveOptions(threads=1)


def exists(problem: ScheduleProblem, memory: float) -> bool:
    """By enumeration; where only better and better makespans are to be had, there are schedules all the same."""
    try:
        asked = with_memory(problem, memory)
    except InputError:  # less than what stands there
        return False
    try:
        return (least_period(asked) if problem.micro_batches is None else least_makespan(asked)) is not None
    except UnsettledError:
        return True


@pytest.mark.parametrize("seed", range(60))
def test_the_least_memory_is_that_of_enumeration(seed: int) -> None:
    problem = tiny_problem(seed, None if seed % 3 == 0 else 2)
    found = pipeplan.smallest_memory(problem, LIMITS)
    if found.memory_bytes is None:
        assert not found.proven or not exists(problem, 10**6)
        return
    assert found.plan is not None
    assert verify_schedule(with_memory(problem, found.memory_bytes), found.plan) == ()
    assert held(problem, found.plan, {}) == found.memory_bytes
    assert exists(problem, found.memory_bytes)
    assert found.lower_bytes == 0 or not exists(problem, found.lower_bytes - 1)
    assert found.proven == (found.memory_bytes == found.lower_bytes)
    assert found.proven or None in (stashes_of(problem, d) for d in range(len(problem.devices)))


def test_one_micro_batch_alone_says_how_much_a_pipeline_needs() -> None:
    found = pipeplan.smallest_memory(divided_pipeline(equal_stages(4, 5, 6, 4), 12, 10), LIMITS)
    assert (found.memory_bytes, found.lower_bytes, found.proven) == (2, 2, True)
    assert said(found) == (
        "2 half-activation of memory per device is the smallest amount with a plan "
        "(proven by block 'F0' on 'd0' alone)"
    )
    assert found.to_json()["counted"] == "half-activation"


def test_bytes_are_said_as_ever() -> None:
    large = divided_pipeline(equal_stages(2, 1, 1, 1, 4e9, 2e9), 3, None, memory_unit="bytes")
    found = pipeplan.smallest_memory(large, LIMITS)
    assert said(found).startswith("4 GB of memory per device is the smallest amount with a plan (proven")
    assert "counted" not in found.to_json()


def test_leaks_pile_up_and_what_is_left_open_is_said() -> None:
    leak = ScheduleProblem(
        (ScheduleDevice("d", 9, 1),), (Block("a", "X", ("d",), 1, None, {"d": 2}),), (), 3, leaks=True
    )
    found = pipeplan.smallest_memory(leak, LIMITS)
    assert (found.memory_bytes, found.lower_bytes, found.proven) == (7, 3, False)


def test_the_period_of_given_micro_batches_gets_a_periodic_plan() -> None:
    pipeline = divided_pipeline(equal_stages(2, 5, 6, 4), 3, 10)
    found = pipeplan.smallest_memory(pipeline, LIMITS, options={"objective": "period"})
    assert isinstance(found.plan, PeriodicSchedulePlan)
    assert isinstance(pipeplan.smallest_memory(pipeline, LIMITS).plan, SchedulePlan)


@pytest.mark.parametrize(("give", "shown"), [("a", True), ("other", False)])
def test_what_gives_back_before_anything_took_is_told_apart(give: str, shown: bool) -> None:
    blocks = tuple(
        Block(name, "X", ("d",), 1, None, {"d": change} if change else {})
        for name, change in (("a", 2), ("other", 0), ("back", -2))
    )
    problem = ScheduleProblem((ScheduleDevice("d", 9, 9),), blocks, (BlockEdge(give, "back"),), 2)
    assert (stashes_of(problem, 0) is not None) is shown


def test_a_block_that_fits_nowhere_is_named() -> None:
    tight = divided_pipeline(equal_stages(2, 5, 6, 4), 3, 1)
    first, second = explain(tight, {}, LIMITS, True)
    assert first == "block 'F0' alone needs 2 half-activation of 'd0', whose memory is 1 half-activation"
    assert "2 half-activation of memory per device is the smallest amount with a plan" in second
    assert Fraction(2) == pipeplan.smallest_memory(tight, LIMITS).memory_bytes
