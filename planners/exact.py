"""The exact planner: a formulation through one or several solvers, by cut-offs.

A plan of value v is known to be within a gap g of the optimum as soon as no plan has a value of at most
(1 - g) v. So each attempt asks only for plans below that cut-off: reductions are strong there, and an
infeasibility proof is much easier than closing the gap from both sides. Either the attempt finds a
better plan, and the cut-off falls, or it proves that there is none, and the run ends. What a float solver proves is
asked again of another solver first: `backends/trust.py` says why and how.

An attempt puts one question to several backends side by side; the first answer that settles it wins.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..formulations.contract import (
    BuiltModel,
    ExtraRow,
    Formulation,
    Gradual,
    NativeModel,
    NativeOnlyError,
    Plan,
    Refuted,
    Stage,
    side_by_side,
)
from ..formulations.native import with_rows
from ..formulations.registry import Entry, find_formulation
from ..instances.base import clock
from ..instances.base.errors import TooLargeError, UsageError
from ..instances.base.result import PROVEN_TOLERANCE, StartOutcome, Stop, WarmStart, relative_gap
from ..instances.physics.tolerances import SAME
from .backends import Answer, Event, Incumbent, Job, find_backend, submit
from .backends.client import load_ahead
from .backends.model import compile_pyomo
from .backends.registry import STANDARD
from .backends.trust import (
    claim_rounding,
    cutoff_for,
    evidence,
    is_exact,
    safe_bound,
    second_opinion_limits,
    second_opinions,
)
from .contract import Board, Outcome, Request
from .options import Progress, SolveOptions
from .referee import Ruling, rule, rules_of
from .registry import PLANNERS

# Seconds of one look at all backends, at most.
POLL_S = 0.05
# How long an interrupted worker may take for its last word.
GRACE_S = 2.0
# An attempt that needs only some plan ends when nothing better has come for so long.
QUIET_S = 0.25


# Stops of searches that ended by themselves; of these COMPLETED says that a grid lets the model prove no more.
COMPLETE = (Stop.PROVEN, Stop.GAP, Stop.UNBOUNDED, Stop.COMPLETED)


@dataclass
class Attempt:
    """One question to several backends, is there a plan of value at most `cutoff`, and what they have said so far."""

    request: Request
    formulation: Formulation
    options: Mapping[str, Any]
    judge: Callable[[Plan], Ruling]
    cutoff: float | None
    enough: float | None = None
    """A plan of at most this value ends the attempt."""
    precision: float = 1e-9
    forgiving: bool = False
    """Is a backend that cannot take the model left out, rather than the user told?"""
    excluded: Sequence[Plan] = ()
    """Plans that models let through and the referee refused: to be cut off by rows."""
    refuted: str | None = None
    """Why no plan is below the cut-off."""
    bound: float | None = None
    """Valid for the original problem."""
    value: float | None = None
    """The referee's value of the best plan of this attempt, which is on the board."""
    refused: list[Plan] = field(default_factory=list)
    """Plans that the referee did not accept; `refused_value` is the model's value of the last one."""
    refused_value: float | None = None
    answers: list[Answer] = field(default_factory=list)
    """Answers of the backends that came to an end, except errors and refutations that are not believed."""
    dead: dict[str, Stop] = field(default_factory=dict)
    """Backends that are of no use from now on, each with why it stopped."""
    messages: list[str] = field(default_factory=list)
    seconds: float = 0.0
    build_seconds: float = 0.0
    improved_at: float = 0.0
    runners: list[_Runner] = field(default_factory=list, repr=False)

    @property
    def decider(self) -> Answer | None:
        """The answer that refuted the cut-off or ended a search; None: cut short, or no solver was needed."""
        deciding = (answer for answer in reversed(self.answers) if answer.stop in (*COMPLETE, Stop.INFEASIBLE))
        return next(deciding, None)

    @property
    def stop(self) -> Stop | None:
        """Why the deciding backend stopped."""
        return None if self.decider is None else self.decider.stop

    @property
    def backend(self) -> dict[str, Any]:
        """The backend that had the last word, and its counts of work."""
        last = self.decider or next(reversed(self.answers), None)
        if last is None:
            return {}
        search = {"search": dict(last.counts)} if last.counts else {}
        return {"name": last.backend, "version": last.version, **search}

    @property
    def size(self) -> dict[str, int]:
        sizes = [runner.built.size for runner in self.runners] + [answer.size for answer in self.answers]
        return {name: number for size in sizes for name, number in size.items()}

    @property
    def out_of_time(self) -> bool:
        """Did a backend reach the limit that it was given?"""
        return any(answer.stop == Stop.TIME for answer in self.answers)

    def has_plan_of(self, value: float | None) -> bool:
        """Has it found a plan of at most this value (None: any)?"""
        return self.value is not None and (value is None or self.value <= value)

    @property
    def is_satisfied(self) -> bool:
        return self.enough is not None and self.has_plan_of(self.enough)

    @property
    def settled(self) -> bool:
        """Has the question of this attempt been answered, one way or the other?"""
        return self.is_satisfied or self.refuted is not None or self.stop is not None

    @property
    def board(self) -> Board:
        return self.request.board

    # ---- the run --------------------------------------------------------------------------------------

    def run(self, threads_of: Mapping[str, int], seconds: float | None, start: Plan | None) -> Attempt:
        """The backends side by side, for so long; the attempt itself holds what came of it."""
        began = self.board.seconds
        deadline = None if seconds is None else began + seconds
        try:
            for name, threads in threads_of.items():
                if self.request.out_of_time():
                    break
                limits = replace(self.request.limits, threads=threads, time_limit_s=seconds)
                if self._launch(name, limits, start):
                    return self
            self._watch(deadline)
        finally:
            for runner in self.runners:
                if runner.job.outcome is None:
                    runner.job.interrupt()
            self._last_words()
            self.seconds = self.board.seconds - began
        return self

    def _launch(self, name: str, limits: SolveOptions, start: Plan | None) -> bool:
        """Build and submit, unless building took all the time; True where it has already refuted the cut-off."""
        began = self.board.seconds
        try:
            built = self.formulation.build(
                self.request.problem,
                self.options,
                native=find_backend(name).capabilities.native,
                cutoff=cutoff_for(name, self.cutoff),
                precision=self.precision,
            )
        except NativeOnlyError:
            if not self.forgiving:
                raise
            self.dead[name] = Stop.ERROR
            return False
        if isinstance(built, Refuted):
            self.refuted = built.reason
            return True
        model, columns, rounding = built.model, None, built.rounding
        rows = exclusions(built, self.excluded)
        if isinstance(model, NativeModel):
            model = with_rows(model, rows) if rows else model
        else:
            model = compile_pyomo(model, grids=built.grids, grid_loss=built.grid_loss).with_rows(rows)
            columns, rounding = model.position, rounding + claim_rounding(name, model)
        values = None if start is None else start_values(built, start, columns)
        self.build_seconds += self.board.seconds - began
        if self.request.out_of_time():
            return False
        limits = replace(limits, time_limit_s=self.request.seconds_at_most(limits.time_limit_s))
        self.runners.append(_Runner(built, submit(name, model, limits, start=values), columns, rounding, len(rows)))
        self.messages.extend(built.notes)
        return False

    def _watch(self, deadline: float | None) -> None:
        running = list(self.runners)
        while running:
            for runner in list(running):
                try:
                    events = runner.job.poll(POLL_S / len(running))
                except UsageError:  # its outcome says the same
                    if not self.forgiving:
                        raise
                    events = []
                self._note(runner, events)
                if runner.job.outcome is not None:
                    running.remove(runner)
                    self._finish(runner, runner.job.outcome)
            if self.stop is not None:
                return
            if self.is_satisfied and self.board.seconds > self.improved_at + QUIET_S:
                return
            if deadline is not None and self.board.seconds > deadline + GRACE_S:
                return

    def _note(self, runner: _Runner, events: Sequence[Event]) -> None:
        """Plans are judged at once (of a whole batch only the last and best), bounds hold up to the cut-off."""
        plans = [event for event in events if isinstance(event, Incumbent)]
        if plans:
            best = min(plans, key=lambda event: event.value)
            self._take_plan(runner, best.values, best.value)
        for event in events:
            if isinstance(event, Progress):
                self._take_bound(runner, event.bound)
                self.board.post(nodes=event.nodes, source=runner.name)

    def _take_plan(self, runner: _Runner, values: Mapping[str, float], claimed: float | None) -> None:
        plan = runner.built.decode(values)
        ruling = self.judge(plan)
        if ruling.value is None:
            self.refused.append(plan)
            self.refused_value = claimed
            return
        self.board.accept(ruling, runner.claim(claimed, ruling.value), runner.name)
        if self.value is None or ruling.value < self.value:
            self.value, self.improved_at = ruling.value, self.board.seconds
            self._share(runner, plan)

    def _share(self, finder: _Runner, plan: Plan) -> None:
        """Offer what one backend has found to the others."""
        for runner in self.runners:
            if runner is not finder and runner.job.outcome is None:
                values = start_values(runner.built, plan, runner.columns)
                if values is not None:
                    runner.job.offer(values)

    def _take_bound(self, runner: _Runner, told: float | None, final: bool = False) -> None:
        """`final`: told at the end of a search, and not to be posted before it is known what that is worth."""
        if told is None or not math.isfinite(told):
            return
        if runner.built.bound is not None:
            told = min(told, runner.built.bound)
        bound = safe_bound(runner.name, told)
        bound = bound if self.cutoff is None else min(bound, self.cutoff)
        if self.bound is None or bound > self.bound:
            self.bound = bound
            if not final:
                self.board.post(bound=bound)

    def _finish(self, runner: _Runner, answer: Answer) -> None:
        """A final answer: it settles the attempt, or costs one backend."""
        if answer.values is not None:
            self._take_plan(runner, answer.values, answer.objective)
        if answer.stop == Stop.INFEASIBLE:
            self._take_refutation(runner, answer)
            return
        if answer.message:
            self.messages.append(f"{runner.name}: {answer.message}")
        if answer.stop in (Stop.ERROR, Stop.MEMORY):
            self.dead[runner.name] = answer.stop
        if answer.stop != Stop.ERROR:
            self.answers.append(answer)
            self._take_bound(runner, answer.bound, final=answer.stop in COMPLETE)

    def _take_refutation(self, runner: _Runner, answer: Answer) -> None:
        if self.has_plan_of(self.cutoff):
            self.dead[runner.name] = Stop.ERROR
            self.messages.append(f"{runner.name} calls infeasible what another solver has solved: it is left out")
            return
        self.refuted = f"{runner.name} proved that the model has no solution"
        self.answers.append(answer)

    def _last_words(self) -> None:
        """Interrupted workers may still have a plan or a bound; those that stay silent are killed."""
        deadline = self.board.seconds + GRACE_S
        for runner in self.runners:
            while runner.job.outcome is None and self.board.seconds < deadline:
                self._note(runner, runner.job.poll(POLL_S))
            if runner.job.outcome is None:
                runner.job.kill()


