"""What stored results claim, against what their plans and bounds say: nothing that a file says of itself is believed.

`recompute` computes anew whatever follows from the plan; `verify_proof` proves the bound anew, if possible by a method
that shares no arithmetic with the first. A result says of which plans its bound speaks. A second exact method over the
same plans (`proves_anew` of its entry) is asked whether there is a plan below that bound, starting from the stored
plan, which the referee has recomputed. Where there is no second method, the first one has to refute its cut-off again:
with another solver, or with other random numbers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ...formulations.contract import Problem
from ...formulations.plugins import is_address
from ...formulations.registry import FORMULATIONS, Entry
from ...instances.base.clock import now
from ...instances.base.errors import InputError, PipeplanError, UsageError
from ...instances.base.quantities import with_unit
from ...instances.base.result import PROVEN_TOLERANCE, Found, Result, Stop, relative_gap
from ...instances.chain.plan import stored_allocation
from ...instances.lookup import problem_of, result_of
from ...instances.physics.tolerances import SAME
from ..backends.registry import STANDARD
from ..options import Progress, SolveOptions, check_asked, limits_of
from ..referee import OWN_OBJECTIVE, Ruling, as_judged, is_above, rule, rules_of
from ..registry import EXACT, PLANNERS, find_method, provers
from .choose import Method, choose
from .judge import settle, within
from .solve import contradiction, facts_of, solve


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A result whose figures are the referee's, and in words where the stored ones were others."""

    result: Result
    differences: tuple[str, ...]


def check_same_problem(problem: Problem, result: Result) -> None:
    """Refuse a result about another problem: it says nothing about this one."""
    stored_hash = result.problem.get("hash")
    if stored_hash != problem.hash:
        remedy = "name the instance that was solved, on the same cluster"
        raise InputError("problem.hash", f"is {stored_hash}, but the instance has {problem.hash}", remedy)


def recompute(problem: Problem, result: Result) -> Recomputed:
    """The result with value, verdict, bound and stop computed anew: without a bound that its plan refutes, and without
    a proof that does not close the gap."""
    stored_hash = result.problem.get("hash")
    if stored_hash != problem.hash:
        other = f"the result is about another problem: its hash is {stored_hash}, this one has {problem.hash}"
        nothing = replace(result.unproven(), stop=Stop.ERROR, found=Found.REJECTED, verified=False, objective=None)
        return Recomputed(nothing, (other,))
    ruling = None if result.plan is None else rule(problem, result.plan, rules_of(problem, result.options))
    own, messages = result.options.get(OWN_OBJECTIVE), result.messages
    if own is not None and ruling is not None and ruling.value is not None and result.objective is not None:
        ruling, messages = replace(ruling, value=result.objective), (*messages, f"{own} was not recomputed")
    if ruling is not None and result.scope is not None:
        ruling = _within_scope(problem, result, ruling)
    refuted = ruling is not None and result.stop in (Stop.INFEASIBLE, Stop.UNBOUNDED)
    claim = replace(result, stop=Stop.PROVEN) if refuted else result  # it still claims a proof: the figures decide
    true = replace(settle(claim, ruling), messages=tuple(dict.fromkeys(messages)))
    differences = tuple(_differences(problem, result, ruling))
    if result.in_scope is None:
        return Recomputed(true, differences)
    inner = recompute(problem, result.in_scope)
    told = tuple(f"in its scope {difference}" for difference in inner.differences)
    return Recomputed(replace(true, in_scope=inner.result), differences + told)


def _within_scope(problem: Problem, result: Result, ruling: Ruling) -> Ruling:
    """What is proven of a family is not believed where the plan is none of it; an unknown method says nothing."""
    if is_address(_named(result)):
        return ruling
    try:
        method = stored_method(problem, result)
    except UsageError:
        return ruling  # the differences say so
    return within(method.name, method.family(problem), ruling)


