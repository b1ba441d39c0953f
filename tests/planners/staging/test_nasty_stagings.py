"""Numbers that trouble arithmetic, one fault at a time: memory met to the last digit, forbidding amounts.

`tests/test_proofs.py` holds every method against enumeration on such problems, in all units.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from oracles.staging import best_stages

from pipeplan import Found, Result, SolveOptions, Stop, solve
from pipeplan.instances.staging.problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.planners.staging import model as tables
from pipeplan.planners.staging.costs import ROUNDED_MEMORY

LIMITS = SolveOptions(threads=1)


def plan(problem: StagingProblem, **options: Any) -> Result:
    return solve(problem, planner="dp-piper", options=options, limits=LIMITS)


def check(problem: StagingProblem, near: float) -> None:
    """Proven, and as good as the best of all plans, but for this relative difference."""
    best, result = best_stages(problem), plan(problem)
    assert (result.stop, result.objective) == (Stop.PROVEN, pytest.approx(best[0], rel=near))


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
    check(problem, 1e-12)


@pytest.mark.parametrize("weight", [1e12, 1e16])
def test_weights_that_must_not_be_copied_leave_the_others_their_digits(weight: float) -> None:
    layers = tuple(
        Layer(v, {1: (Configuration("only", time, weight_bytes=of),)})
        for v, (time, of) in enumerate([(6.1, 0.7), (5.3, 1.9), (0.2, weight)])
    )
    problem = StagingProblem(layers, tuple(Edge(v, v + 1, 0.1) for v in range(2)), 5, 1.0, 5)
    check(problem, 1e-12)


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
    check(problem, 1e-9)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("semantics", ["paper", "reference"])
def test_layers_that_need_more_devices_than_there_are(method: dict[str, Any], semantics: str) -> None:
    layers = (Layer("a", {2: (Configuration("c", 1.0),)}), Layer("b", {1: (Configuration("c", 1.0),), 3: ()}))
    for some, memory in product((layers, layers[:1]), (None, 1.0)):
        problem = StagingProblem(some, (), 1, 1.0, 1, memory_bytes=memory)
        result = solve(problem, limits=LIMITS, options={"semantics": semantics}, **method)
        assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING), result.messages
        wanted = "layer 'a' needs at least 2 devices, and the problem has 1; give more devices"
        assert result.messages[-1] == wanted


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_layers_that_fit_no_memory(method: dict[str, Any]) -> None:
    sizes = {"a": 0.3, "b": 0.0}
    layers = tuple(Layer(v, {1: (Configuration("c", 1.0, memory_fixed=size),)}) for v, size in sizes.items())
    result = solve(StagingProblem(layers, (), 2, 1.0, 2, memory_bytes=0.2), limits=LIMITS, **method)
    assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING)
    assert result.messages[-1] == "layer 'a' alone needs 0.3 bytes of each device that it runs on"
