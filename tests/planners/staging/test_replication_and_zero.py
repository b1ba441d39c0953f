"""Stages without replicas, and ZeRO: what copies of a stage divide among them and what they send each other. Every
method that takes such problems finds the optimum of the enumeration, which counts anew from the words of the paper
(Rajbhandari et al.); the referee and each method do, too."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from oracles.staging import best_stages
from problems.stagings import random_staging, with_zero

import pipeplan
from pipeplan import Found, InputError, Result, SolveOptions, Stop
from pipeplan.instances.staging.kind_functions import staging_from_json, staging_to_json
from pipeplan.instances.staging.problem import Configuration, Layer, StagingLevel, StagingProblem


def without_replicas(seed: int, **changes: Any) -> StagingProblem:
    problem = random_staging(seed, layers=(2, 4))
    return problem.replace(replication=False, micro_batches=4, **changes)


LIMITS = SolveOptions(threads=1, time_limit_s=600)


def solved(problem: StagingProblem) -> Result:
    return pipeplan.solve(problem, planner="dp-piper", limits=LIMITS)


def test_what_replicas_are_is_told_apart() -> None:
    free = random_staging(0)
    bound = free.replace(replication=False)
    assert (free.extensions, bound.extensions) == (frozenset(), {"no replicas"})
    assert free.hash != bound.hash
    assert staging_from_json(staging_to_json(bound)) == bound
    assert "replication" not in staging_to_json(free)
    with pytest.raises(pipeplan.InputError, match=r"^replication is 1, not a truth value; give true or false"):
        free.replace(replication=1)


def test_it_is_said_how_much_memory_would_do() -> None:
    problem = random_staging(4, layers=(3, 3)).replace(replication=False)
    least = max(min(way.memory_bytes(1) for way in layer.configurations[1]) for layer in problem.layers)
    result = pipeplan.solve(problem.replace(memory_bytes=float(least)))
    assert result.found is Found.NOTHING
    enough = next(int(found[1]) for text in result.messages if (found := re.search(r"--memory (\d+)", text)))
    assert pipeplan.solve(problem.replace(memory_bytes=float(enough))).found is Found.OPTIMAL


def test_other_methods_refuse_it() -> None:
    with pytest.raises(pipeplan.UsageError, match="'piper-no-tp' cannot plan stages without replicas"):
        pipeplan.solve(without_replicas(0), planner="piper-no-tp")


@pytest.mark.parametrize("levels", [(), (StagingLevel(2, 400.0), StagingLevel(2, 50.0))])
def test_equal_stages_have_one_device_each(levels: tuple[StagingLevel, ...]) -> None:
    problem = without_replicas(1, devices=4, memory_bytes=None, levels=levels)
    even, best = pipeplan.solve(problem, planner="equi"), pipeplan.solve(problem)
    assert even.verified
    assert even.objective >= best.objective * (1 - 1e-9)
    plans = even.plan.stages if isinstance(even.plan, pipeplan.StagedPlan) else even.plan.leaves()  # type: ignore
    assert {stage.data_parallel for stage in plans} == {1}


def test_adam_at_hand() -> None:
    """16 bytes a parameter, of which ZeRO divides 12, 14 or 16 by the 4 replicas: 7, 5.5 and 4 bytes are left."""
    for zero, held in ((1, 7.0), (2, 5.5), (3, 4.0 + 3 * 2)):
        way = Configuration(
            "vanilla", 1.0, weight_bytes=2e6, memory_fixed=(4e6, 2e6, 0.0)[zero - 1],
            memory_divided=(12e6, 14e6, 16e6)[zero - 1],
        )  # fmt: skip
        layer = Layer(0, {1: (way,)})
        problem = StagingProblem((layer,), (), 4, 1e9, 4, memory_bytes=held * 1e6, zero=zero)
        result = solved(problem)
        assert result.plan.stages[0].data_parallel == 4
        less = solved(problem.replace(memory_bytes=held * 1e6 - 1))
        assert less.stop == Stop.INFEASIBLE


def test_least_memory_counts_the_parts() -> None:
    problem = with_zero(random_staging(0, layers=(3, 3)), 1).replace(micro_batches=4)
    least = pipeplan.smallest_memory(problem, limits=LIMITS)
    assert least.proven
    amount = float(least.memory_bytes or math.nan)
    assert best_stages(problem.replace(memory_bytes=amount)) is not None
    assert best_stages(problem.replace(memory_bytes=amount - 0.5)) is None


def test_what_is_divided_needs_a_stage_of_zero() -> None:
    layer = Layer(0, {1: (Configuration("vanilla", 1.0, memory_divided=1.0),)})
    with pytest.raises(InputError, match="memory_divided"):
        StagingProblem((layer,), (), 1, 1.0, 1)
    with pytest.raises(InputError, match="zero"):
        StagingProblem((layer,), (), 1, 1.0, 1, zero=4)
