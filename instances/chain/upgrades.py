"""A chain on a slightly better cluster."""

from __future__ import annotations

from ..base.step import Found, Step
from .problem import ChainProblem


def upgrades(problem: ChainProblem, step: Step) -> Found:
    yield "one more GPU", problem.replace(gpus=problem.gpus + 1)
    if problem.memory_bytes is not None:
        yield step.more, problem.replace(memory_bytes=problem.memory_bytes + step.memory_bytes)
    if problem.transfer_times is not None:
        yield (
            step.faster,
            problem.replace(transfer_times=tuple(time / step.factor for time in problem.transfer_times)),
        )
    elif problem.bandwidth is not None:
        yield step.faster, problem.replace(bandwidth=problem.bandwidth * step.factor)
