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
from collections.abc import Sequence
from typing import Any

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
from .dp_pruned import Absorption, Progress, best_plan
from .groups import various_orders
from .ideals import (
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
