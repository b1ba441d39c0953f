"""The least memory with a schedule: that of one micro-batch after the other, by hand and against enumeration."""

from __future__ import annotations

import pytest

from pipeplan import load_packaged, smallest_memory, verify
from pipeplan.instances.schedule.generators import random_schedule
from pipeplan.instances.schedule.kind_functions import with_memory
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.planners.memory.schedule import takes_first
from pipeplan.planners.schedule.listing import in_whole_numbers, order_alone


def two_branches(standing: float = 0) -> ScheduleProblem:
    """Each branch takes 3 and keeps 1 until the end: the second one finds the 1 of the first, so 4 in all."""
    blocks = (
        *(Block(f"F{i}", "F", ("d",), 1, memory={"d": 3}) for i in range(2)),
        *(Block(f"I{i}", "I", ("d",), 1, memory={"d": -2}) for i in range(2)),
        Block("W", "W", ("d",), 1, memory={"d": -2}),
    )
    edges = [BlockEdge(f"F{i}", f"I{i}") for i in range(2)] + [BlockEdge(f"I{i}", "W") for i in range(2)]
    return ScheduleProblem((ScheduleDevice("d", None, standing),), blocks, tuple(edges), 3)


@pytest.mark.parametrize(("standing", "least"), [(0, 4), (10, 14)])
def test_the_order_of_one_micro_batch_decides(standing: float, least: float) -> None:
    problem = two_branches(standing)
    found = smallest_memory(problem)
    assert (found.memory_bytes, found.proven) == (least, True)
    assert found.plan is not None
    assert not verify(with_memory(problem, least), found.plan)


@pytest.mark.parametrize("name", ["zero-bubble-4x12", "v-shape-4", "nn-shape-4"])
def test_packaged_problems_need_what_one_micro_batch_needs(name: str) -> None:
    problem = load_packaged(name)
    found = smallest_memory(problem)
    assert found.proven
    assert found.plan is not None
    assert not verify(with_memory(problem, found.memory_bytes), found.plan)


def test_what_is_given_back_first_is_told_from_what_is_taken_first() -> None:
    problem = two_branches()
    assert takes_first(problem, 0)
    loose = problem.replace(edges=tuple(edge for edge in problem.edges if edge.source != "F1"))
    assert not takes_first(loose, 0)


@pytest.mark.parametrize("seed", range(40))
def test_with_less_no_micro_batch_passes(seed: int) -> None:
    problem = random_schedule(2, 6, 2, seed)
    found = smallest_memory(problem)
    if found.plan is None or found.memory_bytes is None:
        return
    assert not verify(with_memory(problem, found.memory_bytes), found.plan)
    less = found.lower_bytes - 0.5
    if found.proven and all(device.standing <= less for device in problem.devices):
        assert order_alone(in_whole_numbers(with_memory(problem, less))) is False
