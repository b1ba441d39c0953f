"""Which set of groups earns the most on one accelerator, at given prices of the groups: sets, and a bound on all sets.

All numbers are whole: costs and prices in steps, costs rounded down, so that a set of true load within the limit is
within it here. What is proven about all sets holds for the true ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....formulations.native import Steps
from ....formulations.tarnawski.groups import GroupProblem
from ....instances.base.compiled import compiled
from . import kernel

# ---- All sets of groups that one accelerator may hold, as paths of a small graph ---------------------------
# Groups are decided one after the other, in or out. What has to be remembered on the way is, for each net that has pins
# on both sides of the place reached, whether all of its pins so far are in, none, or some: then it is cut, and paid.
# Open nets with the same pins ahead are one bundle. All that matters of it is the cost of its nets whose pins so far
# are all out, and of those whose pins so far are all in. So the outputs of a dense block, which all later layers read,
# are added up and not told apart.
# Two histories that agree in this are one state. Graphs of neural networks are long and thin, so a good order of the
# groups leaves some dozens or hundreds of states at each place, however many sets there are.

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


def idle() -> None:
    """A tick without a time limit."""


def narrow_order(groups: GroupProblem, tick: Tick = idle) -> list[int]:
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


def set_graph(groups: GroupProblem, net_costs: Sequence[int], tick: Tick = idle) -> SetGraph | None:
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
        np.array(order),
        np.array([*first, total]),
        *(np.array(column) for column in (*successors, *cuts)),
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


@dataclass(frozen=True, slots=True)
class Offer:
    """What a search found: sets, and the most that any set within the limit can earn, in steps of price."""

    sets: tuple[DeviceSet, ...]
    most: int


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

    def search(self, quick: Quick, limit: int, floor: int, known: set[frozenset[int]]) -> Offer:
        """New sets that earn more than `floor`, and the most that any earns; with too many labels it may find none."""
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
            sets = tuple(each for each in best if each.load <= limit and each.groups not in known)
            if sets:
                return Offer(sets, most)
            steps *= FINER
        return Offer((), most)

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


def pricer(groups: GroupProblem, worst: float, tick: Tick = idle) -> Pricer | None:
    """A pricer for the groups; None where their graph is too wide. `worst`: the largest cut-off that will be asked."""
    steps = Steps.below(worst, PRECISION)
    work = np.array(steps.floor(groups.total_times), dtype=np.int64)
    net_costs = steps.floor(net.cost for net in groups.nets)
    graph = set_graph(groups, net_costs, tick)
    return None if graph is None else Pricer(groups, graph, steps, work, net_costs)


def whole_prices(prices: Sequence[float]) -> Any:
    return np.round(np.asarray(prices) * PRICE_STEPS).astype(np.int64)
