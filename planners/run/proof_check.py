"""Is a stored proof right? Its bound is proven anew, if possible by a method that shares no arithmetic with the first.

A result says of which plans its bound speaks. A second exact method over the same plans (`proves_anew` of its entry)
is asked whether there is a plan below that bound, starting from the stored plan, which the referee has recomputed.
Where there is no second method, the first one has to refute its cut-off again: with another solver, or with other
random numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ...formulations.contract import Problem
from ...formulations.registry import FORMULATIONS, Entry
from ...instances.base.clock import now
from ...instances.base.errors import PipeplanError
from ...instances.base.quantities import with_unit
from ...instances.base.result import PROVEN_TOLERANCE, Result, Stop
from ...instances.lookup import problem_of, result_of
from ..backends.registry import STANDARD
from ..options import Progress, SolveOptions, check_asked, limits_of
from ..referee import as_judged, rules_of
from ..registry import PLANNERS, provers
from .choose import Method, choose
from .claims import check_same_problem, recompute, stored_method
from .cross_check import contradiction, facts_of
from .solve import solve

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
    claim = f"{family.scope}: none is {below or 'there'}"
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
    related = " (it shares arithmetic with the first method, or took part: no independent one settles it)"
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
    asked, took_part = list[Method](), _helpers(problem, method)
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


def _helpers(problem: Problem, method: Method) -> set[str]:
    """Planners that a formulation calls by itself, so that their word may be its own."""
    if method.formulation is None:
        return set()
    stages = method.entry.load().portfolio(problem, method.options, found=True)
    return {stage.planner for stage in stages if stage.planner}


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
