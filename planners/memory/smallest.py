"""The public question, for every kind of problem: how much memory is needed at least? And where a problem has no plan:
how much would do?"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from ...formulations.contract import Plan, Problem
from ...formulations.registry import FORMULATIONS
from ...instances.base.amounts import as_written
from ...instances.base.clock import now
from ...instances.base.errors import PipeplanError, UsageError, show
from ...instances.base.result import Stop
from ...instances.least_memory import BYTES, SEARCHED, SmallestMemory, at_most, enough, option, said, sufficient
from ...instances.lookup import problem_of
from ...instances.registry import kind_of
from ..contract import Board, Outcome, Request
from ..kinds import planned_kind
from ..options import Progress, SolveOptions, check_asked, limits_of
from ..referee import rule
from ..registry import EXACT, PLANNERS, methods_of
from ..run.choose import check_extensions, resolve_options

if TYPE_CHECKING:
    from ...instances.chain.problem import ChainProblem
    from ..chain.smallest_memory import ChainMemory


# ---- the search --------------------------------------------------------------------------------------
# The least memory by bisection: each question, whether there is a plan within so much, has a proof for its answer.
#
# What any plan needs is a whole multiple of a unit, which is the problem's own, so that the search ends: when
# nothing fits one unit less than a plan needs, or when there is no number between the two.

Watch = Callable[[Progress], None] | None

# Seconds below which no further question is asked.
LEAST_S = 0.01

# Share of what is enough from which on the question one unit below it is worth more than one in the middle.
CLOSE = Fraction(1, 1000)


@dataclass(frozen=True, slots=True)
class Floor:
    """An amount below which there is no plan, and in words what needs so much."""

    amount: Fraction
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to one question: a plan, a proof that there is none, or neither where the question stays open."""

    plan: Plan | None = None
    none: bool = False
    """Is it proven that there is no plan?"""
    none_of_mine: bool = False
    """Is it known that the planner that was asked has no plan with so much or less, though others may have one?"""
    above: Fraction | None = None
    """An amount that no plan fits, whatever the question was; None: no such amount is known."""


# Is there a plan within so many bytes (None: within any amount)?
Ask = Callable[[float | None, SolveOptions], Answer]


@dataclass(frozen=True, slots=True)
class Questions:
    """How one problem is asked for its least memory."""

    unit: Fraction
    """The memory that a plan needs is a whole multiple of this unit."""
    floor: Floor
    held: Callable[[Any], Fraction]
    """Gives the memory that the fullest device of a plan holds."""
    first: Ask
    """Asked once, without a limit: the better its plan, the sooner the search ends."""
    rounds: Sequence[Ask]
    """Asked one after the other, quick ones first; what one leaves open is for the next."""
    counted: str = BYTES
    """The unit in which memory is told."""
    record: Callable[[SmallestMemory], SmallestMemory] = lambda found: found
    """What the kind adds to the record that the search ends with."""


class _OverError(Exception):
    """The time for the search is over."""


