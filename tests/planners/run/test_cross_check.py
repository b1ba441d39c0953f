"""A second exact method: agreement is reported, contradicting proofs fail loudly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from problems.placements import random_placement

from pipeplan import generate
from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.base.result import Found, Result, Stop
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.stored_results import result_from_json
from pipeplan.planners.run import cross_check
from pipeplan.planners.run import solve as solving
from pipeplan.planners.run.cross_check import contradiction
from pipeplan.planners.run.solve import solve

PROBLEM = random_placement(5)

FOUND = Result({}, Stop.PROVEN, Found.OPTIMAL, objective=10.0, bound=10.0)
NOTHING = Result({}, Stop.INFEASIBLE, Found.NOTHING)


@pytest.mark.parametrize("options", [{}, {"non_contiguous": True}, {"objective": "gpipe"}])
def test_the_dynamic_program_confirms_the_integer_program(options: dict[str, Any]) -> None:
    result = solve(PROBLEM, formulation="ip-tarnawski", options=options, cross_check=True)
    assert result.stop == Stop.PROVEN
    assert result.cross_check is not None
    assert result.cross_check["planner"] == "dp"
    assert result.cross_check["contradiction"] is None
    if not options.get("non_contiguous"):
        assert result.cross_check["objective"] == pytest.approx(result.objective)
    assert result_from_json(result.to_json()) == result


def test_the_integer_program_confirms_the_dynamic_program() -> None:
    result = solve(PROBLEM, planner="dp", cross_check=True)
    assert result.cross_check is not None
    assert result.cross_check["formulation"] == "ip-tarnawski"
    assert result.cross_check["contradiction"] is None


def test_without_it_the_result_says_nothing() -> None:
    assert solve(PROBLEM, planner="dp").to_json()["cross_check"] is None


@pytest.mark.parametrize(
    ("result", "other", "words"),
    [
        (FOUND, replace(FOUND, objective=9.0, bound=9.0), "the bound 10.0 is above the cross-check's plan"),
        (
            replace(FOUND, bound=None),
            replace(FOUND, objective=11.0, bound=11.0),
            "cross-check's bound 11.0 is above",
        ),
        (FOUND, NOTHING, "the cross-check says infeasible"),
        (NOTHING, FOUND, "the method says infeasible"),
    ],
)
def test_what_contradicts_what(result: Result, other: Result, words: str) -> None:
    assert words in str(contradiction(result, other, same_plans=True))


def test_what_does_not() -> None:
    assert contradiction(FOUND, FOUND, same_plans=True) is None
    assert contradiction(NOTHING, NOTHING, same_plans=True) is None
    # A limit that was hit proves nothing.
    assert contradiction(FOUND, Result({}, Stop.TIME, Found.NOTHING), same_plans=True) is None
    # Without contiguity there may be better plans than any chain, and plans where there is no chain.
    assert contradiction(FOUND, replace(FOUND, objective=11.0, bound=11.0), same_plans=False) is None
    assert contradiction(FOUND, NOTHING, same_plans=False) is None
    # But a chain is a plan there, too.
    assert contradiction(FOUND, replace(FOUND, objective=9.0, bound=9.0), same_plans=False) is not None


def test_contradicting_proofs_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_check, "contradiction", lambda *_, **__: "the sum does not add up")
    result = solving.solve(PROBLEM, planner="dp", cross_check=True)
    assert (result.stop, result.contradicted, result.verified) == (Stop.ERROR, True, True)
    assert result.messages[-1] == "the proofs contradict each other: the sum does not add up"


def test_a_kind_without_a_second_method_is_refused() -> None:
    with pytest.raises(UsageError, match="drop --cross-check"):
        solve(load_packaged("golden-4"), cross_check=True)


def test_schedules_of_given_micro_batches_are_checked_and_those_that_repeat_are_not() -> None:
    problem = generate("pipeline", stages=2, micro_batches=2, limit=10)
    result = solve(problem, options={"objective": "span"}, cross_check=True)
    assert result.cross_check is not None
    assert (result.cross_check["formulation"], result.cross_check["contradiction"]) == ("ilp-zero-bubble", None)
    with pytest.raises(UsageError, match="no cross-check for period"):
        solve(problem, options={"objective": "period"}, cross_check=True)


def test_an_iteration_is_checked_by_the_bound_of_the_model() -> None:
    result = solve(load_packaged("tiny-graph"), cross_check=True)
    assert result.cross_check is not None
    assert result.cross_check["contradiction"] is None
    assert result.cross_check["bound"] == pytest.approx(result.objective)


@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize(
    ("method", "other"),
    [
        ({"planner": "dp-piper"}, {"formulation": "mip-piper"}),
        ({"formulation": "mip-piper"}, {"planner": "dp-piper"}),
        ({"planner": "equi"}, {"planner": "dp-piper"}),
    ],
)
def test_both_exact_methods_of_piper_confirm_each_other(
    method: dict[str, str], other: dict[str, str], semantics: str
) -> None:
    problem = load_packaged("tiny-stages")
    result = solve(problem, **method, options={"semantics": semantics}, cross_check=True)
    assert result.cross_check is not None
    assert other.items() <= result.cross_check.items()
    assert result.cross_check["contradiction"] is None
    if method != {"planner": "equi"}:
        assert result.cross_check["objective"] == pytest.approx(result.objective)


@pytest.mark.parametrize("planner", ["piper-no-dp", "piper-no-tp", "piper-no-ar"])
def test_a_restricted_program_is_not_checked_by_the_program_that_it_is_a_part_of(planner: str) -> None:
    result = solve(load_packaged("tiny-stages"), planner=planner, cross_check=True)
    assert result.cross_check is not None
    assert result.cross_check["formulation"] == "mip-piper"
    assert result.cross_check["contradiction"] is None


@pytest.mark.parametrize(
    "options", [{}, {"micro_batch": 2, "degrees": "none"}, {"mixed_micro_batches": True, "k": 2}]
)
@pytest.mark.parametrize(
    ("method", "other"),
    [
        ({"planner": "graphpipe"}, {"formulation": "cp-graphpipe"}),
        ({"formulation": "cp-graphpipe"}, {"planner": "graphpipe"}),
    ],
)
def test_both_methods_for_stage_graphs_confirm_each_other(
    method: dict[str, str], other: dict[str, str], options: dict[str, Any]
) -> None:
    """With the same micro-batches and devices a stage; the model has any convex stages."""
    question = {"objective": "time-per-sample", **options}
    result = solve(load_packaged("tiny-graph"), **method, options=question, cross_check=True)
    assert result.cross_check is not None
    assert other.items() <= result.cross_check.items()
    assert result.cross_check["contradiction"] is None
    assert result.cross_check["objective"] == pytest.approx(result.objective)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tiny-levels", {}),
        ("tiny-levels", {"hierarchy": "crude"}),
        ("tiny-stages", {"objective": "flush", "semantics": "reference"}),
    ],
)
def test_beyond_the_paper_the_same_question_is_asked_again(name: str, options: dict[str, str]) -> None:
    result = solve(load_packaged(name), planner="dp-piper", options=options, cross_check=True)
    assert result.cross_check is not None
    assert (result.cross_check["formulation"], result.cross_check["contradiction"]) == ("mip-piper", None)
    assert result.cross_check["objective"] == result.objective
