"""A certificate is true wherever the cluster lies in the box, and runs that contradict it are named."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.training.referee import shape_faults
from pipeplan.planners.training.deciding import Decision, Question, Trial, Verdict, verdict
from pipeplan.planners.training.forms import plausible
from pipeplan.planners.training.proxies import TWICE, Proxy, smaller

from ...oracles.training import configurations
from ...problems.trainings import random_training
from .test_forms import point

RHO, DELTA = 0.05, 0.01


class World:
    """A cluster somewhere in the box: what every candidate of a random problem really takes there."""

    def __init__(self, seed: int, wrong: float = 0.0) -> None:
        """`wrong`: the share of candidates that are off by three times what is believed."""
        draw = random.Random(seed)
        problem = random_training(seed, devices=draw.choice((2, 4)))
        problem = problem.replace(batch=8 * problem.devices, gpu=replace(problem.gpu, memory_bytes=None))
        plans = list(islice(configurations(problem), 2_000))
        self.question = Question(problem, tuple(draw.sample(plans, min(10, len(plans)))), DELTA, RHO)
        self.decision = Decision(self.question)
        self.at, self.common = point(plausible(problem), draw), draw.uniform(-0.5, 0.5)
        off = [draw.uniform(-RHO, RHO) * (3 if draw.random() < wrong else 1) for _ in self.question.candidates]
        self.seconds = [
            own.seconds(self.at) * math.exp(self.common + r)
            for own, r in zip(self.decision.timed, off, strict=True)
        ]
        self.draw = draw

    def campaign(self, crashes: float = 0.0, proxies: Sequence[Proxy] = ()) -> tuple[Verdict, list[Trial]]:
        trials: list[Trial] = []
        told = self.decision.verdict(trials, proxies)
        while told.next is not None:
            crashed = self.draw.random() < crashes
            seconds = None if crashed else self.seconds[told.next]
            trials.append(Trial(told.next, "failed" if crashed else "measured", seconds))
            told = self.decision.verdict(trials, proxies)
        return told, trials

    def is_true(self, told: Verdict, trials: list[Trial]) -> bool:
        failed = {trial.candidate for trial in trials if trial.outcome != "measured"}
        left = [own for c, own in enumerate(self.seconds) if c not in failed]
        assert told.best is not None
        return self.seconds[told.best] <= min(left) * (1 + DELTA) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(1_000))
def test_no_certificate_is_false_where_errors_are_within_rho(seed: int) -> None:
    world = World(seed)
    told, trials = world.campaign()
    assert told.certified
    assert (told.regret or 0) <= DELTA + 1e-9
    assert world.is_true(told, trials)
    assert (told.rho, told.notes) == (RHO, ()), "no run contradicts what is believed"
    for c, least in told.least.items():
        assert least <= world.seconds[c] * (1 + 1e-9)


@pytest.mark.sweeps
def test_few_certificates_are_false_where_some_configurations_are_far_off() -> None:
    false = 0
    for seed in range(100):
        world = World(1_000 + seed, wrong=0.05)
        told, trials = world.campaign(crashes=0.02)
        false += told.best is not None and not world.is_true(told, trials)
    assert false <= 5


def test_few_of_all_candidates_are_run() -> None:
    worlds = [World(seed) for seed in range(5)]
    runs = [len(world.campaign()[1]) for world in worlds]
    assert sum(runs) < sum(len(world.question.candidates) for world in worlds) / 2


def test_before_any_run_the_predicted_best_comes_next() -> None:
    told = World(3).decision.verdict([])
    assert (told.best, told.regret, told.certified) == (None, None, False)
    assert told.next == told.may[0] == min(told.may, key=lambda c: told.likely[c])


def test_a_run_that_contradicts_the_others_is_named_and_trusted_less() -> None:
    world = World(5)
    _, trials = world.campaign()
    at, *_ = trials
    assert at.seconds is not None
    other = next(c for c in range(len(world.seconds)) if c != at.candidate)
    fast = Trial(other, "measured", at.seconds / 40)
    told = world.decision.verdict([at, fast])
    assert told.rho > RHO
    assert "agree with the form of the model only within" in told.notes[0]


def test_out_of_memory_excludes_what_holds_more_and_a_crash_excludes_itself_alone() -> None:
    world = World(2)
    decision = world.decision
    order = sorted(range(len(decision.bytes)), key=lambda c: decision.bytes[c])
    low, middle = order[0], order[len(order) // 2]
    limit = decision.bytes[middle]
    problem = world.question.problem
    problem = problem.replace(gpu=replace(problem.gpu, memory_bytes=limit))
    question = Question(problem, world.question.candidates, memory_rho=0.01, memory_common=0.5)
    told = verdict(question, [Trial(middle, "out of memory")])
    assert told.excluded[middle] == "it ran out of memory"
    assert all("GiB" in told.excluded[c] for c in order if decision.bytes[c] > 1.05 * limit and c != middle)
    crashed = verdict(question, [Trial(low, "failed")])
    assert crashed.excluded[low] == "its run failed"
    assert set(crashed.may) == set(order) - {low}, "a crash says nothing of the others"


def test_runs_that_contradict_each_other_about_memory_are_named_and_memory_is_trusted_less() -> None:
    world = World(2)
    decision = world.decision
    order = sorted(range(len(decision.bytes)), key=lambda c: decision.bytes[c])
    small, large = order[0], order[-1]
    problem = world.question.problem
    problem = problem.replace(gpu=replace(problem.gpu, memory_bytes=decision.bytes[large] * 0.9))
    question = Question(problem, world.question.candidates)
    told = verdict(question, [Trial(small, "out of memory"), Trial(large, "measured", 1.0)])
    first, last = sorted((small, large))
    assert f"candidate {first} and candidate {last} are the most at odds" in told.notes[0]
    assert not any("GiB" in why for why in told.excluded.values()), (
        "what holds less than one that ran is not excluded"
    )


def test_what_cannot_be_asked_is_refused() -> None:
    question = World(0).question
    with pytest.raises(InputError, match="candidates are none"):
        Question(question.problem, ())
    with pytest.raises(InputError, match="rho is 2"):
        Question(question.problem, question.candidates, rho=2)


# ---- proxies -------------------------------------------------------------------------------------------------


def proxied(world: World, count: int = 3) -> list[Proxy]:
    """Runs of some candidates with one layer less or half the batch, off by up to twice what is believed."""
    question, draw = world.question, world.draw
    problem = question.problem
    found = []
    for plan in draw.sample(question.candidates, min(count, len(question.candidates))):
        fewer = smaller(problem, batch=problem.batch // 2)
        if any(shape_faults(fewer, plan)):
            continue
        own = Proxy(problem, fewer, plan)
        off = draw.uniform(-TWICE * RHO, TWICE * RHO)
        found.append(replace(own, seconds=own.timed.seconds(world.at) * math.exp(world.common + off)))
    return found


@pytest.mark.parametrize("seed", range(300))
def test_no_certificate_is_false_with_proxies(seed: int) -> None:
    world = World(seed)
    proxies = proxied(world)
    told, trials = world.campaign(proxies=proxies)
    assert told.certified
    assert world.is_true(told, trials)
    assert (told.rho, told.notes) == (RHO, ()), "no run contradicts what is believed"
    for c, least in told.least.items():
        assert least <= world.seconds[c] * (1 + 1e-9)


def test_a_bound_that_one_proxy_proved_is_none_of_another() -> None:
    """The decision keeps least times, and two proxies may have taken the same seconds."""
    world = next(own for own in map(World, range(20)) if len(proxied(own)) > 1)
    first, second = (replace(own, seconds=1.0) for own in proxied(world)[:2])
    trial = Trial(0, "measured", world.seconds[0])
    world.decision.verdict([trial], [first])
    fresh = Decision(world.question).verdict([trial], [second])
    assert world.decision.verdict([trial], [second]).least == pytest.approx(fresh.least)
