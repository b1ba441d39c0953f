"""`solve`: whatever a method does, what is reported has passed the referee and does not contradict itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pipeplan import InputError, Node, OptionSpec, Outcome, PlacementPlan, PlacementProblem, Request, UsageError
from pipeplan.formulations.registry import FORMULATIONS, NON_CONTIGUOUS, OBJECTIVE, Entry
from pipeplan.instances.base.result import Found, Result, StartOutcome, Stop, WarmStart
from pipeplan.planners import exact
from pipeplan.planners.options import Progress, SolveOptions
from pipeplan.planners.registry import PLANNERS
from pipeplan.planners.run import choose as choice
from pipeplan.planners.run import solve

PROBLEM = PlacementProblem(
    nodes=tuple(Node(i, accelerator_time=float(i), cpu_time=10.0 * i) for i in (1, 2, 3)),
    edges=((1, 2), (2, 3)),
    accelerators=2,
    cpus=0,
    name="three in a row",
)


def split(*devices: int) -> PlacementPlan:
    return PlacementPlan.from_assignment(PROBLEM, dict(zip((1, 2, 3), devices, strict=True)))


GOOD = split(0, 0, 1)  # loads 3 and 3: the optimum
POOR = split(0, 1, 1)  # loads 1 and 5
BROKEN = split(0, 1, 0)  # not a chain of stages
INCOMPLETE = PlacementPlan(GOOD.devices[:1])


class Fake:
    """A planner that does what the test says; as a formulation it asks for a chain of stages."""

    def __init__(self, act: Callable[[Request], Outcome]) -> None:
        self.plan = act

    def contiguity(self, options: object) -> str:
        return "chain"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Solve with a planner named `fake` that behaves as told."""

    def run(act: Callable[[Request], Outcome], **asked: Any) -> Result:
        scope = "pipeplan.planners.placement.groups:placements"
        entry = Entry("fake", "for tests", "placement", "nowhere:NOTHING", (NON_CONTIGUOUS, OBJECTIVE), scope=scope)
        monkeypatch.setattr(Entry, "load", lambda self: Fake(act))
        monkeypatch.setattr(exact, "load_solvers", lambda problem, options: None)  # the fake has none
        monkeypatch.setattr(choice, "PLANNERS", {**PLANNERS, "fake": entry})
        return solve.solve(PROBLEM, **{"planner": "fake", **asked})

    return run


def answer(stop: Stop = Stop.COMPLETED, **facts: Any) -> Callable[[Request], Outcome]:
    return lambda request: Outcome(stop, **facts)


# ---- what is reported ----------------------------------------------------------------------------------


def boasting(request: Request) -> Outcome:
    """Says that there is no plan, having posted one."""
    request.board.post(POOR, 5.0)
    return Outcome(Stop.INFEASIBLE)


@pytest.mark.parametrize(("act", "gap", "stop", "found", "bound", "said"), [
    (answer(plan=POOR, claimed=4.0), 0, Stop.COMPLETED, Found.FEASIBLE, None, "claimed 4.0, the referee"),
    (answer(Stop.PROVEN, plan=GOOD, claimed=3.0, bound=3.0), 0, Stop.PROVEN, Found.OPTIMAL, 3.0, None),
    (answer(Stop.TIME, plan=GOOD, bound=3.0 - 1e-7), 0, Stop.PROVEN, Found.OPTIMAL, 3.0 - 1e-7, None),
    (answer(Stop.GAP, plan=GOOD, bound=3.0 - 1e-7), 0, Stop.PROVEN, Found.OPTIMAL, 3.0 - 1e-7, None),
    (answer(Stop.INTERRUPTED, plan=GOOD, bound=3.0 - 1e-7), 0, Stop.PROVEN, Found.OPTIMAL, 3.0 - 1e-7, None),
    (answer(Stop.PROVEN, plan=GOOD, bound=3.0 + 1e-12), 0, Stop.PROVEN, Found.OPTIMAL, 3.0, None),
    (answer(Stop.PROVEN, plan=POOR, claimed=5.0), 0, Stop.ERROR, Found.FEASIBLE, None, "do not meet"),
    (answer(Stop.PROVEN, plan=POOR, bound=4.9), 0.05, Stop.GAP, Found.FEASIBLE, 4.9, None),
    (answer(Stop.GAP, plan=GOOD, claimed=3.0), 0, Stop.ERROR, Found.FEASIBLE, None, "yet there is no bound"),
    (answer(Stop.PROVEN, plan=GOOD, claimed=3.0, bound=3.5), 0, Stop.ERROR, Found.FEASIBLE, None, "3.5"),
    (answer(plan=GOOD, bound=math.nan), 0, Stop.COMPLETED, Found.FEASIBLE, None, "not a finite number"),
    (answer(plan=GOOD, bound=math.inf), 0, Stop.COMPLETED, Found.FEASIBLE, None, "not a finite number"),
    (answer(plan=GOOD, bound=-math.inf), 0, Stop.COMPLETED, Found.FEASIBLE, None, "not a finite number"),
    (boasting, 0, Stop.ERROR, Found.FEASIBLE, None, "says infeasible, yet the referee accepts a plan"),
    (answer(Stop.INFEASIBLE), 0, Stop.INFEASIBLE, Found.NOTHING, None, None),
    (answer(Stop.PROVEN), 0, Stop.ERROR, Found.NOTHING, None, "offers no plan"),
])  # fmt: skip
def test_what_a_method_says_is_settled_by_the_referee(
    run: Callable[..., Result],
    act: Callable[[Request], Outcome],
    gap: float,
    stop: Stop,
    found: Found,
    bound: float | None,
    said: str | None,
) -> None:
    """A plan is recomputed, proven is where value and bound meet, and what contradicts itself is an error."""
    result = run(act, limits=SolveOptions(rel_gap=gap))
    assert (result.stop, result.found, result.bound) == (stop, found, bound)
    assert result.verified == (found != Found.NOTHING)
    assert said is None or said in result.messages[0]


