"""The compiled loop says what the simulator says, to the last bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from pipeplan.instances.timeline.engine import (
    COMPILED_FROM,
    DeadlockError,
    compiled_iteration_time,
    iteration_time,
    run,
)
from pipeplan.instances.timeline.model import Dependency, Pipeline, Simulation, Stage, replica_orders


def random_pipeline(seed: int) -> Pipeline:
    """Any graph, sizes, replicas, warm-ups: many of these schedules lock."""
    rng = random.Random(seed)
    count, total = rng.randint(1, 7), 32
    stages = []
    for x in range(count):
        size = rng.choice((1, 2, 4, 8))
        warm_up = rng.choice((1, 2, 4, 8, 32))
        orders = replica_orders(total // size, rng.choice((1, 1, 1, 2, 3)), warm_up, rng.choice((1, 2)))
        orders = orders if rng.random() < 0.9 else tuple(tuple(j for j in order if j > 0) for order in orders)
        times = rng.uniform(0, 2), rng.uniform(0, 2)
        stages.append(Stage(f"stage {x}", size, *times, orders, synchronisation=rng.choice((0.0, 3.0))))
    if any(min(min(order, default=1) for order in stage.orders) > 0 for stage in stages):
        stages = [_forward_only(stage) for stage in stages]
    arcs = [
        Dependency(u, v, rng.random(), rng.random()) for v in range(count) for u in range(v) if rng.random() < 0.4
    ]
    return Pipeline(tuple(stages), tuple(arcs), total)


def _forward_only(stage: Stage) -> Stage:
    orders = tuple(tuple(j for j in order if j > 0) for order in stage.orders)
    return Stage(stage.name, stage.micro_batch, stage.forward, 0.0, orders, synchronisation=stage.synchronisation)


@pytest.mark.parametrize("seeds", [range(0, 150), range(150, 300)], ids=str)
def test_both_agree_on_times_and_on_what_cannot_be_run(seeds: range) -> None:
    answers = [
        (answer(run, seed), answer(compiled_iteration_time, seed), answer(iteration_time, seed)) for seed in seeds
    ]
    assert all(expected == compiled == either for expected, compiled, either in answers)
    locked = sum(isinstance(expected, str) for expected, _, _ in answers)
    assert 10 < locked < len(seeds) - 10


def answer(how: Callable[[Pipeline], Any], seed: int) -> float | str:
    """The time of an iteration, or the circle in which stages wait for each other."""
    try:
        found = how(random_pipeline(seed))
    except DeadlockError as circle:
        return str(circle)
    return found.iteration if isinstance(found, Simulation) else float(found)


def test_a_million_passes_take_the_closed_form() -> None:
    count, length = 16_384, 32
    stages = tuple(Stage(f"stage {x}", 1, 1.0, 2.0, replica_orders(count, 1, length - x)) for x in range(length))
    pipeline = Pipeline(stages, tuple(Dependency(x, x + 1) for x in range(length - 1)), count)
    assert 2 * count * length > COMPILED_FROM
    assert iteration_time(pipeline) == (count + length - 1) * 3
