"""Fixed allocation -> the optimal periodic schedule, or the proof that none is below a cut-off; annealing.

CP-SAT answers for one period on a grid; each pattern that it finds is tightened to the shortest period of its
orders and shifts, and the next question is for one step less. Patterns that fit a period fit every longer one,
so the last refusal is a proof. With exclusive buffers they need not: then whole intervals of periods are refuted.
Annealing (`Annealer`) proves nothing; it moves layers as well, and its patterns pass the referee.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from ...formulations.beaumont import fixed_allocation
from ...formulations.beaumont.draft import Activity, Draft, draft_of, edge_is_cut, is_activity, tightened
from ...formulations.beaumont.fixed_allocation import Known, Path
from ...formulations.beaumont.instants import relations_at
from ...formulations.beaumont.integer_chain import IntegerChain
from ...formulations.contract import NativeModel
from ...instances.base.compiled import compiled
from ...instances.base.result import Stop
from ...instances.chain.plan import PatternPlan, canonical
from ...instances.chain.problem import ChainProblem
from ...instances.registry import violations_of
from ..backends.client import Solver
from . import anneal_kernel
from .allocation import least_period

# Waiting costs memory: CP-SAT's linear relaxation sees that, its propagation does not.
THOROUGH: Mapping[str, Any] = {"linearization_level": 2}


@dataclass(frozen=True, slots=True)
class Schedule:
    """The best pattern of one allocation below a cut-off, and the periods that are refuted for it."""

    plan: PatternPlan | None
    """The best pattern that was found; its period is below the cut-off."""
    refuted: int
    """No pattern has a period of at most this many steps."""
    proven: bool
    """Is nothing left between `refuted` and the plan, or the cut-off where there is no plan?"""
    finer: bool = False
    """Is it unproven because only a finer grid can tell (exclusive buffers)?"""


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer for one period; `fits` is None where the limit came first."""

    fits: bool | None
    values: Mapping[str, float] | None = None


def fit(
    chain: IntegerChain, known: Known, period: int, solver: Solver, limit_s: float | None = None, slack: int = 0
) -> Fit:
    """Does any pattern of this period have what is known of the allocation?"""
    data = fixed_allocation.payload(chain, known, period, slack)
    outcome = solver.run(NativeModel(fixed_allocation.BUILDER, data), limit_s, native=THOROUGH)
    if outcome is None:
        return Fit(None)
    if outcome.stop == Stop.INFEASIBLE:
        return Fit(False)
    return Fit(None) if outcome.values is None else Fit(True, outcome.values)


def slack_between(chain: IntegerChain, refuted: int, period: int) -> int:
    """Steps beyond the period that exclusive buffers may be held, so that no pattern between `refuted` and it is lost.

    A pattern of a period T keeps its positions where T grows; then what is held for up to a period is held longer by
    up to as much as T has grown, as it lags at most two periods behind. Times that are rounded down add a step.
    """
    return period - refuted + (0 if chain.exact else 1) if chain.exclusive_buffers else 0


def best_schedule(
    problem: ChainProblem,
    chain: IntegerChain,
    allocation: Sequence[int],
    cutoff: float | None,
    solver: Solver,
    limit_s: float | None = None,
    refuted: int = 0,
    most: int | None = None,
) -> Schedule:
    """The best pattern of an allocation with a period below the cut-off (None: any period).

    `refuted`: a period in steps that is known to be too short; `most`: the longest one that is of interest.
    """
    facts = Known.whole(allocation)
    ceiling = longest_period(chain) if cutoff is None else chain.last_below(cutoff)
    ceiling = ceiling if most is None else min(ceiling, most)
    exact = chain.exact_sizes and not chain.exclusive_buffers
    plan: PatternPlan | None = None
    # Length of the interval to be refuted next, with exclusive buffers; 0: ask for the ceiling itself.
    length = 0
    while ceiling > refuted:
        period = min(ceiling, refuted + length) if length else ceiling
        slack = slack_between(chain, refuted, period) if length else 0
        answer = fit(chain, facts, period, solver, limit_s, slack)
        if answer.fits is None:
            return Schedule(plan, refuted, proven=False)
        if answer.fits is False and chain.exclusive_buffers and not length:
            length = ceiling - refuted
            continue
        if answer.fits is False:
            refuted, length = period, 2 * length
            continue
        assert answer.values is not None
        timed = pattern(problem, chain, allocation, answer.values)
        better = timed is not None and (cutoff is None or timed.period < cutoff)
        if timed is not None and better and (exact or not violations_of(problem, timed)):
            plan, cutoff = timed, timed.period
            ceiling, length = min(ceiling, chain.last_below(timed.period)), 0
        elif length and period - refuted > 1:
            length = (period - refuted) // 2
        else:
            # With exclusive buffers rounded times may fit where the true ones do not; and so may rounded sizes.
            return Schedule(plan, refuted, proven=False, finer=True)
    return Schedule(plan, refuted, proven=True)


