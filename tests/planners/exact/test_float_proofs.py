"""What float solvers call proven: on numbers of any magnitude it is what enumeration finds, or it is not proven."""

from __future__ import annotations

from typing import Any

import pytest

from pipeplan import Found, PlacementProblem, SolveOptions, Stop, UsageError, load_packaged, solve
from pipeplan.instances.placement.kind_functions import placement_from_json
from pipeplan.planners.backends import BACKENDS, Answer
from pipeplan.planners.backends.trust import (
    SECOND_OPINION,
    cutoff_for,
    evidence,
    is_exact,
    safe_bound,
    second_opinion_limits,
    second_opinions,
)
from pipeplan.planners.exact import Attempt


def placement(nodes: list[dict[str, Any]], edges: list[list[int]], **cluster: Any) -> PlacementProblem:
    data = {
        "schema": "pipeplan.placement/1", "name": "p", "time_unit": "s", "nodes": nodes, "edges": edges, **cluster,
    }  # fmt: skip
    return placement_from_json(data)


def node(number: int, accelerator: float, cpu: float, **more: Any) -> dict[str, Any]:
    return {"id": number, "accelerator_time": accelerator, "cpu_time": cpu, **more}


def loses_solutions_in_presolve() -> PlacementProblem:
    """HiGHS 1.15 called 560000 optimal: presolve by enumeration."""
    nodes = [
        node(0, 70000.0, 350000.0),
        node(1, 70000.0, 350000.0, size_bytes=0.1, transfer_time=230000.0),
        node(2, 70000.0, 20000.0, size_bytes=1.1),
        node(3, 230000.0, 230000.0, size_bytes=0.3, transfer_time=30000.0),
        node(4, 30000.0, 150000.0, size_bytes=0.7, transfer_time=110000.0),
        node(5, 10000.0, 110000.0, transfer_time=70000.0),
    ]
    edges = [[3, 0], [4, 0], [1, 4], [1, 3], [5, 3], [5, 1], [5, 0]]
    return placement(nodes, edges, accelerators=3, cpus=1, memory_bytes=1.0)


def microseconds_in_seconds() -> PlacementProblem:
    nodes = [
        node(0, 3e-07, 2e-07, transfer_time=3e-07),
        node(1, 3e-07, 2e-07, supported=False),
        node(2, 2.3e-06, 6e-07, size_bytes=1.1),
        node(3, 3e-07, 7e-07, size_bytes=4),
        node(4, 2.3e-06, 1.4e-06, transfer_time=2e-07),
    ]
    return placement(nodes, [[0, 2], [4, 0]], accelerators=2, cpus=1, memory_bytes=4.0)


def billions() -> PlacementProblem:
    nodes = [
        node(0, 5e9, 1e9, size_bytes=2, transfer_time=6e9),
        node(1, 0.0, 1e10, color=103),
        node(2, 6e9, 5e9),
        node(3, 6e9, 3e9, size_bytes=3),
        node(4, 3e9, 6e9, color=103),
    ]
    return placement(nodes, [[0, 1]], accelerators=3, cpus=1, memory_bytes=5.0)


def two_plans_half_a_millionth_apart() -> PlacementProblem:
    """HiGHS first called 4.000002e12 a bound, by its tolerances, and found the plan below it afterwards."""
    nodes = [node(3, 0.0, 0.0, size_bytes=1.0), node(0, 2e6, 0.0), node(1, 0.0, 0.0)]
    nodes.append(node(2, 4e12, 1e18, size_bytes=1e9))
    return placement(nodes, [[3, 1], [0, 2]], accelerators=4, cpus=2, memory_bytes=1000000001.0)


@pytest.mark.at_once(8)
@pytest.mark.parametrize("solver", ["highs", "scip", "cp-sat"])
@pytest.mark.parametrize("warm_start", ["auto", "none"])
@pytest.mark.parametrize(("problem", "options", "optimum"), [
    (loses_solutions_in_presolve(), {"variant": "plain"}, 380000.0),
    (microseconds_in_seconds(), {"non_contiguous": True}, 2.2e-6),
    (billions(), {}, 8e9),
    (two_plans_half_a_millionth_apart(), {"non_contiguous": True, "variant": "strong"}, 4e12),
], ids=["presolve", "microseconds", "billions", "half a millionth"])  # fmt: skip
def test_false_optima_of_the_past(
    problem: PlacementProblem, options: dict[str, Any], optimum: float, solver: str, warm_start: Any
) -> None:
    result = solve(problem, formulation="ip-tarnawski", solver=solver, options=options, warm_start=warm_start)
    assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
    assert result.objective == pytest.approx(optimum, rel=1e-6)
    assert result.proof.checks


def test_a_float_solvers_proof_names_the_second_opinion() -> None:
    result = solve(billions(), formulation="ip-tarnawski", solver="highs", options={"non_contiguous": True})
    said = " ".join(result.proof.checks)
    assert "HiGHS" in said
    assert "CP-SAT" in said or "group" in said


