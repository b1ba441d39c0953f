"""One way from a problem to a judged result, whatever the method: choose, plan, judge, cross-check (`solve`).

A cross-check asks a second exact method, which shares no arithmetic with the first: do the two proofs agree? A plan of
either method is a fact (the referee recomputed it), a bound is a proof. They contradict each other where a bound of one
is above a plan of the other that the bound is meant for, or where one says that there is no plan. The dynamic program
plans chains of stages; its plans are plans of the problem without contiguity as well, while its bounds hold for chains
alone. Piper's program and its models answer the same question. GraphPipe's program is checked by a model of all convex
stages, for which its bounds hold as well, and the program for short iterations by a model of its own stages; a model is
checked by GraphPipe's program with stages of the decomposition alone.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...formulations.contract import Plan, Problem
from ...formulations.family import Family, Outside
from ...formulations.plugins import PluginMistakeError, mistake_in
from ...formulations.registry import FORMULATIONS, Entry
from ...instances.base.compiled import always_compiled
from ...instances.base.errors import PipeplanError, TooLargeError, UsageError
from ...instances.base.kind import Rules
from ...instances.base.quantities import with_unit
from ...instances.base.result import PROVEN_TOLERANCE, Found, History, Result, StartOutcome, Stop, WarmStart
from ...instances.catalogue import load_packaged
from ...instances.lookup import problem_of
from ...instances.registry import kind_of
from ..contract import Board, Outcome, Request, named
from ..options import LATE_SHARE, Progress, SolveOptions, check_asked, limits_of
from ..referee import OwnObjective, Ruling, as_judged, is_above, rule, rules_of
from ..registry import CYCLES, all_methods, is_formulation
from .choose import AskedStart, Question, ask, check_native, installed_solvers, resolve_options, start_of
from .judge import judge

# ---- warm starts ----------------------------------------------------------------------------------------------
# The warm start: the user's plan, or the best of a few quick planners, judged before it is handed on.


# Share of the time limit for a start.
START_SHARE = 0.5
# Share of the time limit for a plan in the place of one that died with its solver.
INSTEAD_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Outsider:
    """A plan that the referee accepts, but none of those that the method plans: kept apart from all its proofs."""

    plan: Plan
    value: float
    source: str
    reason: Outside
    rules: Rules
    """The rules by which it is a plan: those of the method, or these without its contiguity."""


@dataclass
class Start:
    """What is handed to the planner as a warm start, and what there is to say about it."""

    question: Question
    request: Request
    """The request of the run that is started."""
    plan: Plan | None = None
    known: WarmStart = WarmStart()
    """What we know of it; the planner's word is added in the end."""
    outsider: Outsider | None = None
    """The best plan from elsewhere that is none of the family."""
    messages: list[str] = field(default_factory=list)

    def report(self, told: WarmStart) -> WarmStart:
        """What became of it: the planner's word, with what only we know filled in."""
        known = self.known
        if known.outcome in (StartOutcome.REJECTED, StartOutcome.OUTSIDE):
            return known
        if self.plan is None or told.outcome == StartOutcome.NONE:
            return told
        return WarmStart(
            told.outcome, told.source or known.source, known.value if told.value is None else told.value
        )

    def offer(self, plan: Plan, source: str) -> Ruling:
        """A plan that the referee accepts is a start, and an incumbent from now on, if the method plans such."""
        outsider, ruling = self.look_outside(plan, source)
        if outsider is not None and self.plan is None:
            self.known = WarmStart(StartOutcome.OUTSIDE, source, outsider.value)
        if outsider is not None or ruling.value is None:
            return ruling
        if self.plan is None or self.known.value is None or ruling.value < self.known.value:
            self.plan, self.known = plan, WarmStart(StartOutcome.ACCEPTED, source, ruling.value)
        self.request.board.accept(ruling, source=source)
        return ruling

    def look_outside(self, plan: Plan, source: str) -> tuple[Outsider | None, Ruling]:
        """The plan as one from outside, kept if it is the best of these; None: it is one of the family, or none."""
        problem, family, rules = self.question.problem, self.question.family, self.question.rules
        ruling = rule(problem, plan, rules)
        if family is None:
            return None, ruling
        if ruling.value is not None:
            try:
                reason = family.outside(plan)
            except TooLargeError:  # nobody can say, so that no proof may rest on it
                reason = Outside("parts that are too many to be compared with those of the method", family.wider)
        elif rules.to_options().get("contiguity", "none") == "none":
            return None, ruling
        else:  # contiguity is the method's rule, and no rule of the problem
            free_rules = rules_of(problem, {**rules.to_options(), "contiguity": "none"})
            rules = replace(rules, usual=free_rules) if isinstance(rules, OwnObjective) else free_rules
            free = rule(problem, plan, rules)
            ruling = ruling if free.value is None else free
            reason = Outside("devices that are not contiguous", family.wider)
        if ruling.value is None or reason is None:
            return None, ruling
        outsider = Outsider(plan, ruling.value, source, reason, rules)
        if self.outsider is None or outsider.value < self.outsider.value:
            self.outsider = outsider
        return outsider, ruling