def _differences(problem: Problem, result: Result, ruling: Ruling | None) -> Iterator[str]:
    claims_plan = result.verified or result.objective is not None or result.found in (Found.OPTIMAL, Found.FEASIBLE)
    if ruling is None:
        if claims_plan:
            yield f"the result says {result.found}, yet holds no plan"
    elif ruling.value is None:
        if claims_plan:
            said = f"value {with_unit(result.objective, problem.time_unit)}"
            said = str(result.found) if result.objective is None else said
            yield f"the result says {said}, the referee rejects its plan: {ruling.violations[0]}"
    else:
        yield from _value_differences(result, ruling.value, problem.time_unit)
    yield from _scope_differences(problem, result)


def _value_differences(result: Result, value: float, unit: str | None) -> Iterator[str]:
    computed = with_unit(value, unit)
    if result.objective is None or not math.isclose(result.objective, value, rel_tol=SAME):
        yield f"the result says value {with_unit(result.objective, unit)}, the referee computes {computed}"
    if not result.verified:
        yield f"the result says that nothing was verified, the referee accepts its plan at {computed}"
    if result.stop in (Stop.INFEASIBLE, Stop.UNBOUNDED):
        yield f"the result says {result.stop}, the referee accepts its plan at {computed}"
    if is_above(result.bound, value):
        yield f"the result says bound {with_unit(result.bound, unit)}, above its plan's value {computed}"
        return
    gap = relative_gap(value, result.bound)
    if result.stop == Stop.PROVEN or result.found == Found.OPTIMAL or result.proof is not None:
        if gap is None:
            yield f"the result says {Stop.PROVEN}, yet there is no bound to its value {computed}"
        elif gap > PROVEN_TOLERANCE:
            apart = f"value {computed} and bound {with_unit(result.bound, unit)} are {100 * gap:.3g} % apart"
            yield f"the result says {Stop.PROVEN}, yet {apart}"
    elif result.stop == Stop.GAP and gap is None:
        yield f"the result says that a gap was reached, yet there is no bound to its value {computed}"


def _scope_differences(problem: Problem, result: Result) -> Iterator[str]:
    """A result may name no plans of which its bound speaks."""
    if is_address(_named(result)):
        return
    scopes = dict.fromkeys(filter(None, (result.scope, None if result.proof is None else result.proof.scope)))
    if not scopes:
        return
    try:
        family = stored_method(problem, result).family(problem)
    except UsageError as error:
        yield f"the result says that its bound holds for {', '.join(scopes)}; its method says nothing: {error}"
        return
    for scope in scopes:
        if family is None or scope != family.scope:
            proves = "nothing" if family is None else f"for {family.scope}"
            yield f"the result says that its bound holds for {scope}; its method proves {proves}"


def _named(result: Result) -> str:
    """The name of the method that made it, as it says."""
    return result.formulation or result.planner or ""


def stored_method(problem: Problem, result: Result) -> Method:
    """The method that a result names, with the options that it names; what no longer exists is refused in words."""
    name = _named(result)
    if OWN_OBJECTIVE in result.options:
        raise UsageError(
            f"Only {name} itself knows {result.options[OWN_OBJECTIVE]}, which it minimises; plan again."
        )
    if is_address(name):
        raise UsageError(
            f"The result was made by {name!r}, which is imported for no file's sake; install it as a plug-in, "
            "and plan again by its name."
        )
    planner = None if result.formulation is not None and result.planner == EXACT else result.planner
    entry = find_method(name)
    declared = () if entry is None else entry.declared
    options: dict[str, Any] = {name: result.options[name] for name in declared if name in result.options}
    if "allocation" in options:
        options["allocation"] = stored_allocation(options["allocation"])
    return choose(problem, result.formulation, planner, "auto", options)


# ---- is a stored proof right?

# Relative: two proofs of one optimum have bounds that differ by no more.
ENOUGH = PROVEN_TOLERANCE * (1 + 1e-3)
# Digits of bounds in sentences: as many as an eye compares.
DIGITS = 7


class Answer(StrEnum):
    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True)
