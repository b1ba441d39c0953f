"""Annealing on allocations: layouts keep every rule and count memory as the referee does, and plans get better."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from recipes.chain import resnet_like

from pipeplan import ChainProblem, PatternPlan
from pipeplan.formulations.beaumont.integer_chain import IntegerChain, integer_chain
from pipeplan.instances.chain.referee import evaluate_pattern, verify_pattern
from pipeplan.planners.chain import anneal_kernel
from pipeplan.planners.chain.baselines import best_contiguous
from pipeplan.planners.chain.schedule import Annealer

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
