"""Numbers that trouble arithmetic: memory met to the last digit, forbidding amounts, units from 1e-9 to 1e9.

Each problem is planned by enumeration once, in units as they are; in other units the value and the bound are the same
numbers with the point moved, and nothing else changes.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from oracles.leveled_staging import best_leveled
from oracles.staging import best_stages
from problems.nasty import in_fifteen_digits, nasty, scaled

from pipeplan.instances.base.result import Found, Result, Stop
from pipeplan.instances.staging.problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.run.solve import solve
from pipeplan.planners.staging import model as tables
from pipeplan.planners.staging.costs import ROUNDED_MEMORY

UNITS = ((0, 0), (-9, 0), (9, 9), (0, -9), (-6, 6))
"""Powers of ten for times and for memory."""

LIMITS = SolveOptions(threads=1)


def plan(problem: StagingProblem, **options: Any) -> Result:
    return solve(problem, planner="dp-piper", options=options, limits=LIMITS)


def value(best: tuple[float, Any] | None) -> float | None:
    return None if best is None else best[0]


def check(problem: StagingProblem, expected: float | None, **options: Any) -> None:
    """In all units: proven, or where memory has too many digits for that a bound below and a plan above."""
    for time, memory in UNITS:
        result, unit = plan(scaled(problem, time, memory), **options), 10.0**time
        if ROUNDED_MEMORY in result.messages:
            least = math.inf if expected is None else expected * unit
            assert result.bound is not None
            assert result.bound <= least * (1 + 1e-9)
            assert result.objective is None or result.objective >= least * (1 - 1e-9)
        elif expected is None:
            assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING), (result.messages, time, memory)
        else:
            assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), (result.messages, time, memory)
            assert result.objective == pytest.approx(expected * unit, rel=1e-9, abs=0), (time, memory)
            assert result.bound == pytest.approx(expected * unit, rel=1e-9, abs=0)


@pytest.mark.parametrize("seeds", range(10))
def test_dp_piper_in_all_units(seeds: int) -> None:
    for seed in range(seeds, 150, 10):
        semantics = ("paper", "reference")[seed % 2]
        problem = in_fifteen_digits(nasty("staging", seed))
        check(problem, value(best_stages(problem, semantics)), semantics=semantics)


@pytest.mark.sweeps
def test_compiled_loops_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "COMPILED_FROM", 0)
    for seed in range(1000, 1040):
        problem = in_fifteen_digits(nasty("staging", seed))
        check(problem, value(best_stages(problem)))


@pytest.mark.parametrize("seeds", range(4))
def test_devices_of_two_types_in_all_units(seeds: int) -> None:
    for seed in range(seeds, 40, 4):
        problem = in_fifteen_digits(nasty("types", seed))
        check(problem, value(best_stages(problem)))


@pytest.mark.parametrize("seeds", range(2))
def test_flushes_in_all_units(seeds: int) -> None:
    for seed in range(seeds, 24, 2):
        problem = in_fifteen_digits(nasty("staging", seed, most_layers=3)).replace(exact_batches=False)
        check(problem, value(best_stages(problem, flush=True)), objective="flush")


@pytest.mark.parametrize("hierarchy", ["precise", "crude", "basic"])
@pytest.mark.parametrize("seeds", range(3))
def test_levels_in_all_units(seeds: int, hierarchy: str) -> None:
    for seed in range(seeds, 30, 3):
        problem = in_fifteen_digits(nasty("levels", seed, most_devices=3))  # four take long to enumerate
        problem = problem if hierarchy == "precise" else problem.replace(exact_batches=False)
        check(problem, value(best_leveled(problem, hierarchy)), hierarchy=hierarchy)


# ---- one fault at a time -----------------------------------------------------------------------------------


def two_layers(amounts: tuple[float, float], memory: float | None, **changes: Any) -> StagingProblem:
    """Each layer is fast and holds so much, or slow and holds nothing; there is one device."""
    layers = tuple(
        Layer(name, {1: (Configuration("fast", 1.0, memory_fixed=amount), Configuration("lean", 3.0))})
        for name, amount in zip("ab", amounts, strict=True)
    )
    return StagingProblem(layers, (), 1, 1.0, 1, **{"memory_bytes": memory, **changes})


METHODS: list[dict[str, Any]] = [
    {"planner": "dp-piper"},
    {"formulation": "mip-piper", "solver": "cp-sat"},
    {"formulation": "mip-piper", "solver": "highs"},
]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize(
    ("amounts", "memory", "best"),
    [((0.1, 0.2), 0.3, 2.0), ((0.1, 0.2), 0.29999, 4.0), ((17.0, 17.0), 34.0, 2.0), ((17.0, 17.0), 33.0, 4.0)],
)
def test_memory_is_met_to_the_last_digit(
    method: dict[str, Any], amounts: tuple[float, float], memory: float, best: float
) -> None:
    """As floats 0.1 and 0.2 are more than 0.3."""
    result = solve(two_layers(amounts, memory), warm_start="none", limits=LIMITS, **method)
    assert (result.stop, result.objective) == (Stop.PROVEN, pytest.approx(best, rel=1e-6)), result.messages


def test_memory_is_met_to_the_last_digit_on_types_and_levels() -> None:
    flat = two_layers((0.1, 0.2), None)
    typed = flat.replace(device_types=(DeviceType("only", 1, 1.0, 0.3),))
    leveled = flat.replace(memory_bytes=0.3, levels=(StagingLevel(1, 1.0), StagingLevel(1, 1.0)))
    assert [plan(problem).objective for problem in (typed, leveled)] == [2.0, 2.0]


ROUNDED = [
    {},
    {"device_types": (DeviceType("only", 1, 1.0, 1e16),), "memory_bytes": None},
    {"levels": (StagingLevel(1, 1.0), StagingLevel(1, 1.0))},
]


@pytest.mark.parametrize("changes", ROUNDED, ids=["flat", "types", "levels"])
def test_more_digits_than_are_counted_cost_the_proof_and_not_the_plan(changes: dict[str, Any]) -> None:
    """1e16 and a billionth: in whole numbers that floats add up exactly the billionth is nothing."""
    result = plan(two_layers((1e16, 1e-9), 1e16, **changes))
    assert (result.found, result.objective) == (Found.FEASIBLE, 4.0)
    assert (result.bound, result.messages) == (2.0, (ROUNDED_MEMORY,))


def test_where_nothing_fits_but_in_rounded_numbers_there_is_no_plan_and_no_proof() -> None:
    ways = [{1: (Configuration("only", 1.0, memory_fixed=amount),)} for amount in (1e16, 1e-9)]
    layers = tuple(Layer(v, of) for v, of in enumerate(ways))
    result = plan(StagingProblem(layers, (), 1, 1.0, 1, memory_bytes=1e16))
    assert (result.stop, result.found, result.messages) == (Stop.COMPLETED, Found.NOTHING, (ROUNDED_MEMORY,))


def test_a_forbidden_degree_leaves_the_others_their_digits() -> None:
    """Sums over all layers hold 1e16, differences of them have lost everything below 2."""
    times = [1.1, 0.7, 3.8, 2.5, 1e16]
    layers = [Layer(v, {1: (Configuration("alone", time),)}) for v, time in enumerate(times)]
    layers[-1] = Layer(4, {**layers[-1].configurations, 2: (Configuration("shared", 0.4),)})
    edges = tuple(Edge(v, v + 1, 0.3) for v in range(len(times) - 1))
    problem = StagingProblem(tuple(layers), edges, 5, 1.0, 3)
    best = best_stages(problem)
    assert best is not None
    result = plan(problem)
    assert (result.stop, result.objective) == (Stop.PROVEN, pytest.approx(best[0], rel=1e-12))


@pytest.mark.parametrize("weight", [1e12, 1e16])
def test_weights_that_must_not_be_copied_leave_the_others_their_digits(weight: float) -> None:
    layers = tuple(
        Layer(v, {1: (Configuration("only", time, weight_bytes=of),)})
        for v, (time, of) in enumerate([(6.1, 0.7), (5.3, 1.9), (0.2, weight)])
    )
    problem = StagingProblem(layers, tuple(Edge(v, v + 1, 0.1) for v in range(2)), 5, 1.0, 5)
    best = best_stages(problem)
    assert best is not None
    assert plan(problem).objective == pytest.approx(best[0], rel=1e-12)


@pytest.mark.parametrize(("short", "long"), [(1e-9, 1e12), (1.0, 1e18), (1.0, 1e19), (1e-9, 1e16), (0.0, 1e20)])
@pytest.mark.parametrize("plain", [True, False])
def test_times_far_apart_do_not_overflow(
    short: float, long: float, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many devices a stage needs within a limit that is far too small is no whole number of 64 bits."""
    monkeypatch.setattr(tables, "COMPILED_FROM", 10**9 if plain else 0)
    layers = tuple(
        Layer(v, {1: (Configuration("x", long),), 2: (Configuration("y", short), Configuration("z", 2.0))})
        for v in range(3)
    )
    problem = StagingProblem(layers, (Edge(0, 1, long), Edge(1, 2, 0.1)), 4, 1.0, 3)
    best = best_stages(problem)
    assert best is not None
    result = plan(problem)
    assert (result.stop, result.objective) == (Stop.PROVEN, pytest.approx(best[0], rel=1e-9))


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("semantics", ["paper", "reference"])
def test_layers_that_need_more_devices_than_there_are(method: dict[str, Any], exact: bool, semantics: str) -> None:
    layers = (Layer("a", {2: (Configuration("c", 1.0),)}), Layer("b", {1: (Configuration("c", 1.0),), 3: ()}))
    options = {**method.get("options", {}), "semantics": semantics}
    for some in (layers, layers[:1]):
        for memory in (None, 1.0):
            problem = StagingProblem(some, (), 1, 1.0, 1, memory_bytes=memory, exact_batches=exact)
            result = solve(problem, limits=LIMITS, **{**method, "options": options})
            assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING), result.messages
            wanted = "layer 'a' needs at least 2 devices, and the problem has 1; give more devices"
            assert result.messages[-1] == wanted


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_layers_that_fit_no_memory(method: dict[str, Any]) -> None:
    layers = (
        Layer("a", {1: (Configuration("c", 1.0, memory_fixed=0.3),)}),
        Layer("b", {1: (Configuration("c", 1.0),)}),
    )
    problem = StagingProblem(layers, (), 2, 1.0, 2, memory_bytes=0.2)
    result = solve(problem, limits=LIMITS, **method)
    assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING)
    assert result.messages[-1] == "layer 'a' alone needs 0.3 bytes of each device that it runs on"
