"""Schedules of any finite schedule problem, without regard to memory."""

from __future__ import annotations

import random
from fractions import Fraction

from pipeplan.instances.schedule.plan import SchedulePlan
from pipeplan.instances.schedule.problem import ScheduleProblem


def in_random_order(problem: ScheduleProblem, chosen: random.Random) -> SchedulePlan:
    """Blocks in a random order, each as early as its devices and its edges let it start after those before."""
    assert problem.micro_batches is not None
    count, free = len(problem.blocks), dict.fromkeys((device.name for device in problem.devices), Fraction(0))
    starts: dict[tuple[int, int], Fraction] = {}
    left = {(n, b) for n in range(problem.micro_batches) for b in range(count)}
    while left:
        ready = [copy for copy in sorted(left) if not any(source in left for source, _ in _waits(problem, *copy))]
        near = [copy for copy in ready if copy[0] <= ready[0][0] + 1]  # or memory would hardly ever do
        n, b = chosen.choice(near)
        names = problem.blocks[b].devices
        begin = max(
            [free[name] for name in names]
            + [starts[source] + problem.times[source[1]] + lag for source, lag in _waits(problem, n, b)]
        )
        starts[n, b] = begin
        for name in names:
            free[name] = begin + problem.times[b]
        left.remove((n, b))
    return SchedulePlan(
        {
            block.id: tuple(starts[n, b] for n in range(problem.micro_batches))
            for b, block in enumerate(problem.blocks)
        }
    )


def _waits(problem: ScheduleProblem, n: int, b: int) -> list[tuple[tuple[int, int], Fraction]]:
    return [
        ((n - edge.offset, source), lag)
        for edge, (source, target), lag in zip(problem.edges, problem.ends, problem.lags, strict=True)
        if target == b and n >= edge.offset
    ]
