"""The baselines: what they promise of stages and memory, that the referee agrees, and that none beats the optimum."""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from typing import Any

import known_chains as theory
import pytest
from recipes.chain import memory_levels, resnet_like, tightness

from pipeplan import ChainProblem, PatternPlan
from pipeplan.instances.chain.referee import evaluate_pattern, verify_pattern
from pipeplan.planners.chain import baselines
from pipeplan.planners.chain.baselines import (
    Stages,
    best_contiguous,
    measured_period,
    one_f_one_b,
    peak_memory,
    pipedream_partition,
    repeated,
    run_eagerly,
    simulate,
)
from pipeplan.planners.chain.exact import PLANNER as EXACT
from pipeplan.planners.contract import FunctionPlanner, Request

PLANNERS = (
    FunctionPlanner(baselines.plan_pipedream), baselines.CONTIGUOUS, baselines.GPIPE, baselines.SYNCHRONOUS,
)  # fmt: skip


def chain(memory: float | None = None, **changes: Any) -> ChainProblem:
    return resnet_like(6, 3, seed=2, memory_bytes=memory).replace(**changes)


def largest_load(problem: ChainProblem, borders: list[int]) -> float:
    stages = Stages(problem)
    return max(max(stages.load(a, b), stages.link_load(b)) for a, b in pairwise(borders))


@pytest.mark.parametrize("seed", range(5))
def test_pipedream_balances_stages_and_links(seed: int) -> None:
    problem = resnet_like(8, 3, seed=seed)
    borders = pipedream_partition(problem)
    assert borders is not None
    cuts = (c for n in range(3) for c in combinations(range(1, 8), n))
    assert largest_load(problem, borders) == min(largest_load(problem, [0, *c, 8]) for c in cuts)


def test_pipedream_counts_its_versions_against_the_target() -> None:
    problem = ChainProblem((1, 1, 1), (1, 1, 1), (2,) * 4, (1, 1, 1), gpus=3)
    assert pipedream_partition(problem, target=3, versions=1) == [0, 1, 2, 3]
    assert pipedream_partition(problem, target=5, versions=2) is None


def test_the_contiguous_optimum_of_the_papers_family_is_nearly_twice_the_general_one() -> None:
    for known in (theory.three_chain(), theory.family(2), theory.family(3), theory.lemma_3()):
        plan = best_contiguous(known.problem)
        assert plan.period == pytest.approx(known.answers["contiguous"])
        assert verify_pattern(known.problem, plan) == ()
    assert best_contiguous(theory.lemma_2().problem) is None


@pytest.mark.parametrize("seed", range(6))
def test_the_stages_peak_is_what_the_referee_counts(seed: int) -> None:
    """The dynamic program's memory of a stage is that of its pattern, on every GPU, for random cuts and periods."""
    rng = random.Random(seed)
    problem = chain()
    borders = [0, *sorted(rng.sample(range(1, 6), 2)), 6]
    period = largest_load(problem, borders) * rng.choice((1.0, 1.3, 2.5))
    evaluation = evaluate_pattern(problem, one_f_one_b(problem, borders, period))
    stages = Stages(problem)
    for (first, end), device in zip(pairwise(borders), evaluation.devices, strict=True):
        peaks = [stages.peak(first, end, batches) for batches in range(1, 8)]
        assert device.peak_bytes in [pytest.approx(peak) for peak in peaks]


@pytest.mark.parametrize("in_flight", range(1, 6))
def test_eager_runs_respect_the_loads_and_reach_them_with_enough_batches(in_flight: int) -> None:
    problem = chain()
    borders = pipedream_partition(problem)
    assert borders is not None
    run = run_eagerly(problem, borders, in_flight, 0.0)
    assert run.period >= largest_load(problem, borders) * (1 - 1e-9)
    if in_flight == 5:
        assert run.period == pytest.approx(largest_load(problem, borders))


@pytest.mark.parametrize("mode", ["reserved", "inputs", "strict", "weights"])
@pytest.mark.parametrize("in_flight", [1, 2, 3])
def test_a_run_that_repeats_is_a_pattern_of_the_measured_period(mode: str, in_flight: int) -> None:
    """Two ways to count: the trace a posteriori, and the referee on the pattern; a trace also has a warm-up."""
    problem = chain(memory_mode=mode)
    trace = simulate(problem, [0, 2, 4, 6], 200, in_flight, "eager")
    plan = repeated(trace)
    assert plan is not None
    evaluation = evaluate_pattern(problem, plan)
    assert verify_pattern(problem, plan) == ()
    assert evaluation.period_per_batch == pytest.approx(measured_period(trace), rel=0.02)
    for device, peak in zip(evaluation.devices, peak_memory(trace), strict=True):
        assert device.peak_bytes <= peak * (1 + 1e-9)
        if in_flight == 1:
            assert device.peak_bytes == pytest.approx(peak)


@pytest.mark.parametrize("policy", ["gpipe", "flush"])
def test_synchronous_schedules_keep_all_batches_or_one_per_stage_behind(policy: str) -> None:
    problem = chain(memory_mode="inputs", weights=(0,) * 6)
    trace = simulate(problem, [0, 2, 4, 6], 8, 8, policy)
    stages = Stages(problem)
    copies = [8, 8, 8] if policy == "gpipe" else [3, 2, 1]
    expected = [n * stages.kept(*stage) for n, stage in zip(copies, pairwise([0, 2, 4, 6]), strict=True)]
    assert peak_memory(trace) == pytest.approx(expected)


def test_gpipe_of_equal_stages_has_its_textbook_length() -> None:
    """(m + S - 1) (f + b) for m batches on S stages without transfers."""
    problem = ChainProblem((1,) * 4, (2,) * 4, (0,) * 5, (0,) * 4, gpus=4)
    trace = simulate(problem, [0, 1, 2, 3, 4], 6, 6, "gpipe")
    assert max(trace.completed) == (6 + 4 - 1) * 3


SWEPT = pytest.mark.sweeps


@pytest.mark.parametrize("share", [pytest.param(0.1, marks=SWEPT), 0.5, pytest.param(1.0, marks=SWEPT)])
def test_no_baseline_beats_the_optimum(share: float) -> None:
    """Runs that repeat every few batches are no 1F1B patterns and may be better, but not than the loads allow."""
    problem = chain()
    problem = tightness(problem, *memory_levels(problem), share)
    optimum = EXACT.plan(Request(problem)).claimed
    assert optimum is not None
    for planner in PLANNERS:
        outcome = planner.plan(Request(problem))
        if outcome.plan is not None:
            assert isinstance(outcome.plan, PatternPlan)
            assert verify_pattern(problem, outcome.plan) == ()
            assert outcome.claimed == outcome.plan.period / outcome.plan.batches_per_period
            one_batch = outcome.plan.batches_per_period == 1
            least = optimum if one_batch else sum(problem.durations) / problem.gpus
            assert outcome.claimed >= least * (1 - 1e-6)


def test_a_number_of_batches_between_flushes_can_be_wished_for() -> None:
    outcome = baselines.GPIPE.plan(Request(chain(), options={"batches_per_flush": 5}))
    assert isinstance(outcome.plan, PatternPlan)
    assert outcome.plan.batches_per_period == 5