def prepare(start: Start) -> None:
    """The start for the method of the question; a plan that the referee refuses is reported and not handed on.

    Nor is one that the method could not have found: below it there might be none of the method's plans, which says
    nothing about others.
    """
    asked = start.question.start
    if not isinstance(asked, str):
        ruling = start.offer(asked, "user")
        if ruling.value is None:
            start.known = WarmStart(StartOutcome.REJECTED, "user")
            start.messages.append(f"the warm start was not used: {ruling.violations[0]}")
    for entry in start.question.starts:
        _try_quick(entry, start)


def plan_instead(start: Start) -> None:
    """The solvers of the method died and left no plan: that of a heuristic is the answer, where there is one.

    However late the death comes, there is a little time for it, if need be beyond the limit.
    """
    for entry in start.question.instead:
        _try_quick(entry, start, INSTEAD_SHARE)
        if start.request.board.plan is not None:
            start.messages.append(f"the plan is that of {entry.name}: no solver lived to find one")
            return


def _try_quick(entry: Entry, start: Start, least_share: float = 0.0) -> None:
    """Offer the plan of a quick planner; if it fails, only its start is lost. At any moment it has `least_share` of the
    limit."""
    name, run, method = entry.name, start.request, start.question.method
    asked = {**method.options, **method.entry.start_options}
    options = {spec.name: asked.get(spec.name, spec.default) for spec in entry.options}
    limits = run.limits
    if (whole := limits.time_limit_s) is not None:
        limits = replace(limits, time_limit_s=max(whole * START_SHARE, run.board.seconds + whole * least_share))
    request = Request(run.problem, options, limits, board=Board(started=run.board.started))
    if request.out_of_time():
        return
    try:
        plan = entry.load().plan(request).plan
    except KeyboardInterrupt:
        if request.board.plan is not None:
            start.offer(request.board.plan, name)
        raise
    except Exception as error:
        _log.debug("%s failed", name, exc_info=True)
        start.messages.append(f"the quick planner {name} failed: {type(error).__name__}: {error}")
        return
    if plan is not None:
        start.offer(plan, name)


# ---- solve ------------------------------------------------------------


_log = logging.getLogger("pipeplan")


