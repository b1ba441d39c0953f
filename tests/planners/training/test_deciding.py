"""A certificate is true wherever the cluster lies in the box, and runs that contradict it are named."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest
from oracles.training import configurations
from problems.trainings import random_training

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.referee import memory_of_ranks, shape_faults
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.planners.training.deciding import Decision, Question, Trial, Verdict, verdict
from pipeplan.planners.training.forms import believed, plausible, values_of
from pipeplan.planners.training.proxies import CHEAP, OF_LINKS, TWICE, Proxy, in_terms, is_proxy, proxy_of, smaller

from .test_forms import CLOSE, point

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


# ---- proxies -----------------------------------------------------------------------------------------------
# A proxy is cheap, and its forms hold wherever the whole cluster lies, whatever its own links are.


WHOLE = problem_of("llama-3-8b", "16xh100-80gb", batch=128, sequence=4096)
PLANS = {
    "data": ("data=16 micro-batch=2 zero=1 recompute=full", (8, 8, 32)),
    "tensor": ("tensor=8 data=2 micro-batch=4", (8, 8, 8)),
    "pipeline on two nodes": ("tensor=4 pipeline=4 data=1 micro-batch=2", (8, 16, 16)),
    "chunks": ("pipeline=4 virtual=8 data=4 micro-batch=1 recompute=full", (32, 8, 16)),
}


@pytest.mark.parametrize("case", PLANS)
def test_the_cheapest_run_with_the_same_degrees_is_proposed(case: str) -> None:
    words, (layers, devices, batch) = PLANS[case]
    plan = configuration_from_words(WHOLE, words)
    proxy = proxy_of(WHOLE, plan)
    assert proxy is not None
    own, at = proxy.problem, believed(WHOLE.efficiencies)
    assert (own.model.layers, own.devices, own.batch) == (layers, devices, batch)
    assert replace(proxy.plan.degrees, data=plan.degrees.data) == plan.degrees
    assert max(rank.bytes for rank in memory_of_ranks(own, proxy.plan)) <= (own.memory_bytes or 0)
    whole = Proxy(WHOLE, WHOLE, plan).timed.seconds(at)
    assert proxy.timed.seconds(at) * devices <= CHEAP * whole * WHOLE.devices
    assert is_proxy(WHOLE, own)
    assert not is_proxy(WHOLE, WHOLE)
    assert not is_proxy(WHOLE, own.replace(sequence=2048)), "other sequences are another problem"


def test_none_is_proposed_where_none_is_cheap() -> None:
    small = problem_of("llama-3-8b", "8xh100-80gb", batch=8, sequence=4096, layers=8)
    assert proxy_of(small, configuration_from_words(small, "tensor=8 micro-batch=8")) is None


@pytest.mark.parametrize("case", PLANS)
def test_its_forms_hold_whatever_its_own_links_are(case: str) -> None:
    """On one node the links are others than those between nodes: what a proxy takes there bounds nothing of them."""
    proxy = proxy_of(WHOLE, configuration_from_words(WHOLE, PLANS[case][0]))
    assert proxy is not None
    assert bool(proxy.lost) == (proxy.problem.devices == 8)
    box, draw = plausible(WHOLE), random.Random(1)
    few = [0, 1, 4]
    below, above = proxy.forms
    for _ in range(20):
        at, elsewhere = point(box, draw), point(box, draw)
        seconds = proxy.timed.seconds({**at, **{name: elsewhere[name] for name in proxy.lost}})
        values = values_of(at)
        assert below @ values * (1 - CLOSE) <= seconds <= above @ values * (1 + CLOSE)
        less, more = (in_terms(own, box, few, side) for side, own in enumerate(proxy.forms))
        assert less @ values[few] * (1 - CLOSE) <= seconds <= more @ values[few] * (1 + CLOSE)
    assert {*proxy.lost} <= {*OF_LINKS}


def test_fewer_layers_gpus_and_sequences_make_a_proxy() -> None:
    own = smaller(WHOLE, 4, 8, 16)
    assert (own.model.layers, own.devices, own.batch) == (4, 8, 16)
    assert own.efficiencies == WHOLE.efficiencies
    assert smaller(WHOLE) == WHOLE
