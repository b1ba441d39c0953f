"""What a method says becomes what we report: plans pass the referee, and what is proven is settled in one place."""

from __future__ import annotations

import math
from dataclasses import replace

from ...formulations.contract import Plan
from ...formulations.family import Family
from ...instances.base.errors import TooLargeError
from ...instances.base.kind import Rules
from ...instances.base.quantities import with_unit
from ...instances.base.result import Found, Proof, Result, Stop, met
from ..contract import Board, Outcome, Request
from ..options import SolveOptions
from ..referee import OwnObjective, Ruling, contradiction, is_above, rule

RECOMPUTED = "the referee recomputed the plan's value"
NO_FAMILY = "the method's bound was dropped: it does not say for which plans it holds"


def judge(
    request: Request, rules: Rules, method: str, family: Family | None, outcome: Outcome, is_plugin: bool = False
) -> Result:
    """The best plan that stands before the referee, with a bound and a stop that do not contradict it.

    What is proven names its evidence, and the plans of which it speaks: `family`, None where `method` proves nothing.
    What the referee has accepted in this run stands as it is. Where somebody else's method contradicts the referee
    (`is_plugin`), its author is told what to mend.
    """
    board, messages = request.board, list(outcome.messages)
    rulings = [
        within(method, family, board.ruling_of(plan) or rule(request.problem, plan, rules))
        for plan in _offers(outcome, board)
    ]
    refused = [ruling for ruling in rulings if ruling.value is None]
    best = min(rulings, key=lambda ruling: math.inf if ruling.value is None else ruling.value, default=None)
    bound = _bound(outcome, board, family, messages)
    if refused:
        text = f"the referee rejected a plan: {refused[0].violations[0]}"
        messages += [] if text in messages else [text]
        bound = None  # who is wrong about plans is not believed about bounds
    stop = outcome.stop
    if NO_FAMILY in messages and stop in (Stop.PROVEN, Stop.GAP):
        stop = Stop.COMPLETED  # what it calls a proof went with its bound
    claim = Result(
        problem={},
        stop=Stop.ERROR if refused else stop,
        found=Found.NOTHING,
        claimed=_claimed(best, outcome, board),
        bound=bound,
        scope=None if family is None else family.scope,
        wider=None if family is None else family.wider,
        proof=None if family is None else _proof(method, family, outcome, len(refused) < len(rulings)),
        messages=tuple(messages),
    )
    judged = settle(claim, best, request.limits)
    wrong_claim = board.doubt or contradiction(judged.claimed, judged.objective)
    doubts = (*judged.messages[len(messages) :], *(() if wrong_claim is None else (wrong_claim,)))
    if doubts and is_plugin:
        doubts = (_to_mend(method, doubts, rules, request.problem.time_unit),)
    if isinstance(rules, OwnObjective) and judged.verified:
        value = with_unit(rules.usual.value(request.problem, judged.plan), request.problem.time_unit)
        messages.append(f"{method} minimises {rules.objective}; the {rules.usual.objective} of its plan is {value}")
    contradicted = judged.stop == Stop.ERROR and judged.verified and bool(doubts)
    return replace(judged, messages=(*messages, *doubts), contradiction="; ".join(doubts) if contradicted else None)


def _to_mend(method: str, doubts: tuple[str, ...], rules: Rules, unit: str | None) -> str:
    """What the author of a method that contradicts the referee has to mend."""
    return (
        f"{method} contradicts the referee ({'; '.join(doubts)}); mend its objective, which has to be minimised and "
        f"to equal the plan's {rules.objective}{f' in {unit}' if unit else ''}, or its family, which has to leave out "
        "the plans that the method cannot find"
    )


def within(method: str, family: Family | None, ruling: Ruling) -> Ruling:
    """The ruling, unless the plan is none of those that the method says it plans: then its bound says nothing."""
    if family is None or ruling.value is None:
        return ruling
    try:
        reason = family.outside(ruling.plan)
    except TooLargeError:  # nobody can say
        return ruling
    if reason is None:
        return ruling
    why = f"the plan has {reason.why}, which is outside what {method} plans ({family.scope})"
    return Ruling(ruling.plan, None, (why,))


