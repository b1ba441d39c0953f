"""One way from a problem to a judged result, whatever the method: `solve`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ...formulations.contract import Problem
from ...formulations.family import Family
from ...formulations.plugins import PluginMistakeError, mistake_in
from ...instances.base.errors import PipeplanError, UsageError
from ...instances.base.kind import Rules
from ...instances.base.result import PROVEN_TOLERANCE, Found, History, Result, Stop
from ...instances.lookup import problem_of
from ...instances.registry import kind_of
from ..contract import Board, Outcome, Request
from ..options import Progress, SolveOptions, check_asked, limits_of
from ..referee import is_above, rules_of
from .choose import Method, check_native, choose, installed_solvers
from .judge import judge
from .warm_start import AskedStart, Outsider, Start, plan_instead, prepare, start_of

_log = logging.getLogger("pipeplan")


def solve(
    problem: Problem | str | os.PathLike[str],
    *,
    formulation: str | None = None,
    planner: str | None = None,
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
    planner : str, optional
        The name of another way to a plan. None: the exact planner with that formulation; with neither, the best exact
        method for the problem, which the result names.
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
    check_asked({"formulation": formulation, "planner": planner, "solver": solver}, options, on_progress)
    warm_start = start_of(warm_start)
    method = choose(problem, formulation, planner, solver, options or {})
    check_native(solver, limits)
    if cross_check:
        from .cross_check import other_method

        other_method(problem, method)  # refused before any work is done
    rules, family = _rules(problem, method), method.family(problem)
    request = Request(problem, method.request_options(), limits, board=Board(on_progress, method.name))
    start = Start(request, rules, family, warm_start if isinstance(warm_start, str) else "plan")
    start.messages.extend(installed_solvers(solver)[1])
    outcome: Outcome | None = None
    try:
        outcome = _run(method, start, warm_start)
        result = _result(method, start, rules, family, outcome)
    except KeyboardInterrupt:  # whenever it comes, it must not cost the plan
        result = _result(method, start, rules, family, outcome or Outcome(Stop.INTERRUPTED))
        if cross_check:
            result = _not_cross_checked(result)
    else:
        if cross_check:
            result = _cross_checked(start, method, result, limits)
    return result if start.outsider is None else _with_outsider(result, start.outsider, method.name, family)


def _result(method: Method, start: Start, rules: Rules, family: Family | None, outcome: Outcome) -> Result:
    """What the referee leaves of the outcome, with all that is known of the run."""
    request = start.request
    planned = request.board.seconds
    judged = judge(request, rules, method.name, family, outcome, method.is_plugin)
    why = () if judged.plan is not None else reasons(request, method, judged.stop)
    odd = kind_of(request.problem).remarks
    return replace(
        judged,
        problem=describe(request.problem),
        formulation=method.formulation.name if method.formulation else None,
        planner=method.planner.name,
        warm_start=start.report(outcome.warm_start),
        backend=outcome.backend,
        options=_echo(method, rules, start),
        seconds=_seconds(outcome, planned, request.board),
        model_size=outcome.model_size,
        messages=(*start.messages, *(odd(request.problem) if odd else ()), *judged.messages, *why),
        history=History(request.board.history),
        subject=request.problem,
    )


def _with_outsider(result: Result, outsider: Outsider, method: str, family: Family | None) -> Result:
    """A plan that the method could not have found is the answer where it is better; no bound speaks of it.

    It does not hide that the referee rejected the method's own plan.
    """
    if result.found == Found.REJECTED:
        return result
    if result.objective is not None and not is_above(result.objective, outsider.value):
        return result
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
        messages=(*result.messages, _said_of(result, outsider, method, family)),
        in_scope=replace(result, cross_check=None, history=History()),
    )


def _said_of(result: Result, outsider: Outsider, method: str, family: Family) -> str:
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


def _cross_checked(start: Start, method: Method, result: Result, limits: SolveOptions) -> Result:
    """The other method has the same limits, and no plan of the first to start from; an interrupt leaves it out.

    A plan of the other that the first does not plan is kept as a start from outside is.
    """
    from .cross_check import cross_check, with_check

    problem, limits = start.request.problem, replace(limits, native={}, log_path=None)
    try:
        facts, plan = cross_check(
            problem, method, start.rules, result, partial(solve, limits=limits, warm_start="none")
        )
    except KeyboardInterrupt:
        return _not_cross_checked(result)
    if plan is not None:
        start.look_outside(plan, "the cross-check")
    return with_check(result, facts)


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


def _rules(problem: Problem, method: Method) -> Rules:
    """The rules by which its plans are judged."""
    formulation = None if method.formulation is None else method.formulation.load()
    return rules_of(problem, method.options, formulation)


def _run(method: Method, start: Start, asked: AskedStart) -> Outcome:
    """The method's answer; a failure costs the method, not the plans that it posted."""
    try:
        if method.formulation is not None:
            from ..exact.planner import load_solvers  # other methods do without the solver layer

            load_solvers(start.request.problem, start.request.options)
        prepare(start, method, asked)
        plan, request = method.planner.load().plan, replace(start.request, warm_start=start.plan)
        if method.is_plugin:
            from .overrun import plan_within_limit  # our own methods keep their limits

            plan = partial(plan_within_limit, plan, name=method.name)
        outcome: Outcome = plan(request)
        if outcome.stop in (Stop.ERROR, Stop.MEMORY) and outcome.plan is None and start.request.board.plan is None:
            plan_instead(start, method)
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
                raise UsageError(said) from error
            return Outcome(Stop.ERROR, messages=(said,))
        return Outcome(Stop.ERROR, messages=(f"{method.title} failed: {type(error).__name__}: {error}",))


def _echo(method: Method, rules: Rules, start: Start) -> dict[str, Any]:
    """Everything that can change the answer, and the tolerance that `proven` means."""
    return {
        **method.request_options(),
        **{name: value for name, value in rules.to_options().items() if name not in method.options},
        "warm_start": start.asked,
        **start.request.limits.to_json(),
        "proven_tolerance": PROVEN_TOLERANCE,
    }


def _seconds(outcome: Outcome, planned: float, board: Board) -> dict[str, float]:
    """`build` and `solve` as the planner says them, or all of its time as `solve`; `total` with the referee.

    `compile` is there where machine code had to be made, which is in no other figure and in no limit.
    """
    build, once = outcome.seconds.get("build", 0.0), board.compile_seconds
    compiled = {"compile": once} if once else {}
    return {
        "build": build,
        "solve": max(0.0, planned - build),
        **outcome.seconds,
        "total": board.seconds,
        **compiled,
    }


# ---- Why there is no plan, in words: what the problem lacks, where it lacks it, and what would help --------
# Kinds of problems without such sentences have no `why_none`.

# Seconds that the search for reasons takes at most; it also keeps the limit of the run.
ENOUGH_S = 60.0


def reasons(request: Request, method: Method, stop: Stop) -> tuple[str, ...]:
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
        return explain(request.problem, method.options, limits, stop == Stop.INFEASIBLE)
    except KeyboardInterrupt:
        return ("interrupted: what would be enough was not found out",)