def solve(
    problem: Problem | str | os.PathLike[str],
    *,
    formulation: str | None = None,
    planner: str | Callable[..., Any] | None = None,
    method: str | Callable[..., Any] | None = None,
    solver: str = "auto",
    options: Mapping[str, Any] | None = None,
    limits: SolveOptions | None = None,
    time_limit_s: float | None = None,
    gap: float | None = None,
    warm_start: AskedStart = "auto",
    on_progress: Callable[[Progress], None] | None = None,
    cross_check: bool = False,
) -> Result:
    """Plan a problem, and report a plan that the referee has recomputed and accepted.

    A bound, and *optimal*, hold for the plans that the result names in `scope`. A plan from elsewhere (a warm start,
    a cross-check) that is none of them is no part of any proof; where it is better than all of them it is the answer,
    nothing is proven of it, and `in_scope` has what the method found and proved.
    An interrupt keeps the best plan so far.

    Parameters
    ----------
    problem : Problem, str or PathLike
        A problem, the path of a file, or the name of a packaged instance.
    formulation : str, optional
        The name of a model, which the exact planner is handed. None: see `planner`.
    planner : str or callable, optional
        The name of another way to a plan, or a function from a problem to a plan. None: the exact planner with that
        formulation; with neither, the best exact method for the problem, which the result names.
    method : str or callable, optional
        The name of a formulation or of a planner, whichever has it, or a function. None: the two above say it.
    solver : str
        "auto", or the names of installed solvers, joined by commas, that work on the model side by side.
    options : Mapping, optional
        Options that the formulation or planner declares, by name (`plan formulations NAME` lists them). None: its
        defaults.
    limits : SolveOptions, optional
        Seconds, gaps, threads, memory and the random seed. None: no limits, and a proof is sought to the end.
    time_limit_s : float, optional
        Seconds, where no `limits` are given. None: no limit.
    gap : float, optional
        The gap at which to stop, 0.01 for 1 %, where no `limits` are given. None: a proof is sought to the end.
    warm_start : Plan or str
        A plan to begin with; "auto" (the best of a few quick planners), "dp" (a dynamic program's) or "none".
    on_progress : callable, optional
        Called with a `Progress` whenever there is news. None: nobody watches.
    cross_check : bool
        Solve with a second exact method as well; proofs that contradict each other make the result an error.

    Returns
    -------
    Result
        Why the run stopped, the plan, its value and bound in the problem's time unit, seconds, and the proof. What is
        absent is None; a problem without a plan, or a limit that was hit, is a result and no exception.

    Raises
    ------
    InputError
        An argument has another type, or a file cannot be read as a problem.
    UsageError
        There is no such instance, method, solver or option, or they do not go together; the message lists what does.
    """
    problem, limits = problem_of(problem), limits_of(limits, time_limit_s, gap)
    if method is not None:
        if formulation is not None or planner is not None:
            raise UsageError("method is given, and formulation or planner beside it; give one of them.")
        is_model = isinstance(method, str) and is_formulation(method)
        formulation, planner = (str(method), None) if is_model else (None, method)
    name = named(planner)
    check_asked({"formulation": formulation, "planner": name, "solver": solver}, options, on_progress)
    question = ask(problem, formulation, name, solver, options or {}, start_of(warm_start), cross_check)
    check_native(solver, limits)
    board = Board(on_progress, question.method.name)
    start = Start(question, Request(problem, question.method.request_options(), limits, board=board))
    start.messages.extend(installed_solvers(solver)[1])
    outcome: Outcome | None = None
    try:
        outcome = _run(start)
        result = _result(start, outcome)
    except KeyboardInterrupt:  # whenever it comes, it must not cost the plan
        result = _result(start, outcome or Outcome(Stop.INTERRUPTED))
        if question.second is not None:
            result = _not_cross_checked(result)
    else:
        if question.second is not None:
            result = _cross_checked(start, question.second, result)
    return result if start.outsider is None else _with_outsider(result, question, start.outsider)


def _result(start: Start, outcome: Outcome) -> Result:
    """What the referee leaves of the outcome, with all that is known of the run."""
    question, request = start.question, start.request
    method, rules, problem = question.method, question.rules, question.problem
    planned = request.board.seconds
    judged = judge(request, rules, method.name, question.family, outcome, method.is_plugin)
    why = () if judged.plan is not None else reasons(request, method.options, judged.stop)
    build, compiled = outcome.seconds.get("build", 0.0), request.board.compile_seconds
    return replace(
        judged,
        problem=describe(problem),
        formulation=method.formulation.name if method.formulation else None,
        planner=method.planner.name,
        warm_start=start.report(outcome.warm_start),
        backend=outcome.backend,
        # Everything that can change the answer, and the tolerance that `proven` means.
        options={
            **method.request_options(),
            **{name: value for name, value in rules.to_options().items() if name not in method.options},
            "warm_start": question.start if isinstance(question.start, str) else "plan",
            **request.limits.to_json(),
            "proven_tolerance": PROVEN_TOLERANCE,
        },
        # As the planner says them, or all of its time as `solve`; to make machine code counts in nothing else.
        seconds={
            "build": build,
            "solve": max(0.0, planned - build),
            **outcome.seconds,
            "total": request.board.seconds,
            **({"compile": compiled} if compiled else {}),
        },
        model_size=outcome.model_size,
        messages=(*start.messages, *judged.messages, *why),
        history=History(request.board.history),
        subject=problem,
    )