# ---- rejected plans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [BROKEN, INCOMPLETE, {"devices": []}])
def test_a_rejected_plan_is_reported_as_such(run: Callable[..., Result], bad: Any) -> None:
    result = run(answer(Stop.PROVEN, plan=bad, claimed=1.0, bound=1.0))
    assert (result.stop, result.found, result.verified) == (Stop.ERROR, Found.REJECTED, False)
    assert (result.objective, result.bound) == (None, None)
    assert result.violations


def test_a_rejected_plan_gives_way_to_a_verified_one(run: Callable[..., Result]) -> None:
    def act(request: Request) -> Outcome:
        request.board.post(POOR, 5.0)
        return Outcome(Stop.PROVEN, plan=BROKEN, claimed=1.0, bound=1.0)

    result = run(act)
    assert (result.plan, result.stop, result.found, result.bound) == (POOR, Stop.ERROR, Found.FEASIBLE, None)
    assert "rejected" in result.messages[0]


def test_the_options_decide_the_rules(run: Callable[..., Result]) -> None:
    """Nodes 1 and 3 on one device are no chain of stages, and they need not be one."""
    result = run(answer(plan=BROKEN), options={"non_contiguous": True})
    assert (result.found, result.objective) == (Found.FEASIBLE, 4.0)
    assert result.options["contiguity"] == "none"


# ---- faults --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "stop", "said"), [
    (ValueError("rubbish"), Stop.ERROR, "ValueError"),
    (AssertionError(), Stop.ERROR, "AssertionError"),
    (MemoryError(), Stop.MEMORY, "ran out of memory"),
])  # fmt: skip
def test_a_method_that_fails_costs_itself_only(
    run: Callable[..., Result], fault: Exception, stop: Stop, said: str
) -> None:
    def act(request: Request) -> Outcome:
        request.board.post(POOR, 5.0, bound=2.0)
        raise fault

    result = run(act)
    assert (result.stop, result.found, result.plan, result.bound) == (stop, Found.FEASIBLE, POOR, 2.0)
    assert said in result.messages[0]


def test_an_interrupt_keeps_the_best_plan_and_its_gap(run: Callable[..., Result]) -> None:
    def act(request: Request) -> Outcome:
        request.board.post(POOR, 5.0)
        request.board.post(GOOD, 3.0)
        request.board.post(POOR, 5.0, bound=2.0)
        raise KeyboardInterrupt

    result = run(act)
    assert (result.stop, result.plan, result.objective, result.bound) == (Stop.INTERRUPTED, GOOD, 3.0, 2.0)


