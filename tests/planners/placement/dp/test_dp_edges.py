"""The dynamic program at the edges of arithmetic: memory to the last digit, and costs that mean "forbidden"."""

from __future__ import annotations

import math
from typing import Any

import pytest
from problems.nasty import nasty
from problems.placements import optimum

from pipeplan.instances.base.result import Result, Stop
from pipeplan.instances.placement.problem import AcceleratorType, Level, Node, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.placement.dp import planner as dp
from pipeplan.planners.placement.dp.magnitudes import within
from pipeplan.planners.placement.dp.model import build
from pipeplan.planners.run.solve import solve


def plan(problem: PlacementProblem, **options: Any) -> Result:
    return solve(problem, planner="dp", options=options, limits=SolveOptions(threads=1))


@pytest.fixture(params=["dense", "pruned"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pruned":
        monkeypatch.setattr(dp, "SMALL_IDEALS", 0)
    return str(request.param)


def chain(*times: tuple[float, float], supported: tuple[bool, ...] = ()) -> PlacementProblem:
    """Nodes with times on accelerators and CPUs, one after the other, on two accelerators and a CPU."""
    flags = supported or (True,) * len(times)
    nodes = tuple(Node(i, *pair, supported=ok) for i, (pair, ok) in enumerate(zip(times, flags, strict=True)))
    return PlacementProblem(nodes, tuple((i, i + 1) for i in range(len(times) - 1)), 2, 1)


@pytest.mark.sweeps
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("forbidden", [1e6, 1e9, 1e12, 1e16, 1e30, 1e100])
def test_a_time_that_means_forbidden_costs_no_digit(forbidden: float) -> None:
    """Differences of sums with 1e16 in them do not see a second: 3.8 used to be called optimal."""
    result = plan(chain((2.0, forbidden), (1.3, 1.0), (2.7, 1.5), (1.1, forbidden)))
    assert (result.stop, result.objective, result.bound) == (Stop.PROVEN, 2.5, 2.5)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("forbidden", [1e12, 1e30])
def test_the_time_of_a_node_that_is_not_supported_means_nothing(forbidden: float) -> None:
    problem = chain((forbidden, 1.0), (1.3, 100.0), (2.7, 100.0), (1.1, 100.0), supported=(False, True, True, True))
    result = plan(problem)
    assert result.stop == Stop.PROVEN, result.messages
    assert result.objective == pytest.approx(3.8)


@pytest.mark.usefixtures("way")
def test_a_transfer_that_means_together_costs_no_digit() -> None:
    nodes = tuple(
        Node(i, time, 50.0, transfer_time=moved) for i, (time, moved) in enumerate([(1.3, 1e16), (1.1, 0.1)])
    )
    problem = PlacementProblem((*nodes, Node(2, 2.0, 50.0)), ((0, 1), (1, 2)), 2, 0)
    result = plan(problem)
    assert (result.stop, result.objective) == (Stop.PROVEN, optimum(problem))
    assert result.objective == pytest.approx(2.5)


@pytest.mark.usefixtures("way")
def test_what_means_forbidden_is_taken_where_nothing_else_is_possible() -> None:
    """Two nodes must be on a CPU at 1e12 each; the third keeps away from them."""
    problem = chain((1.0, 1e12), (1.0, 1e12), (2.0, 0.5), supported=(False, False, True))
    result = plan(problem)
    assert (result.stop, result.objective) == (Stop.PROVEN, 2e12)


def test_forbidden_weights_keep_replicas_apart() -> None:
    """Replicas synchronise weights: a weight of 1e18 makes a stage single, the others are still shared out."""
    nodes = (Node(0, 4.0, 1.0, weight_bytes=1e18), Node(1, 4.0, 1.0, weight_bytes=0.0))
    problem = PlacementProblem(nodes, ((0, 1),), 3, 0, levels=(Level(3, sync_bandwidth=1.0),))
    result = plan(problem)
    assert (result.stop, result.objective) == (Stop.PROVEN, 4.0)


def test_forbidden_on_another_type() -> None:
    nodes = (Node(0, 1e15, 1.0, other_times=(2.0,)), Node(1, 1.5, 1.0, other_times=(1e15,)))
    problem = PlacementProblem(nodes, ((0, 1),), 1, 0, other_types=(AcceleratorType("old", 1),))
    result = plan(problem)
    assert (result.stop, result.objective) == (Stop.PROVEN, 2.0)


@pytest.mark.parametrize("seed", range(20))
def test_a_model_within_a_limit_keeps_the_values_of_all_plans_within_it(seed: int) -> None:
    problem = nasty("placement", seed)
    value = optimum(problem)
    if value is None or not value:
        return
    model = build(problem)
    near = within(model, (), value)
    assert max((cost for _, cost, _ in near.nets), default=0.0) <= 2 * value
    for kind, old in zip(near.kinds, model.kinds, strict=True):
        for g in range(model.count):
            assert kind.supported[g] == (old.supported[g] and old.work[g] <= value)
            assert not kind.supported[g] or kind.work[g] == old.work[g]


# ---- memory ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("over", [1, 17, 1000])
def test_a_byte_too_much_is_too_much(over: int) -> None:
    nodes = (Node("a", 1.0, 9.0, 2**33, 5.0), Node("b", 1.0, 9.0, 2**33 + over))
    problem = PlacementProblem(nodes, (("a", "b"),), 2, 0, 2**34)
    assert (plan(problem).stop, plan(problem).objective) == (Stop.PROVEN, 6.0)
    assert plan(problem.replace(memory_bytes=2**34 + over)).objective == 2.0


@pytest.mark.usefixtures("way")
def test_a_tenth_and_two_tenths_fit_into_three_tenths() -> None:
    """A class of two nodes: the sum of floats is above 0.3, the sum of decimals is not."""
    nodes = tuple(Node(i, 1.0, 100.0, size, color=7) for i, size in enumerate((0.1, 0.2)))
    result = plan(PlacementProblem(nodes, (), 1, 1, 0.3))
    assert (result.stop, result.objective, result.bound) == (Stop.PROVEN, 2.0, 2.0)


@pytest.mark.parametrize(
    "seeds", [range(start, 240, 8) for start in range(8)], ids=lambda seeds: f"{seeds[0]} mod 8"
)
def test_equals_brute_force_at_the_edges(seeds: range, way: str) -> None:
    for seed in seeds:
        problem = nasty("placement", seed)
        result, value = plan(problem), optimum(problem)
        rounded = way == "pruned" and not problem.whole_sizes.exact
        if value is None:
            assert result.stop == Stop.INFEASIBLE or rounded
            continue
        if (
            rounded and result.stop == Stop.COMPLETED
        ):  # rounded sizes let a plan through; the bound holds nevertheless
            assert any("too many digits" in message for message in result.messages)
            assert result.bound is not None
            assert result.bound <= value * (1 + 1e-9)
            assert result.objective is None or result.objective >= value * (1 - 1e-9)
            continue
        assert result.stop == Stop.PROVEN, (seed, result.messages)
        assert result.objective == pytest.approx(value, rel=1e-9)
        assert result.bound == pytest.approx(value, rel=1e-9)


SEVENTEEN_DIGITS = PlacementProblem(
    nodes=tuple(
        Node(i, 1.0, 9.0, size, transfer_time=0.5 * (i < 2))
        for i, size in enumerate((0.12345678901234567, 98765.43210987654, 33333.333333333336))
    ),
    edges=((0, 1), (1, 2)),
    accelerators=2,
    cpus=1,
    memory_bytes=math.nextafter(0.12345678901234567 + 98765.43210987654, 0),
)


def test_a_plan_that_exceeds_the_memory_by_a_hair_is_replaced_and_its_bound_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rounded sizes of the pruned program let a plan through; the plan that is offered instead is no optimum."""
    truth = optimum(SEVENTEEN_DIGITS)
    assert truth is not None
    assert not SEVENTEEN_DIGITS.whole_sizes.exact
    exact = plan(SEVENTEEN_DIGITS)
    assert (exact.stop, exact.objective) == (Stop.PROVEN, truth)
    monkeypatch.setattr(dp, "SMALL_IDEALS", 0)
    result = plan(SEVENTEEN_DIGITS)
    assert result.plan is not None
    assert not verify(SEVENTEEN_DIGITS, result.plan, contiguity="chain")
    assert result.objective == evaluate(SEVENTEEN_DIGITS, result.plan).max_load
    assert result.bound is not None
    assert (result.stop, result.objective) == (Stop.COMPLETED, truth)
    assert result.bound < truth
    assert any("too many digits" in message for message in result.messages)


@pytest.mark.usefixtures("way")
def test_a_value_of_nothing_is_proven_next_to_costs() -> None:
    """Every node costs nothing where it should be; what it costs elsewhere must not blur that."""
    result = plan(chain((0.0, 1.3), (1.7, 0.0), (0.0, 1e9)))
    assert (result.stop, result.objective, result.bound) == (Stop.PROVEN, 0.0, 0.0)