@dataclass
class _Runner:
    """One backend at work on its model."""

    built: BuiltModel
    job: Job
    columns: Collection[str] | None
    """The model's own columns, where the parent knows them."""
    rounding: float
    """Largest amount by which the solver says too little of a plan, since model and solver round."""
    exclusions: int = 0
    """Rows that cut off plans which the referee refused before."""

    @property
    def name(self) -> str:
        return self.job.backend

    def claim(self, told: float | None, value: float) -> float | None:
        """What the solver says that a plan is worth, up to its arithmetic: the plan's value where that explains it."""
        return told if told is None or told >= value else min(value, told + self.rounding)


def start_values(built: BuiltModel, plan: Plan, columns: Collection[str] | None) -> dict[str, float] | None:
    """The plan as a start; columns that the model left out (they can only be 0) are left out, too."""
    values = built.encode(plan)
    if values is None:
        return None
    return {name: value for name, value in values.items() if columns is None or name in columns}


def exclusions(built: BuiltModel, plans: Sequence[Plan]) -> list[ExtraRow]:
    """The rows that cut off refused plans, each once."""
    excluding: list[ExtraRow] = []
    if built.exclude is not None:
        for plan in plans:
            excluding += [row for row in built.exclude(plan) if row not in excluding]
    return excluding


