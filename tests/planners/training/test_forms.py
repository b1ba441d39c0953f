"""The time of a configuration is at least its linear form everywhere, and at most a little more within the box."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import pytest

from pipeplan.instances.physics.efficiencies import Efficiencies
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.planners.training.forms import (
    ATTEMPTS,
    HIDDEN,
    NAMES,
    STEP,
    Box,
    Point,
    Timed,
    believed,
    linear,
    plausible,
    values_of,
)

from ...oracles.training import configurations
from ...problems.trainings import random_training

CLOSE = 1e-9


def timed(seed: int, count: int) -> Iterator[Timed]:
    """Some configurations of a random problem, whose hidden shares and host seconds are not nothing."""
    draw = random.Random(seed)
    problem = random_training(seed, devices=draw.choice((2, 4)))
    rates = Efficiencies(
        tensor_hidden=draw.choice((0, 0.3, 1)),
        context_hidden=draw.choice((0, 0.5, 1)),
        expert_hidden=draw.choice((0, 0.4, 1)),
        data_hidden=draw.choice((0, 0.5, 1)),
        pipeline_hidden=draw.choice((0, 0.5, 1)),
        host_seconds=draw.choice((0, 2e-5)),
    )
    problem = problem.replace(efficiencies=rates, batch=8 * problem.devices)
    plans = list(islice(configurations(problem), 2_000))
    yield from (Timed(problem, plan) for plan in draw.sample(plans, min(count, len(plans))))


def point(box: Box, draw: random.Random) -> dict[str, float]:
    """A point of the box, with some coordinates at their ends."""
    return {
        name: draw.choice((low, high, draw.uniform(low, high))) for name, (low, high) in sorted(box.ranges.items())
    }


@pytest.mark.parametrize("seed", range(30))
def test_a_time_lies_between_its_form_and_a_little_more(seed: int) -> None:
    draw = random.Random(seed)
    for own in timed(seed, 3):
        box = plausible(own.problem)
        above = own.above(box)
        for _ in range(10):
            at = point(box, draw)
            values, seconds = values_of(at), own.seconds(at)
            assert own.form @ values * (1 - CLOSE) <= seconds <= above @ values * (1 + CLOSE)


def test_a_form_is_the_time_where_everything_is_as_believed() -> None:
    for own in timed(1, 5):
        at = believed(own.problem.efficiencies)
        assert own.form @ values_of(at) == pytest.approx(own.seconds(at), rel=1e-5)


def test_a_maximum_that_changes_within_a_step_is_measured_beside_it() -> None:
    """Differences across the change would be no tangent: products of coordinates multiply the error."""

    def seconds(at: Point) -> float:
        return at["products"] + max(1.0, (0.5 + 0.5 * at["half_side"]) * at["products"] * (1 - STEP / 2))

    own, names = Efficiencies(), ("products", "half_side")
    assert not linear(own, names, seconds).any(), "no tangent, and so no bound but 0"
    form, draw = linear(own, names, seconds, ATTEMPTS), random.Random(0)
    assert form.any()
    for _ in range(100):
        at = {**believed(own), **{name: draw.uniform(0.5, 2) for name in names}}
        assert form @ values_of(at) <= seconds(at)


def test_the_box_keeps_physical_bounds_and_what_is_nothing() -> None:
    problem: TrainingProblem = random_training(0).replace(efficiencies=Efficiencies(products=0.95, host_seconds=0))
    box = plausible(problem)
    assert set(box.ranges) == set(NAMES)
    assert box.ranges["products"][0] == 0.95, "no more than the peak"
    assert box.ranges["host_seconds"] == (1, 1)
    assert all(0 <= box.ranges[name][0] <= believed(problem.efficiencies)[name] for name in HIDDEN)
