"""What stored results claim is compared with what their plans say, and proofs are made anew, whoever asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipeplan
from pipeplan import Found, InputError, PlacementPlan, Result, SolveOptions, Stop, load_packaged, solve
from pipeplan.formulations.family import PLACEMENTS
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.stored_results import result_from_json
from pipeplan.planners.registry import all_methods, provers
from pipeplan.planners.run import claims
from pipeplan.planners.run.claims import Answer, recompute, verify_proof
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


def check_untouched(problem: Any, result: Result) -> None:
    """Nothing is said of what nobody touched, read again from what was written."""
    anew = recompute(problem, result_from_json(json.loads(json.dumps(result.to_json()))))
    assert anew.differences == ()
    assert anew.result == result


@pytest.mark.parametrize(
    ("name", "planner"), [("tiny-chain", "one-device"), ("golden-4", "gpipe"), ("case-study", "graphpipe")]
)
def test_nothing_is_said_of_a_heuristics_result_that_nobody_touched(name: str, planner: str) -> None:
    problem = load_packaged(name)
    check_untouched(problem, solve(problem, planner=planner))


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


@pytest.mark.parametrize(("edit", "words", "stop", "found"), [
    ({"objective": 1.0}, "says value 1.0 ms, the referee computes 6.0 ms", Stop.PROVEN, Found.OPTIMAL),
    ({"objective": None}, "says value none, the referee computes 6.0 ms", Stop.PROVEN, Found.OPTIMAL),
    ({"bound": 3.0}, "value 6.0 ms and bound 3.0 ms are 50 % apart", Stop.ERROR, Found.FEASIBLE),
    ({"bound": None}, "there is no bound to its value 6.0", Stop.ERROR, Found.FEASIBLE),
    ({"bound": 6.1}, "says bound 6.1 ms, above its plan's value 6.0 ms", Stop.ERROR, Found.FEASIBLE),
    ({"stop": Stop.TIME, "bound": 6.1}, "says bound 6.1 ms, above its plan's value", Stop.ERROR, Found.FEASIBLE),
    ({"stop": Stop.INFEASIBLE}, "says infeasible, the referee accepts its plan", Stop.PROVEN, Found.OPTIMAL),
    ({"stop": Stop.GAP, "found": Found.FEASIBLE, "bound": None, "proof": None}, "gap", Stop.ERROR, Found.FEASIBLE),
    ({"verified": False}, "nothing was verified, the referee accepts", Stop.PROVEN, Found.OPTIMAL),
    ({"plan": None}, "says optimal, yet holds no plan", Stop.ERROR, Found.NOTHING),
    ({"scope": "all placements"}, "its method proves for contiguous plans", Stop.PROVEN, Found.OPTIMAL),
    ({"planner": "nobody"}, "its method says nothing", Stop.PROVEN, Found.OPTIMAL),
    ({"found": Found.OPTIMAL, "stop": Stop.TIME, "bound": 3.0}, "are 50 % apart", Stop.TIME, Found.FEASIBLE),
])  # fmt: skip
def test_an_edited_claim_is_said_and_put_right(
    proven: Result, edit: dict[str, Any], words: str, stop: Stop, found: Found
) -> None:
    anew = recompute(PROBLEM, replace(proven, **edit))
    assert any(words in difference for difference in anew.differences), anew.differences
    assert (anew.result.stop, anew.result.found) == (stop, found)
    assert (anew.result.proof is not None) == (stop == Stop.PROVEN)


def test_an_edited_plan_has_its_own_value(proven: Result) -> None:
    anew = recompute(PROBLEM, replace(proven, plan=worse(proven)))
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
    assert "roven optimal" not in text
    assert "Proven: no plan saves more than" in text
    assert plan("show", "tiny-chain", stale, "--json").json["differences"] == [first, second]


def test_a_plan_file_and_other_rules_claim_nothing(plan: Plan, proven: Result, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(proven.plan.to_json()))
    assert plan("verify", "tiny-chain", path, "--json").json["differences"] == []
    path.write_text(json.dumps(proven.to_json()))
    assert plan("verify", "tiny-chain", path, "--contiguity", "none", "--objective", "gpipe").code == 0


def test_the_page_names_the_plans_of_a_proof(proven: Result) -> None:
    assert "Proven optimal among contiguous plans, which form a chain of stages" in result_page(PROBLEM, proven)


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


def test_a_problem_that_is_gone_is_told(folder: Path) -> None:
    """Packaged instances are found without it."""
    for path in (folder / PROBLEMS).iterdir():
        path.unlink()
    assert load_comparison(folder).differences == {}
    text = (folder / JOURNAL).read_text().replace('"name": "tiny-chain"', '"name": "no longer packaged"')
    (folder / JOURNAL).write_text(text)
    assert all("nothing was recomputed" in words[0] for words in load_comparison(folder).differences.values())
    assert len(load_comparison(folder).differences) == 2


# ---- `verify_proof` and `plan verify --proof`: a stored bound is proven anew, and an edited one is caught.


CASES: list[tuple[str, dict[str, Any], str, bool]] = [
    ("tiny-chain", {"formulation": "ip-tarnawski"}, "dp", True),
    ("tiny-chain", {"formulation": "ip-tarnawski", "options": {"objective": "gpipe"}}, "dp", True),
    ("tiny-chain", {"planner": "dp"}, "ip-tarnawski", True),
    ("tiny-chain", {"planner": "brute-force"}, "dp", True),
    ("tiny-chain", {"formulation": "ip-tarnawski", "options": {"non_contiguous": True}}, "brute-force", True),
    ("tiny-chain", {"formulation": "ip-tarnawski", "options": {"variant": "plain"}}, "brute-force", True),
    ("tiny-chain", {"planner": "greedy"}, "ip-tarnawski", True),
    ("tiny-chain", {"formulation": "ip-tarnawski-latency"}, "ip-tarnawski-latency", False),
    ("golden-4", {"planner": "exact-beaumont"}, "ilp-beaumont", False),
    ("golden-4", {"formulation": "ilp-beaumont", "solver": "cp-sat"}, "exact-beaumont", False),
    ("golden-4", {"formulation": "cp-beaumont"}, "exact-beaumont", False),
    ("golden-4", {"formulation": "cp-beaumont", "options": {"batches_per_period": 2}}, "cp-beaumont", False),
    ("tiny-stages", {"planner": "dp-piper"}, "mip-piper", True),
    ("tiny-stages", {"formulation": "mip-piper", "options": {"semantics": "reference"}}, "dp-piper", True),
    ("tiny-stages", {"planner": "dp-piper", "options": {"objective": "flush"}}, "mip-piper", True),
    ("tiny-levels", {"planner": "dp-piper"}, "mip-piper", True),
]


@pytest.mark.parametrize(
    ("name", "asked", "by", "other"), CASES, ids=[f"{name} {asked}" for name, asked, _, _ in CASES]
)
def test_who_confirms_whom(name: str, asked: dict[str, Any], by: str, other: bool) -> None:
    """And contradicts a bound that is higher."""
    problem = load_packaged(name)
    result = solve(problem, **asked)
    check_untouched(problem, result)
    assert result.bound is not None
    check = verify_proof(problem, result)
    assert (check.answer, check.by and (check.by.get("planner") or check.by["formulation"])) == (
        Answer.CONFIRMED,
        by,
    )
    assert check.by["other_method"] == other
    assert result.scope is not None
    unit = "" if problem.time_unit is None else f" {problem.time_unit}"
    assert check.claim == f"no plan is below {result.bound:.7g}{unit} (among {result.scope})"
    assert json.loads(json.dumps(check.to_json()))["answer"] == "confirmed"
    # No plan beside the higher bound would give it away.
    higher = replace(
        result, objective=None, plan=None, bound=1.5 * result.objective, found=Found.NOTHING, stop=Stop.TIME,
        verified=False, proof=None,
    )  # fmt: skip
    check = verify_proof(problem, higher)
    assert check.answer == Answer.CONTRADICTED
    assert "is above the cross-check's plan" in check.reason


@pytest.fixture(scope="module")
def modelled() -> Result:
    return solve(PROBLEM, formulation="ip-tarnawski")


def forged(result: Result) -> Result:
    """A worse plan, with value and bound that are true of it and of no proof."""
    plan = worse(result)
    value = pipeplan.evaluate(PROBLEM, plan).objective("max-load")
    return replace(result, plan=plan, objective=value, claimed=value, bound=value)


@pytest.mark.parametrize("edit", [
    lambda result: replace(result, objective=5.0),
    lambda result: replace(result, bound=5.0),
    lambda result: replace(result, bound=7.0),
    lambda result: replace(result, plan=worse(result)),
    lambda result: replace(result, options={**result.options, "non_contiguous": True, "contiguity": "none"}),
    forged,
], ids=["value", "lower bound", "higher bound", "plan", "options", "plan, value and bound"])  # fmt: skip
def test_a_result_that_was_edited_by_hand_is_caught(modelled: Result, edit: Callable[[Result], Result]) -> None:
    assert verify_proof(PROBLEM, edit(modelled)).answer == Answer.CONTRADICTED


def test_a_proof_over_fewer_plans_does_not_pass_for_one_over_all() -> None:
    """The best chain takes 5, the best placement 4: options, rules and scope were edited to fit each other."""
    nodes = tuple(pipeplan.Node(i, accelerator_time=time, cpu_time=9.0) for i, time in enumerate((1.0, 4.0, 2.0)))
    problem = pipeplan.PlacementProblem(nodes, ((0, 1), (1, 2)), 2, 0)
    chain = solve(problem, formulation="ip-tarnawski")
    options = {**chain.options, "non_contiguous": True, "contiguity": "none"}
    forged = replace(chain, options=options, scope=PLACEMENTS["none"], wider=None, proof=None)
    check = verify_proof(problem, forged)
    assert (check.answer, chain.objective, check.facts["objective"]) == (Answer.CONTRADICTED, 5.0, 4.0)


def test_that_there_is_no_plan_can_be_confirmed_and_contradicted() -> None:
    problem = load_packaged("tiny-stages")
    small = problem.replace(memory_bytes=1e-3)
    nothing = solve(small, planner="dp-piper")
    assert nothing.stop == Stop.INFEASIBLE
    check = verify_proof(small, nothing)
    assert (check.answer, check.claim) == (Answer.CONFIRMED, f"there is no plan (among {nothing.scope})")
    forged = replace(nothing, problem={**nothing.problem, "hash": problem.hash})
    assert verify_proof(problem, forged).answer == Answer.CONTRADICTED


def test_without_a_proof_there_is_nothing_to_confirm() -> None:
    problem = load_packaged("golden-4")
    check = verify_proof(problem, solve(problem, planner="gpipe"))
    assert check.answer == Answer.NOT_CONFIRMED
    assert check.reason == "the result holds no proof: gpipe stopped (completed) without a bound"


def test_a_limit_leaves_it_open(modelled: Result) -> None:
    check = verify_proof(PROBLEM, modelled, limits=SolveOptions(time_limit_s=0.0))
    assert check.answer == Answer.NOT_CONFIRMED
    assert "stopped (time)" in check.reason


def test_a_gap_is_proven_anew_as_far_as_it_goes() -> None:
    result = solve(PROBLEM, formulation="ip-tarnawski", limits=SolveOptions(rel_gap=0.5), warm_start="none")
    assert result.stop in (Stop.GAP, Stop.PROVEN)
    assert verify_proof(PROBLEM, result).answer == Answer.CONFIRMED


def test_who_cannot_plan_it_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch, modelled: Result) -> None:
    def refuse(problem: Any, **asked: Any) -> Result:
        if asked.get("planner") == "dp":
            raise InputError("nodes", "are too many", "give fewer")
        return solve(problem, **asked)

    monkeypatch.setattr(claims, "solve", refuse)
    check = verify_proof(PROBLEM, modelled)
    assert check.answer == Answer.CONFIRMED
    assert check.by["planner"] == "brute-force"


def test_where_nobody_can_the_reasons_are_told(monkeypatch: pytest.MonkeyPatch, modelled: Result) -> None:
    def refuse(problem: Any, **asked: Any) -> Result:
        raise InputError("nodes", "are too many", "give fewer")

    monkeypatch.setattr(claims, "solve", refuse)
    check = verify_proof(PROBLEM, modelled)
    assert check.answer == Answer.NOT_CONFIRMED
    assert check.reason.startswith("no method can prove it anew; dp: nodes are too many")


def test_the_second_methods_are_methods_of_their_kind_with_bounds() -> None:
    for kind in {entry.problem_kind for entry in FORMULATIONS.values()}:
        assert len(provers(kind)) > 1
    for entry in all_methods():
        for options in entry.proves_anew:
            assert entry.scope is not None
            assert set(options) <= {spec.name for spec in entry.options}


# ---- the command ---------------------------------------------------------------------------------------


@pytest.fixture
def saved(modelled: Result, tmp_path: Path) -> Path:
    path = tmp_path / "result.json"
    pipeplan.save(modelled, path)
    return path


def test_the_command_says_it_by_exit_codes(plan: Plan, saved: Path, modelled: Result, tmp_path: Path) -> None:
    said = plan("verify", "tiny-chain", saved, "--proof")
    assert said.code == 0
    assert "proof: confirmed. dp proves the bound 6 ms again" in said.out
    told = plan("verify", "tiny-chain", saved, "--proof", "--json").json
    assert (told["answer"], told["by"]["planner"], told["bound"]) == ("confirmed", "dp", 6.0)
    assert plan("verify", "tiny-chain", saved, "--proof", "--time-limit", "0s").code == 1
    pipeplan.save(forged(modelled), tmp_path / "edited.json")
    edited = plan("verify", "tiny-chain", tmp_path / "edited.json", "--proof")
    assert edited.code == 3
    assert "proof: contradicted" in edited.out


def test_what_makes_no_sense_is_refused(plan: Plan, saved: Path, modelled: Result, tmp_path: Path) -> None:
    other = plan("verify", "memory-tight", saved, "--proof")
    assert other.code == 2
    assert "problem.hash is" in other.err
    assert plan("verify", "tiny-chain", saved, "--proof", "--contiguity", "none").code == 2
    assert plan("verify", "tiny-chain", saved, "--time-limit", "3s").code == 2
    assert modelled.plan is not None
    pipeplan.save(modelled.plan, tmp_path / "plan.json")
    bare = plan("verify", "tiny-chain", tmp_path / "plan.json", "--proof")
    assert bare.code == 2
    assert "schema" in bare.err