def _with_outsider(result: Result, question: Question, outsider: Outsider) -> Result:
    """A plan that the method could not have found is the answer where it is better; no bound speaks of it.

    It does not hide that the referee rejected the method's own plan.
    """
    if result.found == Found.REJECTED:
        return result
    if result.objective is not None and not is_above(result.objective, outsider.value):
        return result
    family = question.family
    assert family is not None, "a method that plans everything leaves no plan outside"
    settled = result.stop in (Stop.PROVEN, Stop.GAP, Stop.INFEASIBLE)
    return replace(
        result.unproven(),
        stop=Stop.COMPLETED if settled else result.stop,
        found=Found.FEASIBLE,
        plan=outsider.plan,
        objective=outsider.value,
        claimed=outsider.value,
        verified=True,
        violations=(),
        options={**result.options, **outsider.rules.to_options()},
        messages=(*result.messages, _say_outside(result, outsider, question.method.name, family)),
        in_scope=replace(result, cross_check=None, history=History()),
    )


def _say_outside(result: Result, outsider: Outsider, method: str, family: Family) -> str:
    """What is told of a plan that is the answer, and none of those that the method plans."""
    if result.stop == Stop.INFEASIBLE:
        answer = "there is no such plan"
    elif result.objective is None:
        answer = "it found no such plan"
    else:
        answer = (
            f"the {'optimum' if result.stop == Stop.PROVEN else 'best plan found'} of these is {result.objective!r}"
        )
    source = "the warm start" if outsider.source == "user" else outsider.source
    asks = "" if outsider.reason.asks is None else f"; {outsider.reason.asks} asks for such plans"
    return (
        f"nothing is proven of this plan: the plan of value {outsider.value!r} from {source} has "
        f"{outsider.reason.why}, which is outside what {method} plans ({family.scope}); {answer}{asks}"
    )


def _cross_checked(start: Start, second: Entry, result: Result) -> Result:
    """The result with the facts of the cross-check; where the proofs contradict each other, it proves nothing.

    A plan of the other that the first does not plan is kept as a start from outside is. An interrupt leaves it out.
    """
    try:
        facts, plan = cross_check(start.question, second, result, start.request.limits)
    except KeyboardInterrupt:
        return _not_cross_checked(result)
    if plan is not None:
        start.look_outside(plan, "the cross-check")
    if facts["contradiction"] is None:
        return replace(result, cross_check=facts)
    messages = (*result.messages, f"the proofs contradict each other: {facts['contradiction']}")
    found = Found.FEASIBLE if result.found == Found.OPTIMAL else result.found
    return replace(result.unproven(), stop=Stop.ERROR, found=found, cross_check=facts, messages=messages)


def _not_cross_checked(result: Result) -> Result:
    return replace(result, messages=(*result.messages, "interrupted: the cross-check was left out"))


def describe(problem: Problem) -> dict[str, Any]:
    """The facts by which a result names its problem."""
    return {
        "kind": problem.kind,
        "name": problem.name,
        "hash": problem.hash,
        "time_unit": problem.time_unit,
        **kind_of(problem).facts(problem),
    }


def _run(start: Start) -> Outcome:
    """The method's answer; a failure costs the method, not the plans that it posted."""
    method = start.question.method
    try:
        if method.formulation is not None:
            from ..exact import load_solvers  # other methods do without the solver layer

            load_solvers(start.question.problem, start.request.options)
        prepare(start)
        plan, request = method.planner.load().plan, replace(start.request, warm_start=start.plan)
        if method.is_plugin:
            plan = partial(plan_within_limit, plan, name=method.name)
        outcome: Outcome = plan(request)
        if outcome.stop in (Stop.ERROR, Stop.MEMORY) and outcome.plan is None and start.request.board.plan is None:
            plan_instead(start)
        return outcome
    except PluginMistakeError as error:
        if start.request.board.plan is None:
            raise
        return Outcome(Stop.ERROR, messages=(str(error),))
    except PipeplanError:
        raise  # what the user can mend is for the user
    except MemoryError:
        return Outcome(Stop.MEMORY, messages=(f"{method.title} ran out of memory",))
    except Exception as error:
        _log.debug("%s failed", method.title, exc_info=True)
        if method.is_plugin:
            said = mistake_in(method.name, method.entry.module, error)
            if start.request.board.plan is None:
                raise PluginMistakeError(said) from error
            return Outcome(Stop.ERROR, messages=(said,))
        return Outcome(Stop.ERROR, messages=(f"{method.title} failed: {type(error).__name__}: {error}",))


