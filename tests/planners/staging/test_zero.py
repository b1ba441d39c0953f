"""ZeRO: what copies of a stage divide among them, and what they send each other, in every exact method of stagings.

The enumeration counts both anew, from the words of the paper (Rajbhandari et al.); the referee and each method do, too.
"""

from __future__ import annotations

import math

import pytest
from oracles.leveled_staging import best_leveled
from oracles.staging import best_stages
from problems.stagings import random_staging, with_zero

import pipeplan
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Result, Stop
from pipeplan.instances.staging.problem import Configuration, DeviceType, Layer, StagingLevel, StagingProblem
from pipeplan.planners.options import SolveOptions

METHODS = (("dp-piper", {}), ("mip-piper", {}))
LIMITS = SolveOptions(threads=1, time_limit_s=600)


def solved(problem: StagingProblem, method: str, **options: object) -> Result:
    kind = "planner" if method == "dp-piper" else "formulation"
    return pipeplan.solve(problem, **{kind: method}, limits=LIMITS, options=options)


def check(result: Result, best: float | None) -> None:
    assert result.stop in (Stop.PROVEN, Stop.INFEASIBLE, Stop.COMPLETED), result.messages
    assert (result.objective is None) == (best is None)
    if best is not None:
        assert result.verified
        assert result.objective == pytest.approx(best, rel=1e-6)
        assert result.bound == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_the_program_finds_what_enumeration_finds(seed: int, zero: int, semantics: str) -> None:
    problem = with_zero(random_staging(seed, layers=(2, 4)), zero)
    best = best_stages(problem, semantics)
    check(solved(problem, "dp-piper", semantics=semantics), None if best is None else best[0])


@pytest.mark.parametrize(("method", "options"), METHODS[1:])
@pytest.mark.parametrize("zero", [2, 3])
@pytest.mark.parametrize("seed", [0, 2, 5])
def test_models_find_what_enumeration_finds(seed: int, zero: int, method: str, options: dict[str, str]) -> None:
    problem = with_zero(random_staging(seed, layers=(2, 3), exact_batches=False), zero)
    best = best_stages(problem)
    check(solved(problem, method, **options), None if best is None else best[0])


@pytest.mark.parametrize("zero", [1, 3])
@pytest.mark.parametrize("seed", [0, 1, 4, 6])
def test_on_two_types_of_devices(seed: int, zero: int) -> None:
    flat = with_zero(random_staging(seed, layers=(2, 3), exact_batches=False), zero)
    types = (
        DeviceType("fast", 2, 2.0, flat.memory_bytes),
        DeviceType("slow", 2, 1.0, 2 * (flat.memory_bytes or 20)),
    )
    problem = flat.replace(devices=4, memory_bytes=None, device_types=types)
    best = best_stages(problem)
    for method, options in METHODS[:2]:
        check(solved(problem, method, **options), None if best is None else best[0])


@pytest.mark.parametrize("zero", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_copies_on_all_levels_divide_what_they_hold(seed: int, zero: int) -> None:
    flat = with_zero(random_staging(seed, layers=(2, 3), exact_batches=False), zero)
    levels = (StagingLevel(2, flat.bandwidth), StagingLevel(2, flat.bandwidth / 3))
    problem = flat.replace(devices=4, levels=levels, micro_batches=6)
    best = best_leveled(problem, "precise")
    for method, options in METHODS[:2]:
        check(solved(problem, method, **options), None if best is None else best[0])


def test_adam_at_hand() -> None:
    """16 bytes a parameter, of which ZeRO divides 12, 14 or 16 by the 4 replicas: 7, 5.5 and 4 bytes are left."""
    for zero, held in ((1, 7.0), (2, 5.5), (3, 4.0 + 3 * 2)):
        way = Configuration(
            "vanilla", 1.0, weight_bytes=2e6, memory_fixed=(4e6, 2e6, 0.0)[zero - 1],
            memory_divided=(12e6, 14e6, 16e6)[zero - 1],
        )  # fmt: skip
        layer = Layer(0, {1: (way,)})
        problem = StagingProblem((layer,), (), 4, 1e9, 4, memory_bytes=held * 1e6, zero=zero)
        result = solved(problem, "dp-piper")
        assert result.plan is not None
        assert result.plan.stages[0].data_parallel == 4
        less = solved(problem.replace(memory_bytes=held * 1e6 - 1), "dp-piper")
        assert less.stop == Stop.INFEASIBLE


def test_least_memory_counts_the_parts() -> None:
    problem = with_zero(random_staging(0, layers=(3, 3), exact_batches=False), 1).replace(micro_batches=4)
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
