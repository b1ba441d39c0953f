"""One question to one method: is there a plan? What it answers counts only as far as the referee agrees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...formulations.contract import Plan, Problem
from ...formulations.registry import FORMULATIONS
from ...instances.base.errors import PipeplanError
from ...instances.base.result import Stop
from ...instances.registry import kind_of
from ..contract import Board, Outcome, Request
from ..options import SolveOptions
from ..referee import rule
from ..registry import EXACT, PLANNERS
from ..run.choose import check_extensions, resolve_options


def outcome_of(
    problem: Problem, name: str, options: Mapping[str, Any], limits: SolveOptions, start: Plan | None = None
) -> Outcome:
    """Of a formulation or a planner, with those of the options that are its own; a failure is an open question."""
    entry = FORMULATIONS.get(name) or PLANNERS[name].for_kind(problem.kind)
    own = {spec.name: options[spec.name] for spec in entry.options if spec.name in options}
    asked = resolve_options(entry, own)
    planner = PLANNERS[EXACT] if name in FORMULATIONS else entry
    if planner.name == EXACT:
        asked |= {"formulation": name, "solver": "auto"}
    board = Board()
    try:
        outcome: Outcome = planner.load().plan(Request(problem, asked, limits, start, board))
    except (PipeplanError, MemoryError, ArithmeticError):
        return Outcome(Stop.ERROR, board.plan, bound=board.bound)
    return outcome


def check_method(problem: Problem, name: str) -> None:
    """Refuse a problem that the method cannot plan."""
    check_extensions(FORMULATIONS.get(name) or PLANNERS[name].for_kind(problem.kind), problem)


def accepted(problem: Problem, plan: Plan | None, options: Mapping[str, Any]) -> Plan | None:
    """The plan, if the referee finds nothing wrong with it."""
    if plan is None:
        return None
    rules = kind_of(problem).rules(problem, options)
    return plan if rule(problem, plan, rules).value is not None else None
