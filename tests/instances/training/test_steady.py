"""Micro-batches in the steady state are counted: times and bytes are those of the full list of passes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.physics.schedules import SCHEDULES as RULES
from pipeplan.instances.physics.schedules import Pass, PassRule
from pipeplan.instances.training import iteration as seconds
from pipeplan.instances.training.cases import NONE, CaseMaker, ParallelismChoice
from pipeplan.instances.training.iteration import Iteration
from pipeplan.instances.training.plan import NOTHING, Configuration, Degrees
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.referee import evaluate_configuration
from pipeplan.planners.training import judging
from pipeplan.planners.training.judging import judged

from ...problems.trainings import random_own_training, random_training

SCHEDULES = ("gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe-v")
TWO_CHUNKS = ("interleaved-1f1b", "zb-v", "dualpipe-v")
# Doubles that are added up in another order differ by less.
CLOSE = 1e-11


def long_case(seed: int, schedule: str, micro_batches: int = 960) -> tuple[TrainingProblem, Configuration]:
    """One sequence is a micro-batch, and layers are on the stages as chance will have it."""
    draw, ranks = random.Random(f"{seed} {schedule}"), random.Random(seed).choice((2, 3, 4))
    problem = (random_own_training if seed % 3 == 2 else random_training)(seed, devices=ranks)
    units, chunks = len(problem.model.units), ranks * (2 if schedule in TWO_CHUNKS else 1)
    if chunks > units:
        return long_case(seed + 1, schedule, micro_batches)
    borders = [0, *sorted(draw.sample(range(1, units), chunks - 1)), units]
    layout = tuple(later - border for border, later in pairwise(borders))
    degrees = Degrees(pipeline=ranks, virtual=chunks // ranks)
    plan = Configuration(degrees, 1, max(problem.states), schedule, layout, (NOTHING,) * chunks)
    return problem.replace(batch=micro_batches), plan


def list_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (seconds, judging):
        monkeypatch.setattr(module, "LISTED", 10**9)


def check(seed: int, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = long_case(seed, schedule)
    own, (found, held) = evaluate_configuration(problem, plan), judged(problem, plan)
    with monkeypatch.context() as patch:
        list_all(patch)
        listed, (all_found, all_held) = evaluate_configuration(problem, plan), judged(problem, plan)
    assert own.timing.seconds == pytest.approx(listed.timing.seconds, rel=CLOSE)
    assert found == pytest.approx(all_found, rel=CLOSE)
    assert [rank.bytes for rank in own.memory] == pytest.approx([rank.bytes for rank in listed.memory], rel=CLOSE)
    assert held == pytest.approx(all_held, rel=CLOSE)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_counted_passes_take_and_hold_what_listed_ones_do(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(0, schedule, monkeypatch)


@pytest.mark.sweeps
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_counted_passes_take_and_hold_what_listed_ones_do_many_times(
    schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(1, 30):
        check(seed, schedule, monkeypatch)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_batch_of_millions_lists_no_more_passes_than_one_of_thousands(
    schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Pass] = []

    def counting(rule: PassRule) -> Callable[..., Iterator[Pass]]:
        def passes(*arguments: int) -> Iterator[Pass]:
            for one in rule(*arguments):
                listed.append(one)
                yield one

        return passes

    for name, rule in dict(RULES).items():
        monkeypatch.setitem(RULES, name, replace(rule, order=counting(rule.order)))  # type: ignore[index]
    problem, plan = long_case(0, schedule, 7_200_000)
    evaluate_configuration(problem, plan)
    most = (seconds.LISTED + seconds.LAG) * plan.degrees.pipeline
    assert len(listed) <= 2 * 3 * most * plan.degrees.chunks  # for time and memory, of up to three sorts
    gamma = ParallelismChoice.of(plan)
    judge = judging.LayoutEvaluator(CaseMaker(problem, [gamma.key], [NONE]).case(gamma), NONE)
    assert next(judge._listings()) <= most


def test_where_no_pace_is_found_more_are_listed_up_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the times are those of the full list to the last digit."""
    problem, plan = long_case(0, "1f1b", 500)
    monkeypatch.setattr(seconds, "pace_of", lambda simulation, ranks: None)
    own = evaluate_configuration(problem, plan)
    list_all(monkeypatch)
    assert own.timing.seconds == evaluate_configuration(problem, plan).timing.seconds


def test_a_longest_path_of_too_many_passes_is_refused_in_words() -> None:
    problem, plan = long_case(0, "1f1b", 7_200_000)
    with pytest.raises(UsageError, match=r"passes; at most 2000000 can be listed one by one\."):
        Iteration(problem, plan).path()
