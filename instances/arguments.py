"""The door of the public functions: the problem, plan or result that a caller gives, or how to get one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .base.cluster import Cluster
from .base.errors import UsageError, wrong_argument
from .base.result import Result
from .lookup import load_instance
from .registry import is_plan, is_problem, kind_of, plan_kind

if TYPE_CHECKING:
    from .registry import Plan, Problem

PROBLEM = "give the name of a packaged instance, the path of a file, or what pipeplan.load(path) returns"
PLAN = "give the plan of a result that found one (result.plan), or what pipeplan.load_plan(path) returns"
RESULT = "give what pipeplan.solve(problem) or pipeplan.load_result(path) returns"


def problem_of(given: object) -> Problem:
    """The problem itself, or the one in the file of that path, or the packaged one of that name; files come first."""
    if isinstance(given, (str, os.PathLike)):
        return load_instance(os.fsdecode(given), Cluster())
    if not is_problem(given):
        raise wrong_argument("problem", given, "a problem", PROBLEM)
    return given


def plan_of(given: object, argument: str = "plan") -> Plan:
    """The plan itself. A path is not read: "dp" would be one as well, and what a file holds has no type."""
    if not is_plan(given):
        raise wrong_argument(argument, given, "a plan", PLAN)
    return given


def plan_for(problem: Problem, given: object) -> Plan:
    """The plan itself, if it is one of the problem's kind."""
    plan = plan_of(given)
    if plan.kind not in kind_of(problem).plans:
        raise misfit(problem, plan)
    return plan


def misfit(problem: Problem, plan: Plan) -> UsageError:
    """The plan is one for another kind of problem."""
    fitting = plan_kind(problem)
    return UsageError(
        f"A {plan.kind} plan does not fit a {problem.kind} problem; give a plan of the kind {fitting}."
    )


def result_of(given: object) -> Result:
    """The result itself, or an error that says how to get one."""
    if not isinstance(given, Result):
        raise wrong_argument("result", given, "a result", RESULT)
    return given
