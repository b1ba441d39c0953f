"""The published rule for samples in flight against the simulator: what it promises, and where it falls short."""

from __future__ import annotations

import itertools

import pytest

from pipeplan.instances.graph_pipeline.plan import GraphStage
from pipeplan.instances.graph_pipeline.referee import in_flight_before
from pipeplan.instances.timeline.engine import DeadlockError, run
from pipeplan.instances.timeline.model import Dependency, Pipeline, Stage, kfkb_order

SAMPLES = 64
SIZES = (1, 2, 4)


def iteration(shapes: list[tuple[int, int]], held: list[int], backward: float) -> float | None:
    """A chain of stages (b, k) whose time per sample is 1 forward; None: the schedule locks."""
    stages = tuple(
        Stage(f"stage {x}", b, b, backward * b, (kfkb_order(range(1, SAMPLES // b + 1), i // b, k),))
        for x, ((b, k), i) in enumerate(zip(shapes, held, strict=True))
    )
    try:
        return run(Pipeline(stages, tuple(Dependency(x, x + 1) for x in range(len(shapes) - 1)), SAMPLES)).iteration
    except DeadlockError:
        return None


def held_by_the_rule(shapes: list[tuple[int, int]]) -> list[int]:
    held = [shapes[-1][0] * shapes[-1][1]]
    for (b, k), (next_b, next_k) in reversed(list(itertools.pairwise(shapes))):
        need = in_flight_before(GraphStage((), 1, b, k), GraphStage((), 1, next_b, next_k), held[0])
        held.insert(0, min(-(-need // b) * b, SAMPLES))
    return held


@pytest.mark.parametrize("backward", [1.0, 2.0])
@pytest.mark.parametrize("sizes", list(itertools.product(SIZES, repeat=3)), ids=str)
def test_1f1b_is_not_slowed_down_by_what_the_rule_lets_it_hold(sizes: tuple[int, ...], backward: float) -> None:
    """Holding everything but in the last stage is no faster; and one micro-batch less in the first stage is slower
    where a pass takes as long backward as forward (but for bigger micro-batches after smaller ones)."""
    shapes = [(b, 1) for b in sizes]
    held = held_by_the_rule(shapes)
    best = iteration(shapes, [SAMPLES, SAMPLES, held[-1]], backward)
    assert iteration(shapes, held, backward) == best
    if backward == 1 and sizes[0] >= sizes[1]:
        less = iteration(shapes, [held[0] - sizes[0], *held[1:]], backward)
        assert best is not None
        assert less is None or less > best


def test_groups_of_four_need_one_more_where_backward_takes_twice_as_long() -> None:
    """The rule holds 6 samples before the 4 of the last stage and takes 210; with 7 it takes 195."""
    shapes = [(1, 4), (1, 4)]
    assert held_by_the_rule(shapes) == [6, 4]
    assert iteration(shapes, [6, 4], 2.0) == 210
    assert iteration(shapes, [7, 4], 2.0) == 195 == iteration(shapes, [SAMPLES, 4], 2.0)
    assert iteration(shapes, [6, 4], 1.0) == iteration(shapes, [SAMPLES, 4], 1.0)
