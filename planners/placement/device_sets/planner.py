"""`device-sets`: bounds and plans for non-contiguous throughput, from whole devices rather than single groups.

What makes communication-bound graphs hard for an integer program is that its relaxation spreads every group over all
devices, and so pays for no transfer. A set of groups that one accelerator really holds pays for all of its own. So the
question here is which sets, taken together, make up the problem (`columns`): a cut-off is refuted, or leads to a plan
(`Dive`). The bound knows nothing of memory and of stages, and so holds with either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....formulations.tarnawski.groups import capped, contract
from ....formulations.tarnawski.reductions import absorb_free_groups, average_load_bound, worst_value
from ....instances.base.result import Stop, relative_gap
from ....instances.placement.plan import PlacementPlan
from ...contract import Outcome, Request
from ...referee import rule, rules_of
from ...search import WORK_ALONE, OutOfTimeError, tick_of
from ..groups import objective_of
from ..heuristics.linear_dp import PLANNER as LINEAR_DP
from .columns import Columns, Mixture
from .pricing import DeviceSet, pricer

# Smaller gaps are left to other methods: each halving of what is open costs as much as the one before.
LEAST_GAP = 1e-4
# Where dives seek plans as well: these shares of the way from what sets in part reach to the best plan.
DIVES = (0.5, 0.85)
# Rounds for a cut-off, before a lower one is tried; more of them later.
PATIENCE = 20
# Sets that a dive tries for each accelerator.
HASTY, PATIENT = 2, 6
# Halvings of what is open below a cut-off, to see how much of it is refuted by prices that do not refute the cut-off.
HALVINGS = 5
# Share of a wide gap that one question is to close.
STEP = 0.25
# What sets in part reach is known well enough within this share of the wanted gap.
NARROW = 0.1
# How a bound of this planner was proven, in the words of the result.
CHECK = "whole devices cannot make up the problem below this value: prices of groups, in exact whole numbers"


class DeviceSets:
    def plan(self, request: Request) -> Outcome:
        return _Search(request).outcome()


PLANNER = DeviceSets()


class _Search:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.rules = rules_of(request.problem, request.options)
        self.groups = absorb_free_groups(
            contract(request.problem, contiguous=False, objective=objective_of(request))
        )
        self.bound = average_load_bound(self.groups)
        self.gap = max(request.limits.rel_gap, LEAST_GAP)
        self.check = WORK_ALONE
        """What proves the bound, in the words of the result."""
        self.messages: list[str] = []
        self.columns: Columns | None = None
        self.patience = PATIENCE
        self.open_at = math.inf
        """The least cut-off that sets in part are known to reach."""

    def outcome(self) -> Outcome:
        board = self.request.board
        board.post(bound=self.bound)
        self._start()
        stop = Stop.COMPLETED
        try:
            self._search()
        except OutOfTimeError:
            stop = Stop.TIME
        if self._is_closed(self.gap):
            stop = Stop.GAP
        columns = self.columns
        size = {} if columns is None else {"states": columns.pricer.graph.states, "sets": len(columns.sets)}
        return Outcome(
            stop,
            board.plan,
            board.claimed,
            self.bound,
            model_size=size,
            messages=tuple(self.messages),
            checks=(self.check,),
        )

    # ---- plans ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Take the plan that was given, or else the linearised DP's."""
        plan = self.request.warm_start
        if plan is None:
            plan = LINEAR_DP.plan(
                Request(self.request.problem, dict(self.request.options), self.request.limits)
            ).plan
        if plan is not None:
            self._take(plan)

    def _take(self, plan: Any) -> bool:
        """Let the referee judge a plan; True: it is valid, and better than all before."""
        before = self.request.board.value
        self.request.board.accept(rule(self.request.problem, plan, self.rules))
        return self.request.board.value != before

    @property
    def value(self) -> float | None:
        return self.request.board.value

    def _is_closed(self, gap: float) -> bool:
        reached = relative_gap(self.value, self.bound)
        return reached is not None and reached <= gap * (1 + 1e-6)

    # ---- the search -----------------------------------------------------------------------------------------

    def _search(self) -> None:
        if not self.groups.accelerators:
            return
        worst = worst_value(self.request.problem) if self.value is None else self.value
        self.groups = capped(self.groups, worst)
        tick = tick_of(self.request)
        new_pricer = pricer(self.groups, worst, tick)
        if new_pricer is None:
            self.messages.append("the graph is too wide to list what a device may hold: the bound is of work alone")
            return
        self.columns = Columns(self.groups, new_pricer, tick)
        self.open_at = worst
        self._lifts(worst)
        while not self._is_closed(self.gap):
            if self.open_at - self.bound > NARROW * self.wanted:
                cutoff = self._next_cutoff()
                if not self._decides(cutoff) and not self._lifts(cutoff):
                    self.patience *= 2
            elif not self._dives(*DIVES, patient=True):
                self.messages.append("sets in part leave a gap")
                return

    @property
    def wanted(self) -> float:
        """How far below the value a bound may stay, less a hair, so that rounding does not make the gap too wide."""
        return self.gap * (1 - 1e-9) * (self.open_at if self.value is None else self.value)

    def _next_cutoff(self) -> float:
        """The cut-off that would close the gap, or a lower one where the gap is wide. If sets in part reach that, the
        middle of what is open."""
        if self.value is None or self.open_at <= self.value - self.wanted:
            return (self.bound + self.open_at) / 2
        return self.value - max(self.wanted, STEP * (self.value - self.bound))

    def _decides(self, cutoff: float) -> bool:
        """Is the cut-off refuted, or reached by sets in part, before the rounds are over?

        Dives take longer than most questions, so they wait until what is open is as narrow as the gap that is wanted.
        """
        mixed = self._mixture(cutoff, self.patience)
        if mixed is None:
            self._raise(cutoff)
        elif mixed.is_whole or mixed.is_final:
            self.open_at = cutoff
            if self.value is None or cutoff - self.bound <= self.wanted:
                self._dives(0.0, *DIVES)
        else:
            return False
        return True

    def _lifts(self, cutoff: float) -> bool:
        """Do the prices at hand, which have not refuted the cut-off, refute part of what is below? Any prices may."""
        assert self.columns is not None
        begun = low = self.bound
        high = cutoff
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self.columns.refutes(self.columns.pricer.limit(middle)):
                low = middle
                self._raise(middle)
            else:
                high = middle
        return low > begun

    def _dives(self, *shares: float, patient: bool = False) -> bool:
        """Does a dive lead to a better plan, at one of these shares of the way from what sets in part reach to the best
        plan? The first that does is the last one."""
        start, end = self.open_at, self.open_at if self.value is None else self.value
        return any(self._dive(start + share * (end - start), patient) for share in shares)

    def _raise(self, bound: float) -> None:
        self.bound, self.check = bound, CHECK
        self.request.board.post(bound=bound)

    def _mixture(self, cutoff: float, patience: int | None = None) -> Mixture | None:
        assert self.columns is not None
        pricer = self.columns.pricer
        return self.columns.mixture(pricer.limit(cutoff), pricer.nothing, self.groups.accelerators, patience)

    def _dive(self, cutoff: float, patient: bool) -> bool:
        """Does a dive at this cut-off lead to a better plan?"""
        assert self.columns is not None
        mixed = self._mixture(cutoff, PATIENCE)
        if mixed is None or not mixed.is_whole:
            return False
        pricer = self.columns.pricer
        tries = (PATIENT if patient else HASTY) * self.groups.accelerators
        sets = Dive(self.columns, pricer.limit(cutoff), tries).down(mixed, pricer.nothing, self.groups.accelerators)
        return sets is not None and self._take(self._plan(sets))

    def _plan(self, sets: Sequence[DeviceSet]) -> PlacementPlan:
        """The plan of these sets. Other groups go to the CPUs, the longest first, each to the one with least load."""
        device_of = [-1] * self.groups.count
        for device, chosen in enumerate(sets):
            for g in chosen.groups:
                device_of[g] = device
        loads = [0.0] * self.groups.cpus
        rest = [g for g, device in enumerate(device_of) if device < 0]
        for g in sorted(rest, key=lambda g: -self.groups.total_cpu_times[g]):
            cpu = min(range(len(loads)), key=loads.__getitem__)
            loads[cpu] += self.groups.total_cpu_times[g]
            device_of[g] = self.groups.accelerators + cpu
        return self.groups.plan(self.request.problem, device_of)