def test_a_slow_machine_loses_no_second_opinion(monkeypatch: pytest.MonkeyPatch) -> None:
    """What limits it is work that CP-SAT counts; seconds alone would be a twentieth of the work on some machines."""
    asked = {}
    honest = Attempt.run

    def watched(attempt: Attempt, threads_of: Any, seconds: Any, start: Any) -> Attempt:
        for name in threads_of:
            asked[name] = (seconds, attempt.request.limits.native)
        return honest(attempt, threads_of, seconds, start)

    monkeypatch.setattr(Attempt, "run", watched)
    result = solve(load_packaged("tiny-chain"), formulation="ip-tarnawski", solver="highs", warm_start="none")
    assert "CP-SAT" in " ".join(result.proof.checks)
    seconds, native = asked["cp-sat"]
    assert seconds >= 20
    assert native == {"max_deterministic_time": 0.5}
    assert asked["highs"] == (None, {})


def test_a_long_first_answer_is_worth_a_longer_second_one() -> None:
    for second, (option, work) in SECOND_OPINION.items():
        assert second_opinion_limits(second, 29.0) == second_opinion_limits(second, 0.01)
        assert second_opinion_limits(second, 3000.0) == (300.0, {option: 100 * work})


def test_a_contradicted_solver_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS is made to refute everything: the second opinion finds the plan, and HiGHS is not asked again."""
    honest = Attempt.run

    def lying(attempt: Attempt, threads_of: Any, *rest: Any) -> Attempt:
        if "highs" not in threads_of:
            return honest(attempt, threads_of, *rest)
        attempt.refuted = "highs says so"
        attempt.answers.append(Answer(Stop.INFEASIBLE, backend="highs"))
        return attempt

    monkeypatch.setattr(Attempt, "run", lying)
    result = solve(billions(), formulation="ip-tarnawski", solver="highs", warm_start="none")
    assert result.objective == pytest.approx(8e9)
    assert result.found == Found.OPTIMAL
    assert any("highs is left out" in message for message in result.messages)


def test_without_an_answer_in_time_the_margins_stand_alone_and_the_proof_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = Attempt.run

    def alone(attempt: Attempt, threads_of: Any, *rest: Any) -> Attempt:
        if "highs" not in threads_of:
            raise UsageError("this solver cannot take the model")
        return honest(attempt, threads_of, *rest)

    monkeypatch.setattr(Attempt, "run", alone)
    result = solve(billions(), formulation="ip-tarnawski", solver="highs", warm_start="none")
    assert result.found == Found.OPTIMAL
    assert any("no second opinion" in check for check in result.proof.checks)


@pytest.mark.parametrize("solver", ["cp-sat", "highs"])
def test_a_proof_that_there_is_no_plan_names_who_found_that(solver: str) -> None:
    """Colour classes that fit alone and not together, on one accelerator without a CPU to turn to."""
    nodes = [node(0, 1.0, 1.0, size_bytes=2), node(1, 1.0, 1.0, size_bytes=2, transfer_time=1.0), node(2, 1.0, 1.0)]
    problem = placement(nodes, [[0, 1], [1, 2]], accelerators=1, cpus=0, memory_bytes=3)
    for variant in ("strong", "plain"):
        result = solve(problem, formulation="ip-tarnawski", solver=solver, options={"variant": variant})
        assert (result.stop, result.bound) == (Stop.INFEASIBLE, None)
        assert any("no plan at all" in check or "before any solver" in check for check in result.proof.checks)


def test_every_backend_has_a_rule() -> None:
    """Whole numbers are taken as they are; floats get room around the cut-off, and their bounds count for less."""
    assert [name for name in BACKENDS if is_exact(name)] == ["cp-sat"]
    assert cutoff_for("cp-sat", 10.0) == 10.0
    assert safe_bound("cp-sat", 10.0) == 10.0
    for name in BACKENDS:
        if is_exact(name):
            continue
        room = cutoff_for(name, 10.0)
        assert room > 10.0
        assert safe_bound(name, 10.0) < 10.0
        assert safe_bound(name, -10.0) < -10.0
        assert name not in second_opinions(name)
        assert second_opinions(name)[0] == "cp-sat"
        assert "margins" in evidence(name, "refuted everything")


@pytest.mark.timing
def test_limits_of_the_backends_own_clock_are_limits() -> None:
    """The solver's clock may ring before ours: that is a limit that was hit, not an error."""
    problem = billions()
    for seconds in (0.0, 0.02, 0.05, 0.1):
        for solver in ("highs", "cp-sat", "scip"):
            result = solve(
                problem,
                formulation="ip-tarnawski",
                solver=solver,
                warm_start="none",
                limits=SolveOptions(time_limit_s=seconds),
            )
            assert result.stop != Stop.ERROR, result.messages