def test_an_interrupt_while_the_referee_works_loses_nothing(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, calls = solve.judge, []

    def interrupted_once(*facts: Any) -> Any:
        calls.append(facts)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return judge(*facts)

    monkeypatch.setattr(solve, "judge", interrupted_once)
    assert run(answer(plan=GOOD)).objective == 3.0


def test_what_the_user_can_mend_is_left_to_the_user(run: Callable[..., Result]) -> None:
    def act(request: Request) -> Outcome:
        raise InputError("split", "is missing", "give a file")

    with pytest.raises(InputError, match="split is missing"):
        run(act)


# ---- warm starts ---------------------------------------------------------------------------------------


def test_a_users_plan_is_handed_on_and_counts_as_an_incumbent(run: Callable[..., Result]) -> None:
    def act(request: Request) -> Outcome:
        assert request.warm_start == POOR
        return Outcome(Stop.TIME, warm_start=WarmStart(StartOutcome.ACCEPTED))

    result = run(act, planner="exact", warm_start=POOR)
    assert result.warm_start == WarmStart(StartOutcome.ACCEPTED, "user", 5.0)
    assert (result.found, result.objective) == (Found.FEASIBLE, 5.0)


def test_a_warm_start_that_breaks_a_rule_is_not_handed_on(run: Callable[..., Result]) -> None:
    def act(request: Request) -> Outcome:
        assert request.warm_start is None
        return Outcome(Stop.PROVEN, GOOD, 3.0, 3.0)

    result = run(act, planner="exact", warm_start=INCOMPLETE)
    assert result.warm_start.outcome == StartOutcome.REJECTED
    assert result.messages[0].startswith("the warm start was not used")
    assert result.found == Found.OPTIMAL


def test_quick_planners_that_fail_cost_the_start_only(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(request: Request) -> Outcome:
        if "formulation" not in request.options:
            raise RuntimeError("no luck")
        return Outcome(Stop.PROVEN, GOOD, 3.0, 3.0)

    result = run(act, planner=None)
    assert result.found == Found.OPTIMAL
    assert len(result.messages) == len(FORMULATIONS["ip-tarnawski"].starts["auto"])


def test_no_warm_start_where_none_is_wanted(run: Callable[..., Result]) -> None:
    def act(request: Request) -> Outcome:
        assert "formulation" in request.options, "a quick planner was run"
        assert request.warm_start is None
        return Outcome(Stop.TIME)

    assert run(act, planner="exact", warm_start="none").found == Found.NOTHING


# ---- names and options ---------------------------------------------------------------------------------


def test_neither_name_given_means_the_best_exact_method_which_is_named(run: Callable[..., Result]) -> None:
    result = run(answer(Stop.PROVEN, plan=GOOD, bound=3.0), planner=None, warm_start="none")
    assert (result.planner, result.formulation) == ("exact", "ip-tarnawski")
    assert result.options["variant"] == "strong"


@pytest.mark.parametrize(("asked", "sentence"), [
    ({"planner": "greedy", "solver": "highs"}, "uses no solver"),
    ({"formulation": "ip-tarnawski", "options": {"colour": "red"}}, "There is no option 'colour'"),
    ({"solver": "abacus"}, "abacus"),
    ({"planner": "greedy", "warm_start": GOOD}, "starts from nothing; .* one of exact, dp, lns"),
])  # fmt: skip
def test_combinations_that_make_no_sense_are_refused(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        solve.solve(PROBLEM, **asked)


@pytest.mark.parametrize(("spec", "value", "wrong"), [
    (OptionSpec("x", "flag", False, ""), True, "yes"),
    (OptionSpec("x", "choice", "a", "", ("a", "b")), "b", "c"),
    (OptionSpec("x", "int", 1, ""), 2, 2.5),
    (OptionSpec("x", "float", 1.0, ""), 2, math.nan),
    (OptionSpec("x", "text", "a", ""), "b", ""),
    (OptionSpec("x", "path", None, ""), None, ""),
])  # fmt: skip
def test_options_have_types(spec: OptionSpec, value: Any, wrong: Any) -> None:
    assert choice.check_value(spec, value) == value
    with pytest.raises(InputError, match="option x is"):
        choice.check_value(spec, wrong)


def test_everything_that_can_change_the_answer_is_echoed(run: Callable[..., Result]) -> None:
    limits = SolveOptions(time_limit_s=9.0, rel_gap=0.5, seed=7)
    echo = run(answer(plan=GOOD), limits=limits).options
    assert (echo["time_limit_s"], echo["rel_gap"], echo["seed"], echo["objective"]) == (9.0, 0.5, 7, "max-load")
    assert (echo["contiguity"], echo["proven_tolerance"]) == ("chain", 1e-6)


def test_own_options_never_hide_a_common_one() -> None:
    common = set(SolveOptions().to_json()) | {"formulation", "planner", "solver", "contiguity", "warm_start"}
    for entry in PLANNERS.values():
        assert not common & {spec.name for spec in entry.options}


def test_progress_reaches_whoever_watches(run: Callable[..., Result]) -> None:
    seen: list[Progress] = []

    def act(request: Request) -> Outcome:
        request.board.post(POOR, 5.0, bound=1.0)
        request.board.post(GOOD, 3.0, source="a friend")
        return Outcome(Stop.COMPLETED, GOOD)

    run(act, on_progress=seen.append)
    told = [(p.incumbent, p.bound, p.source) for p in seen]
    assert (told, seen[0].gap) == ([(5.0, 1.0, "fake"), (3.0, 1.0, "a friend")], 0.8)


def test_seconds_add_up(run: Callable[..., Result]) -> None:
    seconds = run(answer(plan=GOOD, seconds={"build": 0.0})).seconds
    assert 0 <= seconds["build"] + seconds["solve"] <= seconds["total"]


def test_the_result_names_its_problem(run: Callable[..., Result]) -> None:
    facts = run(answer(plan=GOOD)).to_json()["problem"]
    assert facts["hash"] == PROBLEM.hash
    assert (facts["kind"], facts["nodes"], facts["edges"], facts["accelerators"]) == ("placement", 3, 2, 2)
