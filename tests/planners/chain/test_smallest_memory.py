"""The smallest memory with any pattern: what brute force finds, with a plan that fits it exactly and none below."""

from __future__ import annotations

import pytest
from oracles.chain import least_memory
from problems.chains import random_chain

from pipeplan import ChainProblem, SolveOptions, smallest_memory
from pipeplan.instances.chain.referee import evaluate_pattern, verify_pattern

LIMITS = SolveOptions(threads=1)


def assert_it_just_fits(problem: ChainProblem) -> None:
    found = smallest_memory(problem, LIMITS)
    assert found.proven
    assert found.lower_bytes == found.memory_bytes
    fitting = problem.replace(memory_bytes=found.memory_bytes)
    assert verify_pattern(fitting, found.plan) == ()
    evaluation = evaluate_pattern(problem, found.plan)
    assert evaluation.peak_bytes == found.memory_bytes
    use = next(use for use in evaluation.devices if use.gpu == found.gpu)
    assert use.peak_bytes == sum(found.terms.to_json().values()) == found.memory_bytes


@pytest.mark.parametrize("seed", range(60))
def test_brute_force_over_all_allocations_agrees(seed: int) -> None:
    problem = random_chain(seed)
    assert smallest_memory(problem, LIMITS).memory_bytes == least_memory(problem)
    assert_it_just_fits(problem)


def test_sizes_that_are_no_whole_bytes_are_exact() -> None:
    problem = ChainProblem((1, 1, 1), (1, 1, 1), (0.5, 0.25, 0.125, 0.5), (0.75, 0.5, 0.25), gpus=2)
    assert_it_just_fits(problem)
    assert smallest_memory(problem, LIMITS).memory_bytes == least_memory_of_doubled(problem) / 8


def least_memory_of_doubled(problem: ChainProblem) -> int:
    return least_memory(
        problem.replace(
            activations=tuple(8 * size for size in problem.activations),
            weights=tuple(8 * size for size in problem.weights),
        )
    )
