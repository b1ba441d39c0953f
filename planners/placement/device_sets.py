"""`device-sets`: bounds and plans for non-contiguous throughput, from whole devices rather than single groups.

What makes communication-bound graphs hard for an integer program is that its relaxation spreads every group over all
devices, and so pays for no transfer. A set of groups that one accelerator really holds pays for all of its own. So the
question here is which sets, taken together, make up the problem (`Columns`): a cut-off is refuted, or leads to a plan
(a *dive*). The bound knows nothing of memory and of stages, and so holds with either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...formulations.native import Steps
from ...formulations.tarnawski.groups import GroupProblem, capped, contract
from ...formulations.tarnawski.reductions import average_load_bound, worst_value
from ...instances.base.compiled import compiled
from ...instances.base.result import Stop, relative_gap
from ...instances.placement.plan import PlacementPlan
from ..contract import FunctionPlanner, Outcome, Request
from ..referee import rule, rules_of
from ..search import WORK_ALONE, OutOfTimeError, tick_of
from . import device_sets_kernel as kernel
from .groups import objective_of
from .heuristics import plan_linear_dp

# Smaller gaps are left to other methods: each halving of what is open costs as much as the one before.
LEAST_GAP = 1e-4
# Where dives seek plans as well: these shares of the way from what sets in part reach to the best plan.
DIVES = (0.5, 0.85)
# Rounds for a cut-off, before a lower one is tried; more of them later.
PATIENCE = 20
# Sets that a dive tries for each accelerator.
HASTY, PATIENT = 2, 6
# Rounds for each accelerator of a dive.
DIVE_PATIENCE = 40
# Sets that are tried for one accelerator before the dive goes back to the accelerator before.
ALTERNATIVES = 3
# Halvings of what is open below a cut-off, to see how much of it is refuted by prices that do not refute the cut-off.
HALVINGS = 5
# Share of a wide gap that one question is to close.
STEP = 0.25
# What sets in part reach is known well enough within this share of the wanted gap.
NARROW = 0.1
# How a bound of this planner was proven, in the words of the result.
CHECK = "whole devices cannot make up the problem below this value: prices of groups, in exact whole numbers"


class _Search:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.rules = rules_of(request.problem, request.options)
        self.groups = contract(request.problem, contiguous=False, objective=objective_of(request))
        self.bound = average_load_bound(self.groups)
        self.gap = max(request.limits.rel_gap, LEAST_GAP)
        self.check = WORK_ALONE
        """What proves the bound, in the words of the result."""
        self.messages: list[str] = []
        self.columns: Columns | None = None
        self.patience = PATIENCE
        self.tries = 0
        """Sets that the present dive may still try."""
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
            plan = plan_linear_dp(
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
        self.tries = (PATIENT if patient else HASTY) * self.groups.accelerators
        sets = self._down(pricer.limit(cutoff), mixed, pricer.nothing, self.groups.accelerators)
        return sets is not None and self._take(self._plan(sets))

    def _down(self, limit: int, mixed: Mixture, taken: Any, devices: int) -> list[DeviceSet] | None:
        """Sets for `devices` accelerators, so that the CPUs can do the rest; None where no try gives any.

        From sets that are taken in part: the one with the largest share gets an accelerator. What no set covers in the
        end is left to the CPUs.
        """
        assert self.columns is not None
        if not devices:
            return []
        order = sorted(range(len(mixed.sets)), key=lambda i: -mixed.shares[i])
        for i in order[:ALTERNATIVES]:
            if mixed.shares[i] <= 0:
                break
            if self.tries <= 0:
                return None
            self.tries -= 1
            also = taken.copy()
            also[mixed.sets[i].members] = True
            rest = self.columns.mixture(limit, also, devices - 1, DIVE_PATIENCE)
            if rest is not None and rest.is_whole:
                below = self._down(limit, rest, also, devices - 1)
                if below is not None:
                    return [mixed.sets[i], *below]
        return None

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


# ---- Column generation: is a cut-off refuted, or do sets make up everything? --------------------------------------
# Column generation over the sets that one accelerator can hold: is a cut-off refuted, or do sets make up everything?
#
# At a cut-off T the question is: can as many sets of load at most T as there are accelerators, with the CPUs, make up
# everything? Sets may be taken in part (`best_mixture`); new ones come from the prices of the groups (`Pricer`). If
# k accelerators and all CPUs cannot even earn the prices of all groups, there is no plan of value T or less: for if
# there were one, its devices would earn them. That holds for any prices, so it is checked in whole numbers, and each
# round may end by it.


# Share of the prices that have proven the most so far in the next ones: prices of the mixture alone jump.
STEADY = 0.85
# A missing group costs its work and its part of its transfers, in units of the mean, so that prices stay near to what
# groups are worth. But it costs at least this, even where it takes no time.
LEAST_WEIGHT = 0.05
# Relative: a set that earns no more than this above its rent is no better than those at hand.
CLEARLY = 1e-7


@dataclass
class _Proof:
    """The prices that come closest to a refutation, and by how much they fail or succeed, in steps of price."""

    surplus: int | None = None
    prices: Any = None

    @property
    def refutes(self) -> bool:
        return self.surplus is not None and self.surplus > 0

    def take(self, surplus: int, prices: Any) -> None:
        if self.surplus is None or surplus > self.surplus:
            self.surplus, self.prices = surplus, prices


@dataclass
class Columns:
    """All sets found so far, for all cut-offs."""

    groups: GroupProblem
    pricer: Pricer
    tick: Tick
    sets: list[DeviceSet] = field(default_factory=list)
    _known: set[frozenset[int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        work = self.pricer.work
        weights = work + self.pricer.transfers
        # What it costs to miss each group: the more, the more work and transfers it has.
        self._weights = np.maximum(weights / max(1.0, weights.mean()), LEAST_WEIGHT)
        self._steady: Any = whole_prices(work / max(1, work.max()))

    def mixture(self, limit: int, taken: Any, devices: int, patience: int | None = None) -> Mixture | None:
        """What sets of load at most `limit` can do for the groups not `taken`; None: the limit is refuted.

        With `patience` the rounds end after this number of them. Sets that would help may be missing then, unless the
        mixture is final.
        """
        proof, whole_problem = _Proof(prices=self._steady), not taken.any()
        if whole_problem and self.refutes(limit):
            return None
        while True:
            self.tick()
            usable = [each for each in self.sets if each.load <= limit and not taken[each.members].any()]
            cpu_room = self.groups.cpus * limit
            mixed = best_mixture(usable, devices, self.pricer.cpu, cpu_room, limit, taken, self._weights)
            if mixed.is_whole:
                return mixed
            grown = self._grow(mixed, limit, taken, devices, proof)
            if whole_problem:
                self._steady = proof.prices
            if proof.refutes:
                return None
            patience = None if patience is None else patience - 1
            if not grown:
                return replace(mixed, is_final=True)
            if patience == 0:
                return mixed

    def refutes(self, limit: int) -> bool:
        """Do the prices that have proven the most so far refute the limit at once?"""
        proof = _Proof()
        self._price(self._steady, 0, limit, self.pricer.nothing, self.groups.accelerators, proof)
        return proof.refutes

    def _grow(self, mixed: Mixture, limit: int, taken: Any, devices: int, proof: _Proof) -> bool:
        """Add sets by steady prices or else by the mixture's own; True: some are new, or `proof` refutes the limit."""
        raw = whole_prices(mixed.prices)
        tries = [(raw, int(mixed.rent * PRICE_STEPS * (1 + CLEARLY)))]
        if proof.prices is not None:
            smooth = (STEADY * proof.prices + (1 - STEADY) * raw).astype(raw.dtype)
            smooth[taken] = 0
            tries.insert(0, (smooth, 0))
        asked = (self._price(prices, floor, limit, taken, devices, proof) for prices, floor in tries)
        return any(grown or proof.refutes for grown in asked)

    def _price(self, prices: Any, floor: int, limit: int, taken: Any, devices: int, proof: _Proof) -> bool:
        """Add sets, by search those that earn more than `floor`, and tell `proof` of the prices; True: some are new."""
        quick = self.pricer.quick(prices, limit, taken)
        left = int(prices.sum()) - self.pricer.cpus_earn(prices, limit, taken)
        proof.take(left - devices * quick.most, prices)
        grown = self._add(quick.sets)
        if proof.refutes:
            return grown
        floor = max([floor, *(int(prices[each.members].sum()) for each in quick.sets)])
        new, most = self.pricer.search(quick, limit, floor, self._known)
        proof.take(left - devices * most, prices)
        return self._add(new) or grown

    def _add(self, sets: Iterable[DeviceSet]) -> bool:
        """Add sets to those at hand; True: some are new."""
        new = [each for each in sets if each.groups not in self._known]
        self.sets += new
        self._known.update(each.groups for each in new)
        return bool(new)