def longest_period(chain: IntegerChain) -> int:
    """The period, in steps, in which one batch runs after the other: if that does not fit the memory, nothing does."""
    return sum(chain.durations) + sum(chain.transfers) + chain.tasks


# ---- from a solution to a plan -----------------------------------------------------------------------------


# The letters under which `fixed_allocation` names the variables of a draft's families.
LETTERS = {"w": "w", "wc": "w", "ended": "e", "far": "f"}


def pattern(
    problem: ChainProblem, chain: IntegerChain, allocation: Sequence[int], values: Mapping[str, float]
) -> PatternPlan | None:
    """The pattern with the orders and shifts of a solution, and with the problem's own times; None where no period
    allows them."""
    path = fixed_allocation.path_of(chain, Known.whole(allocation))
    place = {activity: i for i, activity in enumerate(_activities(path))}
    shifts = _shifts(problem, allocation, path, [round(values.get(f"s{i}", 0)) for i in range(len(path.delays))])

    def holds(family: str, a: Activity, b: Activity) -> bool:
        return values.get(f"{LETTERS[family]}{place.get(a)}_{place.get(b)}", 0.0) > 0.5

    timeless = frozenset(activity for activity, i in place.items() if i in path.timeless())
    nowhere = dict.fromkeys(shifts, Fraction(0))
    return tightened(draft_of(problem, tuple(allocation), Fraction(0), nowhere, timeless, holds, shifts=shifts))


