"""`verify_proof` and `plan verify --proof`: a stored bound is proven anew, and an edited one is caught."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipeplan
from pipeplan.formulations.family import PLACEMENTS
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Found, Result, Stop
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.placement.plan import PlacementPlan
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.registry import all_methods, provers
from pipeplan.planners.run import claims
from pipeplan.planners.run.claims import Answer, verify_proof
from pipeplan.planners.run.solve import solve

Plan = Callable[..., Any]

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
IDS = [f"{name} {asked}" for name, asked, _, _ in CASES]


@pytest.mark.parametrize(("name", "asked", "by", "other"), CASES, ids=IDS)
def test_who_confirms_whom(name: str, asked: dict[str, Any], by: str, other: bool) -> None:
    problem = load_packaged(name)
    result = solve(problem, **asked)
    assert result.bound is not None
    check = verify_proof(problem, result)
    assert (check.answer, check.by and (check.by.get("planner") or check.by["formulation"])) == (
        Answer.CONFIRMED,
        by,
    )
    assert check.by is not None
    assert check.by["other_method"] == other
    assert result.scope is not None
    unit = "" if problem.time_unit is None else f" {problem.time_unit}"
    assert check.claim == f"{result.scope}: none is below {result.bound:.7g}{unit}"
    assert json.loads(json.dumps(check.to_json()))["answer"] == "confirmed"


@pytest.mark.at_once(3)
@pytest.mark.parametrize(("name", "asked", "by", "other"), CASES, ids=IDS)
def test_a_bound_that_is_too_high_is_contradicted(name: str, asked: dict[str, Any], by: str, other: bool) -> None:
    """A bound above the optimum, and no plan beside it that would give it away."""
    problem = load_packaged(name)
    result = solve(problem, **asked)
    assert result.objective is not None
    forged = replace(
        result, objective=None, plan=None, bound=1.5 * result.objective, found=Found.NOTHING, stop=Stop.TIME,
        verified=False, proof=None,
    )  # fmt: skip
    check = verify_proof(problem, forged)
    assert check.answer == Answer.CONTRADICTED
    assert "is above the cross-check's plan" in check.reason


@pytest.fixture(scope="module")
def proven() -> Result:
    return solve(load_packaged("tiny-chain"), formulation="ip-tarnawski")


def _worse(result: Result) -> Result:
    """One node moved over, with value and bound that are true of this plan and of no proof."""
    assert isinstance(result.plan, PlacementPlan)
    first, second, *others = result.plan.devices
    moved = [
        replace(first, nodes=first.nodes[:-1]),
        replace(second, nodes=(first.nodes[-1], *second.nodes)),
        *others,
    ]
    plan = PlacementPlan(tuple(moved))
    value = pipeplan.evaluate(load_packaged("tiny-chain"), plan).objective("max-load")
    return replace(result, plan=plan, objective=value, claimed=value, bound=value)


@pytest.mark.parametrize(
    "edit",
    [
        lambda result: replace(result, objective=5.0),
        lambda result: replace(result, bound=5.0),
        lambda result: replace(result, bound=7.0),
        lambda result: replace(result, plan=_worse(result).plan),
        lambda result: replace(result, options={**result.options, "non_contiguous": True, "contiguity": "none"}),
        _worse,
    ],
    ids=["value", "lower bound", "higher bound", "plan", "options", "plan, value and bound"],
)
def test_a_result_that_was_edited_by_hand_is_caught(proven: Result, edit: Callable[[Result], Result]) -> None:
    assert verify_proof(load_packaged("tiny-chain"), edit(proven)).answer == Answer.CONTRADICTED


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
    assert (check.answer, check.claim) == (Answer.CONFIRMED, f"{nothing.scope}: none is there")
    forged = replace(nothing, problem={**nothing.problem, "hash": problem.hash})
    assert verify_proof(problem, forged).answer == Answer.CONTRADICTED


def test_a_result_of_another_problem_is_refused(proven: Result) -> None:
    with pytest.raises(InputError, match=r"problem\.hash is"):
        verify_proof(load_packaged("memory-tight"), proven)


def test_without_a_proof_there_is_nothing_to_confirm() -> None:
    problem = load_packaged("golden-4")
    check = verify_proof(problem, solve(problem, planner="gpipe"))
    assert check.answer == Answer.NOT_CONFIRMED
    assert check.reason == "the result holds no proof: gpipe stopped (completed) without a bound"


def test_a_limit_leaves_it_open(proven: Result) -> None:
    check = verify_proof(load_packaged("tiny-chain"), proven, limits=SolveOptions(time_limit_s=0.0))
    assert check.answer == Answer.NOT_CONFIRMED
    assert "stopped (time)" in check.reason


def test_a_gap_is_proven_anew_as_far_as_it_goes() -> None:
    problem = load_packaged("tiny-chain")
    result = solve(problem, formulation="ip-tarnawski", limits=SolveOptions(rel_gap=0.5), warm_start="none")
    assert result.stop in (Stop.GAP, Stop.PROVEN)
    assert verify_proof(problem, result).answer == Answer.CONFIRMED


def test_who_cannot_plan_it_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch, proven: Result) -> None:
    def refuse(problem: Any, **asked: Any) -> Result:
        if asked.get("planner") == "dp":
            raise InputError("nodes", "are too many", "give fewer")
        return solve(problem, **asked)

    monkeypatch.setattr(claims, "solve", refuse)
    check = verify_proof(load_packaged("tiny-chain"), proven)
    assert check.answer == Answer.CONFIRMED
    assert check.by is not None
    assert check.by["planner"] == "brute-force"


def test_where_nobody_can_the_reasons_are_told(monkeypatch: pytest.MonkeyPatch, proven: Result) -> None:
    def refuse(problem: Any, **asked: Any) -> Result:
        raise InputError("nodes", "are too many", "give fewer")

    monkeypatch.setattr(claims, "solve", refuse)
    check = verify_proof(load_packaged("tiny-chain"), proven)
    assert check.answer == Answer.NOT_CONFIRMED
    assert check.reason.startswith("no method can prove it anew; dp: nodes are too many")


def test_the_second_methods_are_methods_of_their_kind_with_bounds() -> None:
    for kind in {entry.problem_kind for entry in FORMULATIONS.values()}:
        assert len(provers(kind)) > 1
    for entry in all_methods():
        for options in entry.proves_anew:
            assert entry.scope is not None
            assert set(options) <= {spec.name for spec in entry.options}


def test_exact_methods_are_asked_first_and_of_these_the_one_that_checks_all_others() -> None:
    names = {kind: [entry.name for entry in provers(kind)] for kind in ("placement", "chain", "graph-pipeline")}
    assert names == {
        "placement": ["dp", "ip-tarnawski", "brute-force"],
        "chain": ["exact-beaumont", "ilp-beaumont", "cp-beaumont"],
        "graph-pipeline": ["cp-graphpipe", "shortest-iteration", "graphpipe"],
    }


# ---- the command ---------------------------------------------------------------------------------------


@pytest.fixture
def saved(proven: Result, tmp_path: Path) -> Path:
    path = tmp_path / "result.json"
    pipeplan.save(proven, path)
    return path


def test_the_command_says_it_by_exit_codes(plan: Plan, saved: Path, proven: Result, tmp_path: Path) -> None:
    said = plan("verify", "tiny-chain", saved, "--proof")
    assert said.code == 0
    assert "proof: confirmed. dp proves the bound 6 ms again" in said.out
    told = plan("verify", "tiny-chain", saved, "--proof", "--json").json
    assert (told["answer"], told["by"]["planner"], told["bound"]) == ("confirmed", "dp", 6.0)
    assert plan("verify", "tiny-chain", saved, "--proof", "--time-limit", "0s").code == 1
    pipeplan.save(_worse(proven), tmp_path / "edited.json")
    edited = plan("verify", "tiny-chain", tmp_path / "edited.json", "--proof")
    assert edited.code == 3
    assert "proof: contradicted" in edited.out


def test_what_makes_no_sense_is_refused(plan: Plan, saved: Path, proven: Result, tmp_path: Path) -> None:
    other = plan("verify", "memory-tight", saved, "--proof")
    assert other.code == 2
    assert "problem.hash is" in other.err
    assert plan("verify", "tiny-chain", saved, "--proof", "--contiguity", "none").code == 2
    assert plan("verify", "tiny-chain", saved, "--time-limit", "3s").code == 2
    assert proven.plan is not None
    pipeplan.save(proven.plan, tmp_path / "plan.json")
    bare = plan("verify", "tiny-chain", tmp_path / "plan.json", "--proof")
    assert bare.code == 2
    assert "schema" in bare.err