# Do some of the sets found so far, with the CPUs, make up the whole problem? A linear program, and prices of groups.
# Sets may be taken in part, at most as many as there are accelerators; the CPUs share their time. What no set covers,
# or several do, costs the weight of each group. Prices, the duals of the groups, say what a new set should hold. They
# are floats, so every proof by them is made in whole numbers, for which any prices will do.

# Share that rounding may leave out where the sets make up everything.
COVERED = 1e-7


@dataclass(frozen=True, slots=True)
class Mixture:
    """The best cover of all groups by sets in part: which shares are taken, what is missing, and the prices."""

    sets: Sequence[DeviceSet]
    missing: float
    """The weight of groups that are missing, and of what is covered twice."""
    prices: Any
    """The price of each group."""
    rent: float
    """The price of an accelerator: a set helps where the prices of its groups add up to more."""
    shares: Any
    """The share in which each set is taken."""
    is_final: bool = False
    """Is there no set that would help?"""

    @property
    def is_whole(self) -> bool:
        return self.missing <= COVERED


def best_mixture(
    sets: Sequence[DeviceSet], devices: int, cpu: Any, cpu_room: int, limit: int, taken: Any, weights: Any
) -> Mixture:
    """Solve the program. `taken`: groups placed already, in none of the sets; `weights`: what a missing group costs."""
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    count = len(cpu)
    rest = np.flatnonzero(~taken)
    if not len(rest):
        return Mixture(sets, 0.0, np.zeros(count), 0.0, np.zeros(len(sets)))
    row_of = np.full(count, -1)
    row_of[rest] = np.arange(len(rest))
    slow = rest[cpu[rest] <= limit] if cpu_room > 0 else rest[:0]
    devices_row, cpu_row = len(rest), len(rest) + 1
    unit = max(1, limit)
    ones, numbers = np.ones(len(rest)), np.arange(len(rest))
    columns = [np.append(row_of[each.members], devices_row) for each in sets]
    on_cpu = np.stack([row_of[slow], np.full(len(slow), cpu_row)], axis=1).ravel()
    cpu_times = np.stack([np.ones(len(slow)), cpu[slow] / unit], axis=1).ravel()
    rows = np.concatenate([*columns, on_cpu, numbers, numbers])
    entries = np.concatenate([np.ones(sum(map(len, columns))), cpu_times, ones, -ones])
    lengths = [*map(len, columns), *([2] * len(slow)), *([1] * (2 * len(rest)))]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    matrix: Any = csc_array((entries, rows, starts), shape=(len(rest) + 2, len(lengths))).tocsr()
    costs = np.concatenate([np.zeros(len(sets) + len(slow)), weights[rest], weights[rest]])
    solved: Any = linprog(
        costs,
        A_ub=matrix[devices_row:],
        b_ub=np.array([devices, cpu_room / unit]),
        A_eq=matrix[:devices_row],
        b_eq=np.ones(len(rest)),
        method="highs",
    )
    if solved.x is None:
        raise RuntimeError(f"the mixture of sets was not found: {solved.message}")
    duals = np.zeros(count)
    duals[rest] = solved.eqlin.marginals
    rent = -float(solved.ineqlin.marginals[0])
    return Mixture(sets, float(solved.fun), duals, rent, solved.x[: len(sets)])