# ---- Why there is no plan, in words: what the problem lacks, where it lacks it, and what would help --------
# Kinds of problems without such sentences have no `why_none`.

# Seconds that the search for reasons takes at most; it also keeps the limit of the run.
ENOUGH_S = 60.0


def reasons(request: Request, options: Mapping[str, Any], stop: Stop) -> tuple[str, ...]:
    """Sentences for a run that ended without a plan because none exists, or none of the method's own kind."""
    from ..kinds import planned_kind  # what planners know of kinds is for questions about memory

    explain = planned_kind(request.problem).why_none
    if explain is None or stop not in (Stop.INFEASIBLE, Stop.COMPLETED):
        return ()
    seconds = request.seconds_at_most(ENOUGH_S)
    if request.out_of_time():
        return ("there was no time left to find out what would be enough",)
    limits = replace(request.limits, time_limit_s=seconds, native={}, log_path=None)
    try:
        return explain(request.problem, options, limits, stop == Stop.INFEASIBLE)
    except KeyboardInterrupt:
        return ("interrupted: what would be enough was not found out",)


# ---- A second exact method, which shares no arithmetic with the first: do the two proofs agree?

# Options that change the question; others are a method's own affair.
ASKED = {"objective", "semantics", "micro_batch", "mixed_micro_batches", "k", "degrees"}


def cross_check(
    question: Question, second: Entry, result: Result, limits: SolveOptions
) -> tuple[dict[str, Any], Plan | None]:
    """The other method's answer with what in it contradicts `result` (None: nothing), and its plan.

    It has the same limits, and no plan of the first method to start from.
    """
    problem, method = question.problem, question.method
    names: dict[str, Any] = {"formulation" if second.name in FORMULATIONS else "planner": second.name}
    shared = ASKED & {spec.name for spec in second.options}
    options = {name: value for name, value in as_judged(problem, method.options).items() if name in shared}
    options |= {**second.check_options, **method.entry.checked_with}
    solver = second.check_solver if second.name in FORMULATIONS else "auto"
    limits = replace(limits, native={}, log_path=None)
    try:
        other = solve(problem, **names, solver=solver, options=options, limits=limits, warm_start="none")
    except TooLargeError as error:  # it costs the check, not the plan that is there
        return {**names, "stop": str(Stop.MEMORY), "message": str(error), "contradiction": None}, None
    theirs = second.family(problem, resolve_options(second, options))
    same_plans = question.rules.to_options().get("contiguity", "chain") == "chain" and _is_of(theirs, result)
    against = contradiction(result, other, same_plans=same_plans, common=_is_of(question.family, other))
    return {**names, **facts_of(other), "contradiction": against}, other.plan


def _is_of(family: Family | None, result: Result) -> bool:
    """Is the plan one of those of which a bound for the family speaks?"""
    if family is None or result.plan is None:
        return True
    try:
        return family.outside(result.plan) is None
    except TooLargeError:  # nobody can say
        return False


def facts_of(result: Result) -> dict[str, Any]:
    """What is told of the run of another method."""
    return {
        "stop": str(result.stop),
        "found": str(result.found),
        "objective": result.objective,
        "bound": result.bound,
        "seconds": result.seconds.get("total"),
    }