class ProofCheck:
    """What became of a stored proof."""

    answer: Answer
    reason: str
    """A sentence on how the answer came about."""
    claim: str | None = None
    """What was to be proven, in words; None: the result claims no bound."""
    by: Mapping[str, Any] | None = None
    """What proved it anew: the arguments of `solve`, the solver, and whether it is an independent method."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Stop, value, bound and seconds of that run."""

    def to_json(self) -> dict[str, Any]:
        return {
            "answer": str(self.answer),
            "reason": self.reason,
            "claim": self.claim,
            "by": None if self.by is None else dict(self.by),
            **{name: self.facts.get(name) for name in ("stop", "objective", "bound", "seconds")},
        }


def verify_proof(
    problem: Problem | str | os.PathLike[str],
    result: Result,
    *,
    limits: SolveOptions | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> ProofCheck:
    """Prove a result's bound, or that there is no plan, anew; nothing that the result says is believed.

    Parameters
    ----------
    problem : Problem, str or PathLike
        A problem, the path of a file, or the name of a packaged instance.
    result : Result
        What `pipeplan.solve` or `pipeplan.load_result` returned for this problem.
    limits : SolveOptions, optional
        For all that is tried together. None: no limits.
    on_progress : callable, optional
        Called with a `Progress` whenever there is news. None: nobody watches.

    Returns
    -------
    ProofCheck
        Whether the proof is confirmed, not confirmed or contradicted, with the reason in words and who proved it anew.

    Raises
    ------
    InputError
        The result is about another problem, or an argument has another type.
    UsageError
        The result names a method or an option that does not exist any more.
    """
    problem, result, limits = problem_of(problem), result_of(result), limits_of(limits)
    check_asked({}, None, on_progress)
    check_same_problem(problem, result)
    differences = recompute(problem, result).differences
    if differences:
        return ProofCheck(Answer.CONTRADICTED, "; ".join(differences))
    result = result.own_answer  # of a plan outside the scope nothing is proven
    method = stored_method(problem, result)
    family = method.family(problem)
    if family is None or not result.is_bounded:
        return ProofCheck(
            Answer.NOT_CONFIRMED,
            f"the result holds no proof: {method.name} stopped ({result.stop}) without a bound",
        )
    below = None if result.bound is None else f"below {with_unit(result.bound, problem.time_unit, DIGITS)}"
    claim = f"{f'no plan is {below}' if below else 'there is no plan'} (among {family.scope})"
    return replace(_proven_anew(problem, result, method, limits, on_progress), claim=claim)


@dataclass(frozen=True, slots=True)
class _Ask:
    """A run that can confirm or contradict."""

    method: Method
    other: bool
    """Is it a method that shares no arithmetic with the result's, and none that took part in it?"""
    same: bool = False
    """Is it the result's own method once more?"""
    seed: int = 0

    @property
    def title(self) -> str:
        solver = self.method.solver or "auto"
        return self.method.name + ("" if solver == "auto" else f" on {solver}")


def _proven_anew(
    problem: Problem,
    result: Result,
    method: Method,
    limits: SolveOptions,
    on_progress: Callable[[Progress], None] | None,
) -> ProofCheck:
    """The check by the first run that settles the proof; else by the last one."""
    started, refused = now(), list[str]()
    last: ProofCheck | None = None
    for ask in _asks(problem, result, method):
        left = None if limits.time_limit_s is None else max(0.0, limits.time_limit_s - (now() - started))
        gap = result.gap if result.gap is not None and result.gap > PROVEN_TOLERANCE else 0.0
        run_limits = replace(limits, time_limit_s=left, rel_gap=min(gap, 1.0), seed=ask.seed)
        start: Any = result.plan if ask.method.planner.takes_start and result.plan is not None else "none"
        try:
            second = solve(
                problem,
                **ask.method.names,
                options=ask.method.options,
                limits=run_limits,
                warm_start=start,
                on_progress=on_progress,
            )
        except PipeplanError as error:
            refused.append(f"{ask.title}: {error}")
            continue
        last = _answer(result, second, ask)
        if last.answer != Answer.NOT_CONFIRMED or second.stop in (Stop.TIME, Stop.INTERRUPTED):
            return last
    return last or ProofCheck(Answer.NOT_CONFIRMED, "; ".join(("no method can prove it anew", *refused)))


def _answer(result: Result, second: Result, ask: _Ask) -> ProofCheck:
    by = {**ask.method.names, "backend": second.backend.get("name"), "other_method": ask.other}
    facts = facts_of(second)
    against = contradiction(result, second, same_plans=True)
    if against is not None:
        return ProofCheck(Answer.CONTRADICTED, f"{ask.title}: {against}", by=by, facts=facts)
    why = f": {second.messages[-1]}" if second.stop == Stop.ERROR and second.messages else ""
    related = " (it shares arithmetic with the first method, or took part: no independent method settles it)"
    how = why + ("" if ask.other else " (the same method once more: no other settles it)" if ask.same else related)
    if result.bound is None:
        agreed = second.stop == Stop.INFEASIBLE
        words = "finds no plan either" if agreed else f"stopped ({second.stop}) before it knew"
    else:
        value = result.bound if result.objective is None else result.objective
        agreed = second.bound is not None and second.bound >= result.bound - ENOUGH * abs(value)
        unit = result.problem.get("time_unit")
        reached = "no bound" if second.bound is None else f"the bound {with_unit(second.bound, unit, DIGITS)}"
        words = f"proves {reached} again" if agreed else f"stopped ({second.stop}) at {reached}"
    return ProofCheck(
        Answer.CONFIRMED if agreed else Answer.NOT_CONFIRMED, f"{ask.title} {words}{how}", by=by, facts=facts
    )


def _asks(problem: Problem, result: Result, method: Method) -> Iterator[_Ask]:
    """Independent methods over the same plans, then related ones and those that took part, then the same one."""
    asked, took_part = list[Method](), set[str]()
    if method.formulation is not None:  # planners that it calls by itself, so that their word may be its own
        took_part = {own.planner for own in method.entry.load().portfolio(problem, method.options, found=True)}
    for entry in provers(problem.kind):
        for options in entry.proves_anew if entry.name != method.name else ():
            other = _second(problem, entry.name, {**_common(problem, method, entry), **options})
            if other is not None and _same_question(problem, method, other):
                asked.append(other)
    asks = [
        _Ask(other, other.name not in took_part and other.entry.is_independent_of(method.entry)) for other in asked
    ]
    yield from sorted(asks, key=lambda ask: not ask.other)
    if method.formulation is None:
        yield _Ask(method, False, seed=1, same=True)
        return
    used = result.backend.get("name")
    for solver in STANDARD:
        if solver != used:
            yield _Ask(replace(method, solver=solver), False, same=True)
    yield _Ask(replace(method, solver=str(used) if used else "auto"), False, seed=1, same=True)


def _common(problem: Problem, method: Method, entry: Entry) -> dict[str, Any]:
    """The result's options that the other method has, too."""
    declared = {spec.name for spec in entry.options}
    options = as_judged(problem, method.options)
    return {key: value for key, value in options.items() if key in declared and key != "variant"}


def _second(problem: Problem, name: str, options: Mapping[str, Any]) -> Method | None:
    """The second method; None where it cannot plan such problems, or does not know such options."""
    formulation, planner = (None, name) if name in PLANNERS else (name, None)
    solver = "auto" if formulation is None else FORMULATIONS[formulation].check_solver
    try:
        return choose(problem, formulation, planner, solver, options)
    except PipeplanError:
        return None


def _same_question(problem: Problem, one: Method, two: Method) -> bool:
    """Do both seek the best of the same plans, by the same measure?"""
    families = [method.family(problem) for method in (one, two)]
    scopes = {None if family is None else family.scope for family in families}
    objectives = {rules_of(problem, method.options).objective for method in (one, two)}
    return len(scopes) == len(objectives) == 1