def pattern_at(
    problem: ChainProblem,
    chain: IntegerChain,
    allocation: Sequence[int],
    starts: Sequence[int],
    sent: Sequence[int],
    period: int,
) -> PatternPlan | None:
    """The pattern with the orders and shifts of absolute starts in steps, and with the problem's own times.

    `starts`: of each task; `sent`: of the transfer of each edge.
    """
    path = fixed_allocation.path_of(chain, Known.whole(allocation))
    names = _activities(path)
    times = [starts[a.task] if a.task is not None else sent[a.edge or 0] for a in path.activities]
    batches = [-(-(time + a.duration) // period) - 1 for time, a in zip(times, path.activities, strict=True)]
    places = [time - batch * period for time, batch in zip(times, batches, strict=True)]
    orders = [[names[i] for i in sorted(users, key=places.__getitem__)] for users in path.resources()]
    durations = {name: a.duration for name, a in zip(names, path.activities, strict=True)}
    gpus = [[names[i] for i in tasks] for tasks in path.gpus()]
    timeless = frozenset(names[i] for i in path.timeless())
    relations = relations_at(gpus, timeless, dict(zip(names, places, strict=True)), durations.__getitem__, period)
    shifts = _shifts(problem, allocation, path, [b - a for a, b in pairwise(batches)])
    nowhere = dict.fromkeys(shifts, Fraction(0))
    orders += [[activity] for activity in nowhere.keys() - durations]
    return tightened(Draft(problem, tuple(allocation), Fraction(0), 1, nowhere, orders, relations, shifts))


def _activities(path: Path) -> list[Activity]:
    """The activities of a path as drafts name them."""
    return [
        Activity(0, a.edge or 0, is_transfer=True) if a.task is None else Activity(0, a.task + 1)
        for a in path.activities
    ]


def _shifts(
    problem: ChainProblem, allocation: Sequence[int], path: Path, along: Sequence[int]
) -> dict[Activity, int]:
    """The shift after each activity: those along the path, and where a transfer is no activity of the path, as it
    meets no other, 0 before it."""
    shifts: dict[Activity, int] = {}
    for (a, b), shift in zip(pairwise(_activities(path)), along, strict=True):
        if (
            not (a.is_transfer or b.is_transfer)
            and edge_is_cut(problem, allocation, a.number)
            and is_activity(problem, a.number)
        ):
            shifts[a], a = 0, Activity(0, a.number, is_transfer=True)
        shifts[a] = shift
    return {**shifts, _activities(path)[-1]: 0}


# Why an allocation fits no period below the cut-off, in as few facts as possible: the fewer, the more they exclude.
# First each GPU alone (the others may run as they like), then pairs of GPUs. What is refuted is cut down to a core:
# layers, neighbours and cuts are left out one after the other as long as the rest is still refuted.

# Seconds for one part. A part that takes longer is not worth refuting: the whole is asked instead.
CHECK_LIMIT_S = 10.0


@dataclass
class Refuter:
    """Answers "does this part fit that period?" and remembers the answers; threads may share it."""

    chain: IntegerChain
    solver: Solver
    longest_refuted: dict[Known, int] = field(default_factory=dict)
    shortest_fit: dict[Known, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refutes(self, known: Known, period: int) -> bool:
        """Is it proven that what is known fits no period up to this one?"""
        with self._lock:
            if period <= self.longest_refuted.get(known, 0):
                return True
            shortest = self.shortest_fit.get(known)
            if shortest is not None and period >= shortest:
                return False
        slack = slack_between(self.chain, min(period, least_period(self.chain)) - 1, period)
        answer = fit(self.chain, known, period, self.solver, CHECK_LIMIT_S, slack)
        with self._lock:
            if answer.fits is False:
                self.longest_refuted[known] = max(period, self.longest_refuted.get(known, 0))
            elif answer.fits:
                self.shortest_fit[known] = min(period, self.shortest_fit.get(known, period))
        return answer.fits is False

    def cores(self, allocation: Sequence[int], period: int, gpus: int) -> list[Known]:
        """A core for each set of `gpus` GPUs that cannot fit the period, whatever the others do."""
        groups = Known.whole(allocation).groups
        if gpus >= len(groups):
            return []
        found = (self._core(allocation, chosen, period) for chosen in combinations(groups, gpus))
        return [core for core in found if core is not None]

    def _core(self, allocation: Sequence[int], groups: tuple[frozenset[int], ...], period: int) -> Known | None:
        facts = Known(groups, tuple(self._apart(groups, g) for g in range(len(groups))))
        if self.refutes(facts, period):
            return facts
        cut = replace(facts, cuts=self._other_cuts(allocation, frozenset().union(*groups)))
        return cut if cut.cuts and self.refutes(cut, period) else None

    def _apart(self, groups: Sequence[frozenset[int]], g: int) -> frozenset[int]:
        """The neighbours of a group that are in no group: they are on other GPUs, so tensors are sent between them."""
        inside = frozenset().union(*groups)
        neighbours = {n for layer in groups[g] for n in (layer - 1, layer + 1) if 0 <= n < self.chain.layers}
        return frozenset(neighbours - inside)

    def _other_cuts(self, allocation: Sequence[int], inside: frozenset[int]) -> frozenset[int]:
        """Cut borders between two layers of other GPUs where something is sent."""
        return frozenset(
            b
            for b in range(1, self.chain.layers)
            if not {b - 1, b} & inside and allocation[b - 1] != allocation[b] and self.chain.border_transfer(b)
        )


# ---- Better patterns by annealing: what stands between the search and the compiled loop of `anneal_kernel`.

# Steps of one round; they double each time that ROUNDS rounds found nothing.
STEPS, ROUNDS = 100_000, 4
# Tasks of a usual chain: of longer ones a round has fewer steps, since each takes longer and no round can be
# interrupted.
USUAL_TASKS = 48
# What a round calls.
LOOP = (anneal_kernel, "anneal")
# Limit on products of sizes and times in the compiled loops, which count in 64 bits.
MOST_AREA = 2**61
# Increases of energy that are accepted now and then, at the beginning and at the end of a round.
HOT, COLD = 0.05, 0.002


class Annealer:
    """Rounds of annealing at the longest period that would be an improvement; not to be shared by threads."""

    def __init__(self, problem: ChainProblem, chain: IntegerChain, seed: int) -> None:
        self.problem, self.chain = problem, chain
        self.tables = tables(chain)
        self.random = array([2 * seed + 1], "uint64")
        self.first_steps = STEPS * USUAL_TASKS**2 // max(USUAL_TASKS, chain.tasks) ** 2
        self.steps, self.failed = self.first_steps, 0

    def improve(self, plan: PatternPlan, ceiling: int) -> PatternPlan | None:
        """One round from the plan's allocation: a better plan, or None."""
        loop = compiled(*LOOP)
        state = self._state(plan.allocation)
        if not loop(self.tables, state, ceiling, self.steps, HOT, COLD):
            self.failed += 1
            if self.failed % ROUNDS == 0:
                self.steps *= 2
            return None
        self.failed, self.steps = 0, self.first_steps
        return self._plan(state, ceiling)

    def load(self) -> None:
        """Load the loop, or compile it."""
        compiled(*LOOP)(self.tables, self._state([0] * self.chain.layers), 1, 0, HOT, COLD)

    def _plan(self, state: anneal_kernel.State, period: int) -> PatternPlan | None:
        """The state as a pattern of the true problem; None where the referee rejects it."""
        allocation = canonical(state.gpu.tolist())
        starts, sent = state.starts.tolist(), state.sent.tolist()
        plan = pattern_at(self.problem, self.chain, allocation, starts, sent, period)
        return None if plan is None or violations_of(self.problem, plan) else plan

    def _state(self, allocation: Sequence[int]) -> anneal_kernel.State:
        tasks = self.chain.tasks
        resources = self.chain.gpus + self.chain.gpus**2
        return anneal_kernel.State(
            random=self.random,
            gpu=array(allocation),
            passed=np.zeros(tasks, np.int64),
            middle=array([self.failed % 2]),
            starts=np.zeros(tasks, np.int64),
            sent=np.zeros(tasks, np.int64),
            busy=np.zeros((resources, 2 * tasks, 2), np.int64),
            counts=np.zeros(resources, np.int64),
            missing=np.zeros(1, np.int64),
            saved_gpu=np.zeros(len(allocation), np.int64),
            saved_passed=np.zeros(tasks, np.int64),
            saved_middle=np.zeros(1, np.int64),
        )


def tables(chain: IntegerChain) -> anneal_kernel.Tables:
    """The problem for the compiled loops; sizes are rounded down where products with times would overflow."""
    assert chain.memory is not None
    chain = coarser(chain)
    assert chain.memory is not None
    # Of tasks that take no time, a forward one holds its input.
    timeless = [*chain.activations[: chain.layers], *(0 for _ in range(chain.layers))]
    own = [timeless[task] if chain.timeless[task] else chain.own_size(task) for task in range(chain.tasks)]
    return anneal_kernel.Tables(
        durations=array(chain.durations),
        transfers=array(chain.transfers),
        activations=array(chain.activations),
        weights=array(chain.weights),
        own=array(own),
        timeless=array(chain.timeless),
        gpus=chain.gpus,
        memory=chain.memory,
        inputs_only=chain.inputs_only,
        full_duplex=chain.full_duplex,
    )


def coarser(chain: IntegerChain) -> IntegerChain:
    """The chain with sizes in units so large that all of them times the longest time fit a machine word."""
    assert chain.memory is not None
    longest = (2 * chain.tasks + 1) * longest_period(chain)
    together = chain.memory + sum(chain.weights) + 2 * sum(chain.activations)
    unit = -(-together * longest // MOST_AREA)
    if unit <= 1:
        return chain
    return replace(
        chain,
        activations=tuple(size // unit for size in chain.activations),
        weights=tuple(size // unit for size in chain.weights),
        memory=chain.memory // unit,
        exact_sizes=False,
    )


def array(values: Sequence[int], kind: str = "int64") -> Any:
    """An array of machine words."""
    return np.array(values, dtype=kind)
