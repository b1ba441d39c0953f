"""Memory that the seventeenth digit of an amount decides, which a float solver does not see."""

from __future__ import annotations

from typing import Any

import pytest

from pipeplan import SolveOptions, solve
from pipeplan.instances.base.result import Stop
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem

METHODS: tuple[tuple[str, dict[str, Any], int | None], ...] = (
    ("ilp-zero-bubble", {"objective": "makespan"}, 2),
    ("ilp-zero-bubble", {"objective": "span"}, 2),
)


def problem_with(memory: float, micro_batches: int | None) -> ScheduleProblem:
    """When b gives back, the device holds 0.1 that stands there, 0.30000000000000004 and a workspace of 0.1."""
    amount = 0.30000000000000004
    blocks = (
        Block("a", "F", ("d",), 0.5, memory={"d": amount}),
        Block("b", "B", ("d",), 0.5, memory={"d": -amount}, workspace={"d": 0.1}),
    )
    edges = (BlockEdge("a", "b"), BlockEdge("b", "a", 1, 1))
    return ScheduleProblem((ScheduleDevice("d", memory, 0.1),), blocks, edges, micro_batches)


@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
@pytest.mark.parametrize(("formulation", "options", "micro_batches"), METHODS)
def test_the_last_digit_of_an_amount_decides(
    formulation: str, options: dict[str, Any], micro_batches: int | None, solver: str
) -> None:
    how = {"formulation": formulation, "options": options, "solver": solver, "limits": SolveOptions(threads=1)}
    short = solve(problem_with(0.5, micro_batches), **how)
    assert short.stop == Stop.INFEASIBLE, short.messages
    enough = solve(problem_with(0.5000000000000001, micro_batches), **how)
    assert enough.stop == Stop.PROVEN, enough.messages
    assert enough.verified
