"""The planner `dp`: exact contiguous plans with a proof of their own, or the best of a family of ideals.

Small lattices are solved densely; large ones first on those ideals that cut little, whose best plan is the limit
for the pruned program on all ideals. Where there are too many ideals for the memory, the family is all there is: the
report says so, and the bound is the one that needs no ideals.

Around this stand two loops that take one turn in ordinary problems. Costs that are far above all others are left out
as long as that loses nothing (`ideals.within`). And where sizes have too many digits for exact sums of floats, the
first turn has them rounded down, so that its bound holds for all plans; if its plan turns out to exceed a memory by a
hair, a second turn has them rounded up, which gives a plan and no bound. Only the pruned program needs that: the
dense one asks the exact sizes where it matters.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ...instances.base.clock import now
from ...instances.base.compiled import repays_loading
from ...instances.base.result import StartOutcome, Stop, WarmStart, met
from ...instances.physics.tolerances import SAFETY
from ...instances.placement.plan import Device, DeviceType, PlacementPlan
from ...instances.placement.problem import NodeId, PlacementProblem
from ...instances.registry import evaluation_of, violations_of
from ..contract import FunctionPlanner, Outcome, Request
from ..referee import BOUND_SLACK, rule, rules_of
from ..registry import MAX_IDEALS
from ..search import OutOfTimeError, tick_of
from .dp_dense import Pairs, Stage, flat, gpipe
from .dp_kernel import DEAD, TILE, Tables
from .groups import various_orders
from .ideals import (
    KEY_STEPS,
    Kind,
    Lattice,
    Model,
    TooManyIdealsError,
    all_ideals,
    beam,
    build,
    bytes_per_ideal,
    cheapest,
    first_limit,
    next_limit,
    rounding,
    within,
)

# ---- large lattices -------------------------------------------------------------------------------------------
# The pruned program on a large lattice: is there a plan below a limit, and which is the best of these?
#
# A run under the limit U is exact for all plans with loads below U: none of their states is pruned (`limited`). So
# a run that finds a plan has found an optimal one, and a run that finds none proves that U is a lower bound.
# Limits start near the lower bound and grow, because a low limit prunes much; the last one is the best known value.


# ---- What a search reports while it runs -------------------------------------------------------------------


@dataclass
class Progress:
    """What a search has done so far; `hear` is told now and then, and may raise to stop it."""

    hear: Callable[[Progress], None] = lambda progress: None
    bound: float = 0.0
    limit: float | None = None
    done: int = 0
    """Ideals of the present run whose values are final, ..."""
    of: int = 0
    """... and all its live ideals."""
    pairs: int = 0
    runs: int = 0
    warm_up_seconds: float = 0.0


# Relative: how far the first limit is above the lower bound; the distance doubles every time.
FIRST_STEP = 0.0025

# Known value divided by the lower bound: up to this the known value is the only limit that is tried.
NEAR_ENOUGH = 1.05

# Seconds that one call of the compiled loop should take, about: between calls we look at the clock.
CHUNK_SECONDS = 0.2

# Number of targets from which on it pays to share a chunk's work among threads.
PARALLEL_FROM = 20_000


def best_plan(
    lattice: Lattice, bound: float, known: float, progress: Progress, threads: int = 1
) -> tuple[float, list[Stage]] | None:
    """The optimum among the plans of this lattice that are better than `known`; None where there is none.

    `progress.bound` grows with every limit that is refuted; it is valid for plans of this lattice only.
    """
    progress.bound, step = bound, FIRST_STEP
    limits = []
    while bound > 0 and known > bound * NEAR_ENOUGH and bound * (1 + step) < known:
        limits.append(bound * (1 + step))
        step *= 2
    for limit in (*limits, known):
        progress.limit = limit
        progress.runs += 1
        answer = run(lattice, limit, progress, threads)
        if answer is not None:
            progress.bound = answer[0]
            return answer
        progress.bound = max(progress.bound, limit)
        progress.hear(progress)
    return None


def run(lattice: Lattice, limit: float, progress: Progress, threads: int = 1) -> tuple[float, list[Stage]] | None:
    """The value and the stages of the best plan with all loads below the limit; None: there is none."""
    limits = limited(lattice, limit)
    if limits is None:
        return None
    _forward(limits, limit, progress, threads)
    t = limits.tables
    final = limits.values[int(t.origin[-1]) + int(t.lowest[-1]) * len(t.room) :]  # of the whole
    final = np.where(final < 0, np.inf, final)
    place = int(np.argmin(final))
    if not math.isfinite(final[place]):
        return None
    return float(final[place]), [
        Stage(stage.kind, int(limits.alive[stage.smaller]), int(limits.alive[stage.larger]))
        for stage in _backward(limits, place)
    ]


def _forward(limits: Limited, limit: float, progress: Progress, threads: int) -> None:
    """Carry values from the empty ideal on to all others, chunk by chunk, and report after each chunk."""
    from concurrent.futures import ThreadPoolExecutor

    from ...instances.base.compiled import compiled
    from . import dp_kernel

    began = now()
    process, values = compiled(dp_kernel, "process"), limits.values
    process(limits.tables, values, 0.0, 0, 0, 0, 0, 0, 1)  # nothing to do, but now it is loaded
    if not progress.warm_up_seconds:
        progress.warm_up_seconds = now() - began
    count = len(limits.alive)
    progress.of = count
    first, size = 0, 64
    with ThreadPoolExecutor(threads) as pool:
        while first < count:
            began = now()
            last = min(count, first + size)
            progress.pairs += process(limits.tables, values, limit, first, last, first, last, 0, 1)
            if count - last < PARALLEL_FROM or threads == 1:
                progress.pairs += process(limits.tables, values, limit, first, last, last, count, 0, 1)
            else:
                parts = [
                    pool.submit(process, limits.tables, values, limit, first, last, last, count, part, threads)
                    for part in range(threads)
                ]
                progress.pairs += sum(part.result() for part in parts)
            seconds = now() - began
            first, progress.done = last, last
            size = max(16, min(4 * size, int(size * CHUNK_SECONDS / max(seconds, 1e-3))))
            progress.hear(progress)


def _backward(limits: Limited, place: int) -> Iterator[Stage]:
    """Stages of the best plan, last to first: a state's value is that of some state before it, or the stage's load."""
    t = limits.tables
    ideal = len(t.key) - 1
    use, way = int(t.lowest[ideal]) + place // len(t.room), place % len(t.room)
    while ideal > 0:
        stage, use, way = _step_back(limits, ideal, use, way)
        yield stage
        ideal = stage.smaller


def _step_back(limits: Limited, j: int, use: int, way: int) -> tuple[Stage, int, int]:
    """A stage that ends in ideal j and explains its value, and the devices that the stages before it have."""
    t = limits.tables
    ways = len(t.room)
    value = limits.values[t.origin[j] + use * ways + way]
    crossing = np.maximum(t.cut[:j] + t.cut[j] - _shared_with(limits, j), 0.0)
    nested = ~(t.bits[:, :j] & ~t.bits[:, j : j + 1]).any(axis=0)
    best: tuple[float, Stage, int, int] | None = None
    for d in range(len(t.count)):
        plain = t.work[d, j] - t.work[d, :j] + t.pays[d] * crossing
        fits = nested & (t.size[j] - t.size[:j] <= t.capacity[d]) & (t.barred[d, j] == t.barred[d, :j])
        use_before, way_before = (use - 1, way) if d == 0 else (use, way - int(t.stride[d]))
        if use_before < 0 or (d > 0 and not t.way_count[way, d]):
            continue
        sources = np.flatnonzero((t.lowest[:j] <= use_before) & (use_before <= t.highest[:j]) & fits)
        before = limits.values[t.origin[sources] + use_before * ways + way_before]
        sources, before = sources[before >= 0], before[before >= 0]
        if not len(sources):
            continue
        total = np.maximum(before, plain[sources])
        x = int(np.argmin(total))
        if best is None or total[x] < best[0]:
            best = (float(total[x]), Stage(d, int(sources[x]), j), use_before, way_before)
    if best is None or best[0] > value * (1 + 1e-9) + limits.rounding:
        raise AssertionError(f"no stage explains the value {value} of ideal {j}")
    return best[1:]


def _shared_with(limits: Limited, j: int) -> Any:
    """For all i < j, what is to be subtracted from cut(i) + cut(j): see `ideals`."""
    t = limits.tables
    shared = np.zeros(j)
    for e in np.flatnonzero((t.row_start <= j) & (j < t.row_end)):
        start, pins = int(t.row_start[e]), int(t.row_pins[e])
        row = t.inside[t.row_place[e] + start : t.row_place[e] + j + 1]
        here = int(row[-1])
        if 0 < here < pins:
            earlier = row[:-1]
            shared[start:j] += t.row_cost[e] * ((earlier > 0) * (1.0 + (earlier == here)))
    return shared


# ---- Which states can be part of a plan with all loads within U, and their tables ---------------------------------
# Which states can be part of a plan with all loads within U, and the tables of the compiled loop for them.
#
# A state is an ideal and the devices used for it: f of the first kind and, as a *way*, numbers of all others.
# With p the work on the first kind and c(I) the transfers that I cuts, it is live only if
#
#     p(I) + c(I) <= f U + A(way)      and      p(V \ I) + c(I) <= (k - f) U + A(the devices left by the way)
#
# Stages on f devices of the first kind hold at most f U of work and transfers together, and all stages inside I
# together pay every net that I cuts at least once; so do those outside. A is what the other kinds can
# take off the first one: a fractional knapsack of groups by their time there. Where a kind pays no transfers, a group
# on it may also save the nets at it, which is added to its value; where it pays them, it may use its time for
# transfers instead of work. The same inequalities without c(I) and without those nets are a second bound; both must
# hold. Loads of single stages exclude no larger stage: one that is too expensive may well become cheaper by one more
# group, which is why only work, size and support may end a search.


@dataclass(frozen=True)
class Limited:
    """The tables for one limit. `alive[x]`: position in the lattice of the x-th live ideal."""

    tables: Tables
    alive: Any
    values: Any
    """The value of each state, which a run improves in place: at first 0 at the empty ideal, infinite at all others."""
    rounding: float
    """By how much rounding may make a load wrong."""


def limited(lattice: Lattice, limit: float) -> Limited | None:
    """The tables for a limit; None: not even the bounds allow a plan within it."""
    model = lattice.model
    absorbed = Absorption.of(model, limit)
    way_count, stride = _ways(model)
    first_use, last_use = _uses(lattice, limit, way_count, absorbed)
    live = (first_use <= last_use).any(axis=1)
    if first_use[0, 0] > last_use[0, 0] or not live[-1]:
        return None
    alive = np.flatnonzero(live)
    lowest, highest, origin, values = _places(first_use[alive], last_use[alive])
    work = np.array([lattice.prefix(kind.work)[alive] for kind in model.kinds])
    slack = SAFETY * (float(work[0, -1]) or 1.0)
    # The most first-kind work of one stage on a device of each kind, and on the devices that a way leaves.
    behind = range(1, len(model.kinds))
    reach = np.array([limit, *(absorbed.plain[d][1] for d in behind)])
    room = [sum(absorbed.plain[d][model.kinds[d].count - int(way[d])] for d in behind) for way in way_count]
    bits = np.ascontiguousarray(lattice.bits[alive].T)
    tables = Tables(
        bits=bits,
        common=np.bitwise_and.reduceat(bits, np.arange(0, len(alive), TILE), axis=1),
        key=lattice.key[alive],
        work=work,
        barred=np.array(
            [lattice.prefix([float(not ok) for ok in kind.supported])[alive] for kind in model.kinds],
            dtype=np.int32,
        ),
        size=lattice.prefix(model.sizes)[alive],
        cut=lattice.cut.sum(axis=0)[alive],
        lowest=lowest,
        highest=highest,
        origin=origin,
        **_net_tables(lattice, alive),
        pays=np.array([float(kind.pays) for kind in model.kinds]),
        count=np.array([kind.count for kind in model.kinds], dtype=np.int64),
        capacity=np.array([kind.capacity for kind in model.kinds]),
        stride=stride,
        way_count=way_count,
        reach=reach,
        room=np.array(room, float),
        slack=slack,
        key_scale=KEY_STEPS / (float(work[0, -1]) or 1.0),
        key_slack=model.count + 1,
    )
    return Limited(tables, alive, values, rounding(lattice))


def _places(first_use: Any, last_use: Any) -> tuple[Any, Any, Any, Any]:
    """Where each state keeps its value, and the values at the start: 0 for the first state, infinite for other live
    ones, DEAD for the rest."""
    ways = first_use.shape[1]
    none = first_use > last_use
    lowest = np.where(none, np.iinfo(np.int32).max, first_use).min(axis=1)
    highest = np.where(none, -1, last_use).max(axis=1)
    widths = (highest - lowest + 1).astype(np.int64)
    base = np.concatenate([[0], np.cumsum(widths * ways)[:-1]])
    uses = np.arange(int(widths.sum())) - np.repeat(base // ways - lowest, widths)
    live = (uses[:, None] >= np.repeat(first_use, widths, axis=0)) & (
        uses[:, None] <= np.repeat(last_use, widths, axis=0)
    )
    values = np.where(live, np.inf, DEAD).reshape(-1)
    values[0] = 0.0  # nothing done, nothing used
    return lowest, highest, base - lowest.astype(np.int64) * ways, values


def _ways(model: Model) -> tuple[Any, Any]:
    """All combinations of numbers of devices of the kinds behind the first, in mixed radix."""
    counts = [kind.count for kind in model.kinds[1:]]
    way_count = np.array([(0, *way) for way in product(*(range(count + 1) for count in counts))], dtype=np.int64)
    stride = [0] * len(model.kinds)
    step = 1
    for d in range(len(model.kinds) - 1, 0, -1):
        stride[d], step = step, step * (model.kinds[d].count + 1)
    return way_count, np.array(stride, dtype=np.int64)


def _uses(lattice: Lattice, limit: float, way_count: Any, absorbed: Absorption) -> tuple[Any, Any]:
    """For each ideal and way, the least and the greatest number of first-kind devices of a live state."""
    model = lattice.model
    first = model.kinds[0]
    work = lattice.prefix(first.work)
    cut = lattice.cut.sum(axis=0) * float(first.pays)
    slack = SAFETY * (float(work[-1] + cut.max()) or 1.0)
    used, left = (
        way_count[:, 1:],
        np.array([kind.count for kind in model.kinds[1:]], dtype=np.int64) - way_count[:, 1:],
    )

    def devices(amount: Any, counts: Any, table: list[list[float]]) -> Any:
        taken = np.array([sum(table[d][int(n)] for d, n in enumerate(row, start=1)) for row in counts], dtype=float)
        excess = amount[:, None] - taken[None, :] - slack
        need = excess / limit if limit > 0 else np.where(excess > 0, first.count + 1.0, 0.0)
        return np.clip(np.ceil(need), 0, first.count + 1).astype(np.int32)

    first_use = np.maximum(devices(work + cut, used, absorbed.saving), devices(work, used, absorbed.plain))
    rest = work[-1] - work
    last_use = first.count - np.maximum(
        devices(rest + cut, left, absorbed.saving), devices(rest, left, absorbed.plain)
    )
    return first_use, last_use.astype(np.int32)


@dataclass(frozen=True)
class Absorption:
    """What the other kinds can take off the first one within the limit."""

    plain: list[list[float]]
    """plain[d][n]: the most first-kind work on n devices of kind d"""
    saving: list[list[float]]
    """the same, with the transfers that it may save"""

    @classmethod
    def of(cls, model: Model, limit: float) -> Absorption:
        first = model.kinds[0]
        worth = list(first.work)
        saved = list(worth)
        for pins, cost, _ in model.nets:
            for g in pins:
                saved[g] += cost
        plain, saving = [], []
        for kind in model.kinds:
            capacities = [n * limit for n in range(kind.count + 1)]
            plain.append([_knapsack(model, worth, kind, capacity) for capacity in capacities])
            most = worth if kind.pays else saved
            saving.append([_knapsack(model, most, kind, capacity, kind.pays) for capacity in capacities])
        return cls(plain, saving)


def _knapsack(model: Model, worth: Sequence[float], kind: Kind, capacity: float, transfers: bool = False) -> float:
    """The best worth of fractions of groups whose time on the kind is within the capacity.

    `transfers`: time may be spent on transfers as well, and is then worth as much as it is long.
    """
    if capacity <= 0:
        return 0.0
    items = [(worth[g], kind.work[g]) for g in range(model.count) if kind.supported[g] and worth[g] > 0]
    total = math.fsum(value for value, time in items if time <= 0)
    for value, time in sorted((item for item in items if item[1] > 0), key=lambda item: item[1] / item[0]):
        if transfers and time > value:
            break
        share = min(1.0, capacity / time)
        total += share * value
        capacity -= share * time
        if capacity <= 0:
            break
    return total + capacity if transfers and capacity > 0 else total


def _net_tables(lattice: Lattice, alive: Any) -> dict[str, Any]:
    """The tables of nets: the rows of the lattice without ideals that are not live, one behind the other."""
    rows = [row for row in lattice.rows if row.end > row.start and row.cost > 0]
    start = np.array([np.searchsorted(alive, row.start) for row in rows], dtype=np.int64)
    end = np.array([np.searchsorted(alive, row.end) for row in rows], dtype=np.int64)
    kept = [row.inside[alive[a:b] - row.start] for row, a, b in zip(rows, start, end, strict=True)]
    lengths = np.array([len(row) for row in kept], dtype=np.int64)
    dtype = np.uint8 if all(row.dtype == np.uint8 for row in kept) else np.uint32
    return {
        "row_cost": np.array([row.cost for row in rows], dtype=float),
        "row_pins": np.array([row.pins for row in rows], dtype=np.int64),
        "row_start": start,
        "row_end": end,
        "row_place": np.cumsum(lengths) - lengths - start,
        "inside": np.concatenate([row.astype(dtype) for row in kept]) if rows else np.zeros(0, dtype=np.uint8),
    }


# ---- the planner ------------------------------------------------------------


# Largest number of ideals for which the dense program is considered: it needs no compiled code.
SMALL_IDEALS = 600

# Table entries that the dense program may touch.
SMALL_WORK = 60_000_000

# Sizes of the families that give a first plan of a large lattice.
FAMILIES = (4_000, 16_000)

# Largest number of ideals for gpipe, whose front is walked densely. Of a larger lattice this number is kept.
DENSE_IDEALS = 1_200

# Topological orders whose prefixes are in every family of a beam.
FAMILY_ORDERS = 6

# Sizes of the families of a beam, where there are too many ideals; the greater one where memory and time allow.
BEAMS = (60_000, 240_000)

# What proves the bound without any search, in the words of the result.
WORK_ALONE = "all devices together take no less for the work alone"

# Equal shares of the work from which a family takes its ideals.
SPANS = 64

# Bytes that ideals and tables may take where the user sets no limit.
DEFAULT_MEMORY = 1_500_000_000


class _Run:
    def __init__(self, request: Request) -> None:
        problem = request.problem
        self.request = request
        self._tick = tick_of(request)
        self.problem: PlacementProblem = problem
        self.objective = request.options.get("objective", "max-load")
        self.model: Model = build(problem, self.objective)
        self.ceiling = math.inf
        """The model tells values of plans up to this one only, since higher costs were cut down."""
        self.error = 0.0
        """By how much rounding may make a load on the present lattice wrong."""
        self.by_a_hair = False
        """Has a plan been refused that fits by rounded sizes, but exceeds a memory by the true ones?"""
        self.bounding = True
        """Do bounds of the model hold for the problem?"""
        self.plan: Any = None
        self.value: float | None = None
        self.bound: float | None = None
        self.warm_start = WarmStart()
        self.seconds: dict[str, float] = {}
        self.size: dict[str, int] = {"groups": self.model.count, "nets": len(self.model.nets)}
        self.messages: list[str] = []
        self.restriction: str | None = None
        self.checks: tuple[str, ...] = (WORK_ALONE,)

    # ---- the answer -----------------------------------------------------------------------------------

    def outcome(self) -> Outcome:
        least = lower_bound(self.model)
        if least is None:
            return self._answer(Stop.INFEASIBLE)
        self._raise_bound(least)
        self._take_warm_start()
        try:
            stop = self._by_magnitude(self.model)
            if self.by_a_hair and not met(self.value, self.bound):
                stop = self._with_safe_sizes()
        except OutOfTimeError:
            stop = Stop.TIME
        return self._answer(stop)

    def _by_magnitude(self, whole: Model) -> Stop:
        """Solve without costs that are far above all others, then with more of them while those plans may be better."""
        limit = first_limit(whole, self.bound or 0.0)
        while (model := within(whole, limit)) is not whole:
            # Its costs were cut down, so that it tells values up to the limit only.
            self.model, self.ceiling, self.error = model, limit, 0.0
            least = lower_bound(model)
            if least is not None:
                self._raise_bound(least)
            stop = Stop.INFEASIBLE if least is None else self._solve()
            if self.value is not None and self.value <= limit:
                return stop
            if stop == Stop.INFEASIBLE:
                self._raise_bound(limit)
            limit = next_limit(whole, limit, self.value)
        self.model, self.ceiling, self.error = whole, math.inf, 0.0
        return self._solve()

    def _with_safe_sizes(self) -> Stop:
        """Solve the problem again with sizes rounded up, which gives a plan and no bound."""
        self.bounding = False
        stop = self._by_magnitude(build(self.problem, self.objective, self.problem.safe_sizes))
        if not met(self.value, self.bound):
            self.messages.append(
                "the sizes have too many digits to be added up exactly: the bound is that of plans that exceed the "
                "memory by less than can be told"
            )
        return Stop.COMPLETED if stop in (Stop.PROVEN, Stop.INFEASIBLE) else stop

    def _answer(self, stop: Stop) -> Outcome:
        bound = None if stop == Stop.INFEASIBLE else self.bound
        if self.value is not None and bound is not None:
            bound = min(bound, self.value)
            if met(self.value, self.bound):
                stop = Stop.PROVEN
            elif stop == Stop.PROVEN:
                stop = Stop.COMPLETED
                self.messages.append(f"costs of very different sizes: loads may be wrong by {self.error:.3g}")
        return Outcome(
            stop,
            self.plan,
            self.value,
            bound,
            self.warm_start,
            model_size=self.size,
            seconds=self.seconds,
            messages=(*self.messages, *([self.restriction] if self.restriction else [])),
            checks=self.checks,
        )

    def _take_warm_start(self) -> None:
        """Take the plan that was given as the best so far, so that only better ones are looked for."""
        plan = self.request.warm_start
        if plan is None:
            return
        value = rule(
            self.problem, plan, rules_of(self.problem, {"objective": self.objective, "contiguity": "chain"})
        ).value
        if value is None:
            self.warm_start = WarmStart(StartOutcome.REJECTED)
        else:
            self.warm_start = WarmStart(StartOutcome.ACCEPTED, value=value)
            self.plan, self.value = plan, value

    def _take(self, value: float, stages: Any, lattice: Lattice) -> None:
        """Keep and post a plan of the present model, if it is the best so far and keeps the memory."""
        if self.value is not None and value >= self.value:
            return
        plan = as_plan(self.problem, self.model, lattice, stages)
        exact = self.problem.whole_sizes.exact or not self.bounding
        if not exact and any(broken.rule == "memory" for broken in violations_of(self.problem, plan)):
            self.by_a_hair = True
            return
        if value > self.ceiling:  # some of its costs were cut
            value = evaluation_of(self.problem, plan).objective(self.objective)
        if self.value is None or value < self.value:
            self.plan, self.value = plan, value
            self.request.board.post(self.plan, value)

    def _raise_bound(self, bound: float) -> None:
        """Take a bound of the present model, whose values come from the present lattice, if it is better."""
        if not self.bounding:
            return
        bound = min(bound, self.ceiling)
        if self.error > BOUND_SLACK * bound:  # a smaller error counts as rounding for the referee, too
            bound = max(0.0, bound - self.error)
        if self.bound is None or bound > self.bound:
            self.bound = bound
            self.request.board.post(bound=bound)

    # ---- the search -----------------------------------------------------------------------------------

    def _solve(self) -> Stop:
        self._tick()
        try:
            lattice = all_ideals(self.model, self._limit(), self._tick)
        except TooManyIdealsError as error:
            self.size["ideals_at_least"] = error.count
            return self._family_only()
        self.size["ideals"] = lattice.count
        self.error = rounding(lattice)
        if self._is_small(lattice) or self.model.parts == 2:
            return self._dense(lattice)
        return self._pruned(lattice)

    def _limit(self) -> int:
        """Number of ideals that the user and the memory allow."""
        memory = self.request.limits.memory_limit_bytes or DEFAULT_MEMORY
        wanted = int(self.request.options.get("max_ideals", MAX_IDEALS.default))
        return max(2, min(wanted, memory // bytes_per_ideal(self.model)))

    def _is_small(self, lattice: Lattice) -> bool:
        transitions = math.prod(kind.count + 1 for kind in self.model.kinds)
        entries = lattice.count**2 * (transitions + 10) + 4 * sum(
            (row.end - row.start) ** 2 for row in lattice.rows
        )
        return not repays_loading(lattice.count, SMALL_IDEALS + 1) and entries <= SMALL_WORK

    def _dense(self, lattice: Lattice) -> Stop:
        """Exact where all ideals are in the tables; for gpipe, large lattices keep those that cut little."""
        whole = lattice
        if not self._is_small(lattice) and lattice.count > DENSE_IDEALS:
            lattice = lattice.part(cheapest(lattice, DENSE_IDEALS, SPANS))
        pairs = Pairs(lattice)
        if self.model.parts == 2:
            answer = gpipe(pairs, self._tick, lambda value, stages: self._take(value, stages, lattice))
        else:
            answer = flat(pairs, self._tick)
        least = self._take_answer(answer, lattice)
        return self._settle(least, lattice, complete=lattice is whole and whole.complete)

    def _take_answer(self, answer: tuple[float, list[Stage]] | None, lattice: Lattice) -> float | None:
        """Take the plan of these ideals that a program has found, and return its value; None: there is none."""
        if answer is None:
            return None
        self._take(*answer, lattice)
        return answer[0]

    def _settle(self, least: float | None, lattice: Lattice, complete: bool) -> Stop:
        """Settle bound and stop once a lattice is solved. `least`: the value of its best plan; None: it has none."""
        if not complete:
            self.restriction = (
                f"restricted to {lattice.count} of the ideals: the plan is the best of these, "
                "the bound holds for all"
            )
            self.size["ideals_used"] = lattice.count
            return Stop.MEMORY
        self.checks = (f"the dynamic program decided over all {lattice.count} ideals",)
        if least is None:
            return Stop.INFEASIBLE
        self._raise_bound(least)
        return Stop.PROVEN

    def _pruned(self, lattice: Lattice) -> Stop:
        """Seek the best plan of some of the ideals, then ask whether all of them allow a better one."""
        for wanted in FAMILIES:
            if lattice.count >= 2 * wanted:
                cutoff = worst_load(self.model) if self.value is None else self.value
                self._search(lattice.part(cheapest(lattice, wanted, SPANS)), cutoff)
        cutoff, limits = worst_load(self.model), self.request.limits
        if self.value is not None:  # plans below this are worth looking for, given the gap that the user allows
            cutoff = max(0.0, min(self.value * (1 - limits.rel_gap), self.value - limits.abs_gap))
        least = self._search(lattice, cutoff, limits.threads or os.cpu_count() or 1)
        refuted = least is None and self.value is not None
        stop = self._settle(cutoff if refuted else least, lattice, lattice.complete)
        open_below = self.value is not None and cutoff < self.value
        return Stop.GAP if stop == Stop.PROVEN and open_below else stop

    def _search(self, lattice: Lattice, cutoff: float, threads: int = 1) -> float | None:
        """Take the best plan of these ideals below the cut-off, and return its value; None: there is none."""

        def hear(progress: Progress) -> None:
            if lattice.complete:
                self._raise_bound(progress.bound)
            self.request.board.post(nodes=progress.done)
            self._tick()

        progress = Progress(hear)
        answer = best_plan(lattice, self.bound or 0.0, cutoff, progress, threads)
        self.seconds["warm_up"] = self.seconds.get("warm_up", 0.0) + progress.warm_up_seconds
        for name, number in (("pairs", progress.pairs), ("runs", progress.runs)):
            self.size[name] = self.size.get(name, 0) + number
        return self._take_answer(answer, lattice)

    def _family_only(self) -> Stop:
        """Plan on the families of a beam, where there are too many ideals."""
        self.messages.append(
            f"more than {self.size['ideals_at_least']} ideals, the limit is {self._limit()}: "
            "give --option max-ideals or --memory-limit for more"
        )
        orders = various_orders(self.model, FAMILY_ORDERS, seed=0)
        stop = Stop.MEMORY
        for wanted in BEAMS:
            lattice = beam(self.model, orders, min(wanted, self._limit()), self._tick)
            if self.model.parts == 2:
                return self._dense(lattice)
            stop = self._pruned(lattice)
            if wanted >= self._limit():
                break
        return stop


def worst_load(model: Model) -> float:
    """No plan that keeps memory and support has a greater load."""
    most = max(math.fsum(kind.work) for kind in model.kinds) + math.fsum(cost for _, cost, _ in model.nets)
    return most * (1 + 1e-9) + 1e-300


# ---- A lower bound that needs no lattice: all work has to fit on all devices -------------------------------

# Halvings of the interval that holds the bound.
STEPS = 60


def lower_bound(model: Model) -> float | None:
    """The least T within which the devices can take all work, and every group at least fits somewhere; None: never.

    Transfers and the order of stages only add to this.
    """
    alone = (
        min((kind.work[g] for kind in model.kinds if kind.supported[g]), default=math.inf)
        for g in range(model.count)
    )
    least = max(alone, default=0.0)
    if math.isinf(least):
        return None
    low, high = least, max(least, sum(model.kinds[0].work), *(sum(kind.work) for kind in model.kinds))
    if not _enough(model, low):
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if _enough(model, middle) else (middle, high)
    return low * (1 - SAFETY)


def _enough(model: Model, limit: float) -> bool:
    """Can all devices together take the work that the first kind would have with everything?"""
    absorbed = Absorption.of(model, limit).plain
    first = model.kinds[0]
    taken = first.count * limit + sum(absorbed[d][kind.count] for d, kind in enumerate(model.kinds) if d > 0)
    return taken >= sum(first.work) * (1 - SAFETY)


# ---- From stages between ideals to a plan that says which nodes are on which device ------------------------


def as_plan(problem: PlacementProblem, model: Model, lattice: Lattice, stages: Sequence[Stage]) -> PlacementPlan:
    """The plan of `stages`, which stand from the last to the first."""

    def nodes_of(stage: Stage) -> tuple[NodeId, ...]:
        positions = [i for g in lattice.groups_between(stage.smaller, stage.larger) for i in model.members[g]]
        return tuple(problem.nodes[i].id for i in sorted(positions))

    if not problem.extensions:
        return _plain(problem, [(model.kinds[stage.kind].pays, nodes_of(stage)) for stage in reversed(stages)])
    devices: list[Device] = []
    for stage in reversed(stages):
        kind = model.kinds[stage.kind]
        type_: DeviceType = "accelerator" if kind.pays else "cpu"
        name = f"{'acc' if kind.pays else 'cpu'}{sum(device.type == type_ for device in devices)}"
        other = None if kind.type is None else problem.other_types[kind.type].name
        devices.append(Device(name, type_, nodes_of(stage), accelerator_type=other))
    return PlacementPlan(tuple(devices))


def _plain(problem: PlacementProblem, stages: Sequence[tuple[bool, tuple[NodeId, ...]]]) -> PlacementPlan:
    """Accelerators in stage order, then CPUs; idle devices stay listed. Of a stage: is it on an accelerator?"""
    assignment: dict[NodeId, int] = {}
    next_of = {True: 0, False: problem.accelerators}
    for pays, nodes in stages:
        assignment.update(dict.fromkeys(nodes, next_of[pays]))
        next_of[pays] += 1
    return PlacementPlan.from_assignment(problem, assignment)


PLANNER = FunctionPlanner(lambda request: _Run(request).outcome())
