"""The planner `exact-schedule`: proven optimal schedules, anytime, with a valid bound at every moment.

A first plan is that of a rule, and the bounds need no search; where they meet, all is done. Otherwise annealing on
orders and a CP-SAT model of everything below the best plan go on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ...formulations.contract import BuiltModel, Refuted, Values
from ...formulations.zero_bubble.finite import MOST_RUNS, native_model
from ...formulations.zero_bubble.finite_orders import Sequences, in_order, sequences_of, tightest
from ...formulations.zero_bubble.finite_problem import (
    SPAN,
    FiniteProblem,
    finite_problem,
    lower_bound_of,
    work_bound,
)
from ...instances.base.clock import now
from ...instances.base.compiled import compiled, repays_loading
from ...instances.base.errors import TooLargeError, UsageError
from ...instances.base.kind import load_address
from ...instances.base.quantities import several
from ...instances.base.result import StartOutcome, Stop, WarmStart, met
from ...instances.registry import evaluation_of, violations_of
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ..backends import Answer, Event, Incumbent
from ..backends.client import Solver
from ..contract import Board, Outcome, Request
from ..options import Progress
from . import anneal_kernel
from .list_schedule import PERIOD, better_and_better, by_period, periodic_list_schedule, plan_lists
from .listing import why_none
from .named import plan_greedily, rule_schedules

# ---- annealing -------------------------------------------------------------------------------------------
# Better orders by annealing: between the planner and the compiled loop of `anneal_kernel`.

# Seconds that a round takes about, before the clock is looked at again: the first round, and the longest.
ROUND_S = 1.0
LONGEST_ROUND_S = 4.0
# Number of steps by which the speed is measured.
TRIED = 500
# Rises in energy that are accepted now and then at the beginning and at the end of a round, in mean times of a
# block.
HOT, COLD = 0.03, 0.001
# Longest schedule, in steps of time: the loop counts in machine words.
MOST_STEPS = 2**40


class Annealer:
    """Rounds of annealing, each from the orders that it is given."""

    def __init__(self, finite: FiniteProblem, objective: str, seed: int) -> None:
        self.finite = finite
        self.tables = tables(finite, objective)
        self.random = _array([2 * seed + 1], "uint64")
        self.mean = max(1.0, sum(finite.times) / len(finite.times))
        self.speed: float | None = None
        """Steps in a second."""
        self.seconds = ROUND_S

    @classmethod
    def of(cls, finite: FiniteProblem, objective: str, seed: int) -> Annealer | None:
        """An annealer; None where the loop is not made for the problem: blocks on several devices, or too many
        steps."""
        several = any(len(block.devices) > 1 for block in finite.problem.blocks)
        return None if several or finite.longest > MOST_STEPS else cls(finite, objective, seed)

    def improve(self, sequences: Sequences, target: float, seconds: float | None = None) -> Sequences | None:
        """One round of at most so many seconds: better orders, or None. It ends early at the target, in steps."""
        loop = compiled(anneal_kernel, "anneal")
        state = self._state(sequences)
        if self.speed is None:
            self.load(sequences)
            started = now()
            before = loop(self.tables, state, TRIED, self.mean * COLD, self.mean * COLD, int(target))
            self.speed = TRIED / max(now() - started, 1e-6)
            state = self._state(sequences)
        before = loop(self.tables, self._state(sequences), 0, 1.0, 1.0, 0)
        if before < 0:
            return None
        most = self.seconds if seconds is None else min(seconds, self.seconds)
        steps = max(1, int(most * self.speed))
        best = loop(self.tables, state, steps, self.mean * HOT, self.mean * COLD, int(target))
        if best >= before:
            self.seconds = min(LONGEST_ROUND_S, 1.5 * self.seconds)
            return None
        return self._sequences(state)

    def load(self, sequences: Sequences) -> None:
        """Load the loop, or compile it."""
        compiled(anneal_kernel, "anneal")(self.tables, self._state(sequences), 0, 1.0, 1.0, 0)

    def _state(self, sequences: Sequences) -> anneal_kernel.State:
        m = self.finite.batches
        row = [b * m + n for device in sequences for b, n in device]
        return anneal_kernel.State(
            random=self.random,
            row=_array(row),
            place=np.zeros(len(row), np.int64),
            start=np.zeros(len(row), np.int64),
            latest=np.zeros(len(row), np.int64),
            queue=np.zeros(len(row), np.int64),
            open=np.zeros(len(row), np.int64),
            values=np.zeros(len(sequences), np.int64),
            path=np.zeros(len(row), np.int64),
            best=np.zeros(len(row), np.int64),
        )

    def _sequences(self, state: anneal_kernel.State) -> Sequences:
        row, m = state.best.tolist(), self.finite.batches
        first = self.tables.first.tolist()
        return tuple(tuple(divmod(run, m) for run in row[start:end]) for start, end in pairwise(first))


def tables(finite: FiniteProblem, objective: str) -> anneal_kernel.Tables:
    """The problem as the compiled loop reads it."""
    m, count = finite.batches, len(finite.times)
    device = {b: d for d, blocks in enumerate(finite.on_device) for b in blocks}
    edges = [
        (arc.source * m + n, arc.target * m + n + arc.offset, arc.wait)
        for arc in finite.arcs
        for n in range(m - arc.offset)
    ]
    after, before = _rows(edges, count * m), _rows([(j, i, wait) for i, j, wait in edges], count * m)
    memories = [finite.memories[device[b]] for b in range(count)]
    sizes = [len(blocks) * m for blocks in finite.on_device]
    return anneal_kernel.Tables(
        times=_each([*finite.times], m),
        device=_each([device[b] for b in range(count)], m),
        block=_each(range(count), m),
        batch=_array([n for _ in range(count) for n in range(m)]),
        after=after[0],
        waiting=after[1],
        waits=after[2],
        before=before[0],
        awaited=before[1],
        delays=before[2],
        offsets=_offsets(finite),
        changes=_each([memory.changes.get(b, 0) for b, memory in enumerate(memories)], m),
        needed=_each([memory.needed(b) for b, memory in enumerate(memories)], m),
        room=_array([anneal_kernel.NEVER if memory.room is None else memory.room for memory in finite.memories]),
        standing=_array([memory.standing for memory in finite.memories]),
        first=_array([0, *accumulate(sizes)]),
        span=objective == SPAN,
    )


def _offsets(finite: FiniteProblem) -> Any:
    """`Tables.offsets`: only blocks of one device have any."""
    table = np.full((len(finite.times),) * 2, anneal_kernel.NEVER, dtype=np.int64)
    for blocks in finite.on_device:
        for i in blocks:
            offsets = finite.offsets_from(i)
            for k in blocks:
                if k in offsets:
                    table[i, k] = offsets[k]
    return table


def _rows(edges: Sequence[tuple[int, int, int]], count: int) -> tuple[Any, Any, Any]:
    """Edges (first end, other end, number) by their first ends: where each one's begin, the other ends, the numbers."""
    ordered = sorted(edges)
    sizes = [0] * count
    for i, _, _ in ordered:
        sizes[i] += 1
    return _array([0, *accumulate(sizes)]), _array([j for _, j, _ in ordered]), _array([w for *_, w in ordered])


