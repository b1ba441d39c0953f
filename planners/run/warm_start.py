"""The warm start: the user's plan, or the best of a few quick planners, judged before it is handed on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...formulations.contract import Plan, Problem
from ...formulations.family import Family, Outside
from ...formulations.registry import Entry
from ...instances.errors import UsageError, show
from ...instances.given import plan_of
from ...instances.kind import Rules
from ...instances.result import StartOutcome, WarmStart
from ..contract import Board, Outcome, Request
from ..options import SolveOptions
from ..referee import rule
from ..registry import PLANNERS, all_methods, quick_planners
from .choose import Method, lacks

_log = logging.getLogger("pipeplan")

Word = Literal["auto", "dp", "none"]
WORDS: tuple[Word, ...] = ("auto", "dp", "none")

AskedStart = Word | Plan

START_SHARE = 0.5
"""Of the time limit, for a start."""

DP = "dp"
"""What the user asks for who wants a dynamic program's plan as a start: the optimum among chains, in general."""


@dataclass(frozen=True, slots=True)
class Outsider:
    """A plan that the referee accepts, but none of those that the method plans: kept apart from all its proofs."""

    plan: Plan
    source: str
    value: float
    reason: Outside


@dataclass
class Start:
    """What is handed to the planner as a warm start, and what there is to say about it."""

    asked: str = "none"
    family: Family | None = None
    """The plans that the method's proofs speak of."""
    outsider: Outsider | None = None
    """The best start that is none of them."""
    plan: Plan | None = None
    source: str | None = None
    value: float | None = None
    refused: bool = False
    messages: list[str] = field(default_factory=list)

    def report(self, outcome: Outcome) -> WarmStart:
        """What became of it: the planner's word, with what only we know filled in."""
        if self.refused:
            return WarmStart(StartOutcome.REJECTED, self.source)
        told = outcome.warm_start
        if self.plan is None and self.outsider is not None:
            return WarmStart(StartOutcome.OUTSIDE, self.outsider.source, self.outsider.value)
        if self.plan is None or told.outcome == StartOutcome.NONE:
            return told
        return WarmStart(told.outcome, told.source or self.source, self.value if told.value is None else told.value)

    def take(self, plan: Plan, source: str, value: float, board: Board) -> None:
        """A plan that the referee has accepted: a start, and an incumbent from now on, if the method plans such."""
        reason = None if self.family is None else self.family.outside(plan)
        if reason is not None:
            if self.outsider is None or value < self.outsider.value:
                self.outsider = Outsider(plan, source, value, reason)
            return
        if self.value is None or value < self.value:
            self.plan, self.source, self.value = plan, source, value
        board.post(plan, value, source=source)


def start_of(given: object) -> AskedStart:
    """What the caller asks for: a word, or a plan, of which the referee says whether it is one for the problem."""
    if not isinstance(given, str):
        return plan_of(given, "warm_start")
    for word in WORDS:
        if given == word:
            return word
    raise UsageError(f"The warm start is {show(given)}; give a plan, or one of {', '.join(WORDS)}.")


def prepare(
    problem: Problem, method: Method, rules: Rules, asked: AskedStart, limits: SolveOptions, board: Board
) -> Start:
    """The start for this method; a plan that the referee refuses is reported and not handed on.

    Nor is one that the method could not have found: below it there might be none of the method's plans, which says
    nothing about others.
    """
    family = method.family(problem)
    if not isinstance(asked, str):
        _check_takes_start(method)
        return _from_user(problem, rules, asked, Start("plan", family, source="user"), board)
    start = Start(asked, family)
    quick = quick_planners(method.entry, asked)
    if asked == DP:
        _check_takes_start(method)
        _check_other(method, quick)
    for entry in quick:
        if lacks(entry, problem) is None:  # else its plan would be one for another problem
            _try_quick(entry, problem, method.options, rules, limits, board, start)
    return start


def _check_takes_start(method: Method) -> None:
    if not method.planner.takes_start:
        able = ", ".join(entry.name for entry in PLANNERS.values() if entry.takes_start)
        raise UsageError(
            f"Planner {method.planner.name!r} starts from nothing; drop --warm-start, or choose one of {able}."
        )


def _check_other(method: Method, quick: list[Entry]) -> None:
    if method.name in [entry.name for entry in quick]:
        raise UsageError(f"--warm-start {DP} starts {method.name} from itself; drop it.")
    if not quick:
        kinds = dict.fromkeys(entry.problem_kind for entry in all_methods() if entry.starts.get(DP))
        raise UsageError(f"--warm-start {DP} is for {' and '.join(kinds)} problems; drop it.")


def _from_user(problem: Problem, rules: Rules, plan: Plan, start: Start, board: Board) -> Start:
    ruling = rule(problem, plan, rules)
    if ruling.value is None:
        start.refused = True
        start.messages.append(f"the warm start was not used: {ruling.violations[0]}")
    else:
        start.take(plan, "user", ruling.value, board)
    return start


def _try_quick(
    entry: Entry,
    problem: Problem,
    options: Mapping[str, Any],
    rules: Rules,
    limits: SolveOptions,
    board: Board,
    start: Start,
) -> None:
    """A planner that fails here costs us its start and nothing more."""
    name = entry.name
    known = {spec.name: options.get(spec.name, spec.default) for spec in entry.options} | dict(entry.start_options)
    if limits.time_limit_s is not None:
        limits = replace(limits, time_limit_s=limits.time_limit_s * START_SHARE)
    request = Request(problem, known, limits, board=Board(started=board.started))
    if request.out_of_time():
        return
    try:
        plan = entry.load().plan(request).plan
    except KeyboardInterrupt:
        _take(name, request.board.plan, problem, rules, board, start)
        raise
    except Exception as error:
        _log.debug("%s failed", name, exc_info=True)
        start.messages.append(f"the quick planner {name} failed: {type(error).__name__}: {error}")
        return
    _take(name, plan, problem, rules, board, start)


def _take(name: str, plan: Plan | None, problem: Problem, rules: Rules, board: Board, start: Start) -> None:
    ruling = None if plan is None else rule(problem, plan, rules)
    if ruling is not None and ruling.value is not None:
        start.take(ruling.plan, name, ruling.value, board)
