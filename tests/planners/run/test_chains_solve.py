"""The way from a chain to a result: the same as for placements, without what only placements have."""

from __future__ import annotations

from typing import Any

import pytest
from known_chains import figure_5

from pipeplan import ChainProblem, InputError, PatternPlan, PlacementPlan, StartOutcome, Stop, UsageError, solve
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.chain.referee import evaluate_pattern

FIGURE_5 = figure_5().problem
CHAIN_FORMULATIONS = [name for name, entry in FORMULATIONS.items() if entry.problem_kind == "chain"]


def test_a_chain_is_planned_by_its_best_exact_method_where_none_is_named() -> None:
    result = solve(FIGURE_5)
    assert (result.planner, result.formulation) == ("exact-beaumont", None)
    assert (result.stop, result.objective, result.verified) == (Stop.PROVEN, 5, True)


def test_a_named_solver_asks_for_a_formulation() -> None:
    result = solve(FIGURE_5, solver="highs")
    assert (result.planner, result.formulation, result.objective) == ("exact", "ilp-beaumont", 5)


@pytest.mark.parametrize("name", CHAIN_FORMULATIONS)
def test_a_good_start_is_kept_and_told(name: str) -> None:
    best = solve(FIGURE_5).plan
    result = solve(FIGURE_5, formulation=name, warm_start=best)
    assert (result.warm_start.outcome, result.warm_start.value, result.warm_start.source) == (
        StartOutcome.ACCEPTED,
        5,
        "user",
    )
    assert (result.stop, result.objective) == (Stop.PROVEN, 5)


def test_a_plan_of_another_kind_is_no_start() -> None:
    result = solve(FIGURE_5, formulation="cp-beaumont", warm_start=PlacementPlan(()))
    assert result.warm_start.outcome == StartOutcome.REJECTED
    assert any("PlacementPlan" in text for text in result.messages)
    assert result.objective == 5


def test_several_batches_are_valued_per_batch() -> None:
    result = solve(FIGURE_5, formulation="cp-beaumont", options={"batches_per_period": 2})
    assert isinstance(result.plan, PatternPlan)
    assert (result.plan.period, result.objective, result.bound) == (8, 4, 4)
    assert evaluate_pattern(FIGURE_5, result.plan).period_per_batch == 4
    again = solve(FIGURE_5, formulation="cp-beaumont", options={"batches_per_period": 2}, warm_start=result.plan)
    assert (again.warm_start.outcome, again.objective) == (StartOutcome.ACCEPTED, 4)


@pytest.mark.parametrize(("problem", "asked", "error", "words"), [
    (FIGURE_5, {"formulation": "cp-beaumont", "solver": "highs"}, UsageError, "CP-SAT"),
    (FIGURE_5, {"formulation": "cp-beaumont", "options": {"batches_per_period": 0}}, InputError, "from 1 to"),
    (FIGURE_5.replace(exclusive_buffers=True), {"formulation": "cp-beaumont", "options": {"batches_per_period": 2}},
     UsageError, "exclusive buffers"),
    (FIGURE_5.replace(exclusive_buffers=True), {"formulation": "ilp-beaumont", "options": {"variant": "printed"}},
     UsageError, "corrected"),
    (FIGURE_5.replace(memory_mode="strict"), {"formulation": "ilp-beaumont"}, InputError, "reserved"),
    (FIGURE_5.replace(memory_mode="strict"), {"formulation": "cp-beaumont"}, InputError, "reserved"),
    (FIGURE_5.replace(memory_mode="strict"), {"planner": "exact-beaumont"}, InputError, "exclusive buffers"),
    (FIGURE_5.replace(forward=(0, 0, 0), backward=(0, 0, 0)), {"formulation": "cp-beaumont"}, InputError,
     "at least one task"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused_with_a_remedy(
    problem: ChainProblem, asked: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        solve(problem, **asked)
