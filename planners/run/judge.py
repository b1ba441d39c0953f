"""What a planner says becomes what we report: every plan passes the referee, every bound is compared with it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...formulations.contract import Plan, Problem
from ...formulations.family import Family
from ...instances.kind import Rules
from ...instances.result import PROVEN_TOLERANCE, Found, Proof, Stop, relative_gap
from ..contract import Board, Outcome
from ..options import SolveOptions
from ..referee import BOUND_SLACK, Ruling, rule

RECOMPUTED = "the referee recomputed the plan's value"
NO_FAMILY = "the method's bound was dropped: it does not say for which plans it holds"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The facts of a `Result` that the referee decides."""

    stop: Stop
    found: Found
    plan: Plan | None = None
    objective: float | None = None
    claimed: float | None = None
    bound: float | None = None
    violations: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    family: Family | None = None
    """The plans of which the bound, or the proof that there is none, speaks."""
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class Author:
    """Whose outcome is judged, and of which plans its bounds speak (None: it proves nothing)."""

    method: str
    family: Family | None


def judge(
    problem: Problem, rules: Rules, author: Author, outcome: Outcome, board: Board, limits: SolveOptions
) -> Verdict:
    """The best plan that stands before the referee, with a bound and a stop that do not contradict it.

    What is proven names its evidence, and the plans of which it speaks.
    """
    verdict = _verdict(problem, rules, author.family, outcome, board, limits)
    if author.family is None or (verdict.bound is None and verdict.stop != Stop.INFEASIBLE):
        return verdict
    verdict = replace(verdict, family=author.family)
    if verdict.stop not in (Stop.PROVEN, Stop.INFEASIBLE):
        return verdict
    checks = (*outcome.checks, *([RECOMPUTED] if verdict.plan is not None else []))
    solver, version = (_text(outcome.backend.get(key)) for key in ("name", "version"))
    return replace(verdict, proof=Proof(author.method, solver, version, author.family.scope, checks))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _verdict(
    problem: Problem, rules: Rules, family: Family | None, outcome: Outcome, board: Board, limits: SolveOptions
) -> Verdict:
    messages = list(outcome.messages)
    rulings = [rule(problem, plan, rules) for plan in _offers(outcome, board)]
    accepted = [ruling for ruling in rulings if ruling.value is not None]
    refused = [ruling for ruling in rulings if ruling.value is None]
    bound = _bound(outcome, board, messages)
    if bound is not None and family is None:
        messages.append(NO_FAMILY)
        bound = None
    if refused:
        text = f"the referee rejected a plan: {refused[0].violations[0]}"
        messages += [] if text in messages else [text]
        bound = None  # who is wrong about plans is not believed about bounds
    if not accepted:
        return _without_plan(outcome, refused, bound, messages)
    best = min(accepted, key=lambda ruling: ruling.value if ruling.value is not None else math.inf)
    assert best.value is not None
    claimed = outcome.claimed if best.plan is outcome.plan else board.value
    stop = Stop.ERROR if refused else outcome.stop
    stop, bound = _settle(stop, best.value, bound, limits, messages)
    _compare_claim(best.value, claimed, messages)
    found = Found.OPTIMAL if stop == Stop.PROVEN else Found.FEASIBLE
    return Verdict(stop, found, best.plan, best.value, _finite(claimed), bound, (), tuple(messages))


def _offers(outcome: Outcome, board: Board) -> list[Plan]:
    offers = [] if outcome.plan is None else [outcome.plan]
    if board.plan is not None and board.plan != outcome.plan:
        offers.append(board.plan)
    return offers


def _bound(outcome: Outcome, board: Board, messages: list[str]) -> float | None:
    """The better of the two bounds; what is not a number is reported and dropped."""
    bounds = [bound for bound in (outcome.bound, board.bound) if bound is not None]
    if any(not math.isfinite(bound) for bound in bounds):
        messages.append("a bound that is not a finite number was dropped")
    return max((bound for bound in bounds if math.isfinite(bound)), default=None)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _without_plan(outcome: Outcome, refused: list[Ruling], bound: float | None, messages: list[str]) -> Verdict:
    if refused:
        first = refused[0]
        claimed = _finite(outcome.claimed)
        return Verdict(Stop.ERROR, Found.REJECTED, first.plan, None, claimed, None, first.violations, tuple(messages))
    stop = outcome.stop
    if stop in (Stop.PROVEN, Stop.GAP):
        messages.append(f"the method says {stop} and offers no plan")
        stop = Stop.ERROR
    # Of no plan at all there is no value to bound.
    return Verdict(stop, Found.NOTHING, bound=None if stop == Stop.INFEASIBLE else bound, messages=tuple(messages))


def _settle(
    stop: Stop, value: float, bound: float | None, limits: SolveOptions, messages: list[str]
) -> tuple[Stop, float | None]:
    """`proven` exactly where objective and bound meet; a contradiction is an error and costs the bound."""
    if stop in (Stop.INFEASIBLE, Stop.UNBOUNDED):
        messages.append(f"the method says {stop}, yet the referee accepts a plan of value {value!r}")
        return Stop.ERROR, None
    if bound is not None and bound > value + BOUND_SLACK * abs(value):
        messages.append(f"the bound {bound!r} was dropped: the referee accepts a plan of value {value!r} below it")
        return Stop.ERROR, None
    bound = None if bound is None else min(bound, value)
    gap = relative_gap(value, bound)
    if stop == Stop.ERROR:
        return stop, bound
    if gap is not None and gap <= PROVEN_TOLERANCE:
        return Stop.PROVEN, bound
    if stop == Stop.PROVEN:
        return _unproven(value, bound, limits, messages), bound
    return stop, bound


def _unproven(value: float, bound: float | None, limits: SolveOptions, messages: list[str]) -> Stop:
    """The method calls its plan proven, the recomputed numbers do not."""
    if bound is not None and reached(value, bound, limits):
        return Stop.GAP
    messages.append(f"the method calls its plan proven, but value {value!r} and bound {bound!r} do not meet")
    return Stop.ERROR


def reached(value: float, bound: float, limits: SolveOptions) -> bool:
    """Is the gap that was asked for reached?"""
    gap = relative_gap(value, bound)
    return value - bound <= limits.abs_gap or (gap is not None and gap <= limits.rel_gap)


def _compare_claim(value: float, claimed: float | None, messages: list[str]) -> None:
    """A claim may be higher than the plan's value (a model's load variable need not be tight), not lower."""
    if (
        claimed is not None
        and value > claimed
        and not math.isclose(value, claimed, rel_tol=PROVEN_TOLERANCE, abs_tol=1e-12)
    ):
        messages.append(f"the method claimed {claimed!r}, the referee computes {value!r}")
