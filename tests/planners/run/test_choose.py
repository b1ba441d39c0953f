"""Who is asked where no method is named: whoever has the objective, or the option that changes the question."""

from __future__ import annotations

from typing import Any

import pytest
from oracles.extended_placement import tiny_types

from pipeplan import Found, InputError, StartOutcome, UsageError, load_packaged, solve
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.placement.problem import AcceleratorType, Node, PlacementProblem
from pipeplan.instances.stored_results import result_from_json
from pipeplan.planners import registry
from pipeplan.planners.registry import PLANNERS
from pipeplan.planners.run import choose as choice
from pipeplan.planners.run.choose import choose
from pipeplan.studies.export import export_model


@pytest.mark.parametrize(("instance", "options", "name"), [
    ("tiny-chain", {}, "ip-tarnawski"),
    ("tiny-chain", {"objective": "max-load"}, "ip-tarnawski"),
    ("tiny-chain", {"objective": "gpipe"}, "ip-tarnawski"),
    ("tiny-chain", {"objective": "latency"}, "ip-tarnawski-latency"),
    ("tiny-chain", {"objective": "latency", "subgraphs_per_device": 2}, "ip-tarnawski-latency"),
    ("tiny-stages", {"objective": "flush"}, "dp-piper"),
    ("tiny-graph", {"objective": "time-per-sample"}, "graphpipe"),
])  # fmt: skip
def test_the_question_finds_its_method(instance: str, options: dict[str, Any], name: str) -> None:
    assert choose(load_packaged(instance), None, None, "auto", options).name == name


def test_the_exact_planner_and_a_solver_find_it_too() -> None:
    problem = load_packaged("tiny-chain")
    assert choose(problem, None, "exact", "auto", {"objective": "latency"}).name == "ip-tarnawski-latency"
    assert choose(problem, None, None, "highs", {"objective": "latency"}).name == "ip-tarnawski-latency"


def test_a_named_method_is_taken_at_its_word() -> None:
    with pytest.raises(InputError, match="give one of max-load, gpipe, latency"):
        choose(load_packaged("tiny-chain"), None, None, "auto", {"objective": "speed"})
    with pytest.raises(InputError, match="give one of max-load, gpipe"):
        choose(load_packaged("tiny-chain"), None, "dp", "auto", {"objective": "latency"})
    with pytest.raises(UsageError, match="it belongs to ip-tarnawski-latency"):
        choose(load_packaged("tiny-chain"), "ip-tarnawski", None, "auto", {"subgraphs_per_device": 3})


# ---- Problems with several types are planned by methods that know them, and refused by all others.

FLAT = PlacementProblem((Node("a", 4.0, 9.0), Node("b", 6.0, 9.0)), (("a", "b"),), accelerators=4, cpus=0)
TYPED = FLAT.replace(other_types=(AcceleratorType("fast", 1),))
UNABLE = [name for name, entry in PLANNERS.items() if entry.problem_kind == "placement" and not entry.extensions]


def lists_the_able(problem: PlacementProblem) -> str:
    """The end of a refusal: methods that can plan all that the problem uses."""
    able = [entry for entry in (*FORMULATIONS.values(), *PLANNERS.values()) if entry.problem_kind == problem.kind]
    return "choose one of " + ", ".join(entry.name for entry in able if problem.extensions <= entry.extensions)


@pytest.mark.parametrize("names", [{"formulation": "ip-tarnawski"}, *({"planner": name} for name in UNABLE)])
def test_a_method_that_would_ignore_them_is_refused(names: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"cannot plan .*; {lists_the_able(TYPED)}"):
        solve(TYPED, **names)


def test_the_refusal_says_what_the_problem_uses() -> None:
    with pytest.raises(UsageError, match=r"several types of accelerators or devices \(`other_types`"):
        solve(TYPED, planner="greedy")


@pytest.mark.parametrize("problem", [TYPED, tiny_types(2)])
def test_without_a_name_an_exact_planner_that_knows_them_is_taken(problem: PlacementProblem) -> None:
    result = solve(problem)
    assert (result.planner, result.formulation) == ("dp", None)
    assert result.found == Found.OPTIMAL
    assert result_from_json(result.to_json()).plan == result.plan
    assert "other_types" in result.problem


def test_where_no_method_knows_them_the_refusal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    none = {name: entry for name, entry in PLANNERS.items() if not entry.extensions}
    for module in (registry, choice):
        monkeypatch.setattr(module, "PLANNERS", none)
    with pytest.raises(UsageError, match=r"'ip-tarnawski' cannot plan .*; no method can: change the problem"):
        solve(TYPED)


def test_there_is_no_cross_check_by_a_method_that_cannot_plan_them() -> None:
    with pytest.raises(
        UsageError, match=r"no cross-check here, since 'ip-tarnawski' cannot plan .*; drop --cross-check"
    ):
        solve(TYPED, planner="dp", cross_check=True)


def test_no_model_is_written_that_leaves_them_out(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="'ip-tarnawski' cannot plan"):
        export_model(TYPED, str(tmp_path / "model.mps"), formulation="ip-tarnawski")
    with pytest.raises(UsageError, match="accelerators of one type"):
        FORMULATIONS["ip-tarnawski"].load().check(TYPED, {})


def test_a_plan_is_taken_as_a_start_by_a_method_that_knows_them() -> None:
    first = solve(TYPED)
    assert first.plan is not None
    again = solve(TYPED, warm_start=first.plan)
    assert (again.warm_start.outcome, again.objective) == (StartOutcome.ACCEPTED, first.objective)
