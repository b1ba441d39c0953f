"""Brute force, the ground truth: held against an enumeration that leaves everything to the referee."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from problems.placements import random_placement

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Stop
from pipeplan.instances.placement.plan import PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.planners.contract import Outcome, Request
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.placement.brute_force import MAX_PLANS, PLANNER, plan_count


def brute_force(problem: PlacementProblem, **options: Any) -> Outcome:
    return PLANNER.plan(Request(problem, options))


def best_by_the_referee(problem: PlacementProblem, objective: str, contiguity: str) -> float | None:
    """The least value of all assignments of nodes, each judged by the referee alone."""
    devices = range(problem.accelerators + problem.cpus)
    values = []
    for choice in itertools.product(devices, repeat=len(problem.nodes)):
        plan = PlacementPlan.from_assignment(problem, dict(zip((n.id for n in problem.nodes), choice, strict=True)))
        if not verify(problem, plan, contiguity=contiguity):
            values.append(evaluate(problem, plan).objective(objective))
    return min(values, default=None)


OPTIONS_OF = {"chain": {}, "device": {"device_contiguity": True}, "none": {"non_contiguous": True}}


@pytest.mark.parametrize("contiguity", OPTIONS_OF)
@pytest.mark.parametrize("objective", ["max-load", "gpipe"])
@pytest.mark.parametrize("seed", range(12))
def test_no_assignment_is_better(seed: int, objective: str, contiguity: str) -> None:
    problem = random_placement(seed, layers=3 if seed % 2 else 4, training=bool(seed % 2))
    outcome = brute_force(problem, objective=objective, **OPTIONS_OF[contiguity])
    truth = best_by_the_referee(problem, objective, contiguity)
    assert outcome.claimed == truth
    assert outcome.stop == (Stop.INFEASIBLE if truth is None else Stop.PROVEN)
    if outcome.plan is not None:
        assert not verify(problem, outcome.plan, contiguity=contiguity)
        assert outcome.bound == truth


def test_devices_in_a_circle_are_no_chain() -> None:
    """Chains a -> b and c -> d; the even split {a, d}, {b, c} is contiguous device by device only."""
    nodes = tuple(Node(name, work, 99) for name, work in (("a", 5), ("b", 4), ("c", 2), ("d", 1)))
    problem = PlacementProblem(nodes, (("a", "b"), ("c", "d")), accelerators=2, cpus=0)
    assert brute_force(problem, device_contiguity=True).claimed == 6
    assert brute_force(problem).claimed == 7


def test_identical_devices_are_counted_once() -> None:
    """Ways to spread 3 groups over at most 2 alike devices, over 1 + 1 different ones, over many."""
    assert plan_count(3, 2, 0) == 4
    assert plan_count(3, 1, 1) == 8
    assert plan_count(3, 9, 0) == 5
    assert plan_count(12, 3, 1) < MAX_PLANS < plan_count(40, 3, 1)


def test_large_problems_are_refused_with_the_limit() -> None:
    problem = PlacementProblem(tuple(Node(i, 1, 1) for i in range(40)), (), accelerators=3, cpus=1)
    with pytest.raises(InputError, match=f"40 groups on 4 devices.*{MAX_PLANS} plans"):
        brute_force(problem)


def test_a_time_limit_ends_it_with_what_it_has() -> None:
    problem = PlacementProblem(tuple(Node(i, 1 + i, 1) for i in range(11)), (), accelerators=4, cpus=0)
    outcome = PLANNER.plan(Request(problem, limits=SolveOptions(time_limit_s=0.0)))
    assert outcome.stop == Stop.TIME
    assert outcome.bound is None
