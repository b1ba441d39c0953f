"""Small random chains: the models agree with trying everything, and the referee accepts their plans."""

from __future__ import annotations

import pytest
from oracles.chain import agrees, best_period
from problems.chains import random_chain

from pipeplan.formulations.beaumont.bounds import lower_bound, sequential_period
from pipeplan.instances.base.result import Stop
from pipeplan.planners.run.solve import solve

METHODS = (("ilp-beaumont", "highs"), ("ilp-beaumont", "cp-sat"), ("cp-beaumont", "cp-sat"))
FAST = range(1, 25)
ALL = range(25, 201)


def check(seed: int, methods: tuple[tuple[str, str], ...]) -> None:
    problem = random_chain(seed)
    values = set()
    for formulation, solver in methods:
        result = solve(problem, formulation=formulation, solver=solver)
        assert result.stop in (Stop.PROVEN, Stop.INFEASIBLE), (formulation, solver, result.messages)
        values.add(result.objective)
    assert len(values) == 1
    value = values.pop()
    assert agrees(problem, value)
    if value is not None:
        assert lower_bound(problem) <= value <= sequential_period(problem)


@pytest.mark.parametrize("seed", FAST)
def test_models_agree_with_enumeration(seed: int) -> None:
    check(seed, METHODS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ALL)
def test_models_agree_with_enumeration_on_many_chains(seed: int) -> None:
    check(seed, METHODS)


def test_memory_binds_in_half_of_these_chains() -> None:
    """Otherwise the agreement would say little."""
    binding = 0
    for seed in FAST:
        problem = random_chain(seed)
        period = best_period(problem)
        if period is not None:
            binding += period > (best_period(problem.replace(memory_bytes=None)) or 0)
    assert binding >= len(FAST) / 2
