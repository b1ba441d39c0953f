"""Stands for `planners.training.deciding.verdict` where a test is about campaigns: quick, simple, and enough to go on.

All times are off by one common factor, and each by `rho` at most. The fastest by prediction is run first.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

import pipeplan
from pipeplan.instances.training.iteration import Iteration
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.planners.training import deciding
from pipeplan.planners.training.deciding import Question, Trial, Verdict
from pipeplan.planners.training.proxies import Proxy
from pipeplan.planners.training.search import Report
from pipeplan.studies import tune
from pipeplan.studies.configure.answer import Asked, asked_of
from pipeplan.studies.configure.search import search_configurations
from pipeplan.studies.tune import Campaign, campaign_of

SECONDS: dict[tuple[str, Configuration], float] = {}


def seconds_of(problem: TrainingProblem, plan: Configuration) -> float:
    key = problem.hash, plan
    if key not in SECONDS:
        SECONDS[key] = Iteration(problem, plan).seconds()
    return SECONDS[key]


def verdict(question: Question, trials: Sequence[Trial], proxies: Sequence[Proxy] = ()) -> Verdict:
    times = [seconds_of(question.problem, plan) for plan in question.candidates]
    measured = {own.candidate: own.seconds for own in trials if own.seconds is not None}
    common = statistics.median([math.log(t / times[i]) for i, t in measured.items()]) if measured else 0.0
    best = min(measured, key=measured.__getitem__) if measured else None
    likely = {i: t * math.exp(common) for i, t in enumerate(times)}
    low = {i: t * math.exp(-question.rho) for i, t in likely.items()}
    left = [i for i in range(len(times)) if i not in {own.candidate for own in trials}]
    most = math.inf if best is None else measured[best] / (1 + question.delta)
    may = tuple(i for i in left if low[i] < most)
    excluded = {i: f"at least {low[i]:.4g} s" for i in left if i not in may}
    fastest = min((low[i] for i in may), default=math.inf)
    regret = None if best is None else max(0.0, measured[best] / fastest - 1)
    certified = best is not None and not may
    ahead = min(may, key=times.__getitem__) if may and not certified else None
    notes = tuple(
        f"A run of candidate {own.candidate} contradicts the others."
        for own in trials
        if own.seconds is not None and abs(math.log(own.seconds / times[own.candidate]) - common) > question.rho
    )
    return Verdict(
        best, regret, certified, may, excluded, ahead, "it is the fastest by prediction", question.rho, notes,
        likely, low,
    )  # fmt: skip


REPORTS: dict[str, Report] = {}


def searched_once(problem: TrainingProblem, asked: Asked, *limits: Any) -> Report:
    """The search, whose answer most tests of campaigns share."""
    if problem.hash not in REPORTS:
        REPORTS[problem.hash] = search_configurations(problem, asked, None, lambda record: None)
    return REPORTS[problem.hash]


@cache
def begun_campaign() -> Campaign:
    """A campaign without runs, whose search all tests of a worker share."""
    problem: Any = pipeplan.load("tiny-training")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune, "search_configurations", searched_once)
        return campaign_of(problem, asked_of(problem), None, None, lambda record: None)


def install() -> None:
    deciding.verdict = verdict
