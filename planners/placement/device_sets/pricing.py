"""Which set of groups earns the most on one accelerator, at given prices of the groups: sets, and a bound on all sets.

All numbers are whole: costs and prices in steps, costs rounded down, so that a set of true load within the limit is
within it here. What is proven about all sets holds for the true ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ....formulations.native import Steps
from ....formulations.tarnawski.groups import GroupProblem
from ....instances.base.compiled import compiled
from . import kernel
from .graph import SetGraph, Tick, idle, set_graph

PRECISION = 1e-9
"""Size of a step of load, as a share of the largest limit."""
WEIGHTS = 16
PRUNING_WEIGHTS = 6
"""Of all weights, those that bound best."""
LABELS = 1_500_000
GRAINS = (1_000, 8_000, 64_000)
"""Steps that the limit is divided into, at first coarsely."""
TAKEN = 20
"""Sets of one search, the best first."""
PRICE_STEPS = 10**12
LARGEST = 2**61


@dataclass(frozen=True, slots=True)
class DeviceSet:
    """Groups on one accelerator, with their load in steps, rounded down."""

    groups: frozenset[int]
    load: int
    members: Any = field(compare=False)
    """The groups once more, as an index."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a search found: sets, and the most that any set within the limit can earn, in steps of price."""

    sets: tuple[DeviceSet, ...]
    most: int


class Pricer:
    """Built once for a problem; `worst` is the largest limit that will be asked for."""

    def __init__(self, groups: GroupProblem, graph: SetGraph, steps: Steps, work: Any, net_costs: Any) -> None:
        import numpy as np

        self.groups, self.graph, self.steps = groups, graph, steps
        self.work = work
        self._work, self._net_costs = work[graph.order], net_costs
        self.supported = np.array(groups.supported)
        self.cpu = np.array(steps.floor(groups.total_cpu_times), dtype=np.int64)
        self.nothing = np.zeros(groups.count, dtype=np.bool_)
        """No group is taken."""
        self._heaviest = LARGEST // max(1, int(work.sum()) + sum(net_costs))
        self._values = np.empty((WEIGHTS, graph.states), dtype=np.int64)
        self._multipliers = compiled(kernel, "multipliers")
        self._best_sets = compiled(kernel, "best_sets")

    def limit(self, cutoff: float) -> int:
        return math.floor(cutoff * self.steps.scale * (1 + 1e-12))

    def _set(self, places: Any) -> DeviceSet:
        """Of the groups at these places of the order; the load is rounded down cost by cost."""
        members = self.graph.order[places]
        held = frozenset(members.tolist())
        nets = {e for g in held for e in self.groups.nets_of[g]}
        cut = (e for e in nets if not held.issuperset(self.groups.nets[e].pins))
        return DeviceSet(held, int(self._work[places].sum()) + sum(self._net_costs[e] for e in cut), members)

    def quick(self, prices: Any, limit: int, taken: Any) -> Quick:
        """The sets that are best at some price of load, and the best bound of these prices."""
        import numpy as np

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
        best = np.argsort(bounds)[:PRUNING_WEIGHTS]
        return Quick(
            tuple(each for each in dict.fromkeys(sets) if each.groups and each.load <= limit),
            int(bounds.min()),
            paths,
            weights[best],
            self._values[best],  # a copy: the next question overwrites them
        )

    def search(self, quick: Quick, limit: int, floor: int, known: set[frozenset[int]]) -> Offer:
        """New sets that earn more than `floor`; all of them, where none is found: then no set earns more."""
        most = quick.most
        for grain in (max(1, limit // steps) for steps in GRAINS):
            begins, parents, choices, gains = self._best_sets(
                quick.paths, limit, floor, quick.weights, quick.values, grain, LABELS
            )
            if begins[-1] == kernel.FULL:
                return Offer((), most)
            most = min(most, max([floor, *gains.tolist()]))
            if most <= floor:
                return Offer((), most)
            found = self._walk_back(begins, parents, choices, gains)
            sets = tuple(each for each in found if each.load <= limit and each.groups not in known)
            if sets:
                return Offer(sets, most)
        return Offer((), most)

    def _walk_back(self, begins: Any, parents: Any, choices: Any, gains: Any) -> list[DeviceSet]:
        last = len(self._work)
        found = []
        for end in gains.argsort()[::-1][:TAKEN].tolist():
            label, places = begins[last] + end, []
            for place in range(last - 1, -1, -1):
                if choices[label]:
                    places.append(place)
                label = parents[label]
            found.append(self._set(places))
        return found

    def cpus_earn(self, prices: Any, limit: int, taken: Any) -> int:
        """At least what all CPUs can earn together: a knapsack that may take parts."""
        import numpy as np

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
    """What weights of the load tell, and what a search goes on from."""

    sets: tuple[DeviceSet, ...]
    most: int
    paths: kernel.Paths
    weights: Any
    values: Any
    """What can still be gained from each state on, by weight."""


def pricer(groups: GroupProblem, worst: float, tick: Tick = idle) -> Pricer | None:
    """None where the graph is too wide."""
    import numpy as np

    steps = Steps.below(worst, PRECISION)
    work = np.array(steps.floor(groups.total_times), dtype=np.int64)
    net_costs = steps.floor(net.cost for net in groups.nets)
    graph = set_graph(groups, net_costs, tick)
    return None if graph is None else Pricer(groups, graph, steps, work, net_costs)


def whole_prices(prices: Sequence[float]) -> Any:
    import numpy as np

    return np.round(np.asarray(prices) * PRICE_STEPS).astype(np.int64)
