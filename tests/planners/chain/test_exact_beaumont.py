"""exact-beaumont proves the known answers, and every plan of it passes the referee."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from pipeplan.formulations.beaumont.integer_chain import integer_chain
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.base.result import StartOutcome, Stop
from pipeplan.instances.chain import generators as recipe
from pipeplan.instances.chain import generators as theory
from pipeplan.instances.chain.generators import KnownChain
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.instances.chain.referee import evaluate_pattern, verify_pattern
from pipeplan.planners.chain.allocation import packed_pattern
from pipeplan.planners.chain.exact import PLANNER
from pipeplan.planners.chain.schedule import best_schedule
from pipeplan.planners.chain.solver import Solver
from pipeplan.planners.contract import Board, Outcome, Request
from pipeplan.planners.options import Progress, SolveOptions
from pipeplan.planners.run.solve import solve

KNOWN = [*theory.golden_chains(), *theory.theory_chains()]


def answer(problem: ChainProblem, **limits: float) -> Outcome:
    return PLANNER.plan(Request(problem, limits=SolveOptions(threads=2, **limits)))


def assert_optimal(problem: ChainProblem, period: float | None) -> None:
    outcome = answer(problem)
    if period is None:
        assert (outcome.stop, outcome.plan) == (Stop.INFEASIBLE, None)
        return
    assert outcome.stop == Stop.PROVEN
    assert outcome.plan is not None
    assert verify_pattern(problem, outcome.plan) == ()
    assert outcome.claimed == outcome.plan.period == pytest.approx(period, rel=1e-9)
    assert outcome.bound == pytest.approx(period, rel=1e-6)


@pytest.mark.parametrize("known", [k for k in KNOWN if "general" in k.answers], ids=lambda known: known.name)
def test_known_chains(known: KnownChain) -> None:
    assert_optimal(known.problem, known.answers["general"])


@pytest.mark.parametrize("known", [k for k in KNOWN if "unlimited" in k.answers], ids=lambda known: known.name)
def test_without_a_memory_limit(known: KnownChain) -> None:
    assert_optimal(known.problem.replace(memory_bytes=None), known.answers["unlimited"])


def test_figure_5_needs_more_memory_for_a_shorter_period() -> None:
    problem = theory.figure_5().problem
    assert_optimal(problem.replace(memory_bytes=7), 5)
    assert_optimal(problem.replace(memory_bytes=8), 4)


def test_co_location_is_an_equivalence() -> None:
    """E1: on one GPU all six tasks take their turn."""
    assert_optimal(ChainProblem((1, 1, 1), (1, 1, 1), (0,) * 4, (0,) * 3, gpus=1), 6)


def test_local_edges_need_no_slots_and_no_transfers() -> None:
    """E3: with one GPU nothing is ever sent."""
    assert_optimal(ChainProblem((1, 1, 1), (1, 1, 1), (1,) * 4, (0,) * 3, gpus=1, memory_bytes=5, bandwidth=0.5), 6)


@pytest.mark.sweeps
def test_no_three_partition_no_short_pattern() -> None:
    """E6: with the sizes shifted, 80 would need six numbers that split into triples; these do not."""
    known = theory.theorem_3((6, 6, 6, 6, 7, 9))
    chain = integer_chain(known.problem, Fraction(1))
    assert known.allocation is not None
    schedule = best_schedule(known.problem, chain, known.allocation, None, Solver())
    assert schedule.proven
    assert schedule.plan is not None
    assert schedule.plan.period == 81


def test_three_partition_gives_the_short_pattern() -> None:
    known = theory.theorem_3()
    assert known.allocation is not None
    schedule = best_schedule(
        known.problem, integer_chain(known.problem, Fraction(1)), known.allocation, None, Solver()
    )
    assert schedule.plan is not None
    assert schedule.plan.period == known.answers["fixed"] == 80
    assert verify_pattern(known.problem, schedule.plan) == ()


def random_chain(seed: int) -> ChainProblem:
    """Four layers, two GPUs, memory that binds."""
    rng = random.Random(seed)
    layers = 4
    problem = ChainProblem(
        forward=tuple(rng.randint(1, 3) for _ in range(layers)),
        backward=tuple(rng.randint(1, 3) for _ in range(layers)),
        activations=tuple(rng.randint(0, 4) for _ in range(2 * layers + 1)),
        weights=tuple(rng.randint(0, 2) for _ in range(layers)),
        gpus=2,
        transfer_times=tuple(rng.randint(0, 1) for _ in range(2 * layers - 1)) if seed % 2 else None,
        duplex=rng.choice(("half", "full")),
        memory_mode=rng.choice(("reserved", "inputs")),
    )
    return problem.replace(
        memory_bytes=rng.randint(10, 30) if problem.memory_mode == "reserved" else rng.randint(6, 18)
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_search_finds_what_all_allocations_one_by_one_give(seed: int) -> None:
    """Relaxation, cores and levels lose nothing: the fixed-allocation model alone, tried on everything, agrees."""
    problem = random_chain(seed)
    chain = integer_chain(problem, Fraction(60))
    solver, best = Solver(), None
    for rest in product(range(2), repeat=problem.layers - 1):
        schedule = best_schedule(problem, chain, (0, *rest), best, solver)
        assert schedule.proven
        best = best if schedule.plan is None else schedule.plan.period
    assert_optimal(problem, best)


def test_times_that_are_no_whole_numbers_are_proven_within_the_tolerance() -> None:
    problem = theory.golden_chains()[0].problem
    scaled = problem.replace(
        forward=tuple(time * 0.1234567 for time in problem.forward),
        backward=tuple(time * 0.1234567 for time in problem.backward),
    )
    assert_optimal(scaled, 11 * 0.1234567)


def test_exclusive_buffers_cost_nothing_or_time_but_never_overrun() -> None:
    problem = theory.golden_chains()[6].problem.replace(exclusive_buffers=True)
    outcome = answer(problem)
    assert outcome.plan is not None
    assert verify_pattern(problem, outcome.plan) == ()
    assert outcome.plan.period >= 7


def test_periods_that_only_overrun_slots_reach_are_refuted() -> None:
    """E5: 7 with overruns; without them intervals of periods are refuted, as not every longer period need fit."""
    known = theory.e5_overrun()
    assert_optimal(known.problem.replace(exclusive_buffers=True), known.answers["exclusive"])


@pytest.mark.parametrize("seed", range(1, 25))
def test_exclusive_buffers_cost_what_the_whole_model_says(seed: int) -> None:
    """cp-beaumont decides allocation, orders and period in one model."""
    problem = random_chain(seed).replace(exclusive_buffers=True, memory_mode="reserved")
    whole = solve(problem, formulation="cp-beaumont", solver="cp-sat")
    assert whole.stop in (Stop.PROVEN, Stop.INFEASIBLE)
    assert_optimal(problem, whole.objective)


def test_bounds_rise_plans_improve_and_never_cross() -> None:
    seen: list[Progress] = []
    problem = recipe.resnet_like(6, 2, seed=1, memory_bytes=900)
    outcome = PLANNER.plan(Request(problem, limits=SolveOptions(threads=2), board=Board(seen.append)))
    assert outcome.stop == Stop.PROVEN
    values = [progress.incumbent for progress in seen if progress.incumbent is not None]
    bounds = [progress.bound for progress in seen if progress.bound is not None]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    assert bounds[-1] <= values[-1]


@pytest.mark.slow
def test_eighteen_layers_with_tight_memory_are_proven() -> None:
    """Half a minute on two idle cores; the best contiguous stages have 411."""
    problem = recipe.resnet_like(18, 4, seed=3, memory_bytes=1804)
    outcome = answer(problem)
    assert outcome.stop == Stop.PROVEN
    assert outcome.plan is not None
    assert verify_pattern(problem, outcome.plan) == ()
    assert outcome.plan.period == 402


def test_the_gap_that_was_asked_for_ends_the_search() -> None:
    problem = recipe.resnet_like(8, 4, seed=1, memory_bytes=960)
    outcome = answer(problem, rel_gap=0.2)
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert outcome.plan.period - outcome.bound <= 0.2 * outcome.plan.period


@pytest.mark.timing
def test_a_limit_leaves_a_plan_and_a_bound() -> None:
    problem = recipe.resnet_like(18, 4, seed=1, memory_bytes=1800)
    outcome = answer(problem, time_limit_s=0.2)
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert verify_pattern(problem, outcome.plan) == ()
    assert outcome.bound >= sum(problem.durations) / 4


def test_strict_memory_is_refused_with_a_remedy() -> None:
    problem = theory.golden_chains()[0].problem.replace(memory_mode="strict")
    with pytest.raises(InputError, match="exclusive buffers"):
        answer(problem)


def test_a_search_starts_from_the_plan_that_it_is_given() -> None:
    """With no time at all, that plan is the answer; a better one replaces it where there is time."""
    problem = recipe.resnet_like(8, 4, seed=1)
    start = packed_pattern(problem, (0,) * 8)  # everything on one GPU
    problem = problem.replace(memory_bytes=0.7 * evaluate_pattern(problem, start).peak_bytes)
    assert verify_pattern(problem, start)
    best = answer(problem, time_limit_s=600.0).plan
    assert best is not None
    turned = replace(best, allocation=tuple(3 - gpu for gpu in best.allocation))
    result = solve(problem, planner="exact-beaumont", warm_start=turned, limits=SolveOptions(time_limit_s=0.0))
    assert (result.warm_start.outcome, result.warm_start.source) == (StartOutcome.ACCEPTED, "user")
    assert result.objective == best.period
    refused = solve(problem, planner="exact-beaumont", warm_start=start, limits=SolveOptions(time_limit_s=0.0))
    assert refused.warm_start.outcome == StartOutcome.REJECTED


def test_a_plan_of_several_batches_is_outside_the_proof() -> None:
    known = theory.figure_5().problem
    best = answer(known).plan
    assert best is not None
    twice = replace(
        best,
        period=2 * best.period,
        starts=(best.starts[0], tuple(time + best.period for time in best.starts[0])),
        transfers=(best.transfers[0], {edge: time + best.period for edge, time in best.transfers[0].items()}),
    )
    assert verify_pattern(known, twice) == ()
    result = solve(known, planner="exact-beaumont", warm_start=twice)
    assert result.warm_start.outcome == StartOutcome.OUTSIDE
    assert result.objective == 5


def test_the_dynamic_program_for_placements_is_no_start_for_chains() -> None:
    with pytest.raises(UsageError, match="--warm-start dp is for placement and staging problems"):
        solve(theory.figure_5().problem, planner="exact-beaumont", warm_start="dp")