# ---- The exact planner: a formulation through one or several solvers, by cut-offs.

# Proven first where a smaller gap is asked for: a good bound early, whatever comes later.
COARSE_GAP = 0.01

# What stands for a gap of 0: objective and bound then meet within the tolerance for `proven`.
FINE_GAP = PROVEN_TOLERANCE / 2


# Plans that only rounding lets through are cut off one by one, up to so many.
MOST_EXCLUDED = 200


def load_solvers(problem: Any, options: Mapping[str, Any]) -> None:
    """Let the solvers that are asked first, and those that are asked whether these are right, load themselves while the
    start and the model are made. `options`: those of a request to the exact planner."""
    _, formulation, solver, own = _asked(problem, options)
    stages = _stages(formulation, solver, problem, own, found=False)
    first = next((stage.solvers for stage in stages if stage.solvers), ())
    floats = [name for name in first if not is_exact(name)]
    seconds = second_opinions(floats[0])[:1] if floats else ()
    for name in dict.fromkeys((*first, *seconds)):
        load_ahead(name)


def _asked(problem: Any, options: Mapping[str, Any]) -> tuple[Entry, Formulation, str, Mapping[str, Any]]:
    """The formulation, which takes the problem, the solvers, and the formulation's own options, of a request's."""
    own = dict(options)
    entry, solver = find_formulation(own.pop("formulation")), own.pop("solver", None) or "auto"
    assert entry is not None, "the caller has found it before"
    formulation: Formulation = entry.load()
    formulation.check(problem, own)
    return entry, formulation, solver, own


