"""Exact methods for chains at the edges, held against enumeration from the definition."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from oracles.chain_instants import Search, agrees, allocations, fits, sequential
from problems.chains import random_chain
from problems.nasty import whole_chain

from pipeplan import InputError, Result, SolveOptions, StartOutcome, Stop, smallest_memory, solve
from pipeplan.formulations.beaumont.integer_chain import integer_chain
from pipeplan.formulations.contract import BuiltModel
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.chain.problem import MEMORY_MODES, ChainProblem
from pipeplan.instances.chain.referee import evaluate_pattern, verify_pattern
from pipeplan.planners import backends
from pipeplan.planners.backends.model import compile_pyomo
from pipeplan.planners.chain import sets_kernel
from pipeplan.planners.chain.baselines import best_contiguous
from pipeplan.planners.chain.schedule import array, tables

METHODS: dict[str, dict[str, Any]] = {
    "ilp-beaumont on highs": {"formulation": "ilp-beaumont", "solver": "highs"},
    "ilp-beaumont on cp-sat": {"formulation": "ilp-beaumont", "solver": "cp-sat"},
    "cp-beaumont": {"formulation": "cp-beaumont"},
    "exact-beaumont": {"planner": "exact-beaumont"},
}
FEW = (*range(12), 17, 57, 59, 106)
"""The last ones were called infeasible, or had too long a period, where each task was given a turn of its own."""
MANY = sorted({*range(150)} - {*FEW})
every_method = pytest.mark.parametrize("method", METHODS)


def solved(problem: ChainProblem, method: str, **options: Any) -> Result:
    limits = SolveOptions(threads=1, time_limit_s=600)
    return solve(problem, options=options, limits=limits, warm_start="none", **METHODS[method])


def shortest(problem: ChainProblem, method: str, **options: Any) -> float | None:
    """Proven; None where there is no pattern."""
    result = solved(problem, method, **options)
    assert result.stop in (Stop.PROVEN, Stop.INFEASIBLE), result.messages
    return result.objective


# ---- tasks and transfers that take no time --------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MANY)])
def test_enumeration_finds_no_other_answer(seed: int, method: str) -> None:
    problem = whole_chain(seed)
    if method == "ilp-beaumont on cp-sat" and problem.exclusive_buffers:
        pytest.skip("exclusive buffers have no grid")
    assert agrees(problem, shortest(problem, method))


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 60))]
)
def test_nor_with_two_batches_per_period(seed: int) -> None:
    problem = whole_chain(seed, batches=2)
    assert agrees(problem, shortest(problem, "cp-beaumont", batches_per_period=2), batches=2)


@pytest.mark.parametrize("seed", range(20))
def test_a_pattern_is_a_start_that_keeps_every_row(seed: int) -> None:
    """Also where tasks take no time, share instants and happen within others."""
    problem = whole_chain(seed)
    plan = solved(problem, "exact-beaumont").plan
    if plan is None:
        return
    entry = FORMULATIONS["ilp-beaumont"]
    built = entry.load().build(problem, {spec.name: spec.default for spec in entry.options}, native=False)
    assert isinstance(built, BuiltModel)
    start = built.encode(plan)
    taken = backends.solve("highs", compile_pyomo(built.model), SolveOptions(threads=1), start).warm_start
    assert taken.outcome == StartOutcome.ACCEPTED
    assert taken.value == pytest.approx(plan.period)


@pytest.mark.parametrize("mode", MEMORY_MODES)
@pytest.mark.parametrize("seed", range(25))
def test_the_smallest_memory_is_that_of_one_batch_at_a_time(seed: int, mode: Any) -> None:
    problem = whole_chain(seed).replace(memory_mode=mode, exclusive_buffers=False)
    found = smallest_memory(problem, SolveOptions(threads=1))
    assert found.proven
    enough = problem.replace(memory_bytes=found.memory_bytes)
    assert fits(enough, sequential(problem))
    if found.memory_bytes:
        assert not fits(problem.replace(memory_bytes=found.memory_bytes - 1), sequential(problem))
    assert verify_pattern(enough, found.plan) == ()
    assert evaluate_pattern(enough, found.plan).peak_bytes == found.memory_bytes


@pytest.mark.parametrize("seed", range(40))
def test_what_the_windows_refute_has_no_pattern(seed: int) -> None:
    """Without machine code: the loop is the same."""
    problem = whole_chain(seed).replace(exclusive_buffers=False)
    problem = problem.replace(memory_bytes=6 if problem.memory_bytes is None else problem.memory_bytes)
    table = tables(integer_chain(problem, Fraction(1)))
    for allocation in allocations(problem):
        for period in range(1, sequential(problem) + 1):
            if sets_kernel.refuted(table, array(allocation), period, 200):
                assert not Search(problem, allocation, period, 1).found()


# ---- sizes ----------------------------------------------------------------------------------------------------

TENTHS = ChainProblem((1, 1), (1, 1), (0.1, 0.2, 0, 0, 0), (0, 0), 1, 0.3, memory_mode="inputs")


@every_method
def test_decimals_that_fill_the_memory_fit(method: str) -> None:
    """A tenth and two tenths are three tenths, though their floating-point numbers add up to more."""
    assert shortest(TENTHS, method) == 4
    assert shortest(TENTHS.replace(memory_bytes=0.29999999999999993), method) is None
    weighed = TENTHS.replace(activations=(0,) * 5, weights=(0.1, 0.1), weight_copies=1.5)
    assert shortest(weighed, method) == 4
    assert shortest(weighed.replace(weight_copies=1.5000000000000002), method) is None


@pytest.mark.parametrize("method", ["cp-beaumont", "exact-beaumont"])
@pytest.mark.parametrize("size", [17, 1000, 10**9, 10**12, 123456789.25])
def test_a_byte_too_much_is_too_much(method: str, size: float) -> None:
    problem = TENTHS.replace(activations=(size, 1, 0, 0, 0), memory_bytes=size + 1)
    assert shortest(problem, method) == 4
    assert shortest(problem.replace(memory_bytes=size + 0.5), method) is None


def test_heuristics_take_what_fits_exactly_and_nothing_more() -> None:
    plan = best_contiguous(TENTHS)
    assert plan is not None
    assert verify_pattern(TENTHS, plan) == ()
    assert best_contiguous(TENTHS.replace(memory_bytes=0.29999999999999993)) is None
    for planner in ("pipedream-eager", "gpipe", "sync-1f1b", "contiguous"):
        assert solve(TENTHS, planner=planner).objective == 4


@pytest.mark.parametrize("name", ["ilp-beaumont", "cp-beaumont"])
def test_a_refused_pattern_can_be_cut_off_and_no_other_one_is(name: str) -> None:
    """Sizes of more digits than a model holds: the pattern that the referee refuses breaks the row, others keep it."""
    problem = random_chain(1).replace(weights=(0.1234567890123456, 1e9 / 3), memory_bytes=2e9, gpus=2)
    formulation = FORMULATIONS[name].load()
    options = {spec.name: spec.default for spec in FORMULATIONS[name].options}
    built = formulation.build(problem, options, native=name == "cp-beaumont")
    assert isinstance(built, BuiltModel)
    assert built.exclude is not None
    plans = [solve(problem, planner="exact-beaumont", options={"allocation": a}).plan for a in ("0,1", "0,0")]
    for refused in plans:
        (row,) = built.exclude(refused)
        assert row.upper == math.inf
        for plan in plans:
            values = built.encode(plan)
            assert values is not None
            held = sum(sign * values[column] for column, sign in row.coefficients.items())
            assert (held < row.lower) == (plan == refused)


# ---- forbidden by a number ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cp-beaumont", "exact-beaumont"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("forbidden", [1e6, 1e9, 1e12, 1e16])
def test_a_transfer_of_endless_time_is_as_good_as_none(seed: int, method: str, forbidden: float) -> None:
    """So long a transfer is in no good plan, and what it is worth changes nothing."""
    problem = random_chain(seed)

    def forbidding(time: float) -> ChainProblem:
        return problem.replace(transfer_times=(time, *problem.edge_times[1:]))

    longest = sum(problem.durations) + sum(problem.edge_times)
    assert shortest(forbidding(forbidden), method) == shortest(forbidding(longest + 1), method)


def test_what_no_solver_with_tolerances_can_see_is_said() -> None:
    problem = random_chain(1)
    forbidding = problem.replace(transfer_times=(1e9, *problem.edge_times[1:]))
    with pytest.raises(
        InputError, match=r"between 2 and 1e\+09, too far apart .* choose cp-beaumont or exact-beaumont"
    ):
        solve(forbidding, formulation="ilp-beaumont")
    near = solve(problem.replace(transfer_times=(1e6, *problem.edge_times[1:])), formulation="ilp-beaumont")
    assert (near.stop, near.objective) == (Stop.PROVEN, shortest(forbidding, "cp-beaumont"))
