"""A formulation of somebody else whose objective is not what the referee computes: an error that says what to mend."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import pipeplan
from pipeplan.planners.run.claims import recompute
from pipeplan.studies.compare.comparison import own_suite
from pipeplan.studies.compare.suite import expand

Plan = Callable[..., Any]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
HONEST = "model.objective = pyo.Objective(expr=period)"

OBJECTIVES = {
    "a maximum": "pyo.Objective(expr=period, sense=pyo.maximize)",
    "a count, maximised": "pyo.Objective(expr=sum(x[v, 0] for v in nodes), sense=pyo.maximize)",
    "another unit, larger": "pyo.Objective(expr=1000 * period)",
    "another unit, smaller": "pyo.Objective(expr=0.001 * period)",
    "a sum over all devices": "pyo.Objective(expr=sum((j + 2) * x[v, j] for v in nodes for j in stages))",
}
SAME = ("pyo.Objective(expr=period)", "pyo.Objective(expr=-period, sense=pyo.maximize)")
TRUTH = 6.0
"""What `dp` proves."""


@pytest.fixture
def write(own_module: Callable[[str, str], None]) -> Callable[[str], None]:
    """The formulation of the page with another objective."""
    listing = re.search(r"<!-- file: example.py -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert HONEST in listing[1]

    def write(objective: str) -> None:
        text = listing[1].replace(HONEST, f"model.objective = {objective}").replace("example:", "otherwise:")
        own_module("otherwise", text)

    return write


def solved(plan: Plan) -> Any:
    return plan(
        *("solve", "tiny-chain", "--formulation", "otherwise:ENTRY", "--solver", "highs", "--warm-start", "none"),
        "--json",
    )


@pytest.mark.at_once(2)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_that_is_not_the_referees_is_told_and_no_error_is_a_success(
    plan: Plan, write: Callable[[str], None], name: str
) -> None:
    """What is refuted below a cut-off is so whatever the objective says: some of these are proven still."""
    write(OBJECTIVES[name])
    done = solved(plan)
    result = done.json
    assert (done.code, result["verified"]) == (3 if result["stop"] == "error" else 0, True), done
    assert result["stop"] != "proven" or result["objective"] == TRUTH
    told = [message for message in result["messages"] if "contradicts the referee (" in message]
    assert len(told) == 1 or (result["stop"] != "error" and result["claimed"] >= result["objective"]), done
    for message in told:
        assert message.startswith("otherwise:ENTRY contradicts the referee (")
        assert "mend its objective, which has to be minimised and to equal the plan's max-load in ms" in message
    assert result["stop"] == "error" or name != "a maximum", "it has no bound at all"


@pytest.mark.parametrize("objective", SAME)
def test_the_objective_of_the_referee_is_proven_whatever_its_sense(
    plan: Plan, write: Callable[[str], None], objective: str
) -> None:
    write(objective)
    done = solved(plan)
    assert (done.code, done.json["stop"], done.json["objective"]) == (0, "proven", TRUTH), done
    assert not any("contradicts" in message for message in done.json["messages"])


BOASTFUL = """
from dataclasses import replace
from pipeplan.planners.registry import PLANNERS

dp = PLANNERS["dp"]


class Planner:
    def plan(self, request):
        outcome = dp.load().plan(request)
        return replace(outcome, bound=2 * outcome.bound)


PLANNER = Planner()
ENTRY = replace(dp, name="boastful", address="boastful:PLANNER")
"""


def test_a_planner_that_bounds_too_much_is_told_too(plan: Plan, own_module: Callable[[str, str], None]) -> None:
    own_module("boastful", BOASTFUL)
    done = plan("solve", "tiny-chain", "--planner", "boastful:ENTRY", "--json")
    assert (done.code, done.json["stop"], done.json["bound"]) == (3, "error", None), done
    assert "boastful:ENTRY contradicts the referee (the bound" in done.json["messages"][-1]


# ---- An objective that is declared is the one of which everything speaks.


TRAFFIC = """import pipeplan


def traffic(problem, plan):
    found = pipeplan.evaluate(problem, plan)
    return found.max_load + 4 * sum(device.transfer_in + device.transfer_out for device in found.devices)