# ---- Which set earns the most on one accelerator, at given prices of the groups? ----------------------------------
# Which set of groups earns the most on one accelerator, at given prices of the groups: sets, and a bound on all sets.
#
# All numbers are whole: costs and prices in steps, costs rounded down, so that a set of true load within the limit is
# within it here. What is proven about all sets holds for the true ones.


# ---- All sets of groups that one accelerator may hold, as paths of a small graph ---------------------------
# Groups are decided one after the other, in or out. What has to be remembered on the way is, for each net that has
# pins on both sides of the place reached, whether all of its pins so far are in, none, or some: then it is cut, and
# paid. Open nets with the same pins ahead are one bundle. All that matters of it is the cost of its nets whose pins
# so far are all out, and of those whose pins so far are all in. So the outputs of a dense block, which all later
# layers read, are added up and not told apart. Two histories that agree in this are one state. Graphs of neural
# networks are long and thin, so a good order of the groups leaves some dozens or hundreds of states at each place,
# however many sets there are.

# States of the largest graph; wider ones are left to other methods.
MOST_STATES = 400_000

_OUT, _IN = range(2)

# Called between two steps; it may raise an error once the time is over.
Tick = Callable[[], None]

# Places of the pins of a net that are still to be decided.
_Rest = tuple[int, ...]
# For each bundle of open nets, two costs: of its nets whose pins so far are all out, and of those where they are in.
_State = tuple[int, ...]


