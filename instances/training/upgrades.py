"""A training problem on a slightly better cluster."""

from __future__ import annotations

from dataclasses import replace

from ..base.errors import UsageError
from ..base.kind import Found, Step, with_changed
from .kind_functions import with_devices, with_memory
from .problem import TrainingProblem


def upgrades(problem: TrainingProblem, step: Step) -> Found:
    """More memory, faster links on each level, one more node, and faster GPUs."""
    if problem.memory_bytes is not None:
        yield step.more, with_memory(problem, problem.memory_bytes + step.memory_bytes)
    for number, level in enumerate(problem.levels):
        if level.count > 1:
            levels = with_changed(problem.levels, number, bandwidth=level.bandwidth * step.factor)
            yield f"{step.faster} on level {number + 1}", problem.replace(levels=levels)
    node = problem.devices // problem.levels[-1].count
    try:
        yield "one more node", with_devices(problem, problem.devices + node)
    except UsageError:  # levels that leave no whole number of nodes
        return
    faster = {name: rate * step.factor for name, rate in problem.gpu.flops.items()}
    yield f"GPUs {step.factor:g} times as fast", problem.replace(gpu=replace(problem.gpu, flops=faster))
