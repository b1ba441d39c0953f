"""One attempt: several backends on the same formulation under one cut-off; the first answer that settles it wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...formulations.contract import BuiltModel, ExtraRow, Formulation, NativeModel, Plan, Problem, Refuted
from ...formulations.native import with_rows
from ...instances.errors import UsageError
from ...instances.result import StartOutcome, Stop
from ..backends import Event, Incumbent, Job, compile_pyomo, find_backend, submit
from ..backends.trust import cutoff_for, safe_bound
from ..contract import Board
from ..options import Progress, SolveOptions

POLL_S = 0.05
GRACE_S = 2.0
"""How long an interrupted worker may take for its last word."""
QUIET_S = 0.25
"""An attempt that needs only some plan ends when nothing better has come for so long."""


@dataclass
class Attempt:
    """What an attempt has established so far, for plans of value at most `cutoff`."""

    cutoff: float | None
    refuted: str | None = None
    """Why no plan is below the cut-off."""
    bound: float | None = None
    """Valid for the original problem."""
    plan: Plan | None = None
    value: float | None = None
    """The referee's value of `plan`."""
    claimed: float | None = None
    refused: list[Plan] = field(default_factory=list)
    """Plans that the referee did not accept; `refused_value` is the model's value of the last one."""
    refused_value: float | None = None
    stop: Stop | None = None
    """Why the deciding backend stopped; None: the attempt was cut short."""
    decided_by: str | None = None
    """The backend that refuted the cut-off or finished its search; None: nobody, or no solver was needed."""
    out_of_time: bool = False
    """Did a backend reach the limit that it was given?"""
    seconds: float = 0.0
    start_outcome: StartOutcome = StartOutcome.NONE
    backend: Mapping[str, Any] = field(default_factory=dict)
    size: Mapping[str, int] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    build_seconds: float = 0.0
    improved_at: float = 0.0
    satisfied: bool = False
    """A plan of the wanted value was found."""
    runners: list[_Runner] = field(default_factory=list, repr=False)

    @property
    def is_coarse(self) -> bool:
        """Does a model let through what the referee may refuse, as it says of itself?"""
        return any(runner.built.coarse or runner.built.exclude is not None for runner in self.runners)

    def excludes_more(self, plans: Sequence[Plan]) -> bool:
        """Can the next models cut off something of these refused plans that the models of this attempt did not?"""
        return any(len(exclusions(runner.built, plans)) > runner.exclusions for runner in self.runners)

    @property
    def settled(self) -> bool:
        """Has the question of this attempt been answered, one way or the other?"""
        return self.satisfied or self.refuted is not None or self.stop is not None


@dataclass
class _Runner:
    name: str
    built: BuiltModel
    job: Job
    columns: Collection[str] | None
    """The model's own columns, where the parent knows them."""
    exclusions: int = 0
    """Rows that cut off plans which the referee refused before."""

    def values_of(self, plan: Plan) -> dict[str, float] | None:
        return start_values(self.built, plan, self.columns)


def start_values(built: BuiltModel, plan: Plan, columns: Collection[str] | None) -> dict[str, float] | None:
    """The plan as a start; columns that the model left out (they can only be 0) are left out, too."""
    values = built.encode(plan)
    if values is None:
        return None
    return {name: value for name, value in values.items() if columns is None or name in columns}


def exclusions(built: BuiltModel, plans: Sequence[Plan]) -> list[ExtraRow]:
    """The rows that cut off refused plans, each once."""
    found: list[ExtraRow] = []
    if built.exclude is not None:
        for plan in plans:
            found += [row for row in built.exclude(plan) if row not in found]
    return found