@dataclass(frozen=True)
class SetGraph:
    """States in the order of their places; each has one successor without the next group and one with it, or -1."""

    order: Any
    """Groups, as they are decided."""
    first: Any
    """First state of each place; the last entry is the number of all states."""
    without: Any
    within: Any
    cut_without: Any
    """The nets that this decision cuts, in whole steps."""
    cut_within: Any

    @property
    def states(self) -> int:
        return len(self.without)


def narrow_order(groups: GroupProblem, tick: Tick = lambda: None) -> list[int]:
    """An order whose next group always leaves the fewest groups with open nets, then the fewest open nets."""
    nets = [net.pins for net in groups.nets]
    left = [len(pins) for pins in nets]
    open_nets = [len(row) for row in groups.nets_of]
    done = [False] * groups.count
    touched = [0] * groups.count
    order: list[int] = []
    near: set[int] = set()

    def growth(g: int) -> tuple[int, int, int, int]:
        closing = [e for e in groups.nets_of[g] if left[e] == 1]
        opening = sum(left[e] == len(nets[e]) > 1 for e in groups.nets_of[g])
        freed: dict[int, int] = {}
        for e in closing:
            for h in nets[e]:
                if done[h]:
                    freed[h] = freed.get(h, 0) + 1
        stays = any(left[e] > 1 for e in groups.nets_of[g])
        gone = sum(count == open_nets[h] for h, count in freed.items())
        return stays - gone, opening - len(closing), -touched[g], g

    rest = iter(range(groups.count))
    while len(order) < groups.count:
        tick()
        g = min(near, key=growth) if near else next(g for g in rest if not done[g])
        near.discard(g)
        done[g] = True
        order.append(g)
        for e in groups.nets_of[g]:
            left[e] -= 1
            for h in nets[e]:
                if not left[e]:
                    open_nets[h] -= 1
                if not done[h]:
                    near.add(h)
                    touched[h] = len(order)
    return order


def set_graph(groups: GroupProblem, net_costs: Sequence[int], tick: Tick = lambda: None) -> SetGraph | None:
    """The graph, built place by place in the narrow order; None where it needs too many states."""
    order = narrow_order(groups, tick)
    place_of = {g: place for place, g in enumerate(order)}
    begins: list[dict[_Rest, int]] = [{} for _ in order]
    for e, net in enumerate(groups.nets):
        start, *rest = sorted(place_of[g] for g in net.pins)
        begins[start][tuple(rest)] = begins[start].get(tuple(rest), 0) + net_costs[e]
    bundles: list[_Rest] = []
    current: Iterable[_State] = [()]
    first, total = [0], 1
    successors: tuple[list[int], list[int]] = ([], [])
    cuts: tuple[list[int], list[int]] = ([], [])
    for place in range(len(order)):
        tick()
        met = [rest[0] == place for rest in bundles]
        ahead = [rest[1:] if here else rest for rest, here in zip(bundles, met, strict=True)]
        number_of = {rest: i for i, rest in enumerate(filter(None, dict.fromkeys((*ahead, *begins[place]))))}
        born = [(number_of[rest], cost) for rest, cost in begins[place].items() if rest]
        target = [number_of.get(rest, -1) for rest in ahead]
        reached: dict[_State, int] = {}
        for state in current:
            for chosen in (_OUT, _IN):
                cost, following = 0, [0] * (2 * len(number_of))
                for i, number in enumerate(target):
                    wholes = state[2 * i : 2 * i + 2]
                    if met[i]:
                        cost += wholes[1 - chosen]
                        if number >= 0:
                            following[2 * number + chosen] += wholes[chosen]
                    else:
                        following[2 * number] += wholes[_OUT]
                        following[2 * number + 1] += wholes[_IN]
                for number, price in born:
                    following[2 * number + chosen] += price
                successors[chosen].append(total + reached.setdefault(tuple(following), len(reached)))
                cuts[chosen].append(cost)
        current, bundles = reached, list(number_of)
        first.append(total)
        total += len(reached)
        if total > MOST_STATES:
            return None
    for chosen in (_OUT, _IN):  # the last state leads nowhere
        successors[chosen].append(-1)
        cuts[chosen].append(0)
    return SetGraph(
        np.array(order), np.array([*first, total]), *(np.array(column) for column in (*successors, *cuts))
    )