def contradiction(result: Result, other: Result, same_plans: bool, common: bool = True) -> str | None:
    """How two results contradict each other, in words; None: they do not. `--cross-check` and `verify --proof` ask.

    `same_plans`: both methods plan under the same rules, so that the other's bound holds here too. `common`: the
    other's plan is one of those of which our bound speaks.
    """
    ours, theirs, bound, other_bound = (
        with_unit(value, result.problem.get("time_unit"))
        for value in (result.objective, other.objective, result.bound, other.bound)
    )
    if common and result.stop == Stop.INFEASIBLE and other.objective is not None:
        return f"the method says infeasible, the cross-check has a plan of value {theirs}"
    if common and _is_refuted(result.bound, other.objective):
        return f"the bound {bound} is above the cross-check's plan of value {theirs}"
    if not same_plans:
        return None
    if other.stop == Stop.INFEASIBLE and result.objective is not None:
        return f"the cross-check says infeasible, the method has a plan of value {ours}"
    if _is_refuted(other.bound, result.objective):
        return f"the cross-check's bound {other_bound} is above the plan of value {ours}"
    return None


def _is_refuted(bound: float | None, value: float | None) -> bool:
    return value is not None and is_above(bound, value, PROVEN_TOLERANCE)


# ---- The time limit of other packages' methods, which need not look at it: they are interrupted, then left behind.

# A method that keeps its limit may answer so many seconds later, and a share of the limit.
LATE_S = 1.0
# Seconds in which an interrupted method may still answer. Then it is left behind: its plans count, its thread does not.
GRACE_S = 2.0
# Seconds between two looks at the clock.
TICK_S = 0.05


def plan_within_limit(plan: Callable[[Request], Outcome], request: Request, name: str) -> Outcome:
    """The outcome of a method that is told its limit, interrupted if it overruns, and left behind if it goes on then.

    It runs in a thread of its own, since nothing else could be left behind. Times are those of the clock of limits.
    """
    limit, board = request.limits.time_limit_s, request.board
    if limit is None:
        return plan(request)
    answers: list[Outcome | BaseException] = []

    def work() -> None:
        try:
            answers.append(plan(request))
        except BaseException as error:  # raised again where it was called
            answers.append(error)

    def ends_by(seconds: float) -> bool:
        """Wait until it ends, or until the board has so many seconds; has it ended?"""
        while thread.is_alive() and board.seconds <= seconds:
            thread.join(TICK_S)
        return not thread.is_alive()

    def is_interrupted() -> bool:
        """Interrupt it; is there an answer within the grace? Without one its posts are no longer heard."""
        _throw(thread, KeyboardInterrupt)
        if ends_by(board.seconds + GRACE_S):
            if not isinstance(answers[0], KeyboardInterrupt):
                return True
        else:
            _throw(thread, SystemExit)
        board.close()
        return False

    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
    thread.start()
    said: tuple[str, ...] = ()
    try:
        in_time = ends_by(limit * (1 + LATE_SHARE) + LATE_S)
    except KeyboardInterrupt:  # of the user, for the method as well
        if not is_interrupted():
            raise
        in_time = True
    if not in_time:
        after = board.seconds
        said = (f"{name} did not stop at its time limit of {limit:g} s and was interrupted after {after:.3g} s",)
        if not is_interrupted():
            return Outcome(Stop.TIME, messages=said)
    (answer,) = answers
    if isinstance(answer, BaseException):
        raise answer
    return replace(answer, messages=(*answer.messages, *said))


def _throw(thread: threading.Thread, kind: type[BaseException]) -> None:
    """Raise in the thread, which notices as soon as it is back from a library's code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(kind))


# ---- The machine code of all methods, made ahead, so that nobody waits for it later.

# Cycles of annealing, of each kind one: more of them ask for no other code.
FEW_CYCLES = 3


def warm_up(tell: Callable[[str], None]) -> None:
    """Make and keep on disk what is not there yet; `tell` hears the name of each method before its turn."""
    with always_compiled():
        for entry in all_methods():
            for name in entry.compiles_on:
                tell(entry.name)
                # To its end, so that it asks for all its code: under a limit it asks for less on a slow machine.
                method: dict[str, Any] = {"formulation" if entry.name in FORMULATIONS else "planner": entry.name}
                options = {CYCLES.name: FEW_CYCLES} if CYCLES.name in entry.declared else None
                solve(load_packaged(name), **method, options=options, warm_start="none")
