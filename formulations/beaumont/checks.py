"""What the models of periodic patterns ask of a problem."""

from __future__ import annotations

from ...instances.base.errors import InputError
from ...instances.chain.problem import ChainProblem
from ..contract import check_type


def check_chain(problem: ChainProblem, name: str) -> None:
    """Raise where the problem is no chain, or counts memory in a way that no linear model follows."""
    check_type(name, problem, ChainProblem)
    if not any(problem.durations):
        raise InputError("forward", "and backward are all 0", "give at least one task a time")
    if problem.memory_mode == "strict":
        raise InputError(
            "memory_mode",
            f'is "strict", for which {name} has no model',
            'give "reserved"; the referee recomputes the memory of its plans in either mode',
        )