def _each(values: Sequence[int], times: int) -> Any:
    return _array([value for value in values for _ in range(times)])


def _array(values: Sequence[int], kind: str = "int64") -> Any:
    return np.array(values, dtype=kind)


# ---- exact ------------------------------------------------------------

NAME = "exact-schedule"

BOUNDS = "work, paths and memory of the devices take no less: a bound without a search"
REFUTED = "cp-sat refuted every schedule of less, in whole parts of a step"

# Rules that try many variants, and so take long.
SLOW_RULES: tuple[Callable[[Request], Outcome], ...] = (plan_lists, plan_greedily)

# The planner that hands the model of a period to a solver, by its address: it imports the table of planners, which
# imports this one.
BY_MODEL = "pipeplan.planners.exact:plan"
# Share of the time limit that each slow rule may take.
RULE_SHARE = 0.1
# Seconds that the model of a few runs may take before the slow rules have their turn.
QUICK_S = 5.0
# Share of the time limit that this turn of the model may take at most, so that the slow rules have theirs.
QUICK_SHARE = 0.25

# Seconds of the first turn of annealing; each time the model has had its turn, the next one is longer.
ANNEALED_S = 10.0
# Seconds of the same for a few runs: annealing finds the best plan, and the model has only to refute better ones.
FEW_ANNEALED_S = 2.0
# Seconds of the model's first turn where annealing has turns as well.
TURN_S = 10.0
# How many times as long each turn is as the one before.
MORE = 2.0

# Blocks of all micro-batches up to which the model alone is quick.
FEW_RUNS = 200
# With more blocks of all micro-batches, a model of everything proves nothing in any time that people wait: under a
# time limit annealing has all of it.
MANY_RUNS = 1500

# CP-SAT's parameters for many runs, where probing each order in turn takes longer than the search.
PLAIN = {"cp_model_probing_level": 0, "linearization_level": 0}


