"""The planner `exact-beaumont`: proven optimal periodic patterns, anytime, with a valid bound at every moment.

The decomposition: allocations that may fit come from the relaxation, their schedules from CP-SAT, and what both have
refuted is kept. Everything up to `lower` is refuted; the plan is the best pattern so far. Each worker takes a level in
between. Where the sets of layers that one GPU can hold are few, they walk together over the partitions into such sets.
Elsewhere each asks the relaxation for an allocation that may reach the level, and examines it: its GPUs alone, in
pairs, the whole. Either the level is exhausted, which lifts the lower bound, or a core is learnt, or a better pattern
is found. Steps that lift the bound and steps that look for better patterns take turns. Shares and seconds decide only
how long that takes, so they may be changed.
"""

from __future__ import annotations

import math
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from types import ModuleType

from ...formulations.beaumont.bounds import loads_decide, lower_bound, lower_bound_of
from ...formulations.beaumont.fixed_allocation import Known
from ...formulations.beaumont.integer_chain import IntegerChain, integer_chain
from ...instances.base.amounts import as_written
from ...instances.base.clock import now, processor_seconds
from ...instances.base.compiled import is_kept, repays_loading
from ...instances.base.errors import InputError
from ...instances.base.result import PROVEN_TOLERANCE, StartOutcome, Stop, WarmStart, met
from ...instances.chain.plan import PatternPlan, canonical, given_allocation
from ...instances.chain.problem import ChainProblem
from ...instances.registry import violations_of
from ..backends.client import Solver
from ..contract import Outcome, Request
from .allocation import balanced, candidate, coarse_steps, least_period, packed_pattern, period_bound
from .baselines import best_contiguous
from .layer_sets import LOOPS, Facts, Partitions, facts_of
from .schedule import LOOP, Annealer, Refuter, Schedule, best_schedule, longest_period
from .smallest_memory import memory_of, one_by_one

# ---- At which period to walk over the partitions next: low ones are exhausted soon, high ones lift the bound -

# Where in the gap the next level lies, as a share of it.
SHARE = 0.5
# Seconds at a level before lower ones are exhausted first; twice as long each time that no lower one is left.
PATIENCE_S = 3.0


@dataclass
class Levels:
    """The current walk over partitions, and walks that wait. Changed under the lock of the search."""

    chain: IntegerChain
    current: Partitions | None = None
    waiting: list[Partitions] = field(default_factory=list)
    """Walks that began at higher levels and were left."""
    until_s: float = 0.0
    """Seconds that may be spent on the current walk before lower ones."""
    most: int | None = None
    """The period from which on there are too many sets, or partitions of a part of the chain that nothing refutes."""

    def __post_init__(self) -> None:
        self.suited = self.chain.memory is not None
        self.patience_s = PATIENCE_S
        self.facts: Facts | None = None

    def load(self, period: int) -> None:
        """Load the compiled loops, for periods up to this one."""
        facts = facts_of(self.chain, period)
        facts.load()
        self.facts = facts

    def walk(self, floor: int, ceiling: int) -> Partitions | None:
        """A walk with a period above `floor` and up to `ceiling`; None where walks lead nowhere."""
        current = self.current
        if current is not None and current.hopeless:
            self.most, self.current, current = current.period, None, None
        if self.most is not None:
            ceiling = min(ceiling, self.most - 1)
        self.waiting = [walk for walk in self.waiting if floor < walk.period <= ceiling]
        if current is not None and floor < current.period <= ceiling:
            if current.spent_s < self.until_s:
                return current
            self.waiting.append(current)
        if not self.waiting:
            self.patience_s = PATIENCE_S
            return self._begin(self._between(floor, ceiling)) if floor < ceiling else None
        lowest = min(self.waiting, key=lambda walk: walk.period)
        lower = self._between(floor, lowest.period)
        if lower < lowest.period:
            return self._begin(lower)
        self.waiting.remove(lowest)
        self.patience_s *= 2
        self.current, self.until_s = lowest, lowest.spent_s + self.patience_s
        return lowest

    def _between(self, floor: int, ceiling: int) -> int:
        """The period to walk at next, above `floor` and up to `ceiling`."""
        if ceiling - floor <= CLOSE_SHARE * ceiling:
            return ceiling
        return floor + max(1, int(SHARE * (ceiling - floor)))

    def _begin(self, period: int) -> Partitions | None:
        """Begin a walk; None where there are too many sets for one."""
        assert self.facts is not None
        sets = self.facts.load_sets(period)
        if sets is None:
            self.most = period
            return None
        self.until_s = self.patience_s
        self.current = Partitions(self.chain, self.facts, period, sets)
        return self.current


