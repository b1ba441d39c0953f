"""What a file says of itself is compared with what its plan says, in one place for all commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeplan.instances.base.result import Found, Result, Stop
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.placement.plan import PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.stored_results import result_from_json
from pipeplan.planners.run.claims import recompute
from pipeplan.planners.run.solve import solve
from pipeplan.show.comparison import comparison_page, markdown
from pipeplan.show.report import result_page
from pipeplan.studies.compare.comparison import JOURNAL, PROBLEMS, compare_suite, load_comparison
from pipeplan.studies.compare.suite import Instance, Suite, competitor

Plan = Callable[..., Any]
PROBLEM = load_packaged("tiny-chain")


@pytest.fixture(scope="module")
def proven() -> Result:
    """Three stages of two nodes each, of value 6."""
    return solve(PROBLEM, planner="dp")


def worse(result: Result) -> PlacementPlan:
    """The plan with one node moved over: value 6.5 or more."""
    assert isinstance(result.plan, PlacementPlan)
    first, second, *others = result.plan.devices
    moved = [
        replace(first, nodes=first.nodes[:-1]),
        replace(second, nodes=(first.nodes[-1], *second.nodes)),
        *others,
    ]
    return PlacementPlan(tuple(moved))


METHODS: list[tuple[str, dict[str, Any]]] = [
    ("tiny-chain", {"formulation": "ip-tarnawski"}),
    ("tiny-chain", {"formulation": "ip-tarnawski", "options": {"variant": "plain"}}),
    ("tiny-chain", {"formulation": "ip-tarnawski-latency"}),
    ("tiny-chain", {"planner": "greedy"}),
    ("tiny-chain", {"planner": "one-device"}),
    ("golden-4", {"planner": "exact-beaumont"}),
    ("golden-4", {"planner": "gpipe"}),
    ("tiny-stages", {"planner": "dp-piper", "options": {"objective": "flush", "semantics": "reference"}}),
    ("tiny-levels", {"planner": "dp-piper"}),
    ("case-study", {"planner": "graphpipe"}),
]


@pytest.mark.parametrize(("name", "asked"), METHODS, ids=[f"{name} {asked}" for name, asked in METHODS])
def test_nothing_is_said_of_results_that_nobody_touched(name: str, asked: dict[str, Any]) -> None:
    problem = load_packaged(name)
    result = solve(problem, **asked)
    anew = recompute(problem, result_from_json(json.loads(json.dumps(result.to_json()))))
    assert anew.differences == ()
    assert anew.result == result


def test_a_plan_of_contiguous_devices_is_judged_as_such_when_it_is_read_again() -> None:
    """The published notion: each device by itself, though two wait for each other. No option of the model says so."""
    nodes = tuple(Node(name, accelerator_time=1.0, cpu_time=9.0) for name in "abcd")
    problem = PlacementProblem(nodes, (("a", "b"), ("c", "d")), 2, 0)
    crossed = PlacementPlan.from_assignment(problem, {"a": 0, "b": 1, "c": 1, "d": 0})
    result = solve(problem, formulation="ip-tarnawski", options={"variant": "plain"}, warm_start=crossed)
    assert result.found == Found.OPTIMAL
    stored = replace(result, plan=crossed)
    assert recompute(problem, stored).differences == ()
    assert "Verified: yes" in result_page(problem, stored)


@pytest.mark.parametrize(
    ("edit", "words", "stop", "found"),
    [
        ({"objective": 1.0}, "says value 1.0 ms, the referee computes 6.0 ms", Stop.PROVEN, Found.OPTIMAL),
        ({"objective": None}, "says value none, the referee computes 6.0 ms", Stop.PROVEN, Found.OPTIMAL),
        ({"bound": 3.0}, "value 6.0 ms and bound 3.0 ms are 50 % apart", Stop.ERROR, Found.FEASIBLE),
        ({"bound": None}, "there is no bound to its value 6.0", Stop.ERROR, Found.FEASIBLE),
        ({"bound": 6.1}, "says bound 6.1 ms, above its plan's value 6.0 ms", Stop.ERROR, Found.FEASIBLE),
        (
            {"stop": Stop.TIME, "bound": 6.1},
            "says bound 6.1 ms, above its plan's value",
            Stop.ERROR,
            Found.FEASIBLE,
        ),
        ({"stop": Stop.INFEASIBLE}, "says infeasible, the referee accepts its plan", Stop.PROVEN, Found.OPTIMAL),
        (
            {"stop": Stop.GAP, "found": Found.FEASIBLE, "bound": None, "proof": None},
            "gap",
            Stop.ERROR,
            Found.FEASIBLE,
        ),
        ({"verified": False}, "nothing was verified, the referee accepts", Stop.PROVEN, Found.OPTIMAL),
        ({"plan": None}, "says optimal, yet holds no plan", Stop.ERROR, Found.NOTHING),
        ({"scope": "all placements"}, "its method proves for contiguous plans", Stop.PROVEN, Found.OPTIMAL),
        ({"planner": "nobody"}, "its method says nothing", Stop.PROVEN, Found.OPTIMAL),
        ({"found": Found.OPTIMAL, "stop": Stop.TIME, "bound": 3.0}, "are 50 % apart", Stop.TIME, Found.FEASIBLE),
    ],
)
def test_an_edited_claim_is_said_and_put_right(
    proven: Result, edit: dict[str, Any], words: str, stop: Stop, found: Found
) -> None:
    anew = recompute(PROBLEM, replace(proven, **edit))
    assert any(words in difference for difference in anew.differences), anew.differences
    assert (anew.result.stop, anew.result.found) == (stop, found)
    assert (anew.result.proof is not None) == (stop == Stop.PROVEN)


def test_an_edited_plan_has_its_own_value(proven: Result) -> None:
    anew = recompute(PROBLEM, replace(proven, plan=worse(proven)))
    assert anew.result.objective is not None
    assert anew.result.objective > 6
    assert (anew.result.stop, anew.result.found, anew.result.bound) == (Stop.ERROR, Found.FEASIBLE, 6.0)
    assert len(anew.differences) == 2, "value and proof"


def test_a_plan_that_breaks_a_rule_is_rejected(proven: Result) -> None:
    assert isinstance(proven.plan, PlacementPlan)
    cut = replace(proven, plan=PlacementPlan(proven.plan.devices[:1]))
    anew = recompute(PROBLEM, cut)
    assert (anew.result.found, anew.result.objective, anew.result.bound) == (Found.REJECTED, None, None)
    assert "says value 6.0 ms, the referee rejects its plan" in anew.differences[0]


def test_a_result_about_another_problem_claims_nothing_about_this_one(proven: Result) -> None:
    anew = recompute(load_packaged("memory-tight"), proven)
    assert "is about another problem" in anew.differences[0]
    assert (anew.result.verified, anew.result.objective) == (False, None)


# ---- who says it ---------------------------------------------------------------------------------------


@pytest.fixture
def stale(proven: Result, tmp_path: Path) -> Path:
    """The value and the proof of the better plan, with a worse one."""
    path = tmp_path / "stale.json"
    path.write_text(json.dumps(replace(proven, plan=worse(proven)).to_json()))
    return path


def test_verify_show_and_report_say_it_alike(plan: Plan, stale: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    verified, shown = plan("verify", "tiny-chain", stale), plan("show", "tiny-chain", stale)
    assert plan("report", stale, "-o", page).code == 0
    (first, second) = plan("verify", "tiny-chain", stale, "--json").json["differences"]
    assert "says value 6.0 ms, the referee computes" in first
    assert "says proven, yet value" in second
    assert (verified.code, shown.code) == (3, 0)
    text = page.read_text(encoding="utf-8")
    for said in (" ".join(verified.out.split()), " ".join(shown.out.split()), text):
        assert first in said
        assert second in said
    assert "proven optimal" not in text
    assert "optimal, proven" not in text
    assert "proven: no plan saves more than" in text
    assert plan("show", "tiny-chain", stale, "--json").json["differences"] == [first, second]


def test_a_plan_file_and_other_rules_claim_nothing(plan: Plan, proven: Result, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert proven.plan is not None
    path.write_text(json.dumps(proven.plan.to_json()))
    assert plan("verify", "tiny-chain", path, "--json").json["differences"] == []
    path.write_text(json.dumps(proven.to_json()))
    assert plan("verify", "tiny-chain", path, "--contiguity", "none", "--objective", "gpipe").code == 0


def test_the_page_names_the_plans_of_a_proof(proven: Result) -> None:
    assert "optimal, proven among contiguous plans, which form a chain of stages" in result_page(PROBLEM, proven)


# ---- comparisons ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    methods = tuple(map(competitor, ("greedy", "dp")))
    compare_suite(Suite("s", (Instance("tiny", "tiny-chain"),), methods), tmp_path)
    return tmp_path


def edit_journal(folder: Path, **facts: Any) -> None:
    """The last record, that of the dynamic program, with other claims."""
    *others, last = (folder / JOURNAL).read_text().splitlines()
    record = json.loads(last)
    record["result"].update(facts)
    (folder / JOURNAL).write_text("".join(f"{line}\n" for line in (*others, json.dumps(record))))


def test_untouched_folders_say_nothing(folder: Path) -> None:
    assert load_comparison(folder).differences == {}
    assert "Claims" not in comparison_page(load_comparison(folder))


def test_results_of_a_folder_are_recomputed_when_they_are_read(folder: Path) -> None:
    edit_journal(folder, objective=1.0, bound=1.0)
    found = load_comparison(folder)
    row = found.table().set_index("method").loc["dp"]
    assert (row["value"], row["stop"], row["found"]) == (6.0, "error", "feasible")
    ((first, _),) = found.differences.values()
    assert first == "the result says value 1.0 ms, the referee computes 6.0 ms"
    assert first in row["message"]
    assert first in comparison_page(found)
    assert first in markdown(found)


def test_a_resumed_comparison_recomputes_as_well(folder: Path) -> None:
    edit_journal(folder, objective=1.0)
    methods = tuple(map(competitor, ("greedy", "dp")))
    found = compare_suite(Suite("s", (Instance("tiny", "tiny-chain"),), methods), folder, resume=True)
    assert found.table()["value"].min() == 6.0
    assert len(found.differences) == 1


def test_a_problem_that_is_gone_is_told(folder: Path) -> None:
    """Packaged instances are found without it."""
    for path in (folder / PROBLEMS).iterdir():
        path.unlink()
    assert load_comparison(folder).differences == {}
    text = (folder / JOURNAL).read_text().replace('"name": "tiny-chain"', '"name": "no longer packaged"')
    (folder / JOURNAL).write_text(text)
    assert all("nothing was recomputed" in words[0] for words in load_comparison(folder).differences.values())
    assert len(load_comparison(folder).differences) == 2