@dataclass
class SolverGroup:
    """The facts that stay the same over all attempts of one run."""

    problem: Problem
    formulation: Formulation
    options: Mapping[str, Any]
    limits: SolveOptions
    board: Board
    judge: Callable[[Plan], float | None]
    """The referee: a value, or None for a plan that it refuses."""
    precision: float = 1e-9
    forgiving: bool = False
    """Is a backend that cannot take the model left out, rather than the user told?"""
    excluded: Sequence[Plan] = ()
    """Plans that models let through and the referee refused: to be cut off by rows."""

    def attempt(
        self,
        threads_of: Mapping[str, int],
        cutoff: float | None,
        seconds: float | None,
        start: Plan | None,
        enough: float | None,
    ) -> Attempt:
        """Run the backends side by side; a plan of a value of at most `enough` ends the attempt."""
        attempt = Attempt(cutoff)
        began = self.board.seconds
        deadline = None if seconds is None else began + seconds
        try:
            for name, threads in threads_of.items():
                if self._launch(name, threads, seconds, start, attempt):
                    return attempt
            self._watch(attempt, deadline, enough)
        finally:
            for runner in attempt.runners:
                if runner.job.outcome is None:
                    runner.job.interrupt()
            self._last_words(attempt)
            attempt.seconds = self.board.seconds - began
        return attempt

    def _launch(
        self,
        name: str,
        threads: int,
        seconds: float | None,
        start: Plan | None,
        attempt: Attempt,
    ) -> bool:
        """Build and submit; True where building has already refuted the cut-off."""
        began = self.board.seconds
        backend = find_backend(name)
        built = self.formulation.build(
            self.problem,
            self.options,
            native=backend.capabilities.native,
            cutoff=cutoff_for(name, attempt.cutoff),
            precision=self.precision,
        )
        if isinstance(built, Refuted):
            attempt.refuted = built.reason
            return True
        model, columns = built.model, None
        rows = exclusions(built, self.excluded)
        if isinstance(model, NativeModel):
            model = with_rows(model, rows) if rows else model
        else:
            model = compile_pyomo(model, grids=built.grids, grid_loss=built.grid_loss).with_rows(rows)
            columns = model.position
        values = None if start is None else start_values(built, start, columns)
        attempt.build_seconds += self.board.seconds - began
        own = replace(self.limits, threads=threads, time_limit_s=seconds)
        job = submit(name, model, own, start=values)
        attempt.runners.append(_Runner(name, built, job, columns, len(rows)))
        attempt.size = {**attempt.size, **built.size}
        attempt.messages.extend(built.notes)
        return False

    def _watch(self, attempt: Attempt, deadline: float | None, enough: float | None) -> None:
        running = list(attempt.runners)
        while running:
            for runner in list(running):
                self._note(runner, self._poll(runner, POLL_S / len(running)), attempt)
                if runner.job.outcome is not None:
                    running.remove(runner)
                    self._finish(runner, attempt)
            if attempt.stop is not None:
                return
            found = attempt.value is not None and enough is not None and attempt.value <= enough
            attempt.satisfied = found
            if found and self.board.seconds > attempt.improved_at + QUIET_S:
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

    def _is_below(self, attempt: Attempt) -> bool:
        return attempt.value is not None and (attempt.cutoff is None or attempt.value <= attempt.cutoff)

    def _note(self, runner: _Runner, events: Sequence[Event], attempt: Attempt) -> None:
        """Plans are judged at once (of a whole batch only the last and best), bounds hold up to the cut-off."""
        plans = [event for event in events if isinstance(event, Incumbent)]
        if plans:
            best = min(plans, key=lambda event: event.value)
            self._take_plan(runner, best.values, best.value, attempt)
        for event in events:
            if isinstance(event, Progress):
                if event.bound is not None:
                    self._take_bound(safe_bound(runner.name, event.bound), attempt)
                self.board.post(nodes=event.nodes, source=runner.name)

    def _take_plan(self, runner: _Runner, values: Mapping[str, float], claimed: float | None, attempt: Attempt) -> None:
        plan = runner.built.decode(values)
        value = self.judge(plan)
        if value is None:
            attempt.refused.append(plan)
            attempt.refused_value = claimed
        elif attempt.value is None or value < attempt.value:
            attempt.plan, attempt.value, attempt.claimed = plan, value, claimed
            attempt.improved_at = self.board.seconds
            self.board.post(plan, value, source=runner.name)
            self._share(runner, plan, attempt)

    def _share(self, finder: _Runner, plan: Plan, attempt: Attempt) -> None:
        """What one backend found, the others may use."""
        for runner in attempt.runners:
            if runner is not finder and runner.job.outcome is None:
                values = runner.values_of(plan)
                if values is not None:
                    runner.job.offer(values)

    def _take_bound(self, bound: float, attempt: Attempt, final: bool = False) -> None:
        """`final`: told at the end of a search, and not to be posted before it is known what that is worth."""
        if not math.isfinite(bound):
            return
        bound = bound if attempt.cutoff is None else min(bound, attempt.cutoff)
        if attempt.bound is None or bound > attempt.bound:
            attempt.bound = bound
            if not final:
                self.board.post(bound=bound)

    def _finish(self, runner: _Runner, attempt: Attempt) -> None:
        """A final answer: it settles the attempt, or costs one backend."""
        outcome = runner.job.outcome
        assert outcome is not None
        if outcome.values is not None:
            self._take_plan(runner, outcome.values, outcome.objective, attempt)
        attempt.start_outcome = outcome.warm_start.outcome
        if outcome.stop == Stop.ERROR:
            attempt.dead.append(runner.name)
            attempt.messages.append(f"{runner.name}: {outcome.message}")
            return
        attempt.backend = {"name": outcome.backend, "version": outcome.version}
        attempt.size = {**attempt.size, **outcome.size}
        if outcome.stop == Stop.INFEASIBLE:
            self._take_refutation(runner, attempt)
            return
        complete = outcome.stop in (Stop.PROVEN, Stop.GAP, Stop.UNBOUNDED, Stop.COMPLETED)
        if outcome.bound is not None:
            self._take_bound(safe_bound(runner.name, outcome.bound), attempt, final=complete)
        if outcome.message:
            attempt.messages.append(f"{runner.name}: {outcome.message}")
        if complete:  # completed: all that a grid tells
            attempt.stop, attempt.decided_by = outcome.stop, runner.name
        elif outcome.stop == Stop.TIME:
            attempt.out_of_time = True
        elif outcome.stop == Stop.MEMORY:
            attempt.dead.append(runner.name)

    def _take_refutation(self, runner: _Runner, attempt: Attempt) -> None:
        if attempt.plan is not None and self._is_below(attempt):
            attempt.dead.append(runner.name)
            attempt.messages.append(f"{runner.name} calls infeasible what another solver has solved: it is left out")
            return
        attempt.refuted = f"{runner.name} proved that the model has no solution"
        attempt.stop, attempt.decided_by = Stop.INFEASIBLE, runner.name

    def _last_words(self, attempt: Attempt) -> None:
        """Interrupted workers may still have a plan or a bound; those that stay silent are killed."""
        deadline = self.board.seconds + GRACE_S
        for runner in attempt.runners:
            while runner.job.outcome is None and self.board.seconds < deadline:
                self._note(runner, runner.job.poll(POLL_S), attempt)
            if runner.job.outcome is None:
                runner.job.kill()