# Where in the gap the level lies that is to be exhausted next, as a share of it.
FIRST_SHARE = 0.3
# Number of allocations that are tried at a level before it is lowered: a low level is exhausted sooner.
PATIENCE = 8
# Factors on the share: when a level is lowered, and when the bound has been lifted.
LOWER_BY, RAISE_BY = 0.6, 1.5
# Between which shares of the gap allocations are sought that are to give better patterns.
IMPROVING_SHARES = (0.15, 0.9)
# Seconds after which the loops of annealing, and those of walks, are loaded from disk; and of this process's processor,
# after which they are compiled. Seconds of the clock would have them compiled for small problems wherever a machine is
# busy; those of the processor, which the solvers' processes do not share, are far behind them.
QUICK_S, BRIEF_S = 3.0, 1.0
# After each of so many rounds in turn that found nothing, annealing rests for one more step between two rounds, ...
ROUNDS_IN_TURN = 4
# ... but for no more steps than this.
MOST_REST = 10
# Seconds that annealing may take beyond the time of walks, where there are any.
ANNEALED_FIRST_S = 5.0
# Gap, relative to the upper bound, in which the last level is taken at once.
CLOSE_SHARE = 0.01
# Seconds for one question of the first bisection.
BOUND_LIMIT_S = 2.0
# Seconds for one allocation from the relaxation; they double each time that they are not enough.
RELAXATION_LIMIT_S = 10.0
# Seconds for one schedule; those that take longer are kept for later, with twice as much each time.
SCHEDULE_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Refuted:
    """Facts about an allocation, and the period in steps up to which none that has them fits."""

    known: Known
    period: int


