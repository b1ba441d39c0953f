"""The closed forms of the search agree with the referee, which counts events and simulates."""

from __future__ import annotations

import pytest

from pipeplan.instances.training.iteration import timing_of
from pipeplan.instances.training.referee import memory_of_ranks
from pipeplan.planners.training.judging import judged

from ...problems.trainings import random_configuration, random_own_training, random_training

CLOSE = 1e-9


def compare(seed: int, own: bool) -> None:
    problem = random_own_training(seed) if own else random_training(seed)
    plan = random_configuration(problem, seed)
    if plan.schedule == "interleaved-1f1b" and plan.micro_batches(problem.batch) % plan.degrees.pipeline:
        return  # its order is defined for whole groups of micro-batches
    seconds, held = judged(problem, plan)
    assert held == pytest.approx([rank.bytes for rank in memory_of_ranks(problem, plan)], rel=CLOSE), plan
    assert seconds == pytest.approx(timing_of(problem, plan).seconds, rel=CLOSE), plan


@pytest.mark.at_once(1)
@pytest.mark.parametrize("start", [0, 60])
def test_memory_and_time_are_the_referees(start: int) -> None:
    for seed in range(start, start + 60):
        compare(seed, own=False)


def test_memory_and_time_of_measured_layers_are_the_referees() -> None:
    for seed in range(60):
        compare(seed, own=True)


@pytest.mark.sweeps
@pytest.mark.parametrize("start", range(1000, 2000, 100))
def test_memory_and_time_are_the_referees_a_thousand_times(start: int) -> None:
    for seed in range(start, start + 100):
        compare(seed, own=seed % 5 == 0)
