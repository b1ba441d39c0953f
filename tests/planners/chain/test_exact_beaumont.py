"""exact-beaumont proves the known answers, and every plan of it passes the referee."""

from __future__ import annotations

from dataclasses import replace

import known_chains as theory
import pytest
from known_chains import KnownChain
from problems.chains import theory_chains
from recipes.chain import resnet_like

from pipeplan import ChainProblem, Progress, SolveOptions, StartOutcome, Stop, solve
from pipeplan.instances.chain.referee import evaluate_pattern, verify_pattern
from pipeplan.planners.chain.allocation import packed_pattern
from pipeplan.planners.chain.exact import PLANNER
from pipeplan.planners.contract import Board, Outcome, Request

KNOWN = [*theory.golden_chains(), *theory_chains()]


def answer(problem: ChainProblem, **limits: float) -> Outcome:
    return PLANNER.plan(Request(problem, limits=SolveOptions(threads=2, **limits)))


def assert_optimal(problem: ChainProblem, period: float | None) -> None:
    outcome = answer(problem)
    if period is None:
        assert (outcome.stop, outcome.plan) == (Stop.INFEASIBLE, None)
        return
    assert outcome.stop == Stop.PROVEN
    assert verify_pattern(problem, outcome.plan) == ()
    assert outcome.claimed == outcome.plan.period == pytest.approx(period, rel=1e-9)
    assert outcome.bound == pytest.approx(period, rel=1e-6)


@pytest.mark.parametrize("variant", ["general", "unlimited"])
@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_known_chains(known: KnownChain, variant: theory.Variant) -> None:
    problem = known.problem if variant == "general" else known.problem.replace(memory_bytes=None)
    if variant in known.answers:
        assert_optimal(problem, known.answers[variant])


FIGURE_5, GOLDEN = theory.figure_5().problem, theory.golden_chains()[0].problem
ONE_GPU = ChainProblem((1, 1, 1), (1, 1, 1), (0,) * 4, (0,) * 3, gpus=1)
TIMES = {"forward": tuple(0.1234567 * time for time in GOLDEN.forward)}
TIMES["backward"] = tuple(0.1234567 * time for time in GOLDEN.backward)


@pytest.mark.parametrize(("problem", "period"), [
    (FIGURE_5.replace(memory_bytes=7), 5),
    (FIGURE_5.replace(memory_bytes=8), 4),
    (ONE_GPU, 6),  # E1: all six tasks take their turn
    (ONE_GPU.replace(activations=(1,) * 4, memory_bytes=5, bandwidth=0.5), 6),  # E3: nothing is ever sent
    (GOLDEN.replace(**TIMES), 11 * 0.1234567),
], ids=["figure 5, 7", "figure 5, 8", "one GPU", "no slots", "no whole numbers"])  # fmt: skip
def test_other_chains(problem: ChainProblem, period: float) -> None:
    assert_optimal(problem, period)


def test_periods_that_only_overrun_slots_reach_are_refuted() -> None:
    """E5: 7 with overruns; without them intervals of periods are refuted, as not every longer period need fit."""
    known = theory.e5_overrun()
    assert_optimal(known.problem.replace(exclusive_buffers=True), known.answers["exclusive"])


def test_bounds_rise_plans_improve_and_never_cross() -> None:
    seen: list[Progress] = []
    problem = resnet_like(6, 2, seed=1, memory_bytes=900)
    outcome = PLANNER.plan(Request(problem, limits=SolveOptions(threads=2), board=Board(seen.append)))
    assert outcome.stop == Stop.PROVEN
    values = [progress.incumbent for progress in seen if progress.incumbent is not None]
    bounds = [progress.bound for progress in seen if progress.bound is not None]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    assert bounds[-1] <= values[-1]


def test_the_gap_that_was_asked_for_ends_the_search() -> None:
    problem = resnet_like(8, 4, seed=1, memory_bytes=960)
    outcome = answer(problem, rel_gap=0.2)
    assert outcome.plan.period - outcome.bound <= 0.2 * outcome.plan.period


@pytest.mark.timing
def test_a_limit_leaves_a_plan_and_a_bound() -> None:
    problem = resnet_like(18, 4, seed=1, memory_bytes=1800)
    outcome = answer(problem, time_limit_s=0.2)
    assert outcome.plan is not None
    assert verify_pattern(problem, outcome.plan) == ()
    assert outcome.bound >= sum(problem.durations) / 4


def test_a_search_starts_from_the_plan_that_it_is_given() -> None:
    """With no time at all, that plan is the answer; a better one replaces it where there is time."""
    problem = resnet_like(8, 4, seed=1)
    start = packed_pattern(problem, (0,) * 8)  # everything on one GPU
    problem = problem.replace(memory_bytes=0.7 * evaluate_pattern(problem, start).peak_bytes)
    assert verify_pattern(problem, start)
    best = answer(problem, time_limit_s=600.0).plan
    turned = replace(best, allocation=tuple(3 - gpu for gpu in best.allocation))
    result = solve(problem, planner="exact-beaumont", warm_start=turned, limits=SolveOptions(time_limit_s=0.0))
    assert (result.warm_start.outcome, result.warm_start.source) == (StartOutcome.ACCEPTED, "user")
    assert result.objective == best.period
    refused = solve(problem, planner="exact-beaumont", warm_start=start, limits=SolveOptions(time_limit_s=0.0))
    assert refused.warm_start.outcome == StartOutcome.REJECTED
