"""A better plan from outside a method's scope comes first, and the proof within the scope stays a fact beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from problems.nasty import nasty

from pipeplan import Found, InputError, PlacementPlan, Result, StartOutcome, Stop, load_packaged, save, solve
from pipeplan.instances.registry import Problem
from pipeplan.instances.stored_results import result_from_json
from pipeplan.planners.run import solve as solving
from pipeplan.planners.run.claims import Answer, recompute, verify_proof
from pipeplan.show.answer import how_good

CONTIGUOUS = {"ip-tarnawski": {"formulation": "ip-tarnawski"}, "dp": {"planner": "dp"}}


def _beyond_a_chain() -> tuple[Problem, Any]:
    """A placement with a plan that is better than every chain of stages."""
    problem = load_packaged("cpu-offload")
    return problem, solve(problem, formulation="ip-tarnawski", options={"non_contiguous": True}).plan


def _cut_anywhere() -> tuple[Problem, Any]:
    """A graph pipeline whose best stages are none of the decomposition."""
    return nasty("graph-pipeline", 30), "auto"


CASES: dict[str, tuple[Callable[[], tuple[Problem, Any]], dict[str, Any]]] = {
    **{name: (_beyond_a_chain, asked) for name, asked in CONTIGUOUS.items()},
    "shortest-iteration": (_cut_anywhere, {"planner": "shortest-iteration"}),
}


@pytest.fixture(scope="module", params=CASES)
def answered(request: pytest.FixtureRequest) -> tuple[Problem, Result, Result]:
    """The problem, the answer with a start from outside, and the method's own answer without one."""
    make, asked = CASES[request.param]
    problem, start = make()
    return problem, solve(problem, warm_start=start, **asked), solve(problem, warm_start="none", **asked)


def test_the_better_plan_is_the_answer_and_the_proof_is_kept(answered: tuple[Problem, Result, Result]) -> None:
    problem, result, alone = answered
    own = result.in_scope
    assert (result.stop, result.found, result.verified, result.bound, result.scope, result.proof) == (
        Stop.COMPLETED,
        Found.FEASIBLE,
        True,
        None,
        None,
        None,
    )
    assert result.objective < alone.objective
    assert result.warm_start.outcome == StartOutcome.OUTSIDE
    assert (own.stop, own.found, own.scope, own.wider) == (Stop.PROVEN, Found.OPTIMAL, alone.scope, alone.wider)
    assert own.objective == pytest.approx(alone.objective, rel=1e-6)
    assert own.bound == pytest.approx(alone.objective, rel=1e-6)
    assert not recompute(problem, result).differences
    assert "not proven" in how_good(problem, result)
    assert how_good(problem, own).startswith("proven optimal among ")
    assert how_good(problem, result).endswith(how_good(problem, own))


def test_a_file_keeps_both_and_is_believed_in_neither(answered: tuple[Problem, Result, Result]) -> None:
    problem, result, _ = answered
    told = json.loads(json.dumps(result.to_json()))
    read = result_from_json(told)
    assert read.to_json() == result.to_json()
    told["in_scope"]["objective"] *= 0.5
    (difference,) = recompute(problem, result_from_json(told)).differences
    assert difference.startswith("in its scope the result says value")
    told["in_scope"]["in_scope"] = dict(told["in_scope"])
    with pytest.raises(InputError, match=r"in_scope.in_scope is a result once more"):
        result_from_json(told)
    told["in_scope"] = {"schema": "pipeplan.result/1"}
    with pytest.raises(InputError, match=r"in_scope\.plan"):
        result_from_json(told)


def test_the_proof_in_the_scope_is_proven_anew(answered: tuple[Problem, Result, Result]) -> None:
    problem, result, _ = answered
    assert verify_proof(problem, result).answer == Answer.CONFIRMED


def test_a_start_that_breaks_a_rule_of_the_problem_is_still_refused() -> None:
    problem, plan = _beyond_a_chain()
    assert isinstance(plan, PlacementPlan)
    broken = replace(plan, devices=plan.devices[:1])
    result = solve(problem, planner="dp", warm_start=broken)
    assert (result.stop, result.warm_start.outcome, result.in_scope) == (Stop.PROVEN, StartOutcome.REJECTED, None)


def test_a_better_plan_of_the_cross_check_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, better = _beyond_a_chain()
    monkeypatch.setattr(solving, "cross_check", lambda *facts: ({"contradiction": None}, better))
    result = solve(problem, planner="dp", warm_start="none", cross_check=True)
    assert (result.plan, result.stop, result.warm_start.outcome) == (better, Stop.COMPLETED, StartOutcome.NONE)
    assert (result.in_scope.stop, result.cross_check) == (Stop.PROVEN, {"contradiction": None})
    assert any("from the cross-check has devices that are not contiguous" in text for text in result.messages)


def test_the_terminal_says_the_better_plan_first(plan: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "problem.json"
    save(nasty("graph-pipeline", 30), file)
    done = plan("solve", file, "--planner", "shortest-iteration")
    assert done.code == 0
    said = " ".join(done.out.split())
    assert (
        "--formulation cp-graphpipe --objective iteration --option family=convex asks"
        in said + done.err.replace("\n", " ")
    )
    assert said.index("Not proven, since") < said.index("proven optimal among stage graphs of stages of the")