@pipeplan.planner(objective=traffic)
def in_threes(problem):
    place = {node.id: position // 3 for position, node in enumerate(problem.nodes)}
    return pipeplan.PlacementPlan.from_assignment(problem, place)


@pipeplan.planner(objective=lambda problem, plan: float("nan"))
def nowhere(problem):
    return in_threes(problem)


"""
MINIMISED = (
    "pyo.Objective(expr=period + 4 * sum(moved[v, j] * nodes[v].transfer_time for v in nodes for j in stages))"
)


@pytest.fixture
def declared(own_module: Callable[[str, str], None]) -> Any:
    """The formulation of the page with another objective, which it declares."""
    listing = re.search(r"<!-- file: example.py -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    text = listing[1].replace(HONEST, f"model.objective = {MINIMISED}").replace("example:", "busy:")
    head = "class Stages(CommonFormulation):\n"
    own_module("busy", TRAFFIC + text.replace(head, f"{head}    objective = staticmethod(traffic)\n\n"))
    return importlib.import_module("busy")


def optimum(problem: Any, busy: Any) -> float:
    """By trying all chains of stages."""
    values = []
    for devices in product(range(problem.accelerators), repeat=len(problem.nodes)):
        place = {node.id: device for node, device in zip(problem.nodes, devices, strict=True)}
        plan = pipeplan.PlacementPlan.from_assignment(problem, place)
        if not pipeplan.verify(problem, plan, contiguity="chain"):
            values.append(busy.traffic(problem, plan))
    return min(values)


def test_an_objective_of_ones_own_is_solved_to_its_true_optimum_and_kept(plan: Plan, declared: Any) -> None:
    import highspy

    words = ("solve", "tiny-chain", "--formulation", "busy:ENTRY", "--solver", "highs", "-o", "r.json")
    done = plan(*words, "--json", "--export-model", "busy.lp")
    problem = pipeplan.load("tiny-chain")
    result, best = done.json, optimum(problem, declared)
    assert (done.code, result["stop"], result["objective"]) == (0, "proven", best), done
    assert result["bound"] == pytest.approx(best)
    said = f"busy:ENTRY minimises busy.traffic; the max-load of its plan is {result['objective'] - 4.0} ms"
    assert said in result["messages"], (result["messages"], best)
    outside = highspy.Highs()
    outside.setOptionValue("output_flag", False)
    outside.readModel("busy.lp")
    outside.run()
    assert outside.getInfo().objective_function_value == pytest.approx(best)
    shown = " ".join(plan(*words).out.split())
    assert f"The minimised objective, busy.traffic, is {best:g}" in shown
    recomputed = recompute(problem, pipeplan.load_result("r.json"))
    assert (recomputed.differences, recomputed.result.objective) == ((), best)
    assert "busy.traffic was not recomputed" in recomputed.result.messages
    proof = plan("verify", "tiny-chain", "r.json", "--proof")
    assert (proof.code, "Only busy:ENTRY itself knows busy.traffic" in " ".join(proof.err.split())) == (2, True)
    checked = plan(*words, "--cross-check")
    assert (checked.code, "There is no cross-check for busy.traffic" in " ".join(checked.err.split())) == (2, True)


def test_a_heuristic_may_have_the_same_objective_and_is_not_mixed_with_the_usual_one(
    plan: Plan, declared: Any
) -> None:
    found = pipeplan.solve("tiny-chain", planner="busy:in_threes")
    assert found.objective == declared.traffic(pipeplan.load("tiny-chain"), found.plan)
    mixed = plan("compare", "tiny-chain", "-m", "busy:ENTRY", "-m", "dp")
    assert (mixed.code, "is judged by busy.traffic and dp by max-load" in " ".join(mixed.err.split())) == (2, True)
    same = expand(own_suite(["tiny-chain"], ["busy:ENTRY", "busy:in_threes"], Path()))
    assert [run.method for run in same.runs] == ["busy:ENTRY", "busy:in_threes"]
    assert pipeplan.solve("tiny-chain", planner="busy:nowhere").found == "rejected"


# ---- A formulation of somebody else is judged by its own family, and its mistakes are called its own.


FORGETFUL = """
from pipeplan.formulations.family import Family, Outside
from pipeplan.formulations.registry import FORMULATIONS, Entry

ours = FORMULATIONS["ip-tarnawski"]


def family(problem, options):
    def outside(plan):
        SPOILT
        most = max(len(device["nodes"]) for device in plan.to_json()["devices"])
        return Outside("an accelerator with more than one node") if most > 1 else None

    return Family("placements with at most one node an accelerator", outside=outside)


ENTRY = Entry("few-nodes", "Few nodes", "placement", ours.address, ours.options, scope="forgetful:family")
"""


@pytest.mark.parametrize("more", [(), ("--warm-start", "none"), ("--cross-check",)], ids=str)
def test_a_plan_outside_of_its_own_family_is_no_answer(
    plan: Plan, own_module: Callable[[str, str], None], more: tuple[str, ...]
) -> None:
    """The model is not held to the family that the method names, and there is no member for so many nodes."""
    own_module("forgetful", FORGETFUL.replace("SPOILT", "pass"))
    done = plan("solve", "tiny-chain", "--formulation", "forgetful:ENTRY", *more, "--json")
    assert (done.code, done.json["found"], done.json["bound"]) == (3, "rejected", None)
    assert "an accelerator with more than one node, which is outside what" in done.json["violations"][0]


def test_a_dynamic_program_starts_a_plug_in_too(plan: Plan, own_module: Callable[[str, str], None]) -> None:
    own_module("forgetful", FORGETFUL.replace("SPOILT", "return None"))
    done = plan("solve", "tiny-chain", "--formulation", "forgetful:ENTRY", "--warm-start", "dp", "--json")
    assert (done.code, done.json["warm_start"]["source"]) == (0, "dp")
