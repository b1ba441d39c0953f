"""exact-beaumont proves the known answers, and every plan of it passes the referee."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import known_chains as theory
import pytest
from known_chains import KnownChain
from oracles.chain import agrees
from problems.chains import random_chain, theory_chains
from recipes.chain import resnet_like

from pipeplan import ChainProblem, PatternPlan, Progress, SolveOptions, StartOutcome, Stop, solve
from pipeplan.formulations.beaumont.integer_chain import IntegerChain, integer_chain
from pipeplan.instances.chain.referee import evaluate_pattern, verify_pattern
from pipeplan.planners.chain import anneal_kernel, exact, layer_sets
from pipeplan.planners.chain.allocation import packed_pattern
from pipeplan.planners.chain.baselines import best_contiguous, pipedream_points
from pipeplan.planners.chain.exact import PLANNER
from pipeplan.planners.chain.schedule import Annealer
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


# ---- exact random chains -----------------------------------------------------------------------------------
# Small random chains: exact-beaumont agrees with trying everything, with walks over partitions from the first moment.
#
# The loops of the walks are run as they are written, without compiling them.


FAST = range(1, 13)


@pytest.fixture(autouse=True)
def _walks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_sets, "compiled", getattr)
    monkeypatch.setattr(exact, "BRIEF_S", 0.0)


def check(seed: int) -> None:
    problem, seen = random_chain(seed), list[Progress]()
    request = Request(problem, limits=SolveOptions(threads=2), board=Board(seen.append))
    outcome = PLANNER.plan(request)
    if outcome.plan is None:
        assert outcome.stop == Stop.INFEASIBLE
        assert agrees(problem, None)
        return
    assert outcome.stop == Stop.PROVEN
    assert verify_pattern(problem, outcome.plan) == ()
    assert agrees(problem, outcome.plan.period)
    bounds = [progress.bound for progress in seen if progress.bound is not None]
    assert max(bounds) <= outcome.plan.period * (1 + 1e-9), "a bound that was told on the way was too high"


@pytest.mark.parametrize("seed", FAST)
def test_exact_agrees_with_enumeration(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(1, 13))
def test_the_first_plan_is_no_worse_than_any_pipedream_point_that_fits(seed: int) -> None:
    """So the search may begin with contiguous stages and need not run PipeDream's grid."""
    problem = random_chain(seed)
    memory = problem.memory_bytes
    periods = [point.period for point in pipedream_points(problem) if point.fits(memory)]
    first = best_contiguous(problem)
    assert first is not None or not periods
    assert first is None or first.period <= min(periods, default=first.period) * (1 + 1e-9)


# ---- chain annealing ---------------------------------------------------------------------------------------
# Annealing on allocations: layouts keep every rule and count memory as the referee does, and plans get better.


PERIOD = 400


def chain_and_annealer(**changes: Any) -> tuple[ChainProblem, IntegerChain, Annealer]:
    problem = resnet_like(6, 3, seed=4, memory_bytes=10_000).replace(**changes)
    chain = integer_chain(problem, Fraction(1))
    return problem, chain, Annealer(problem, chain, seed=1)


def laid_out(annealer: Annealer, seed: int) -> anneal_kernel.State:
    """A random allocation, random places passed over, and either direction."""
    rng = random.Random(seed)
    state = annealer._state([rng.randrange(3) for _ in range(6)])
    state.middle[0] = seed % 2
    for task in range(len(state.passed)):
        state.passed[task] = rng.choice((0, 0, 0, 1))
    return state


def as_plan(problem: ChainProblem, state: anneal_kernel.State) -> PatternPlan:
    """The layout as it is, nothing tightened."""
    gpu = state.gpu.tolist()
    remote = [e for e in problem.remote_edges if gpu[problem.layer_of[e - 1]] != gpu[problem.layer_of[e]]]
    sent = {e: float(state.sent[e]) for e in remote}
    return PatternPlan(PERIOD, tuple(gpu), (tuple(map(float, state.starts)),), (sent,))


@pytest.mark.parametrize("duplex", ["half", "full"])
@pytest.mark.parametrize("seed", range(12))
def test_what_finds_a_place_breaks_no_rule(seed: int, duplex: str) -> None:
    problem, _, annealer = chain_and_annealer(duplex=duplex)
    state = laid_out(annealer, seed)
    missing = anneal_kernel.lay_out(annealer.tables, state, PERIOD)
    violations = verify_pattern(problem, as_plan(problem, state))
    assert (missing == 0) == (violations == ())


@pytest.mark.parametrize("mode", ["reserved", "inputs"])
@pytest.mark.parametrize("seed", range(12))
def test_memory_is_counted_as_the_referee_counts_it(seed: int, mode: str) -> None:
    problem, chain, annealer = chain_and_annealer(memory_mode=mode)
    state = laid_out(annealer, seed)
    if anneal_kernel.lay_out(annealer.tables, state, PERIOD):
        return
    for device in evaluate_pattern(problem, as_plan(problem, state)).devices:
        on_it = [t for t in range(chain.tasks) if state.gpu[chain.layer_of(t)] == device.gpu]
        held = max(anneal_kernel.held(annealer.tables, state, task, PERIOD) for task in on_it)
        assert anneal_kernel.standing(annealer.tables, state, device.gpu) + held == device.peak_bytes


@pytest.mark.sweeps
def test_annealing_beats_contiguous_stages_on_many_gpus() -> None:
    problem = resnet_like(12, 6, seed=1, memory_bytes=1500)
    chain = integer_chain(problem, Fraction(1))
    plan = best_contiguous(problem)
    annealer = Annealer(problem, chain, seed=1)
    found = (annealer.improve(plan, chain.last_below(plan.period)) for _ in range(5))
    better = next((candidate for candidate in found if candidate is not None), None)
    assert better.period < plan.period
    assert verify_pattern(problem, better) == ()