# ---- From sets that are taken in part to a plan: the set with the largest share gets an accelerator ---------

# Rounds for each accelerator of a dive.
DIVE_PATIENCE = 40
# Sets that are tried for one accelerator before the dive goes back to the accelerator before.
ALTERNATIVES = 3


@dataclass
class Dive:
    """One dive. What no set covers in the end is left to the CPUs."""

    columns: Columns
    limit: int
    tries: int
    """Sets that may still be tried."""

    def down(self, mixed: Mixture, taken: Any, devices: int) -> list[DeviceSet] | None:
        """Sets for `devices` accelerators, so that the CPUs can do the rest; None where no try gives any."""
        if not devices:
            return []
        order = sorted(range(len(mixed.sets)), key=lambda i: -mixed.shares[i])
        for i in order[:ALTERNATIVES]:
            if mixed.shares[i] <= 0:
                break
            if self.tries <= 0:
                return None
            self.tries -= 1
            chosen = mixed.sets[i]
            also = taken.copy()
            also[chosen.members] = True
            rest = self.columns.mixture(self.limit, also, devices - 1, DIVE_PATIENCE)
            if rest is None or not rest.is_whole:
                continue
            below = self.down(rest, also, devices - 1)
            if below is not None:
                return [chosen, *below]
        return None
