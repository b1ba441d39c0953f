"""What `plan configure -o` writes: a result like that of `plan solve`, which brings its problem along for exports.

It holds the best configuration, or the one that `--judge` names.
"""

from __future__ import annotations

from typing import Any

from ...instances.base.errors import show
from ...instances.base.result import PROVEN_TOLERANCE, Found, Proof, Result, Stop, met
from ...instances.registry import kind_of
from ...instances.training.frameworks import FRAMEWORKS
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import IterationRules
from ...instances.training.scope import both_sides
from ...planners.referee import rule
from ...planners.run.judge import RECOMPUTED, settle
from ...planners.run.solve import describe
from ...planners.training.planner import CHECKS, family
from .answer import Answer, Asked
from .choices import choices_of
from .judge import Judged

METHOD = "exact-configuration"
# The key of a result's `problem` under which the result holds the problem itself.
WHOLE = "whole"


def result_of(answer: Answer, seconds: float, cut_by: Stop = Stop.TIME) -> Result:
    """The answer as a result, judged anew by the referee. A search that was cut short by `cut_by` has a bound, too."""
    problem, report = answer.problem, answer.report
    assert report is not None, "asked of a search"
    best, options = report.best, options_of(problem, answer.asked)
    scope = family(problem, options).scope
    claim = Result(
        problem=_with_whole(problem),
        stop=_stop(answer, cut_by),
        found=Found.NOTHING,
        planner=METHOD,
        claimed=None if best is None else best.seconds,
        bound=None if best is None else report.bound,
        scope=scope,
        proof=Proof(METHOD, None, None, scope, (*CHECKS, RECOMPUTED)),
        options={**options, "proven_tolerance": PROVEN_TOLERANCE},
        seconds={"solve": seconds, "total": seconds},
        messages=() if answer.measured is None else tuple(answer.measured.sentences()),
        choices=choices_of(answer),
        subject=problem,
        model_size={"considered": report.considered, "fit": report.fit, "listed": len(report.listed)},
    )
    return settle(claim, None if best is None else rule(problem, best.plan, IterationRules()))


def result_of_judged(own: Judged) -> Result:
    """A configuration that a user named, as a result: the referee's ruling on it, and no claim on any other."""
    problem = own.problem
    claim = Result(
        problem=_with_whole(problem),
        stop=Stop.COMPLETED,
        found=Found.NOTHING,
        messages=(f"read from --judge {show(own.asked)}", *own.notes),
        subject=problem,
    )
    return settle(claim, rule(problem, own.plan, IterationRules()))


def _with_whole(problem: TrainingProblem) -> dict[str, Any]:
    """The facts of the problem, and the problem itself."""
    return {**describe(problem), WHOLE: kind_of(problem).write(problem)}


def options_of(problem: TrainingProblem, asked: Asked) -> dict[str, Any]:
    """The options with which other methods plan the same scope."""
    return {
        "fix": " ".join(asked.fixed) or None,
        "forbid": " ".join(asked.forbidden) or None,
        "layouts": FRAMEWORKS[problem.framework].layouts,
        "memory_error": both_sides(asked.memory_error).more,  # whether the best one fits for sure asks no more
    }


def _stop(answer: Answer, cut_by: Stop) -> Stop:
    """How the search ended: cut short, with a proof, or completed without one."""
    report = answer.report
    assert report is not None, "asked of a search"
    if not report.finished:
        return cut_by
    if report.nothing_fits:
        return Stop.INFEASIBLE
    if report.best is None:
        return Stop.COMPLETED
    return Stop.PROVEN if met(report.best.seconds, report.bound) else Stop.COMPLETED
