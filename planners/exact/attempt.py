"""One attempt: several backends on the same formulation under one cut-off; the first answer that settles it wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...formulations.contract import BuiltModel, ExtraRow, Formulation, NativeModel, NativeOnlyError, Plan, Refuted
from ...formulations.native import with_rows
from ...instances.base.errors import UsageError
from ...instances.base.result import Stop
from ..backends import Answer, Event, Incumbent, Job, find_backend, submit
from ..backends.trust import claim_rounding, cutoff_for, safe_bound
from ..contract import Board, Request
from ..options import Progress, SolveOptions
from ..referee import Ruling

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

    def excludes_more(self, plans: Sequence[Plan]) -> bool:
        """Can the next models cut off something of these refused plans that the models of this attempt did not?"""
        return any(len(exclusions(runner.built, plans)) > runner.exclusions for runner in self.runners)

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
            from ..backends.compiler import compile_pyomo  # native models need none

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
                self._note(runner, self._poll(runner, POLL_S / len(running)))
                if runner.job.outcome is not None:
                    running.remove(runner)
                    self._finish(runner, runner.job.outcome)
            if self.stop is not None:
                return
            if self.is_satisfied and self.board.seconds > self.improved_at + QUIET_S:
                return
            if deadline is not None and self.board.seconds > deadline + GRACE_S:
                return

    def _poll(self, runner: _Runner, seconds: float) -> Sequence[Event]:
        try:
            return runner.job.poll(seconds)
        except UsageError:
            if not self.forgiving:
                raise
            return ()  # its outcome says the same

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
