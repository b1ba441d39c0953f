"""The best throughput within a limit on the latency: against enumeration, and at its edges."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles.limited_latency import best_load, tradeoffs
from problems.nasty import nasty, scaled
from problems.placements import random_placement

from pipeplan.formulations.contract import NativeOnlyError
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.base.result import Result, Stop
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.referee.latency import evaluate_latency
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.run.solve import solve

FAMILIES = ((True, 1), (False, 1), (False, 2))
"""Contiguous or not, and pieces per accelerator."""


def limited(problem: PlacementProblem, limit: Any, contiguous: bool = True, pieces: int = 1, **more: Any) -> Result:
    options = {"latency_limit": limit, "non_contiguous": not contiguous, "subgraphs_per_device": pieces}
    return solve(problem, options=options, limits=SolveOptions(threads=1), **more)


def agrees(
    problem: PlacementProblem, limit: float, contiguous: bool, pieces: int, warm_start: Any = "auto"
) -> None:
    """The answer is proven, and is what enumeration says; a start may be a better plan of another family."""
    best = best_load(problem, limit, pieces, contiguous)
    result = limited(problem, limit, contiguous, pieces, warm_start=warm_start).own_answer
    if best is None:
        assert result.stop == Stop.INFEASIBLE, result.messages
        return
    assert result.stop == Stop.PROVEN, result.messages
    assert result.objective == pytest.approx(best, rel=1e-6, abs=1e-9)
    latency = evaluate_latency(problem, result.plan).latency  # type: ignore[arg-type]
    assert latency is not None
    assert latency <= limit * (1 + 1e-9)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000), st.sampled_from(FAMILIES), st.floats(0, 1), st.booleans())
def test_the_best_load_within_a_limit_is_that_of_enumeration(
    seed: int, family: tuple[bool, int], place: float, starts: bool
) -> None:
    """Limits are latencies of plans on the curve, where a plan is just within, and others that are below one by more
    than models round."""
    problem = random_placement(seed, 5, training=False)
    curve = tradeoffs(problem, family[1], family[0]) or ((5.0, 0.0),)
    limit = curve[int(place * (len(curve) - 1))][0] * (1 if starts else 0.999 - 0.02 * place)
    if limit > 0:
        agrees(problem, limit, *family, warm_start="auto" if starts else "none")


@pytest.mark.sweeps
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(300, 340))
def test_every_point_of_the_curve_is_found(seed: int, family: tuple[bool, int]) -> None:
    problem = random_placement(seed, 5, training=False)
    for limit, _ in tradeoffs(problem, family[1], family[0]):
        if limit > 0:
            agrees(problem, limit, *family)


@pytest.mark.sweeps
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(500, 540))
def test_proofs_hold_on_nasty_problems(seed: int, family: tuple[bool, int]) -> None:
    """Ties, zeros, sentinels, all magnitudes: what is proven is so, and what is not is not called proven."""
    problem = scaled(nasty("placement", seed), 9 * (seed % 3) - 9, 0)
    curve = () if problem.has_backward or len(problem.nodes) > 5 else tradeoffs(problem, family[1], family[0])
    for limit, _ in curve[:: max(1, len(curve) // 2)]:
        best = best_load(problem, limit, family[1], family[0])
        result = limited(problem, limit, *family) if limit > 0 else None
        if result is None or best is None:
            continue
        assert result.stop not in (Stop.ERROR, Stop.INFEASIBLE), result.messages
        assert result.bound is None or result.bound <= best * (1 + 1e-9) + math.ulp(best)
        if result.stop == Stop.PROVEN:
            assert result.objective == pytest.approx(best, rel=2e-6)


@pytest.mark.parametrize("seed", range(8))
def test_a_limit_that_nobody_feels_changes_nothing(seed: int) -> None:
    problem = random_placement(seed, 6, training=False)
    free = solve(problem, formulation="ip-tarnawski", limits=SolveOptions(threads=1))
    result = limited(problem, 1e9)
    assert (result.stop, result.objective) == (free.stop, pytest.approx(free.objective, rel=2e-6))


@pytest.mark.parametrize("seed", range(8))
def test_below_the_least_latency_there_is_no_plan(seed: int) -> None:
    problem = random_placement(seed, 5, training=False)
    least = solve(problem, options={"objective": "latency"}, limits=SolveOptions(threads=1))
    if least.objective is None or least.objective == 0:
        assert least.stop in (Stop.INFEASIBLE, Stop.PROVEN)
        return
    assert limited(problem, least.objective * (1 - 1e-3), contiguous=False).stop == Stop.INFEASIBLE
    assert limited(problem, least.objective, contiguous=False).stop == Stop.PROVEN


def test_a_limit_alone_chooses_the_formulation_and_is_stored() -> None:
    result = solve("tiny-chain", options={"latency_limit": "17ms"}, limits=SolveOptions(threads=1))
    assert (result.formulation, result.options["latency_limit"]) == ("cp-tarnawski", 17.0)
    assert result.options["contiguity"] == "chain"
    assert result.scope == "contiguous plans: a chain of stages, of latency at most 17.0"


def test_the_limit_may_cost_throughput() -> None:
    """Three devices take 6 and a sample 17 in all; on two of them it pays two transfers less."""
    free = limited(load_packaged("tiny-chain"), 17)
    tight = limited(load_packaged("tiny-chain"), 16.5)
    assert free.objective == pytest.approx(6)
    assert tight.objective is None or tight.objective > 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"latency_limit": "12 parsec"}, "12 parsec"),
        ({"latency_limit": 0}, "above 0"),
        ({"latency_limit": -3.0}, "above 0"),
        ({"latency_limit": math.nan}, "finite"),
        ({"latency_limit": True}, "finite"),
        ({"latency_limit": 9, "subgraphs_per_device": 2}, "--non-contiguous"),
        ({"latency_limit": 9, "non_contiguous": True, "subgraphs_per_device": 0}, "whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, UsageError), match=words):
        solve("tiny-chain", options=options)


def test_a_formulation_for_limits_wants_one() -> None:
    with pytest.raises(UsageError, match="--latency-limit"):
        solve("tiny-chain", formulation="cp-tarnawski")


def test_training_and_other_kinds_have_no_such_limit() -> None:
    with pytest.raises(UsageError, match="inference"):
        solve("resnet50-training", options={"latency_limit": 9})
    with pytest.raises(UsageError, match="is for placement problems"):
        solve("tiny-stages", options={"latency_limit": 9})


def test_a_limit_with_a_unit_needs_a_problem_with_one() -> None:
    problem = load_packaged("tiny-chain").replace(time_unit=None)
    with pytest.raises(InputError, match="unknown"):
        solve(problem, options={"latency_limit": "9ms"})


def test_costs_that_no_plan_within_the_limit_can_pay_are_no_trouble() -> None:
    """Written as "forbidden", they are farther from the others than whole numbers reach."""
    nodes = (Node("a", 1e18, 2.0, 0.0, 1e18), Node("b", 3.0, 1e25, 0.0))
    problem = PlacementProblem(nodes, (("a", "b"),), 2, 1)
    assert limited(problem, 10.0).stop == Stop.INFEASIBLE
    assert limited(problem, 2e18).objective == pytest.approx(1e18)


def test_other_solvers_are_told_that_the_model_is_for_cp_sat() -> None:
    with pytest.raises(NativeOnlyError):
        limited(load_packaged("tiny-chain"), 20, solver="highs")