def settle(claim: Result, ruling: Ruling | None, limits: SolveOptions | None = None) -> Result:
    """Stop, bound and proof as far as the referee's ruling on the plan leaves them (None: there is no plan)."""
    if ruling is None:
        return _bounded(_without_plan(claim))
    rejected = replace(
        claim,
        stop=Stop.ERROR,
        found=Found.REJECTED,
        plan=ruling.plan,
        objective=ruling.value,
        bound=None,
        verified=ruling.value is not None,
        violations=ruling.violations,
    )
    if ruling.value is None:
        return rejected.unproven()
    stop, bound, doubts = _settled(claim.stop, ruling.value, claim.bound, limits or SolveOptions())
    found = Found.OPTIMAL if stop == Stop.PROVEN else Found.FEASIBLE
    return _bounded(replace(rejected, stop=stop, found=found, bound=bound, messages=(*claim.messages, *doubts)))


def _without_plan(claim: Result) -> Result:
    nothing = replace(claim, found=Found.NOTHING, objective=None, verified=False, violations=())
    if claim.stop in (Stop.PROVEN, Stop.GAP):
        doubt = f"the method says {claim.stop} and offers no plan"
        return replace(nothing, stop=Stop.ERROR, messages=(*claim.messages, doubt))
    # A bound speaks of values, and where there is no plan at all there is none.
    return replace(nothing, bound=None) if claim.stop == Stop.INFEASIBLE else nothing


def _bounded(result: Result) -> Result:
    """The result without what it does not prove: only a bound speaks of other plans, only a proven one has a proof."""
    if not result.is_bounded:
        return result.unproven()
    return result if result.stop in (Stop.PROVEN, Stop.INFEASIBLE) else replace(result, proof=None)


def _settled(
    stop: Stop, value: float, bound: float | None, limits: SolveOptions
) -> tuple[Stop, float | None, tuple[str, ...]]:
    """`proven` exactly where value and bound meet; a contradiction is an error, said in words, and costs the bound."""
    if stop in (Stop.INFEASIBLE, Stop.UNBOUNDED):
        return Stop.ERROR, None, (f"the method says {stop}, yet the referee accepts a plan of value {value!r}",)
    if is_above(bound, value):
        dropped = f"the bound {bound!r} was dropped: the referee accepts a plan of value {value!r} below it"
        return Stop.ERROR, None, (dropped,)
    bound = None if bound is None else min(bound, value)
    if stop != Stop.ERROR and met(value, bound):
        return Stop.PROVEN, bound, ()
    if stop == Stop.PROVEN and limits.reached(value, bound):
        return Stop.GAP, bound, ()
    if stop == Stop.PROVEN:
        unproven = f"the method calls its plan proven, but value {value!r} and bound {bound!r} do not meet"
        return Stop.ERROR, bound, (unproven,)
    if stop == Stop.GAP and bound is None:
        return Stop.ERROR, None, (f"the method says {stop}, yet there is no bound to its plan of value {value!r}",)
    return stop, bound, ()


def _proof(method: str, family: Family, outcome: Outcome, has_plan: bool) -> Proof:
    """What stands behind the bound, if it closes the gap."""
    checks = (*outcome.checks, RECOMPUTED) if has_plan else outcome.checks
    return Proof(method, outcome.backend.get("name"), outcome.backend.get("version"), family.scope, checks)


def _offers(outcome: Outcome, board: Board) -> list[Plan]:
    offers = [] if outcome.plan is None else [outcome.plan]
    if board.plan is not None and board.plan != outcome.plan:
        offers.append(board.plan)
    return offers


def _bound(outcome: Outcome, board: Board, family: Family | None, messages: list[str]) -> float | None:
    """The better of the two bounds; one that is not finite, or says not of which plans, is reported and dropped."""
    bounds = [bound for bound in (outcome.bound, board.bound) if bound is not None]
    finite = [bound for bound in bounds if math.isfinite(bound)]
    if len(finite) < len(bounds):
        messages.append("a bound that is not a finite number was dropped")
    if finite and family is None:
        messages.append(NO_FAMILY)
        return None
    return max(finite, default=None)


def _claimed(best: Ruling | None, outcome: Outcome, board: Board) -> float | None:
    """What the method says that the plan is worth."""
    if best is None:
        return None
    posted = best.value is not None and best.plan != outcome.plan
    claimed = board.value if posted else outcome.claimed
    return claimed if claimed is not None and math.isfinite(claimed) else None