@dataclass
class Search:
    """The search on one grid. All state is shared by the workers and changed under the lock."""

    problem: ChainProblem
    chain: IntegerChain
    solver: Solver
    lower: int
    """No pattern has a period of at most this many steps."""
    plan: PatternPlan | None
    tell: Callable[[PatternPlan | None, float], None]
    """Called with a new plan or None, and the lower bound in the problem's time."""
    refuted: list[Refuted] = field(default_factory=list)
    postponed: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Allocations whose schedules took too long, with the period that is refuted for them."""
    undecided: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Allocations that only a finer grid can decide, with the period that is refuted for them."""
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        self.refuter = Refuter(self.chain, self.solver)
        self.levels = Levels(self.chain)
        self.changed = threading.Condition()
        self.busy: set[tuple[int, ...]] = set()
        self.schedule_limit_s, self.relaxation_limit_s = SCHEDULE_LIMIT_S, RELAXATION_LIMIT_S
        self.schedules = 0
        self.steps = count()
        self.rng = random.Random(self.solver.seed)
        self.started, self.spent_before = now(), processor_seconds()
        self.annealer: Annealer | None = None
        self.annealing = False
        self.walked_s = self.annealed_s = 0.0
        self.failed_rounds = self.rest = self.rested = 0
        self.scheduled: set[tuple[int, ...]] = set()
        self.bounded = False
        self.share = FIRST_SHARE
        self.tried = 0
        self.floor = 0
        """Periods up to this have only undecided allocations left."""
        self.exhausted = False
        """Is nothing left but what only a finer grid can decide?"""

    @property
    def ceiling(self) -> int:
        """The longest period that would still be an improvement."""
        return longest_period(self.chain) if self.plan is None else self.chain.last_below(self.plan.period)

    def run(self, workers: int) -> None:
        """Search until nothing is left to do on this grid, or time is up."""
        self._load_loops()
        threads = [threading.Thread(target=self._guarded, daemon=True) for _ in range(workers)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
                    self._load_loops()
        except BaseException:
            self.solver.stopped.set()
            raise
        if self.failure is not None:
            raise self.failure

    def _load_loops(self) -> None:
        """Load or compile loops once the search has taken long enough to repay that; the workers go on meanwhile."""
        if self.levels.facts is None and self.levels.suited and self._repays(BRIEF_S, LOOPS):
            self.levels.load(self.ceiling)
        if self.annealer is None and self.chain.memory is not None and self._repays(QUICK_S, (LOOP,)):
            annealer = Annealer(self.problem, self.chain, self.solver.seed)
            annealer.load()
            self.annealer = annealer

    def _repays(self, least_s: float, loops: Sequence[tuple[ModuleType, str]]) -> bool:
        """Has the search taken so long that it is worth loading these loops, or making them?"""
        spent = processor_seconds() - self.spent_before
        return repays_loading(spent, least_s) or (
            now() - self.started >= least_s and all(is_kept(*loop) for loop in loops)
        )

    def done(self) -> bool:
        """Is nothing left to do on this grid?"""
        return self.exhausted or self.lower >= self.ceiling

    # ---- one worker ------------------------------------------------------------------------------------------

    def _guarded(self) -> None:
        try:
            while not self.solver.over() and not self.done() and self.failure is None:
                self._step()
        except BaseException as error:
            self.failure = error
        with self.changed:
            self.changed.notify_all()

    def _step(self) -> None:
        """What a worker does next: the first bound, a round of annealing, a piece of a walk, or one allocation."""
        with self.changed:
            first, self.bounded = not self.bounded and self.plan is not None, True
        if first:
            self._bound()
            return
        with self.changed:
            improving = next(self.steps) % 2 == 1
            annealing = improving and self._may_anneal()
            self.annealing = self.annealing or annealing
            level = self._level(improving)
            refuted = [item.known for item in self.refuted if item.period >= level]
            waiting = sorted(self.busy | set(self.postponed) | set(self.undecided))
        if annealing:
            self._anneal()
        elif not self._walk():
            self._relax(level, improving, refuted, waiting)

    def _walk(self) -> bool:
        """Go on with the walk over partitions; False where there is none or nothing in it to do now.

        A candidate is scheduled, unless it is refuted, put off, or another worker's.
        """
        if self.plan is None or now() - self.started < BRIEF_S or self.levels.facts is None:
            return False
        with self.changed:
            walk = self.levels.walk(max(self.floor, self.lower), self.ceiling)
        if walk is None:
            return False
        begun = now()
        allocation = walk.next()
        with self.changed:
            self.walked_s += now() - begun
        if allocation is not None:
            with self.changed:
                known = allocation in self.busy or allocation in self.postponed or allocation in self.undecided
                known = known or self.refuter.longest_refuted.get(Known.whole(allocation), 0) >= walk.period
                if not known:
                    self.busy.add(allocation)
            if not known:
                with self._busy_with(allocation):
                    self._schedule(allocation, self.lower, walk.period)
            walk.settle()
        elif walk.done:
            self._exhausted(walk.period, walk.found)
        return not walk.idle

    @contextmanager
    def _busy_with(self, allocation: tuple[int, ...]) -> Iterator[None]:
        """Tell the threads that wait for this allocation when the work on it has ended."""
        try:
            yield
        finally:
            with self.changed:
                self.busy.discard(allocation)
                self.changed.notify_all()

    def _relax(
        self, level: int, improving: bool, refuted: Sequence[Known], waiting: Sequence[tuple[int, ...]]
    ) -> None:
        """Ask the relaxation for an allocation, and examine it."""
        answer = candidate(
            self.chain, level, [*refuted, *map(Known.whole, waiting)], self.solver, self.relaxation_limit_s
        )
        if answer.allocation is None and not answer.exhausted:
            self.relaxation_limit_s *= 2
        elif answer.exhausted:
            self._exhausted(level, waiting)
        else:
            assert answer.allocation is not None
            with self.changed:
                if answer.allocation in self.busy:
                    return
                self.busy.add(answer.allocation)
            with self._busy_with(answer.allocation):
                self._examine(answer.allocation, self.ceiling if improving else level)

    def _bound(self) -> None:
        """Lift the lower bound to what the relaxation alone refutes, roughly: a start for the levels."""
        resolution = max(1, int(CLOSE_SHARE * self.ceiling))
        refuted = period_bound(self.chain, self.lower, self.ceiling, resolution, self.solver, BOUND_LIMIT_S)
        with self.changed:
            self._lift(min(refuted, self.ceiling))

    def _level(self, improving: bool) -> int:
        """The period that the next allocation shall reach: low to lift the bound, anywhere to find better patterns."""
        if self.plan is None:
            return self.ceiling  # first any pattern at all, or the proof that there is none
        floor = max(self.floor, self.lower)
        gap = self.ceiling - floor
        if gap <= CLOSE_SHARE * self.ceiling:
            return self.ceiling
        if improving:
            return floor + max(1, int(self.rng.uniform(*IMPROVING_SHARES) * gap))
        self.tried += 1
        if self.tried > PATIENCE:
            self.share, self.tried = self.share * LOWER_BY, 0
        return floor + max(1, int(self.share * gap))

    def _exhausted(self, level: int, waiting: Sequence[tuple[int, ...]]) -> None:
        """No allocation but the waiting ones can be at the level: wait while one is examined, else lift the bound as
        far as the others allow, and schedule one that was postponed."""
        with self.changed:
            if any(allocation in self.busy for allocation in waiting):
                self.changed.wait(1.0)
                return
            late = [(period, a) for a, period in self.postponed.items() if period < level and a in waiting]
            unclear = [period for a, period in self.undecided.items() if period < level and a in waiting]
            self._lift(min([level, *unclear, *(period for period, _ in late)]))
            if not late:
                self.exhausted = bool(unclear) and level >= self.ceiling
                if unclear and not self.exhausted:
                    self.floor = level
                return
            allocation = min(late)[1]
            refuted = self.postponed.pop(allocation)
            self.busy.add(allocation)
            self.schedule_limit_s *= 2
        with self._busy_with(allocation):
            self._schedule(allocation, refuted)

    def _lift(self, level: int) -> None:
        if level > self.lower:
            self.lower = level
            self.share, self.tried = min(FIRST_SHARE, self.share * RAISE_BY), 0
            self.tell(None, self.chain.true_time(level))

    # ---- one allocation --------------------------------------------------------------------------------------

    def _may_anneal(self) -> bool:
        """May this step anneal? One worker at a time may, on long searches, the more rarely the less it finds."""
        if self.plan is None or self.chain.exclusive_buffers or self.annealing:
            return False
        if self.annealer is None or (self.walked_s and self.annealed_s > self.walked_s + ANNEALED_FIRST_S):
            return False
        self.rested += 1
        return self.rested > self.rest

    def _anneal(self) -> None:
        """One round from the best plan. If it finds nothing, the plan's allocation gets its best schedule, once."""
        plan = self.plan
        assert plan is not None
        begun = now()
        try:
            assert self.annealer is not None
            better = self.annealer.improve(plan, self.ceiling)
            with self.changed:
                self.annealed_s += now() - begun
                self.failed_rounds = 0 if better is not None else self.failed_rounds + 1
                self.rest, self.rested = min(MOST_REST, self.failed_rounds // ROUNDS_IN_TURN), 0
                if better is not None and (self.plan is None or better.period < self.plan.period):
                    self.plan = better
                    self.tell(better, self.chain.true_time(self.lower))
        finally:
            self.annealing = False
        if better is None and plan.allocation not in self.scheduled:
            self._schedule(plan.allocation, self.lower)

    def _examine(self, allocation: tuple[int, ...], level: int) -> None:
        """Learn cores from single GPUs or pairs that cannot fit; where there are none, schedule the allocation."""
        ceiling = self.ceiling
        for gpus in (1, 2):
            for period in sorted({ceiling, level}, reverse=True):
                cores = self.refuter.cores(allocation, period, gpus)
                if cores:
                    with self.changed:
                        self.refuted += [Refuted(core, period) for core in cores]
                    return
        self._schedule(allocation, self.lower)

    def _schedule(self, allocation: tuple[int, ...], refuted: int, most: int | None = None) -> None:
        """Seek a schedule of the allocation up to a period `most`, or up to any period that would be an improvement."""
        self.scheduled.add(allocation)
        answer = best_schedule(
            self.problem,
            self.chain,
            allocation,
            None if self.plan is None else self.plan.period,
            self.solver,
            self.schedule_limit_s,
            refuted,
            most,
        )
        with self.changed:
            self.schedules += 1
            if answer.plan is not None and (self.plan is None or answer.plan.period < self.plan.period):
                self.plan = answer.plan
                self.tell(answer.plan, self.chain.true_time(self.lower))
            if answer.proven:
                period = answer.refuted
                self.refuter.longest_refuted[Known.whole(allocation)] = period
                self.refuted.append(Refuted(Known.whole(allocation), period))
            elif answer.finer:
                self.undecided[allocation] = answer.refuted
            else:
                self.postponed[allocation] = answer.refuted


# ---- The planner `exact-beaumont`: proven optimal periodic patterns, anytime, with a valid bound at every moment.

# ---- grids -------------------------------------------------------------------------------------------
#
# The grids of whole steps on which the decomposition works: the times' own, or a rounded one, then a fine one.

# A step of the last grid relative to the period: what is refuted up to the step below the plan proves it.
FINE_SHARE = 0.5 * PROVEN_TOLERANCE


def fine_steps(problem: ChainProblem, plan: PatternPlan | None) -> Fraction:
    """Steps so fine that refuting all periods up to the step below the plan proves the plan optimal.

    On an exact grid the least period is a ratio with a bounded denominator, so no finer one can tell more.
    """
    assert plan is not None
    coarse = integer_chain(problem, coarse_steps(problem))
    wanted: Fraction = 1 / (Fraction(FINE_SHARE) * as_written(plan.period))
    if not coarse.exact:
        wanted *= 2 * problem.tasks
    elif problem.exclusive_buffers:
        wanted *= 2  # one more step is left undecided
    else:
        wanted = min(wanted, coarse.steps * coarse.most_shifts)
    return coarse.steps * max(1, math.ceil(wanted / coarse.steps))


# ---- exact -------------------------------------------------------------------------------------------

# How the bound of a result was checked, in the words of the result.
LOADS_DECIDE = "every allocation reaches its largest load, and no allocation has a smaller one"
REFUTED_ON_GRIDS = "shorter periods were refuted on whole steps of a grid, with all times rounded down to it"


class BestSoFar:
    """The best pattern and the bound so far, posted as soon as they are better, and the answer made of them."""

    def __init__(self, problem: ChainProblem, request: Request, bound: float) -> None:
        self.problem, self.request, self.bound = problem, request, bound
        left = request.seconds_left()
        deadline = None if left is None else now() + left
        self.solver = Solver(deadline, request.limits.seed, request.limits.memory_limit_bytes)
        self.best: PatternPlan | None = None
        self.start_outcome = StartOutcome.NONE
        self.counts: dict[str, int] = {}
        """Numbers of schedules that were sought and of facts that were refuted."""

    def tell(self, plan: PatternPlan | None, bound: float) -> None:
        """Keep the plan and the bound where they are better than those so far, and post them."""
        if plan is not None and (self.best is None or plan.period < self.best.period):
            self.best = plan
        if self.best is not None:
            bound = min(bound, self.best.period)
        self.bound = max(self.bound, bound)
        value = None if plan is None else plan.period
        self.request.board.post(plan, value, self.bound, self.solver.solved)

    def proven(self) -> bool:
        return self.best is not None and met(self.best.period, self.bound)

    def answer(self, stop: Stop) -> Outcome:
        return Outcome(
            stop,
            self.best,
            None if self.best is None else self.best.period,
            None if stop == Stop.INFEASIBLE else self.bound,
            warm_start=WarmStart(self.start_outcome),
            backend=self.solver.backend(),
            model_size=self.counts,
            messages=self.solver.messages(),
            checks=(LOADS_DECIDE if loads_decide(self.problem) else REFUTED_ON_GRIDS,),
        )


class GivenAllocation(BestSoFar):
    """The best schedule of an allocation that the user gives: no search over allocations, the same proof."""

    def __init__(self, problem: ChainProblem, request: Request, allocation: tuple[int, ...]) -> None:
        super().__init__(problem, request, 0.0)
        self.allocation = allocation

    def tell(self, plan: PatternPlan | None, bound: float) -> None:
        super().tell(None if plan is None else replace(plan, allocation=self.allocation), bound)

    def outcome(self) -> Outcome:
        """Without a memory limit the loads decide (Lemma 1); else grids from coarse to fine."""
        problem = self.problem
        self.tell(None, lower_bound_of(problem, self.allocation))
        if loads_decide(problem):
            self.tell(packed_pattern(problem, self.allocation), self.bound)
            return self.answer(Stop.PROVEN)
        memory = problem.memory_bytes
        if memory is not None and memory_of(problem, self.allocation).memory_bytes > memory:
            return self.answer(Stop.INFEASIBLE)
        start = one_by_one(problem, self.allocation)
        if not violations_of(problem, start):
            self.tell(start, self.bound)
        try:
            return self.answer(self._on_grids())
        except KeyboardInterrupt:
            self.solver.stopped.set()
            return self.answer(Stop.INTERRUPTED)

    def _on_grids(self) -> Stop:
        """Search the coarse grid, then a fine one below the plan that the coarse one gave; say why the search ended."""
        coarse = integer_chain(self.problem, coarse_steps(self.problem))
        first = self._schedule(coarse, 0)
        if self.best is None:
            return Stop.INFEASIBLE if first.proven else self.solver.unfinished()
        if self.proven() or not (first.proven or first.finer):
            return Stop.PROVEN if self.proven() else self.solver.unfinished()
        fine = integer_chain(self.problem, fine_steps(self.problem, self.best))
        last = self._schedule(fine, math.floor(first.refuted * (fine.steps / coarse.steps)))
        ratios = fine.exact and fine.steps >= fine.most_shifts * coarse.steps
        if last.proven and ratios and not self.problem.exclusive_buffers:
            self.tell(None, self.best.period)  # no ratio is left below that could be a least period
        if self.proven():
            return Stop.PROVEN
        return Stop.COMPLETED if last.proven or last.finer else self.solver.unfinished()

    def _schedule(self, chain: IntegerChain, refuted: int) -> Schedule:
        """The best schedule on one grid whose period is below that of the best plan."""
        cutoff = None if self.best is None else self.best.period
        refuted = max(refuted, math.ceil(as_written(self.bound) * chain.steps) - 1)
        answer = best_schedule(self.problem, chain, self.allocation, cutoff, self.solver, None, refuted)
        self.tell(answer.plan, chain.true_time(answer.refuted))
        return answer


class ExactBeaumont:
    """Takes allocations from a relaxation, schedules by CP, and learns cores; without a limit loads alone decide."""

    def plan(self, request: Request) -> Outcome:
        problem: ChainProblem = request.problem
        check(problem)
        allocation = given_allocation(problem, request.options)
        if allocation is not None:
            return GivenAllocation(problem, request, allocation).outcome()
        run = _Run(problem, request)
        return run.without_memory() if loads_decide(problem) else run.with_memory()


PLANNER = ExactBeaumont()


def check(problem: ChainProblem) -> None:
    """Refuse mode strict with a limit, where orders and shifts do not decide the memory, and chains without time."""
    if problem.memory_mode == "strict" and problem.memory_bytes is not None:
        raise InputError(
            "memory_mode",
            'is "strict", which exact-beaumont has no model for',
            'take "reserved" with exclusive buffers: such plans never need more than strict memory allows',
        )
    if not any(problem.durations):
        raise InputError("forward", "and backward are all 0", "give at least one task a time")


class _Run(BestSoFar):
    """One request on grids from coarse to fine; several threads report what they find to `tell`."""

    def __init__(self, problem: ChainProblem, request: Request) -> None:
        super().__init__(problem, request, lower_bound(problem))
        self.workers = request.limits.threads or os.cpu_count() or 1
        self._lock = threading.Lock()

    def tell(self, plan: PatternPlan | None, bound: float) -> None:
        """Keep what is better, and stop everything once the gap that was asked for is reached."""
        with self._lock:
            super().tell(plan, bound)
            if self._close_enough():
                self.solver.stopped.set()

    def _close_enough(self) -> bool:
        best, limits = self.best, self.request.limits
        return self.proven() or (best is not None and limits.reached(best.period, self.bound))

    # ---- no memory limit: an allocation problem -----------------------------------------------------------

    def without_memory(self) -> Outcome:
        """Seek only an allocation, and no schedule: every allocation can reach its largest load (Lemma 1)."""
        start = best_contiguous(self.problem)
        assert start is not None
        self.tell(packed_pattern(self.problem, start.allocation), 0.0)
        chain = integer_chain(self.problem, fine_steps(self.problem, self.best))
        balance = balanced(chain, self.solver, self.workers, start.allocation)
        plan = None if balance.allocation is None else packed_pattern(self.problem, balance.allocation)
        self.tell(plan, chain.true_time(balance.bound))
        return self._outcome(balance.proven)

    # ---- with a memory limit ------------------------------------------------------------------------------

    def with_memory(self) -> Outcome:
        for start in (best_contiguous(self.problem), self._given()):
            if start is not None and not violations_of(self.problem, start):
                self.tell(start, 0.0)
        try:
            search = self._search(coarse_steps(self.problem))
            self._run(search)
            if self.best is None:
                stop = Stop.INFEASIBLE if search.done() and not search.exhausted else self.solver.unfinished()
                return self._outcome(False, stop)
            if search.done() and not self.solver.over():
                search = self._search(fine_steps(self.problem, self.best), search)
                self._run(search)
                self._settle(search)
        except KeyboardInterrupt:
            self.solver.stopped.set()
            return self._outcome(False, Stop.INTERRUPTED)
        return self._outcome(search.done())

    def _run(self, search: Search) -> None:
        """Search one grid, and count: schedules of all grids; facts of this grid, which has taken over those before."""
        search.run(self.workers)
        self.counts = {
            "schedules": self.counts.get("schedules", 0) + search.schedules,
            "refuted": len(search.refuted),
        }

    def _given(self) -> PatternPlan | None:
        """The warm start, its GPUs numbered by their first layers."""
        plan: PatternPlan | None = self.request.warm_start
        if plan is None:
            return None
        self.start_outcome = StartOutcome.ACCEPTED
        return replace(plan, allocation=canonical(plan.allocation))

    def _settle(self, search: Search) -> None:
        """Prove the plan optimal where no ratio below its period is left that could be a least period."""
        chain = search.chain
        ratios = chain.exact and chain.steps >= chain.most_shifts * coarse_steps(self.problem)
        decided = search.lower >= search.ceiling and not self.problem.exclusive_buffers
        if ratios and decided and self.best is not None:
            self.tell(None, self.best.period)

    def _search(self, steps: Fraction, before: Search | None = None) -> Search:
        """A grid's search; a finer one takes over what the coarser one has refuted and can refute again."""
        chain = integer_chain(self.problem, steps)
        search = Search(self.problem, chain, self.solver, least_period(chain) - 1, self.best, self.tell)
        if before is None:
            return search
        finer = chain.steps / before.chain.steps
        search.lower = max(search.lower, math.floor(before.lower * finer))
        for item in before.refuted:
            again = search.refuter.refutes(item.known, search.ceiling)
            period = search.ceiling if again else math.floor(item.period * finer)
            search.refuted.append(Refuted(item.known, period))
        return search

    def _outcome(self, complete: bool, stop: Stop | None = None) -> Outcome:
        if stop is None and self._close_enough():
            stop = Stop.PROVEN
        elif stop is None:
            stop = Stop.COMPLETED if complete else self.solver.unfinished()
        return self.answer(stop)
