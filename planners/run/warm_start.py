"""The warm start: the user's plan, or the best of a few quick planners, judged before it is handed on."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from ...formulations.contract import Plan
from ...formulations.family import Outside
from ...formulations.registry import Entry
from ...instances.base.errors import TooLargeError
from ...instances.base.kind import Rules
from ...instances.base.result import StartOutcome, WarmStart
from ..contract import Board, Request
from ..referee import OwnObjective, Ruling, rule, rules_of
from .choose import Question

_log = logging.getLogger("pipeplan")

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