class Search:
    """A search for the least memory: nothing fits `low` or less, and `plan` needs `high`."""

    def __init__(self, questions: Questions, limits: SolveOptions, watch: Watch = None) -> None:
        self.questions, self.limits, self.watch = questions, limits, watch
        self.started = now()
        self.low = questions.floor.amount - questions.unit
        self.reason = questions.floor.reason
        self.high: Fraction | None = None
        self.plan: Plan | None = None
        self.impossible = False

    def run(self) -> SmallestMemory:
        """Search to the end, or as far as time and the user's patience go."""
        try:
            stop = self._search()
        except _OverError:
            stop = Stop.TIME
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
        return self.questions.record(self._answer(stop))

    def _search(self) -> Stop:
        self._take(None, self._asked(self.questions.first, None))
        for ask in self.questions.rounds:
            if self.high is None and not self.impossible:
                self._take(None, self._asked(ask, None))
            # Narrow again as long as it helps: what was open for want of time may be answered the next time.
            before = None
            while self.high is not None and before != (self.low, self.high):
                before = self.low, self.high
                self._narrow(ask)
        return Stop.COMPLETED

    def _narrow(self, ask: Ask) -> None:
        """Bisection, with a question just below what is enough at first and at last: it may well be the last one.

        What stays open is left to the next round, and asked for below and above what it was asked for.
        """
        assert self.high is not None
        soft, hard = self.low, self.high
        amount, last = self._number(hard - self.questions.unit, soft, hard), self.high
        while amount is not None:
            answer, before = self._asked(ask, amount), (self.low, self.high)
            self._take(amount, answer)
            if answer.none_of_mine:
                soft = max(soft, as_written(amount) // self.questions.unit * self.questions.unit)
            elif (self.low, self.high) == before:
                hard = min(hard, as_written(amount))
            soft, hard = max(soft, self.low), min(hard, self.high)
            middle = (soft + hard) / 2
            if hard == self.high != last and hard - soft <= hard * CLOSE:
                middle, last = hard - self.questions.unit, hard
            amount = self._number(middle, soft, hard)

    def _asked(self, ask: Ask, amount: float | None) -> Answer:
        """The answer with half of the time that is left, so that a hard question does not cost the easier ones."""
        left = self._seconds_left()
        if left is not None and left <= LEAST_S:
            raise _OverError
        seconds = None if left is None else left / 2
        return ask(amount, replace(self.limits, time_limit_s=seconds, rel_gap=0.0, abs_gap=0.0))

    def _seconds_left(self) -> float | None:
        limit = self.limits.time_limit_s
        return None if limit is None else limit - (now() - self.started)

    def _take(self, amount: float | None, answer: Answer) -> None:
        if answer.plan is not None:
            needed = self.questions.held(answer.plan)
            if self.high is None or needed < self.high:
                self.plan, self.high = answer.plan, needed
        elif answer.none and amount is None:
            self.impossible = True
        elif answer.none and amount is not None:
            self._refuted(as_written(amount))
        if answer.above is not None:
            self._refuted(answer.above)
        if self.watch is not None:
            high = None if self.high is None else float(self.high)
            bound = max(0.0, float(self.low + self.questions.unit))
            self.watch(Progress(now() - self.started, high, bound, source=f"memory in {self.questions.counted}"))

    def _refuted(self, amount: Fraction) -> None:
        unit = self.questions.unit
        amount = amount // unit * unit
        if amount > self.low:
            self.low, self.reason = amount, SEARCHED

    def _number(self, wanted: Fraction, low: Fraction, high: Fraction) -> float | None:
        """The number next to what is wanted that is more than what is too little and less than what is enough."""
        unit = self.questions.unit
        if high - low <= unit:
            return None
        wanted = max(wanted // unit * unit, low + unit)
        number = enough(wanted)
        if as_written(number) >= high:
            number = at_most(wanted)
        return number if low + unit <= as_written(number) < high else None

    def _answer(self, stop: Stop) -> SmallestMemory:
        least, unit = self.high, self.questions.unit
        lower = max(Fraction(0), self.low + unit)
        if least is None:
            stop = Stop.INFEASIBLE if self.impossible else stop
            counted = self.questions.counted
            return SmallestMemory(None, at_most(lower), self.impossible, None, stop, self.reason, counted=counted)
        proven = self._number(least - unit, self.low, least) is None
        stop = Stop.PROVEN if proven else stop
        lower = least if proven else min(lower, least)
        return SmallestMemory(
            memory_bytes=enough(least),
            lower_bytes=enough(least) if proven else at_most(lower),
            proven=proven,
            plan=self.plan,
            stop=stop,
            reason=self.reason,
            counted=self.questions.counted,
        )


def least_memory(
    problem: Problem, options: Mapping[str, Any], limits: SolveOptions, watch: Watch = None
) -> SmallestMemory | None:
    """The least memory by the questions of the problem's kind; None: the kind has none."""
    questions = planned_kind(problem).questions
    return None if questions is None else Search(questions(problem, options), limits, watch).run()


def whole(amount: Fraction, unit: Fraction) -> Fraction:
    """The amount, rounded up to whole units."""
    return math.ceil(amount / unit) * unit


# ---- One question to one method: is there a plan? What it answers counts only as far as the referee agrees ----


def outcome_of(
    problem: Problem, name: str, options: Mapping[str, Any], limits: SolveOptions, start: Plan | None = None
) -> Outcome:
    """Outcome of a formulation or a planner, with those of the options that it declares; a failure is an open
    question."""
    entry = FORMULATIONS.get(name) or PLANNERS[name].for_kind(problem.kind)
    declared = {spec.name: options[spec.name] for spec in entry.options if spec.name in options}
    asked = resolve_options(entry, declared)
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


def of_mine(ask: Ask, memory_bytes: float | None, limits: SolveOptions) -> Answer:
    """The answer of a method that searches some plans alone: that there is none among them says nothing of others."""
    answer = ask(memory_bytes, limits)
    return Answer(answer.plan, none_of_mine=answer.none)


# ---- the public question -----------------------------------------------------------------------------


@overload
def smallest_memory(
    problem: ChainProblem,
    limits: SolveOptions | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> ChainMemory: ...


@overload
def smallest_memory(
    problem: Problem | str | os.PathLike[str],
    limits: SolveOptions | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> SmallestMemory: ...


def smallest_memory(
    problem: Problem | str | os.PathLike[str],
    limits: SolveOptions | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> SmallestMemory:
    """Find the smallest memory per device with which a problem has any plan, however slow.

    An interrupt keeps what is known by then.

    Parameters
    ----------
    problem : Problem, str or PathLike
        A problem, the path of a file, or the name of a packaged instance; its own limit of memory does not count.
    limits : SolveOptions, optional
        Where a limit ends the search, what is known by then is returned. None: no limits.
    options : Mapping, optional
        Options of formulations and planners that say which plans there are, `{"non_contiguous": True}` say; others
        make no difference. None: their defaults.
    on_progress : callable, optional
        Called with a `Progress` whenever there is news: the least amount that is known to be enough, and the bound,
        both in the unit of the result. None: nobody watches.

    Returns
    -------
    SmallestMemory
        An amount with a plan that it holds, and one below which there is none, the same on each device; where they
        meet, it is proven. Both are in bytes, or in the memory unit of a schedule. Of chains it says what the memory
        is made of, too.

    Raises
    ------
    InputError
        An argument has another type.
    UsageError
        There is no such instance, or an option is none of the kind's.
    """
    problem, limits = problem_of(problem), limits_of(limits)
    check_asked({}, options, on_progress)
    _check_options(problem, options or {})
    least = least_memory(problem, options or {}, limits, on_progress)
    if least is None:
        raise UsageError(
            f"The smallest memory of a {problem.kind} problem cannot be found; give one of another kind."
        )
    if least.memory_bytes is None and least.proven:
        return replace(least, reason=_why_none(problem, options or {}, limits))
    return least


def _why_none(problem: Problem, options: Mapping[str, Any], limits: SolveOptions) -> str:
    """Why no amount of memory is enough, where that is known."""
    explain = planned_kind(problem).why_none
    # Whether another amount would do is not asked again: none does.
    why = () if explain is None else explain(kind_of(problem).with_memory(problem, None), options, limits, False)
    return why[0].removesuffix(".") if why else "something else is missing"


def _check_options(problem: Problem, options: Mapping[str, Any]) -> None:
    names = sorted({spec.name for entry in methods_of(problem.kind) for spec in entry.options})
    for name in options:
        if name not in names:
            raise UsageError(
                f"There is no option {show(name)} for a {problem.kind} problem; give one of {', '.join(names)}."
            )


# ---- why a problem has no plan, where memory is missing ------------------------------------------------


def explain(problem: Problem, options: Mapping[str, Any], limits: SolveOptions, proven: bool) -> tuple[str, ...]:
    """Which memory would do for a problem that has no plan; nothing where it is not proven that there is none."""
    return would_do(problem, options, limits) if proven else ()


def would_do(problem: Problem, options: Mapping[str, Any], limits: SolveOptions) -> tuple[str, ...]:
    """A sentence on how much memory would be enough, as far as it is known; nothing where nobody can tell."""
    try:
        limited = kind_of(problem).with_memory(problem, None) != problem
        memory = least_memory(problem, options, limits) if limited else None
    except PipeplanError:  # plans that nobody can tell the least memory of
        return ()
    return () if memory is None else (_sentence(problem, memory),)


def _sentence(problem: Problem, memory: SmallestMemory) -> str:
    if memory.memory_bytes is None:
        return said(memory)
    limit_bytes = problem.memory_bytes
    if limit_bytes is not None and as_written(memory.memory_bytes) <= as_written(limit_bytes):
        enough = sufficient(memory.memory_bytes, memory.counted)
        return f"plans exist with {enough} of memory per device, but none that this method makes"
    return f"{said(memory)}; give {option(memory.memory_bytes, memory.counted)}"