def plan(request: Request) -> Outcome:
    """The planner `exact-schedule`, for given micro-batches or for the steady state."""
    problem: ScheduleProblem = request.problem
    if by_period(problem, request.options["objective"]):
        return _by_period(problem, request)
    return _Run(problem, request).outcome()


def _by_period(problem: ScheduleProblem, request: Request) -> Outcome:
    """The answer of the model of a period, which starts from a list schedule where the user gives no start."""
    start = request.warm_start or periodic_list_schedule(problem, request.out_of_time)
    options = {"formulation": "cp-periodic", "objective": PERIOD}
    outcome: Outcome = load_address(BY_MODEL)(Request(problem, options, request.limits, start, request.board))
    return outcome if request.warm_start is not None else replace(outcome, warm_start=WarmStart())


class _Run:
    """One request: the best plan, the bound, and what is done about the gap between them."""

    def __init__(self, problem: ScheduleProblem, request: Request) -> None:
        self.problem, self.request = problem, request
        self.objective = str(request.options["objective"])
        self.finite = finite_problem(problem, NAME)
        self.runs = len(problem.blocks) * self.finite.batches
        left = request.seconds_left()
        deadline = None if left is None else now() + left
        self.solver = Solver(deadline, request.limits.seed, request.limits.memory_limit_bytes)
        self.best: SchedulePlan | None = None
        self.value: Fraction | None = None
        self.bound = Fraction(work_bound(self.finite, self.objective)) / self.finite.steps
        self.infeasible = False
        self.checks: tuple[str, ...] = (BOUNDS,)
        self.messages: list[str] = []
        self.start = StartOutcome.NONE

    # ---- the best plan and the bound -----------------------------------------------------------------------

    def offer(self, plan: SchedulePlan) -> bool:
        """Keep the plan with the best times for its orders, or else the plan itself, if the referee accepts it and it
        is better than the best one. Was it kept?"""
        best = tightest(self.finite, sequences_of(self.problem, in_order(plan)), self.objective)
        for candidate in (plan,) if best is None else (best, plan):
            value = evaluation_of(self.problem, candidate).objective(self.objective)
            assert value is not None, "the micro-batches have an end"
            if self.value is not None and value >= self.value:
                return False
            if not violations_of(self.problem, candidate):
                self.best, self.value = candidate, value
                self._post()
                return True
        return False

    def raise_bound(self, bound: Fraction, *checks: str) -> None:
        if self.value is not None:
            bound = min(bound, self.value)
        if bound > self.bound:
            self.bound, self.checks = bound, checks
            self._post()

    def _post(self) -> None:
        value = None if self.value is None else float(self.value)
        self.request.board.post(self.best, value, float(self.bound), source=NAME)

    def done(self) -> bool:
        """Is the gap that was asked for reached, or is there no plan at all?"""
        if self.infeasible:
            return True
        value, bound = self.value, float(self.bound)
        return value is not None and (met(float(value), bound) or self.request.limits.reached(float(value), bound))

    def over(self) -> bool:
        return self.done() or self.request.out_of_time()

    # ---- one after the other ------------------------------------------------------------------------------

    def outcome(self) -> Outcome:
        try:
            self._search()
        except KeyboardInterrupt:
            self.solver.stopped.set()
            return self._answer(Stop.INTERRUPTED)
        return self._answer(None)

    def _search(self) -> None:
        start = self.request.warm_start
        if start is not None:
            self.start = StartOutcome.ACCEPTED if self.offer(start) else StartOutcome.REJECTED
        plan = next(better_and_better(self.problem, self.objective), None)  # the first one is there at once
        if plan is not None:
            self.offer(plan)
        if self.runs <= FEW_RUNS and repays_loading(self.runs, FEW_RUNS + 1):
            self._load()
        if not self.over():
            self.raise_bound(lower_bound_of(self.problem, self.objective), BOUNDS)
        for _, named in () if self.over() else rule_schedules(self.problem):
            self.offer(named)
        if self.runs <= FEW_RUNS and not self.over():
            limit = self.request.limits.time_limit_s
            self._ask(QUICK_S if limit is None else min(QUICK_S, QUICK_SHARE * limit))
        self._by_slow_rules()
        self._improve()

    def _load(self) -> None:
        """Machine code that so few runs do not need is being made ahead."""
        annealer = Annealer.of(self.finite, self.objective, self.request.limits.seed)
        if annealer is not None and self.best is not None:
            annealer.load(sequences_of(self.problem, self.best))

    def _by_slow_rules(self) -> None:
        """Offer the plan of each slow rule that fits the problem, so that the best plan is never worse than theirs."""
        for rule in SLOW_RULES:
            if self.over():
                return
            options = {"objective": self.objective}
            limits, board = self.request.limits, Board(started=self.request.board.started)
            if limits.time_limit_s is not None:
                most = board.seconds + RULE_SHARE * limits.time_limit_s
                limits = replace(limits, time_limit_s=min(limits.time_limit_s, most))
            try:
                plan = rule(Request(self.problem, options, limits, board=board)).plan
            except UsageError:  # it is a rule for other shapes
                continue
            if isinstance(plan, SchedulePlan):
                self.offer(plan)

    def _improve(self) -> None:
        """Annealing and the model in turns, longer and longer."""
        few = self.runs <= FEW_RUNS
        annealed, turn = (FEW_ANNEALED_S if few else ANNEALED_S), TURN_S
        annealer = None
        if self.best is not None and not self.over():
            annealer = Annealer.of(self.finite, self.objective, self.request.limits.seed)
        while not self.over():
            if annealer is not None:
                until = now() + annealed
                alone = self.runs > MANY_RUNS and self.request.limits.time_limit_s is not None
                while not self.over() and (alone or now() < until):
                    self._anneal(annealer)
            if self.over():
                return
            if not self._ask(None if few or annealer is None else turn):
                return
            annealed, turn = MORE * annealed, MORE * turn

    def _anneal(self, annealer: Annealer) -> None:
        assert self.best is not None, "annealing begins with a plan"
        target = float(self.bound * self.finite.steps)
        orders = sequences_of(self.problem, self.best)
        better_orders = annealer.improve(orders, target, self.request.seconds_left())
        if better_orders is not None:
            plan = tightest(self.finite, better_orders, self.objective)
            if plan is not None:
                self.offer(plan)

    def _ask(self, seconds: float | None) -> bool:
        """Ask the model for a plan below the best one. False: it cannot be asked, or asking again would not help."""
        if self.runs > MOST_RUNS:
            self.messages.append(
                f"not proven: {several(self.runs, 'block')} of all micro-batches are too many for a model"
            )
            return False
        # Two different values of plans differ by more: they are whole numbers of steps, or fractions of them with
        # denominators of at most the number of devices.
        least_step = 1 / (self.finite.steps * (len(self.finite.on_device) ** 2 + 1))
        cutoff = None if self.value is None else self.value - least_step
        try:
            model = native_model(self.problem, self.objective, self.bound, cutoff, self.best)
        except TooLargeError as error:
            self.messages.append(f"not proven: {error}")
            return False
        if isinstance(model, Refuted):
            self._refuted(model.reason)
            return True

        def heard(event: Event) -> None:
            if isinstance(event, Incumbent):
                self._offer_values(model, event.values)
            elif isinstance(event, Progress) and event.bound is not None:
                self.raise_bound(Fraction(event.bound), REFUTED)

        limits = self.request.limits
        native = PLAIN if self.runs > FEW_RUNS else {}
        answer = self.solver.run(
            model.model, self.request.seconds_at_most(seconds), limits.threads or 2, native, heard
        )
        return answer is not None and self._take(model, answer)

    def _take(self, model: BuiltModel, answer: Answer) -> bool:
        if answer.values is not None:
            self._offer_values(model, answer.values)
        if answer.stop == Stop.INFEASIBLE:
            self._refuted(REFUTED)
        elif answer.bound is not None:
            self.raise_bound(Fraction(answer.bound), REFUTED)
        return answer.stop in (Stop.PROVEN, Stop.GAP, Stop.COMPLETED, Stop.INFEASIBLE, Stop.TIME)

    def _offer_values(self, model: BuiltModel, values: Values) -> None:
        plan = model.decode(values)
        assert isinstance(plan, SchedulePlan), "the model's plans are finite"
        self.offer(plan)

    def _refuted(self, why: str) -> None:
        if self.value is None:
            self.infeasible = True
            self.messages.append(why_none(self.problem))
        else:
            self.raise_bound(self.value, why)

    def _answer(self, stop: Stop | None) -> Outcome:
        if self.infeasible:
            return Outcome(Stop.INFEASIBLE, backend=self.solver.backend(), messages=tuple(self.messages))
        if stop is None:
            limits, value = self.request.limits, self.value
            proven = value is not None and met(float(value), float(self.bound))
            gap = value is not None and limits.reached(float(value), float(self.bound))
            stop = Stop.PROVEN if proven else Stop.GAP if gap else self.solver.unfinished()
        return Outcome(
            stop,
            self.best,
            None if self.value is None else float(self.value),
            float(self.bound),
            WarmStart(self.start),
            self.solver.backend(),
            messages=tuple(dict.fromkeys([*self.messages, *self.solver.messages()])),
            checks=self.checks,
        )