# ---- Prices --------------------------------------------------------------------------------------------------

# Size of a step of load, as a share of the largest limit.
PRECISION = 1e-9
# Number of weights of the load that are tried for one question. The one that bounds best is used for pruning.
WEIGHTS = 16
# Labels of one search, at most: paths that are kept to be walked back.
LABELS = 1_500_000
# Number of grains into which the limit is divided at first. It grows by the factor FINER where a search finds nothing
# new, and shrinks by it where there are too many labels.
GRAIN, FINER = 1_024, 8
COARSEST, FINEST = GRAIN // FINER**2, GRAIN * FINER**2
# Sets that are taken from one search, the best first.
TAKEN = 20
# Steps in a price of 1.
PRICE_STEPS = 10**12
# Products of weights and loads stay below this, so that they fit a machine word.
LARGEST = 2**61


@dataclass(frozen=True, slots=True)
class DeviceSet:
    """Groups on one accelerator, with their load in steps, rounded down."""

    groups: frozenset[int]
    load: int
    members: Any = field(compare=False)
    """The groups as an index array."""


class Pricer:
    """Answers which sets earn the most at given prices. It is built once for a problem and all its cut-offs."""

    def __init__(self, groups: GroupProblem, graph: SetGraph, steps: Steps, work: Any, net_costs: Any) -> None:
        self.groups, self.graph, self.steps = groups, graph, steps
        self.work = work
        self._work, self._net_costs = work[graph.order], net_costs
        self.transfers = np.zeros(groups.count)
        """For each group its part of the costs of its nets, which the pins share evenly."""
        for net, cost in zip(groups.nets, net_costs, strict=True):
            self.transfers[list(net.pins)] += cost / len(net.pins)
        self.supported = np.array(groups.supported)
        self.cpu = np.array(steps.floor(groups.total_cpu_times), dtype=np.int64)
        self.nothing = np.zeros(groups.count, dtype=np.bool_)
        """No group is taken."""
        self._heaviest = LARGEST // max(1, int(work.sum()) + sum(net_costs))
        self._grain = GRAIN
        """Where the next search begins: coarser where the last ones had too many labels."""
        self._values = np.empty((WEIGHTS, graph.states), dtype=np.int64)
        self._multipliers = compiled(kernel, "multipliers")
        self._best_sets = compiled(kernel, "best_sets")

    def limit(self, cutoff: float) -> int:
        """The cut-off in steps of load, with a hair more, so that rounding excludes no set that is within it."""
        return math.floor(cutoff * self.steps.scale * (1 + 1e-12))

    def _set(self, places: Any) -> DeviceSet:
        """The set of the groups at these places of the order; its load is rounded down cost by cost."""
        members = self.graph.order[places]
        groups_in_set = frozenset(members.tolist())
        nets = {e for g in groups_in_set for e in self.groups.nets_of[g]}
        cut = (e for e in nets if not groups_in_set.issuperset(self.groups.nets[e].pins))
        return DeviceSet(
            groups_in_set, int(self._work[places].sum()) + sum(self._net_costs[e] for e in cut), members
        )

    def quick(self, prices: Any, limit: int, taken: Any) -> Quick:
        """The sets that are best at some price of load, and the best bound of these prices."""
        graph = self.graph
        profit, free = prices[graph.order], (self.supported & ~taken)[graph.order] & (self._work <= limit)
        weights = np.zeros(WEIGHTS, dtype=np.int64)
        chosen = np.zeros((WEIGHTS, len(profit)), dtype=np.bool_)
        paths = kernel.Paths(
            graph.first, graph.without, graph.within, graph.cut_without, graph.cut_within, self._work, profit, free
        )
        count = self._multipliers(paths, limit, self._heaviest, weights, self._values, chosen)
        sets = [self._set(row) for row in chosen[:count]]
        bounds = self._values[:count, 0] + weights[:count] * limit
        best = int(bounds.argmin())
        return Quick(
            tuple(each for each in dict.fromkeys(sets) if each.groups and each.load <= limit),
            int(bounds[best]),
            paths,
            int(weights[best]),
            self._values[best].copy(),  # the next question overwrites them
        )

    def search(
        self, quick: Quick, limit: int, floor: int, known: set[frozenset[int]]
    ) -> tuple[list[DeviceSet], int]:
        """New sets that earn more than `floor`, and the most that any set within the limit can earn, in steps of price;
        with too many labels it may find none."""
        most, steps, overflown = quick.most, self._grain, FINEST * FINER
        while COARSEST <= steps < min(overflown, FINEST + 1):
            begins, parents, choices, gains = self._best_sets(
                quick.paths, limit, floor, quick.weight, quick.value, max(1, limit // steps), LABELS
            )
            if begins[-1] == kernel.FULL:
                overflown, steps = steps, steps // FINER
                self._grain = max(COARSEST, min(self._grain, steps))
                continue
            if steps == self._grain < GRAIN and begins[-2] < LABELS // FINER:
                self._grain *= FINER
            most = min(most, max([floor, *gains.tolist()]))
            if most <= floor:
                break
            best = self._walk_back(begins, parents, choices, gains)
            sets = [each for each in best if each.load <= limit and each.groups not in known]
            if sets:
                return sets, most
            steps *= FINER
        return [], most

    def _walk_back(self, begins: Any, parents: Any, choices: Any, gains: Any) -> list[DeviceSet]:
        """The sets of the labels at the last place that gain the most."""
        last = len(self._work)
        sets = []
        for end in gains.argsort()[::-1][:TAKEN].tolist():
            label, places = begins[last] + end, []
            for place in range(last - 1, -1, -1):
                if choices[label]:
                    places.append(place)
                label = parents[label]
            sets.append(self._set(places))
        return sets

    def cpus_earn(self, prices: Any, limit: int, taken: Any) -> int:
        """Upper bound on what all CPUs can earn together: a knapsack that may take parts."""
        choice = np.flatnonzero((prices > 0) & ~taken & (self.cpu <= limit))
        room, earned = self.groups.cpus * limit, 0
        rate = prices[choice] / np.maximum(self.cpu[choice], 0.5)
        for g in choice[np.argsort(-rate)].tolist():
            if self.cpu[g] > room:
                return earned + -(-int(prices[g]) * room // int(self.cpu[g]))
            room -= int(self.cpu[g])
            earned += int(prices[g])
        return earned


@dataclass(frozen=True, slots=True)
class Quick:
    """Sets and a bound from several weights of the load, and what a search needs to go on from there."""

    sets: tuple[DeviceSet, ...]
    most: int
    paths: kernel.Paths
    weight: int
    """Of the load: the one that bounds best."""
    value: Any
    """Upper bound on what can still be gained from each state on, at this weight."""


def pricer(groups: GroupProblem, worst: float, tick: Tick = lambda: None) -> Pricer | None:
    """A pricer for the groups; None where their graph is too wide. `worst`: the largest cut-off that will be asked."""
    steps = Steps.below(worst, PRECISION)
    work = np.array(steps.floor(groups.total_times), dtype=np.int64)
    net_costs = steps.floor(net.cost for net in groups.nets)
    graph = set_graph(groups, net_costs, tick)
    return None if graph is None else Pricer(groups, graph, steps, work, net_costs)


def whole_prices(prices: Sequence[float]) -> Any:
    return np.round(np.asarray(prices) * PRICE_STEPS).astype(np.int64)


PLANNER = FunctionPlanner(lambda request: _Search(request).outcome())
