"""Schedules of few blocks in times of one to seven digits, whose memory is met exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from oracles.schedule import is_settled

from pipeplan.instances.base.amounts import as_written, exact_sum
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.schedule.generators import random_schedule
from pipeplan.instances.schedule.problem import ScheduleDevice, ScheduleProblem

from .amounts import SENTINELS, SIZES, limit_at

MOST_DIGITS = 7
LARGEST = 4
"""Times of random schedules are whole numbers up to it; each becomes an amount of a palette, as does each size."""
MOST_TOGETHER = 12
"""So much a block of them takes at most."""


def schedule(rng: random.Random) -> ScheduleProblem:
    """All micro-batches, so that makespan, span and period are asked for; drawn again where one has no least value."""
    while True:
        made = random_schedule(
            rng.choice((1, 2, 2, 3)), rng.choice((2, 3, 3, 4)), rng.choice((1, 2, 2, 3)), rng.randrange(10**9)
        )
        problem = _with_memory(rng, _with_times(rng, made))
        if problem is not None and sum(problem.loads) and is_settled(problem):
            return problem


def _with_times(rng: random.Random, problem: ScheduleProblem) -> ScheduleProblem:
    """Multiples of one decimal, or decimals that have nothing in common, of so many digits; a sentinel now and then."""
    digits = rng.randint(1, MOST_DIGITS)
    unit = Fraction(rng.randint(1, 10**digits - 1), 10 ** rng.randint(0, digits))
    if rng.random() < 0.5:
        palette = [float(unit * count) for count in range(LARGEST + 1)]
    else:
        palette = [0.0, *(float(Fraction(rng.randint(1, 10**digits - 1), 10**digits)) for _ in range(LARGEST))]
    if rng.random() < 0.1:
        palette[-1] = rng.choice(SENTINELS[:2])
    blocks = tuple(replace(block, time=palette[int(block.time)]) for block in problem.blocks)
    edges = tuple(replace(edge, lag=palette[int(edge.lag)]) for edge in problem.edges)
    return problem.replace(blocks=blocks, edges=edges)


def _with_memory(rng: random.Random, problem: ScheduleProblem) -> ScheduleProblem | None:
    """Sizes of one flavour; what is taken and given back by one block is its difference, perhaps not in the file."""
    flavour = rng.choice([name for name in SIZES if name != "spread"])
    sizes = [0.0, *rng.choices(SIZES[flavour], k=MOST_TOGETHER)]

    def size(amount: float) -> float:
        return sizes[int(amount)] if amount >= 0 else -sizes[int(-amount)]

    try:
        problem = problem.replace(
            blocks=tuple(
                replace(
                    block,
                    memory={name: size(amount) for name, amount in block.memory.items()},
                    workspace={name: size(amount) for name, amount in block.workspace.items()},
                )
                for block in problem.blocks
            )
        )
    except InputError:  # several changes of one block no longer sum to nothing
        return None
    return problem.replace(devices=tuple(_device(rng, problem, device) for device in problem.devices))


def _device(rng: random.Random, problem: ScheduleProblem, device: ScheduleDevice) -> ScheduleDevice:
    """Its memory is met by what some runs hold at once, or missed by a hair."""
    standing = rng.choice(
        (0.0, 0.0, max((block.memory.get(device.name, 0.0) for block in problem.blocks), default=0.0))
    )
    standing = max(standing, 0.0)
    limit = None if rng.random() < 0.3 else limit_at(rng, _sums(rng, problem, device.name, standing))
    return replace(device, memory=limit, standing=standing)


def _sums(rng: random.Random, problem: ScheduleProblem, device: str, standing: float) -> Iterator[Fraction]:
    taken = [block.memory.get(device, 0.0) for block in problem.blocks if block.memory.get(device, 0.0) > 0]
    needs = [max(b.memory.get(device, 0.0), 0.0) + b.workspace.get(device, 0.0) for b in problem.blocks]
    for _ in range(6):
        runs = rng.sample(taken, rng.randint(min(1, len(taken)), len(taken)))
        yield as_written(standing) + exact_sum(runs) * rng.randint(1, 2) + as_written(max(needs))
