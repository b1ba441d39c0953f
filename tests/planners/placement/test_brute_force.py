"""Brute force, the ground truth: held against an enumeration that leaves everything to the referee."""

from __future__ import annotations

from typing import Any

import pytest

from pipeplan import InputError, Node, Outcome, PlacementProblem, Request, SolveOptions, Stop
from pipeplan.planners.placement.brute_force import MAX_PLANS, PLANNER, plan_count


def brute_force(problem: PlacementProblem, **options: Any) -> Outcome:
    return PLANNER.plan(Request(problem, options))


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