def _stages(
    formulation: Formulation, solver: str, problem: Any, options: Mapping[str, Any], *, found: bool
) -> tuple[Stage, ...]:
    """The stages of the search. Named solvers, joined by commas, are one stage; `auto` takes what the formulation
    wants."""
    if solver != "auto":
        return side_by_side(*dict.fromkeys(name.strip() for name in solver.split(",")))
    return formulation.portfolio(problem, options, found=found)


def plan(request: Request) -> Outcome:
    """The planner `exact`: the request names the formulation and the solvers."""
    return _Run(request).outcome()


class _Run:
    """One request, from the first bound to the last attempt."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.entry, self.formulation, self.solver, self.options = _asked(request.problem, request.options)
        self.rules = rules_of(request.problem, self.options, self.formulation)
        self.board = request.board
        """Holds the incumbent, and bounds that nobody has confirmed yet."""
        self.bound: float | None = None
        self.checks: tuple[str, ...] = ()
        """Phrases for what proves the bound: who refuted what, on which numbers."""
        self.messages: list[str] = []
        self.refused: Plan | None = None
        """A plan by the model that the referee refused."""
        self.last: Attempt | None = None
        self.build_seconds = 0.0
        self.given_up: dict[str, Stop] = {}
        """Solvers that are asked no more, each with why it stopped."""
        self.refusals: list[str] = []
        """Why the referee did not accept plans."""
        self.excluded: list[Plan] = []
        """Plans that models let through by rounding and the referee refuses; the next attempt cuts them off."""
        self.contradicted = False
        """Was a solver left out because another one showed it to be wrong?"""
        self.warm_start = WarmStart()

    def outcome(self) -> Outcome:
        with clock.within(self.request.seconds_left()):
            bound = self.formulation.lower_bound(self.request.problem, self.options)
        self._take_bound(bound, f"a bound of {self.entry.name} that needs no solver")
        self._take_warm_start()
        try:
            stop = self._solve()
        except TooLargeError as error:
            if self.board.plan is None:
                raise
            self.messages.append(str(error))
            stop = Stop.MEMORY
        last = self.last
        return Outcome(
            stop=stop,
            plan=self.board.plan or self.refused,
            claimed=self.board.claimed if self.refused is None or last is None else last.refused_value,
            bound=self.bound,
            warm_start=self.warm_start,
            backend={} if last is None else last.backend,
            model_size={} if last is None else last.size,
            seconds={"build": self.build_seconds},
            messages=tuple(dict.fromkeys([*self.messages, *self._refused_in_words()])),
            checks=self.checks,
        )

    # ---- incumbents and bounds ------------------------------------------------------------------------

    def judge(self, plan: Plan) -> Ruling:
        """The referee's word, which is asked once of each incumbent."""
        ruling = self.board.ruling_of(plan) or rule(self.request.problem, plan, self.rules)
        if ruling.value is None:
            self.refusals.append(ruling.violations[0])
        return ruling

    def _refused_in_words(self) -> list[str]:
        if self.refusals and self.refused is None:
            n = len(self.excluded)
            plans = "a plan that a solver let through was" if n == 1 else f"{n} plans that solvers let through were"
            return [f"{plans} refused by the referee and cut off: {self.refusals[0]}"]
        return [f"the referee rejected a plan: {why}" for why in self.refusals]

    def _take_bound(self, bound: float | None, *checks: str) -> None:
        if bound is not None and (self.bound is None or bound > self.bound):
            self.bound, self.checks = bound, checks
            self.board.post(bound=bound)

    def _take_warm_start(self) -> None:
        """The start becomes the first incumbent, hence the first cut-off."""
        if self.request.warm_start is None:
            return
        ruling = self.judge(self.request.warm_start)
        outcome = StartOutcome.REJECTED if ruling.value is None else StartOutcome.ACCEPTED
        self.warm_start = WarmStart(outcome, value=ruling.value)
        self.board.accept(ruling, source="warm start")

    # ---- the search -----------------------------------------------------------------------------------

    def _reached(self, gap: float) -> bool:
        reached = relative_gap(self.board.value, self.bound)
        return reached is not None and reached <= gap * (1 + 1e-6)

    def _target_gap(self) -> float:
        """The gap that ends the run; an absolute gap is turned into a relative one."""
        gap = max(self.request.limits.rel_gap, FINE_GAP)
        if self.board.value and self.request.limits.abs_gap:
            gap = max(gap, self.request.limits.abs_gap / abs(self.board.value))
        return gap

    def _solve(self) -> Stop:
        for gap in (COARSE_GAP, 0.0) if self.entry.coarse_first else (0.0,):
            stop = self._close(max(gap, self._target_gap()))
            if stop is not None:
                return stop
            if self._reached(self._target_gap()):
                break
        return Stop.GAP  # or proven: the judge says so where value and bound meet

    def _close(self, gap: float) -> Stop | None:
        """Run stages until the gap is reached (None) or something else ends the run."""
        found = self.board.plan is not None
        turns = _stages(self.formulation, self.solver, self.request.problem, self.options, found=found)
        turn = 0
        while not self._reached(gap):
            if self.request.out_of_time():
                return Stop.TIME
            before = (self.board.value, self.bound)
            stage = turns[turn]
            if stage.kind == "search":
                self._help(stage, gap)
                turn += 1
                continue
            threads_of, seconds = self._living(stage)
            if not threads_of:
                return Stop.MEMORY if Stop.MEMORY in self.given_up.values() else Stop.ERROR
            cutoff = self._cutoff(gap)
            if self.request.out_of_time():  # where cut-offs are sought with care
                return Stop.TIME
            attempt = self._attempt(stage.kind == "improve", threads_of, seconds, gap, cutoff)
            if attempt.refuted is not None and attempt.cutoff is None:
                return Stop.INFEASIBLE
            if attempt.stop == Stop.UNBOUNDED:
                return Stop.UNBOUNDED
            if self._exclude(attempt):
                continue
            unchanged = (self.board.value, self.bound) == before
            if not attempt.dead and (unchanged or not attempt.settled or stage.kind == "improve"):
                turn += 1  # it has had its time
            models = [runner.built for runner in attempt.runners]
            coarse = any(model.coarse or model.exclude is not None for model in models)
            if attempt.refused and self.board.plan is None and coarse:
                self.messages.append(
                    "not proven: the model counts less finely than the referee, which refused its plans"
                )
                return Stop.COMPLETED
            if attempt.refused and self.board.plan is None:
                self.refused = attempt.refused[-1]
                return Stop.ERROR
            if turn == len(turns):
                return Stop.TIME if attempt.out_of_time or self.request.out_of_time() else self._stuck(attempt)
        return None

    def _help(self, stage: Stage, gap: float) -> None:
        """A plan and a bound from another planner; ends early where the gap is reached."""
        seconds, left = stage.seconds or 0.0, self.request.seconds_left()
        seconds = seconds if left is None else min(seconds, left * stage.share)

        def pass_on(progress: Progress) -> None:
            """What a search has proven so far is known at once."""
            self.board.post(bound=progress.bound, source=progress.source)

        board = Board(pass_on, stage.planner, bound=self.bound, started=self.board.started)
        limits = replace(self.request.limits, time_limit_s=board.seconds + seconds, rel_gap=gap)
        helper = PLANNERS[stage.planner]
        options = {spec.name: self.options.get(spec.name, spec.default) for spec in helper.options}
        request = Request(self.request.problem, {**options, **stage.options}, limits, self.board.plan, board)
        try:
            outcome = helper.load().plan(request)
            self._take_bound(outcome.bound, *outcome.checks)
        finally:  # an interrupt must not cost what was found so far
            if board.plan is not None:
                self.board.accept(self.judge(board.plan), source=stage.kind)

    def _exclude(self, attempt: Attempt) -> bool:
        """Are there plans that the next attempt can cut off, and this one did not?"""
        for plan in attempt.refused:
            if len(self.excluded) < MOST_EXCLUDED and plan not in self.excluded:
                self.excluded.append(plan)
        more = any(len(exclusions(runner.built, self.excluded)) > runner.exclusions for runner in attempt.runners)
        return bool(attempt.refused) and len(self.refusals) < MOST_EXCLUDED and more

    def _stuck(self, attempt: Attempt) -> Stop:
        if attempt.decider is not None and attempt.stop in COMPLETE:
            name = attempt.decider.backend
            self.messages.append(f"not proven: {name} ended its search, but its bound does not say so much")
            return Stop.COMPLETED
        self.messages.append("the solver stopped without closing the gap")
        return Stop.ERROR

    def _living(self, stage: Stage) -> tuple[Mapping[str, int], float | None]:
        """Threads of the backends of a stage that did not die, and their time; where all died, of a standard solver."""
        threads = self.request.limits.threads
        living = {name: n for name, n in share(stage.solvers, threads).items() if name not in self.given_up}
        if not living and (self.solver == "auto" or self.contradicted):
            spare = next((name for name in STANDARD if name not in self.given_up), None)
            return {} if spare is None else {spare: threads or 1}, None
        return living, stage.seconds

    def _cutoff(self, gap: float) -> float | None:
        """What a plan has to be worth to count; less where the model would be too large for all of these."""
        value = self.board.value
        cutoff = None if value is None else value - gap * (1 - 1e-9) * abs(value)
        if not isinstance(self.formulation, Gradual):
            return cutoff
        request, bound = self.request, self.bound
        return self.formulation.next_cutoff(request.problem, self.options, bound, cutoff, request.out_of_time)

    def _attempt(
        self, improve: bool, threads_of: Mapping[str, int], seconds: float | None, gap: float, cutoff: float | None
    ) -> Attempt:
        """Ask backends for plans below the cut-off (`improve`: as good as the best), and take what that proves."""
        value = self.board.value
        seconds = self.request.seconds_at_most(seconds)
        coarse = gap >= COARSE_GAP / 10
        # Close to the bound a float solver's model holds the best plan as well, so that it may start from there.
        start = self.request.warm_start if coarse else self.board.plan or self.request.warm_start
        enough = cutoff if coarse else None
        if improve and value is not None:
            start, cutoff = self.board.plan, value
            if isinstance(self.formulation, Gradual):
                # A model of one question may answer with the plan that is known.
                cutoff = value - FINE_GAP * abs(value)
            enough = None if self.bound is None else self.bound / (1 - gap)
        forgiving = self.solver == "auto"
        attempt = self._asking(
            self.request, cutoff, enough, precision=1e-6 if coarse else 1e-9, forgiving=forgiving
        )
        attempt.run(threads_of, seconds, start)
        if attempt.runners or attempt.refuted is not None or self.last is None:
            self.last = attempt  # else no solver took the model, and there is nothing to say of it
        self.build_seconds += attempt.build_seconds
        self.messages.extend(attempt.messages)
        self.given_up.update(attempt.dead)
        self._take_proof(attempt, gap)
        return attempt

    def _asking(self, request: Request, cutoff: float | None, enough: float | None, **how: Any) -> Attempt:
        """An attempt to answer a request: it looks below `cutoff`, ends at a value of `enough`, and leaves out
        the plans that the referee rejected."""
        excluded = tuple(self.excluded)
        return Attempt(
            request, self.formulation, self.options, self.judge, cutoff, enough, excluded=excluded, **how
        )

    # ---- what an attempt proves ------------------------------------------------------------------------

    def _take_proof(self, attempt: Attempt, gap: float) -> None:
        """Take what an attempt proves: at once from a solver of whole numbers; from a float solver after a
        second opinion, where it would end the search."""
        decider = None if attempt.decider is None else attempt.decider.backend
        value = self.board.value
        if value is not None and self.board.bound is not None and self.board.bound > value * (1 + SAME):
            # A float solver told it on its way, within its tolerances: it excludes a plan that was found since.
            self.board.bound = self.bound
        if attempt.refuted is None and attempt.stop not in (Stop.PROVEN, Stop.GAP):
            self._take_bound(attempt.bound, "the bound of a search that did not end")
        elif decider is None:
            self._prove(attempt.cutoff, f"before any solver: {attempt.refuted}")
        elif is_exact(decider):
            below = attempt.bound if attempt.refuted is None else attempt.cutoff
            self._prove(below, evidence(decider, _answer(below)))
        elif attempt.refuted is not None:
            self._ask_again(attempt, decider, attempt.cutoff, attempt.cutoff)
        elif attempt.bound is not None and (self.bound is None or attempt.bound > self.bound):
            self._ask_again(attempt, decider, self._wanted(attempt.bound, attempt.cutoff, gap), attempt.bound)

    def _prove(self, below: float | None, *checks: str) -> None:
        """Note the proof that no plan has at most the value `below`; None: there is no plan at all."""
        if below is None:
            self.checks = checks
        else:
            self._take_bound(below, *checks)

    def _wanted(self, bound: float, cutoff: float | None, gap: float) -> float:
        """The bound that would close the gap; where there is no plan yet, the one that was told."""
        value = self.board.value
        wanted = bound if value is None else value - max(gap, FINE_GAP) * (1 - 1e-9) * abs(value)
        return wanted if cutoff is None else min(wanted, cutoff)

    def _ask_again(self, attempt: Attempt, first: str, question: float | None, told: float | None) -> None:
        """Is there no plan of at most that value? Yes, no (the first solver is left out), or no answer in time.

        `told`: what the first solver said itself, which counts then.
        """
        second = self._second_opinion(first, question, attempt.seconds)
        if second is not None and second.has_plan_of(question):
            self._leave_out(first, second.runners[0].name, attempt)
        elif second is not None and second.refuted is not None:
            other = second.decider
            theirs = second.refuted if other is None else evidence(other.backend, _answer(question))
            self._prove(question, evidence(first, _answer(question)), theirs)
        else:
            self._prove(told, evidence(first, _answer(told)), "no second opinion came in time")

    def _second_opinion(self, first: str, question: float | None, first_took_s: float) -> Attempt | None:
        """An attempt with the first other solver that takes this model; None where there is none, or no time."""
        for other in second_opinions(first):
            if other in self.given_up or self.request.out_of_time():
                continue
            most, native = second_opinion_limits(other, first_took_s)
            seconds = self.request.seconds_at_most(most)
            request = replace(self.request, limits=replace(self.request.limits, native=native, log_path=None))
            threads = {other: request.limits.threads or os.cpu_count() or 1}
            try:
                return self._asking(request, question, question).run(threads, seconds, None)
            except (UsageError, TooLargeError):  # it does not take this model
                continue
        return None

    def _leave_out(self, first: str, other: str, attempt: Attempt) -> None:
        self.given_up[first] = Stop.ERROR
        self.contradicted = True
        attempt.refuted = None
        attempt.answers.clear()
        attempt.dead[first] = Stop.ERROR
        self.board.bound = self.bound  # what the first one said on the way is not believed either
        self.messages.append(f"{first} excluded a plan that {other} has found: {first} is left out")


def share(names: tuple[str, ...], threads: int | None) -> dict[str, int]:
    """Threads for each solver, at least one. HiGHS hardly uses more than one, so the solver named last gets the
    rest."""
    shares = dict.fromkeys(names, 1)
    shares[names[-1]] += max(0, (threads or os.cpu_count() or 1) - len(names))
    return shares


def _answer(below: float | None) -> str:
    return "found no plan at all" if below is None else f"refuted every plan of value {below:.9g} or less"
