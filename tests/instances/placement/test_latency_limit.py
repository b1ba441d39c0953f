"""The rule `latency-limit`: what one sample takes, against what it may."""

from __future__ import annotations

import pytest

from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.rules import LatencyRules, LimitedRules, ThroughputRules, rules_of


def row(times: tuple[float, ...] = (1.0, 2.0)) -> PlacementProblem:
    """Nodes in a row, without transfers."""
    nodes = tuple(Node(i, time, time, 0.0) for i, time in enumerate(times))
    edges = tuple((i, i + 1) for i in range(len(times) - 1))
    return PlacementProblem(nodes, edges, 2, 0, time_unit="ms")


SPLIT = PlacementPlan((Device("acc0", "accelerator", (0,)), Device("acc1", "accelerator", (1,))))


def broken(problem: PlacementProblem, plan: PlacementPlan, limit: float, pieces: int | None = None) -> list[str]:
    rules = LimitedRules(contiguity="none", latency_limit=limit, subgraphs_per_device=pieces)
    return [violation.rule for violation in rules.violations(problem, plan)]


def test_a_violation_names_both_times() -> None:
    (violation,) = LimitedRules(latency_limit=2.5).violations(row(), SPLIT)
    assert (violation.rule, violation.message) == ("latency-limit", "One sample takes 3.0 ms, the limit is 2.5 ms.")


def test_the_limit_itself_is_within_and_so_is_a_sum_that_rounding_put_above_it() -> None:
    assert broken(row(), SPLIT, 3.0) == []
    tenths = row((0.1, 0.2))
    assert 0.1 + 0.2 > 0.3
    assert broken(tenths, SPLIT, 0.3) == []
    assert broken(tenths, SPLIT, 0.3 - 1e-6) == ["latency-limit"]


def test_pieces_count_as_for_latency() -> None:
    problem = row((1.0, 1.0, 1.0))
    plan = PlacementPlan((Device("acc0", "accelerator", (0, 2)), Device("acc1", "accelerator", (1,))))
    assert broken(problem, plan, 3.0) == []
    assert broken(problem, plan, 3.0, pieces=2) == []
    assert broken(problem, plan, 3.0, pieces=1) == ["subgraphs"]


def test_rules_of_throughput_hold_as_well() -> None:
    problem = row()
    nowhere = PlacementPlan((Device("acc0", "accelerator", (0,)),))
    assert broken(problem, nowhere, 0.5) == ["assignment"]
    backwards = PlacementPlan((Device("acc0", "accelerator", (0, 2)), Device("acc1", "accelerator", (1,))))
    found = LimitedRules(latency_limit=9.0).violations(row((1.0, 1.0, 1.0)), backwards)
    assert "contiguity-chain" in [violation.rule for violation in found]


def test_options_and_rules_are_two_forms_of_the_same() -> None:
    problem = load_packaged("tiny-chain")
    for rules in (ThroughputRules(), LimitedRules(latency_limit=7.0, subgraphs_per_device=2), LatencyRules(3)):
        assert rules_of(problem, rules.to_options()) == rules


@pytest.mark.parametrize("nonsense", ["7", True, None, [7]])
def test_a_limit_that_is_no_number_is_none(nonsense: object) -> None:
    assert rules_of(load_packaged("tiny-chain"), {"latency_limit": nonsense}) == ThroughputRules()
