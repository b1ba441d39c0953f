"""One way from a problem to a judged result, whatever the method: `solve`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ..formulations.contract import Problem
from ..instances.errors import PipeplanError
from ..instances.result import PROVEN_TOLERANCE, Result, Stop
from .choice import Method, check_native, choose
from .contract import Board, Outcome, Request
from .judge import Rules, judge
from .options import Progress, SolveOptions
from .referees import referee_of
from .start import Start, Wish, prepare

_log = logging.getLogger("pipeplan")


def solve(
    problem: Problem,
    *,
    formulation: str | None = None,
    planner: str | None = None,
    solver: str = "auto",
    options: Mapping[str, Any] | None = None,
    limits: SolveOptions | None = None,
    warm_start: Wish = "auto",
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Plan `problem` and report a plan that the referee has recomputed and accepted.

    `formulation` alone means the exact planner with that model; with neither name given the best exact
    method for the problem is taken and named in the result. `options` are those that the formulation or
    planner declares (`plan formulations NAME` lists them). An interrupt keeps the best plan so far.
    """
    limits = limits or SolveOptions()
    method = choose(problem.kind, formulation, planner, solver, options or {})
    check_native(solver, limits)
    rules = _rules(method)
    board = Board(on_progress)
    start, outcome = _run(problem, method, rules, warm_start, limits, board)
    planned = board.seconds
    try:
        verdict = judge(problem, rules, outcome, board, limits)
    except KeyboardInterrupt:  # came too late to stop the search, and must not cost its plan
        verdict = judge(problem, rules, outcome, board, limits)
    return Result(
        problem=describe(problem),
        stop=verdict.stop,
        found=verdict.found,
        formulation=method.formulation.name if method.formulation else None,
        planner=method.planner.name,
        plan=verdict.plan,
        objective=verdict.objective,
        claimed=verdict.claimed,
        bound=verdict.bound,
        verified=verdict.objective is not None,
        violations=verdict.violations,
        warm_start=start.report(outcome),
        backend=outcome.backend,
        options=_echo(problem, method, rules, limits, start),
        seconds=_seconds(outcome, planned, board.seconds),
        model_size=outcome.model_size,
        messages=(*start.messages, *verdict.messages),
    )


def describe(problem: Problem) -> dict[str, Any]:
    """The facts by which a result names its problem."""
    return {
        "kind": problem.kind,
        "name": problem.name,
        "hash": problem.hash,
        "time_unit": problem.time_unit,
        **referee_of(problem).facts(problem),
    }


def _rules(method: Method) -> Rules:
    """By which rules its plans are judged: a formulation says which contiguity its plans obey."""
    if method.formulation is None:
        return Rules.of(method.options)
    contiguity = method.formulation.load().contiguity(method.options)
    return Rules(method.options.get("objective", "max-load"), contiguity)


def _run(
    problem: Problem, method: Method, rules: Rules, wish: Wish, limits: SolveOptions, board: Board
) -> tuple[Start, Outcome]:
    """The method's answer; an interrupt or a failure costs the method, not the plans that it posted."""
    start = Start()
    try:
        start = prepare(problem, method, rules, wish, limits, board)
        request = Request(problem, method.request_options(), limits, start.plan, board)
        outcome = method.planner.load().plan(request)
    except KeyboardInterrupt:
        outcome = Outcome(Stop.INTERRUPTED)
    except PipeplanError:
        raise  # what the user can mend is for the user
    except MemoryError:
        outcome = Outcome(Stop.MEMORY, messages=(f"{method.title} ran out of memory",))
    except Exception as error:
        _log.debug("%s failed", method.title, exc_info=True)
        outcome = Outcome(Stop.ERROR, messages=(f"{method.title} failed: {type(error).__name__}: {error}",))
    return start, outcome


def _echo(problem: Problem, method: Method, rules: Rules, limits: SolveOptions, start: Start) -> dict[str, Any]:
    """Everything that can change the answer, and the tolerance that `proven` means."""
    return {
        **method.request_options(),
        **({"contiguity": rules.contiguity} if problem.kind == "placement" else {}),
        "warm_start": start.wish,
        **limits.to_json(),
        "proven_tolerance": PROVEN_TOLERANCE,
    }


def _seconds(outcome: Outcome, planned: float, total: float) -> dict[str, float]:
    """`build` and `solve` as the planner says them, or all of its time as `solve`; `total` with the referee."""
    build = outcome.seconds.get("build", 0.0)
    return {"build": build, "solve": max(0.0, planned - build), **outcome.seconds, "total": total}
