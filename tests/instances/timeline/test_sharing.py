"""Devices that hold several stages: an order that can be run, within the limits, and no device waits without need."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from pipeplan.instances.timeline.engine import DeadlockError, iteration_time, run, share_devices
from pipeplan.instances.timeline.model import Dependency, Pass, Pipeline, Stage, kfkb_order


def row(count: int, batches: int, forward: float = 1.0, backward: float = 2.0) -> Pipeline:
    """Stages without orders, one behind the other."""
    stages = tuple(Stage(f"stage {x}", 1, forward, backward, ((),)) for x in range(count))
    return Pipeline(stages, tuple(Dependency(x, x + 1) for x in range(count - 1)), batches)


def test_stages_with_a_device_each_run_1f1b() -> None:
    shared = share_devices(row(3, 6), [0, 1, 2], [3, 2, 1])
    assert [stage.orders[0] for stage in shared.stages] == [kfkb_order(range(1, 7), 3 - x) for x in range(3)]
    assert run(shared).iteration == (6 + 2) * 3


def test_two_devices_with_two_stages_each_wait_less_than_with_one_of_both() -> None:
    """Interleaved: 8 micro-batches of 4 times 3, on two devices 48 of work each; a row of two waits for 6 more."""
    interleaved = run(share_devices(row(4, 8), [0, 1, 0, 1], [4, 3, 2, 1]))
    assert 48 + 3 <= interleaved.iteration <= 48 + 6
    assert interleaved.bubble == pytest.approx(1 - 48 / interleaved.iteration)


@pytest.mark.parametrize("seed", range(20))
def test_orders_of_random_graphs_can_be_run_and_keep_the_limits(seed: int) -> None:
    rng = random.Random(seed)
    count, batches = rng.randint(1, 6), rng.randint(1, 6)
    arcs = [(x, y) for y in range(count) for x in range(y) if rng.random() < 0.5]
    stages = tuple(Stage(f"stage {x}", 1, rng.randint(0, 4), rng.randint(0, 4), ((),)) for x in range(count))
    pipeline = Pipeline(stages, tuple(Dependency(x, y, rng.random(), rng.random()) for x, y in arcs), batches)
    devices, limits = [rng.randrange(3) for _ in range(count)], [rng.randint(1, 4) for _ in range(count)]
    found = run(share_devices(pipeline, devices, limits))
    assert all(stage.peak_in_flight <= limit for stage, limit in zip(found.stages, limits, strict=True))
    spans: dict[int, list[tuple[float, float]]] = {}
    for device, stage in zip(devices, found.stages, strict=True):
        spans.setdefault(device, []).extend((task.start, task.end) for task in stage.tasks)
    for tasks in spans.values():
        tasks.sort()
        assert all(after[0] >= before[1] for before, after in pairwise(tasks)), "one at a time"


def test_where_nothing_is_trained_nothing_runs_backward() -> None:
    shared = share_devices(row(3, 4), [0, 1, 0], [1, 1, 1], training=False)
    assert all(j > 0 for order in shared.shared for _, j, _ in order)
    assert run(shared).iteration == iteration_time(shared) > 0


def test_single_passes_can_take_their_own_time() -> None:
    pipeline = replace(share_devices(row(2, 2), [0, 1], [2, 1]), times={Pass(0, 1): 5.0})
    assert run(pipeline).iteration == run(replace(pipeline, times={})).iteration + 4
    assert run(pipeline).stages[0].busy == 5 + 1 + 2 + 2


def test_an_order_that_waits_for_itself_is_told() -> None:
    stages = tuple(Stage(name, 1, 1.0, 1.0, ((1,),)) for name in "ab")
    pipeline = Pipeline(stages, (Dependency(0, 1),), 1, shared=((Pass(1, 1), Pass(0, 1)),))
    with pytest.raises(DeadlockError, match="b forward 1 waits for a forward 1"):
        run(pipeline)


def test_devices_run_what_their_stages_run() -> None:
    stages = tuple(Stage(name, 1, 1.0, 1.0, ((1, 2),)) for name in "ab")
    with pytest.raises(ValueError, match="in another order"):
        run(Pipeline(stages, (), 2, shared=((Pass(0, 2), Pass(0, 1), Pass(1, 1), Pass(1, 2)),)))
