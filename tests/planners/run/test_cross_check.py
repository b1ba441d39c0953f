"""A second exact method: agreement is reported, contradicting proofs fail loudly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from problems.placements import random_placement

from pipeplan import Found, Result, Stop, UsageError, generate, load_packaged
from pipeplan.instances.stored_results import result_from_json
from pipeplan.planners.run import solve as solving
from pipeplan.planners.run.solve import contradiction, solve

PROBLEM = random_placement(5)

FOUND = Result({}, Stop.PROVEN, Found.OPTIMAL, objective=10.0, bound=10.0)
BETTER, WORSE = (replace(FOUND, objective=value, bound=value) for value in (9.0, 11.0))
NOTHING = Result({}, Stop.INFEASIBLE, Found.NOTHING)


IP, DP = {"formulation": "ip-tarnawski"}, {"planner": "dp"}
PIPER, MIP = {"planner": "dp-piper"}, {"formulation": "mip-piper"}
GRAPHS, CP = {"planner": "graphpipe"}, {"formulation": "cp-graphpipe"}
PACE: dict[str, Any] = {"objective": "time-per-sample"}
CONFIRMED: list[tuple[str, dict[str, str], dict[str, Any], dict[str, str], bool]] = [
    # The same question is asked again; of other plans only that nothing contradicts.
    ("random", IP, {}, DP, True),
    ("random", IP, {"objective": "gpipe"}, DP, True),
    ("random", IP, {"non_contiguous": True}, DP, False),
    ("random", DP, {}, IP, True),
    *(("tiny-stages", *pair, True) for way in ("paper", "reference")
      for pair in ((PIPER, {"semantics": way}, MIP), (MIP, {"semantics": way}, PIPER))),
    ("tiny-stages", {"planner": "equi"}, {"semantics": "reference"}, PIPER, False),
    *(("tiny-stages", {"planner": f"piper-no-{what}"}, {}, MIP, False) for what in ("dp", "tp", "ar")),
    ("tiny-stages", PIPER, {"objective": "flush", "semantics": "reference"}, MIP, True),
    ("tiny-levels", PIPER, {}, MIP, True),
    ("tiny-levels", PIPER, {}, MIP, True),
    ("tiny-graph", GRAPHS, PACE, CP, True),
    ("tiny-graph", CP, PACE | {"micro_batch": 2, "degrees": "none"}, GRAPHS, True),
    ("tiny-graph", GRAPHS, PACE | {"mixed_micro_batches": True, "k": 2}, CP, True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "method", "options", "other", "same"), CONFIRMED)
def test_two_methods_confirm_each_other(
    name: str, method: dict[str, str], options: dict[str, Any], other: dict[str, str], same: bool
) -> None:
    problem = PROBLEM if name == "random" else load_packaged(name)
    result = solve(problem, **method, options=options, cross_check=True)  # type: ignore[arg-type]
    assert other.items() <= result.cross_check.items()
    assert result.cross_check["contradiction"] is None
    assert not same or result.cross_check["objective"] == pytest.approx(result.objective)
    assert result_from_json(result.to_json()) == result


def test_without_it_the_result_says_nothing() -> None:
    assert solve(PROBLEM, planner="dp").to_json()["cross_check"] is None


@pytest.mark.parametrize(("result", "other", "same_plans", "words"), [
    (FOUND, BETTER, True, "the bound 10.0 is above the cross-check's plan"),
    (replace(FOUND, bound=None), WORSE, True, "cross-check's bound 11.0 is above"),
    (FOUND, NOTHING, True, "the cross-check says infeasible"),
    (NOTHING, FOUND, True, "the method says infeasible"),
    (FOUND, FOUND, True, None),
    (NOTHING, NOTHING, True, None),
    # A limit that was hit proves nothing.
    (FOUND, Result({}, Stop.TIME, Found.NOTHING), True, None),
    # Without contiguity there may be better plans than any chain, and plans where there is no chain.
    (FOUND, WORSE, False, None),
    (FOUND, NOTHING, False, None),
    # But a chain is a plan there, too.
    (FOUND, BETTER, False, "the bound 10.0 is above the cross-check's plan"),
])  # fmt: skip
def test_what_contradicts_what(result: Result, other: Result, same_plans: bool, words: str | None) -> None:
    said = contradiction(result, other, same_plans=same_plans)
    assert said is None if words is None else words in str(said)


def test_contradicting_proofs_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "contradiction", lambda *_, **__: "the sum does not add up")
    result = solving.solve(PROBLEM, planner="dp", cross_check=True)
    assert (result.stop, result.contradicted, result.verified) == (Stop.ERROR, True, True)
    assert (result.found, result.bound, result.proof) == (Found.FEASIBLE, None, None)
    assert result.messages[-1] == "the proofs contradict each other: the sum does not add up"


def test_a_kind_without_a_second_method_is_refused() -> None:
    with pytest.raises(UsageError, match="drop --cross-check"):
        solve(load_packaged("golden-4"), cross_check=True)


def test_schedules_of_given_micro_batches_are_checked_and_those_that_repeat_are_not() -> None:
    problem = generate("pipeline", stages=2, micro_batches=2, limit=10)
    result = solve(problem, options={"objective": "span"}, cross_check=True)
    assert (result.cross_check["formulation"], result.cross_check["contradiction"]) == ("ilp-zero-bubble", None)
    with pytest.raises(UsageError, match="no cross-check for period"):
        solve(problem, options={"objective": "period"}, cross_check=True)


def test_an_iteration_is_checked_by_the_bound_of_the_model() -> None:
    result = solve(load_packaged("tiny-graph"), cross_check=True)
    assert result.cross_check["contradiction"] is None
    assert result.cross_check["bound"] == pytest.approx(result.objective)
