"""The exact planner: a formulation through one or several solvers, by cut-offs.

A plan of value v is known to be within a gap g of the optimum as soon as no plan has a value of at most
(1 - g) v. So each attempt asks only for plans below that cut-off: reductions are strong there, and an
infeasibility proof is much easier than closing the gap from both sides. Either the attempt finds a
better plan, and the cut-off falls, or it proves that there is none, and the run ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..formulations.contract import Formulation, Gradual, OptionSpec, Plan
from ..formulations.registry import FORMULATIONS
from ..instances.errors import TooLargeError
from ..instances.result import PROVEN_TOLERANCE, Stop, WarmStart, Warmth, relative_gap
from .contract import Board, Outcome, Planner, Request
from .judge import Rules, rule
from .lineup import Stage, lineup
from .race import Attempt, Race
from .registry import PLANNERS

COARSE_GAP = 0.01
"""Proven first where a smaller gap is asked for: a good bound early, whatever comes later."""

NEAR = 2.5
"""Value and bound within this multiple of the wanted gap: better plans are the shorter way to its end."""

FINE_GAP = PROVEN_TOLERANCE / 2
"""What stands for a gap of 0: objective and bound then meet within the tolerance for `proven`."""


class ExactPlanner:
    name = "exact"
    title = "a formulation through a solver"
    problem_kind = "any"
    exact = True
    options: tuple[OptionSpec, ...] = ()

    def plan(self, request: Request) -> Outcome:
        return _Run(request, self).outcome()


PLANNER = ExactPlanner()


@dataclass
class _State:
    plan: Plan | None = None
    value: float | None = None
    claimed: float | None = None
    bound: float | None = None


class _Run:
    """One request, from the first bound to the last attempt."""

    def __init__(self, request: Request, planner: ExactPlanner) -> None:
        own = dict(request.options)
        self.request = request
        self._planner = planner
        self.formulation: Formulation = FORMULATIONS[own.pop("formulation")].load()
        self.solver = own.pop("solver", None) or "auto"
        self.options: Mapping[str, Any] = own
        self.formulation.check(request.problem, own)
        self.rules = replace(Rules.of(own), contiguity=self.formulation.contiguity(own))
        self.state = _State()
        self.messages: list[str] = []
        self.refused: Plan | None = None
        """What the model calls a plan and the referee does not."""
        self.last: Attempt | None = None
        self.build_seconds = 0.0
        self.given_up: set[str] = set()
        self.warm_start = WarmStart()

    def outcome(self) -> Outcome:
        self._take_bound(self.formulation.lower_bound(self.request.problem, self.options))
        self._take_warm_start()
        try:
            stop = self._solve()
        except TooLargeError as error:
            if self.state.plan is None:
                raise
            self.messages.append(str(error))
            stop = Stop.MEMORY
        last = self.last
        return Outcome(
            stop=stop,
            plan=self.state.plan or self.refused,
            claimed=self.state.claimed if self.refused is None or last is None else last.refused_value,
            bound=self.state.bound,
            warm_start=self.warm_start,
            backend={} if last is None else last.backend,
            model_size={} if last is None else last.size,
            seconds={"build": self.build_seconds},
            messages=tuple(dict.fromkeys(self.messages)),
        )

    # ---- incumbents and bounds ------------------------------------------------------------------------

    def judge(self, plan: Plan) -> float | None:
        ruling = rule(self.request.problem, plan, self.rules)
        if ruling.value is None:
            self.messages.append(f"the referee rejected a plan: {ruling.violations[0]}")
        return ruling.value

    def _take_plan(self, plan: Plan, value: float, claimed: float | None, source: str) -> None:
        if self.state.value is None or value < self.state.value:
            self.state.plan, self.state.value, self.state.claimed = plan, value, claimed
            self.request.board.post(plan, value, source=source)

    def _take_bound(self, bound: float | None) -> None:
        if bound is not None and (self.state.bound is None or bound > self.state.bound):
            self.state.bound = bound
            self.request.board.post(bound=bound)

    def _take_warm_start(self) -> None:
        """The start becomes the first incumbent, hence the first cut-off."""
        plan = self.request.warm_start
        if plan is None:
            return
        value = self.judge(plan)
        if value is None:
            self.warm_start = WarmStart(Warmth.REJECTED)
        else:
            self.warm_start = WarmStart(Warmth.ACCEPTED, value=value)
            self._take_plan(plan, value, value, "warm start")

    # ---- the search -----------------------------------------------------------------------------------

    def _reached(self, gap: float) -> bool:
        reached = relative_gap(self.state.value, self.state.bound)
        return reached is not None and reached <= gap * (1 + 1e-6)

    def _target_gap(self) -> float:
        """The gap that ends the run; an absolute gap is turned into a relative one."""
        gap = max(self.request.limits.rel_gap, FINE_GAP)
        if self.state.value and self.request.limits.abs_gap:
            gap = max(gap, self.request.limits.abs_gap / abs(self.state.value))
        return gap

    def _solve(self) -> Stop:
        for gap in self._gaps():
            stop = self._close(max(gap, self._target_gap()))
            if stop is not None:
                return stop
            if self._reached(self._target_gap()):
                break
        return Stop.PROVEN if self._reached(PROVEN_TOLERANCE) else Stop.GAP

    def _gaps(self) -> tuple[float, ...]:
        """Periods of chains are few and far between: there the last gap is as easy as the first."""
        return (0.0,) if self.request.problem.kind == "chain" else (COARSE_GAP, 0.0)

    def _stages(self, gap: float) -> tuple[Stage, ...]:
        reached = relative_gap(self.state.value, self.state.bound)
        near = reached is not None and reached <= NEAR * gap
        search = self.state.plan is not None
        placement = self.request.problem.kind == "placement"
        preferred = None if placement else self.formulation.solvers(self.request.problem, self.options)
        return lineup(preferred, self.solver, self.options, self.request.limits.threads, near, search and placement)

    def _close(self, gap: float) -> Stop | None:
        """Stages until the gap is reached (None) or something else ends the run."""
        stages = self._stages(gap)
        turn = 0
        while not self._reached(gap):
            if self.request.out_of_time():
                return Stop.TIME
            before = (self.state.value, self.state.bound)
            if stages[turn].kind in ("search", "restrict"):
                self._help(stages[turn].kind, gap, stages[turn].seconds or 0.0)
                turn += 1
                continue
            stage = self._living(stages[turn])
            if not stage.threads_of:
                return Stop.ERROR
            cutoff = self._cutoff(gap)
            if self.request.out_of_time():  # where cut-offs are sought with care
                return Stop.TIME
            attempt = self._attempt(stage, gap, cutoff)
            if attempt.refuted is not None and attempt.cutoff is None:
                return Stop.INFEASIBLE
            if attempt.stop == Stop.UNBOUNDED:
                return Stop.UNBOUNDED
            unchanged = (self.state.value, self.state.bound) == before
            if not attempt.dead and (unchanged or not attempt.settled or stage.kind == "improve"):
                turn += 1  # it has had its time
            if attempt.refused is not None and self.state.plan is None:
                self.refused = attempt.refused
                return Stop.ERROR
            if turn == len(stages):
                return Stop.TIME if self.request.out_of_time() else self._stuck(attempt)
        return None

    def _help(self, kind: str, gap: float, seconds: float) -> None:
        """A plan from another planner, started from the best one; ends early where the gap is reached."""
        left = self.request.seconds_left()
        seconds = seconds if left is None else min(seconds, left / 4)
        board = Board(bound=self.state.bound, started=self.request.board.started)
        limits = replace(self.request.limits, time_limit_s=board.seconds + seconds, rel_gap=gap)
        if kind == "search":
            helper: Planner = PLANNERS["lns"].load()
            options: dict[str, Any] = {"cycles": 10_000}
            start = self.state.plan
            known = {spec.name: self.options.get(spec.name, spec.default) for spec in helper.options}
        else:
            helper, options = self._planner, {"formulation": self.formulation.name, "non_contiguous": False}
            known, start = dict(self.options), self.request.warm_start  # our best plan need not be contiguous
        request = Request(self.request.problem, {**known, **options}, limits, start, board)
        try:
            helper.plan(request)
        finally:  # an interrupt must not cost what was found so far
            if board.plan is not None and (value := self.judge(board.plan)) is not None:
                self._take_plan(board.plan, value, value, kind)

    def _stuck(self, attempt: Attempt) -> Stop:
        self.messages.append("the solver stopped without closing the gap")
        return Stop.MEMORY if attempt.stop == Stop.MEMORY else Stop.ERROR

    def _living(self, stage: Stage) -> Stage:
        """A stage without the backends that died; an empty portfolio stage falls back to what lives."""
        living = {name: n for name, n in stage.threads_of.items() if name not in self.given_up}
        if not living and self.solver == "auto":
            spare = next((name for name in ("highs", "cp-sat") if name not in self.given_up), None)
            living = {} if spare is None else {spare: self.request.limits.threads or 1}
            return replace(stage, threads_of=living, seconds=None)
        return replace(stage, threads_of=living)

    def _cutoff(self, gap: float) -> float | None:
        """What a plan has to be worth to count; less where the model would be too large for all of these."""
        value = self.state.value
        cutoff = None if value is None else value - gap * (1 - 1e-9) * abs(value)
        if not isinstance(self.formulation, Gradual):
            return cutoff
        request, bound = self.request, self.state.bound
        return self.formulation.next_cutoff(request.problem, self.options, bound, cutoff, request.out_of_time)

    def _attempt(self, stage: Stage, gap: float, cutoff: float | None) -> Attempt:
        value = self.state.value
        left = self.request.seconds_left()
        seconds = stage.seconds if left is None else left if stage.seconds is None else min(left, stage.seconds)
        coarse = gap >= COARSE_GAP / 10
        start = self.request.warm_start
        enough = cutoff if coarse else None
        if stage.kind == "improve" and value is not None:
            start, cutoff = self.state.plan, value
            enough = None if self.state.bound is None else self.state.bound / (1 - gap)
        race = Race(
            self.request.problem,
            self.formulation,
            self.options,
            self.request.limits,
            self.request.board,
            self.judge,
            precision=1e-6 if coarse else 1e-9,
        )
        attempt = race.attempt(stage.threads_of, cutoff, seconds, start, enough)
        self.last = attempt
        self.build_seconds += attempt.build_seconds
        self.messages.extend(attempt.messages)
        self.given_up.update(attempt.dead)
        self._take_bound(attempt.bound)
        if attempt.plan is not None and attempt.value is not None:
            self._take_plan(attempt.plan, attempt.value, attempt.claimed, "solver")
        if attempt.refuted is not None and cutoff is not None:
            self._take_bound(cutoff)
        return attempt
