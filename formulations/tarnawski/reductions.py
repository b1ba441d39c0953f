"""Lower bounds on the throughput optimum, and safe reductions of the contracted problem, each with its argument.

No plan below the cut-off is lost. The minimum-cut rules use "every load is at most T". With two load parts they hold
for the total load of a device, which is at most the sum of the parts' maxima.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ...instances.base.graph import strong_components
from ...instances.physics.tolerances import SAFETY
from ...instances.placement.problem import Node, PlacementProblem
from ..contract import FLOAT_ROOM, Refuted
from .groups import GroupProblem, merge


def average_load_bound(groups: GroupProblem) -> float:
    """No plan has a smaller load: all devices together must take all the work.

    If every load is at most T, groups with more work than T are on CPUs, as are those that no accelerator supports.
    The accelerators do at most k T of the other work, and the CPUs relieve them of at most what a fractional knapsack
    holds, with the part of their l T that is left (groups with more CPU time than T fit on none). The smallest T that
    passes this test is found by bisection; transfers only add. With two load parts the sum of the parts' maxima is
    at least the largest total load.

    All that is compared has a margin, and costs above T are in no sum, so that a rounded sum never refutes a plan.
    """
    works, cpus = groups.total_times, groups.total_cpu_times
    by_relief = sorted(range(groups.count), key=lambda g: cpus[g] / works[g] if works[g] else math.inf)
    low, high = 0.0, math.fsum(works) + math.fsum(cpus) + 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if _work_fits(groups, middle, by_relief):
            high = middle
        else:
            low = middle
    # The device that takes the largest group needs at least the group's smaller time.
    fast = (time if ok else math.inf for time, ok in zip(groups.total_times, groups.supported, strict=True))
    slow = groups.total_cpu_times if groups.cpus else (math.inf,) * groups.count
    least = (min(times) for times in zip(fast, slow, strict=True))
    return max([low, *(time for time in least if time < math.inf)]) * (1 - SAFETY)


def _work_fits(groups: GroupProblem, limit: float, by_relief: Sequence[int]) -> bool:
    """Can all devices together do the work with loads of at most `limit`?

    `by_relief`: groups in the order of what a unit of CPU time relieves accelerators of, the most first.
    """
    work = 0.0
    capacity = groups.cpus * limit * (1 + SAFETY)
    choices = []
    for g in by_relief:
        slow = cpu_allowed(groups, g, limit)
        if accelerator_allowed(groups, g, limit):
            work += groups.total_times[g]
            choices += [g] if slow else []
        elif slow:
            capacity -= groups.total_cpu_times[g]
        else:
            return False
    if capacity < 0:
        return False
    room = groups.accelerators * limit + SAFETY * (work + groups.accelerators * limit)
    for g in choices:
        cpu = groups.total_cpu_times[g]
        if work <= room or cpu > capacity:
            return work <= room or work - groups.total_times[g] * capacity / cpu <= room
        capacity -= cpu
        work -= groups.total_times[g]
    return work <= room


def accelerator_allowed(groups: GroupProblem, g: int, cutoff: float) -> bool:
    """May group g be on an accelerator in a plan of value at most `cutoff`?"""
    return groups.supported[g] and groups.total_times[g] <= cutoff * (1 + SAFETY)


def cpu_allowed(groups: GroupProblem, g: int, cutoff: float) -> bool:
    """May group g be on a CPU in a plan of value at most `cutoff`?"""
    return groups.cpus > 0 and groups.total_cpu_times[g] <= cutoff * (1 + SAFETY)


def worst_value(problem: PlacementProblem) -> float:
    """No split costs more than all work where it takes longest, and every transfer paid in and out; with room for
    float solvers, for a split may cost just that."""

    def worst(node: Node) -> float:
        fast = node.accelerator_time if problem.accelerators and node.supported else 0.0
        return max(fast, node.cpu_time if problem.cpus else 0.0) + 2 * node.transfer_time

    return math.fsum(map(worst, problem.nodes)) * (1 + FLOAT_ROOM) or 1.0


# Merging raises minimum loads, which can allow more merging; it is cut short here.
ROUNDS = 8

# Minimum cuts per call: beyond that the solver's own time is better spent.
MAX_CUTS = 3_000


# By group, the least load of any accelerator that holds it, with a set that attains it.
Loads = Mapping[int, tuple[float, frozenset[int]]]


@dataclass(frozen=True, slots=True)
class Reduced:
    """What the model builders get: fewer groups, pairs that cannot meet, groups that need an accelerator."""

    groups: GroupProblem
    pinned: tuple[int, ...]
    """Groups that no CPU can take, those in mutual conflict first: accelerators may be handed out in this order."""
    conflicts: tuple[tuple[int, int], ...]


def reduce_groups(groups: GroupProblem, cutoff: float) -> Reduced | Refuted:
    """The problem after all reductions for plans of value at most `cutoff`, or the proof that there is no such plan.

    The facts hold of every such plan, whatever else is asked of it.
    """
    conflicts: set[tuple[int, int]] = set()
    for _ in range(ROUNDS):
        if not all(
            accelerator_allowed(groups, g, cutoff) or cpu_allowed(groups, g, cutoff) for g in range(groups.count)
        ):
            return Refuted("a group that must stay together exceeds the cut-off on every device")
        network = CutNetwork(groups)
        alone = _least_loads(network, cutoff)
        for g, (load, _) in alone.items():
            if load > cutoff * (1 + SAFETY) and not cpu_allowed(groups, g, cutoff):
                return Refuted("one group exceeds the cut-off on every device, whatever joins it")
        partners = _forced_partners(network, alone, cutoff)
        if not partners:
            conflicts = _conflicts(network, alone, cutoff)
            break
        # With stages, whatever lies between forced partners joins as well: a common stage is convex.
        components = strong_components(groups.count, [*groups.arcs, *partners, *((h, g) for g, h in partners)])
        groups = merge(groups, {g: component[0] for component in components for g in component})
    pinned = _pinned(groups, conflicts, cutoff)
    clique = takewhile(
        lambda r: all((min(pinned[r], h), max(pinned[r], h)) in conflicts for h in pinned[:r]), range(len(pinned))
    )
    if sum(1 for _ in clique) > groups.accelerators:
        return Refuted("more groups in mutual conflict than accelerators")
    return Reduced(groups, tuple(pinned), tuple(sorted(conflicts)))


def _singleton_load(groups: GroupProblem, g: int) -> float:
    return groups.total_times[g] + math.fsum(groups.nets[e].cost for e in groups.nets_of[g])


def _least_loads(network: CutNetwork, cutoff: float) -> Loads:
    """L(g), the least load of any accelerator that holds g, with a set that attains it.

    Only for groups that alone would exceed the cut-off: for the others no rule below can apply, since
    {g} itself is a set within the limit.
    """
    groups = network.groups
    return {
        g: network.least_load((g,), ())
        for g in range(groups.count)
        if _singleton_load(groups, g) > cutoff and accelerator_allowed(groups, g, cutoff)
    }


def _forced_partners(network: CutNetwork, alone: Loads, cutoff: float) -> list[tuple[int, int]]:
    """Pairs that share a device in every plan below the cut-off.

    If g and h were apart, then either g is on an accelerator without h, so L(g without h) <= T, or g is on a
    CPU, which needs cpu(g) <= T. If neither can be, they are together. (That h could be apart from g only if it is
    somewhere follows from g's side alone.) Sets that attain L(g) and miss h show at once that nothing follows.
    """
    groups, limit = network.groups, cutoff * (1 + SAFETY)
    forced = []
    budget = MAX_CUTS
    for g, (load, best) in alone.items():
        if cpu_allowed(groups, g, cutoff) or load > limit:
            continue
        candidates = set(best) - {g}
        while candidates and budget > 0:
            h = candidates.pop()
            budget -= 1
            apart, witness = network.least_load((g,), (h,))
            if apart > limit:
                forced.append((g, h))
            else:
                candidates &= witness
    return forced


def _conflicts(network: CutNetwork, alone: Loads, cutoff: float) -> set[tuple[int, int]]:
    """Pairs that no accelerator can hold together: the least load of a set with both exceeds the cut-off.

    That load is at most L(g) + L(h) and at most the load of any set with both, which spares most cuts.
    """
    groups, limit = network.groups, cutoff * (1 + SAFETY)
    allowed = [g for g in range(groups.count) if accelerator_allowed(groups, g, cutoff)]
    upper = {g: alone[g][0] if g in alone else _singleton_load(groups, g) for g in allowed}
    companions: dict[int, frozenset[int]] = {g: alone[g][1] if g in alone else frozenset() for g in allowed}
    allowed.sort(key=lambda g: -upper[g])
    pairs = []
    for i, g in enumerate(allowed):
        for h in allowed[i + 1 :]:
            if upper[g] + upper[h] <= limit:
                break  # the rest is lighter still
            if h not in companions[g] and g not in companions[h]:
                pairs.append((-(upper[g] + upper[h]), g, h))
    conflicts = set()
    for _, g, h in sorted(pairs)[:MAX_CUTS]:
        if groups.total_times[g] + groups.total_times[h] > limit or network.least_load((g, h), ())[0] > limit:
            conflicts.add((min(g, h), max(g, h)))
    return conflicts


def _pinned(groups: GroupProblem, conflicts: set[tuple[int, int]], cutoff: float) -> list[int]:
    """Groups that no CPU can take: a clique of conflicts first (grown greedily), then by work."""
    needy = [g for g in range(groups.count) if not cpu_allowed(groups, g, cutoff)]
    needy.sort(key=lambda g: -groups.total_times[g])
    best: list[int] = []
    for first in needy[:50]:
        clique = [first]
        for g in needy:
            if all((min(g, h), max(g, h)) in conflicts for h in clique):
                clique.append(g)
        if len(clique) > len(best):
            best = clique
    return [*best, *(g for g in needy if g not in set(best))]


# The least load of an accelerator that must hold some groups and must not hold others, as a minimum cut.
#
# Choose S: load(S) = work(S) + sum of the costs of nets that S holds in part. Groups in S are on the source's side.
# A group costs its work when it is in S (an arc to the sink). A net costs C when some pin is in S and some is
# not: two auxiliary vertices `first` and `second` with first -> second of capacity C, pin -> first and second -> pin
# unlimited: if a pin is in S, so is `first`; if `second` is in S, so is every pin.


# The sum of all costs in integer steps: capacities of the flow code are 32-bit.
UNITS = 2**29


# Networks of at most so many arcs are cut by plain Python: all their cuts take less time than scipy takes to load.
FEW_ARCS = 100

Arcs = list[tuple[int, int, int]]
Cut = tuple[int, set[int]]


class CutNetwork:
    """The network of these cuts, built once per problem; each question changes a few capacities."""

    def __init__(self, groups: GroupProblem) -> None:
        self.groups = groups
        total = math.fsum(groups.total_times) + math.fsum(net.cost for net in groups.nets)
        self.scale = UNITS / total if total else 1.0
        self.unlimited = UNITS + 1
        n, m = groups.count, len(groups.nets)
        source, sink = n + 2 * m, n + 2 * m + 1
        arcs: Arcs = []
        for g in range(n):
            arcs.append((source, g, 0))
            arcs.append((g, sink, math.floor(groups.total_times[g] * self.scale)))
        for e, net in enumerate(groups.nets):
            first, second = n + 2 * e, n + 2 * e + 1
            arcs.append((first, second, math.floor(net.cost * self.scale)))
            for g in net.pins:
                arcs.append((g, first, self.unlimited))
                arcs.append((second, g, self.unlimited))
        self.cut = (_plain_cut if len(arcs) <= FEW_ARCS else _scipy_cut)(arcs, source, sink)

    def least_load(self, inside: Sequence[int], outside: Iterable[int]) -> tuple[float, frozenset[int]]:
        """min load(S) over S that holds all of `inside` and none of `outside`, rounded down; with one such S."""
        changed = [*(2 * g for g in inside), *(2 * g + 1 for g in outside)]
        flow, reached = self.cut(dict.fromkeys(changed, self.unlimited))
        return flow / self.scale, frozenset(g for g in reached if g < self.groups.count)


def _plain_cut(arcs: Arcs, source: int, sink: int) -> Callable[[Mapping[int, int]], Cut]:
    """Value of a minimum cut and the vertices on the source's side of the smallest one, where the arcs of these numbers
    have these capacities instead: shortest augmenting paths."""
    # Arc 2i is the i-th one, arc 2i + 1 its way back.
    ends = [end for tail, head, _ in arcs for end in (head, tail)]
    leaving: list[list[int]] = [[] for _ in range(1 + max(ends))]
    for arc in range(len(ends)):
        leaving[ends[arc ^ 1]].append(arc)

    def reach(left: list[int]) -> dict[int, int]:
        """The arc by which each vertex is reached first from the source, if any capacity is left."""
        by = {source: -1}
        queue = [source]
        for vertex in queue:
            for arc in leaving[vertex]:
                if left[arc] and ends[arc] not in by:
                    by[ends[arc]] = arc
                    queue.append(ends[arc])
        return by

    def cut(changed: Mapping[int, int]) -> Cut:
        left = [capacity for i, arc in enumerate(arcs) for capacity in (changed.get(i, arc[2]), 0)]
        flow = 0
        while sink in (by := reach(left)):
            path, vertex = [], sink
            while vertex != source:
                path.append(by[vertex])
                vertex = ends[by[vertex] ^ 1]
            most = min(left[arc] for arc in path)
            for arc in path:
                left[arc] -= most
                left[arc ^ 1] += most
            flow += most
        return flow, set(by)

    return cut


def _scipy_cut(arcs: Arcs, source: int, sink: int) -> Callable[[Mapping[int, int]], Cut]:
    """The same by scipy, for large networks."""
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    tails, heads, capacities = (np.array(column, dtype=np.int32) for column in zip(*arcs, strict=True))
    size = max(source, sink) + 1
    # Arcs are numbered from one while the pattern is made, so that none is dropped as a zero.
    pattern: Any = csr_array((np.arange(1, len(arcs) + 1, dtype=np.int32), (tails, heads)), shape=(size, size))
    pattern.sort_indices()
    order = pattern.data - 1
    place = np.empty(len(arcs), dtype=np.int64)
    place[order] = np.arange(len(arcs))
    pattern.data = capacities[order]

    def cut(changed: Mapping[int, int]) -> Cut:
        graph = pattern.copy()
        graph.data[place[np.array(list(changed), np.int64)]] = list(changed.values())
        result = maximum_flow(graph, source, sink)
        residual = graph - result.flow
        residual.data[residual.data < 0] = 0
        residual.eliminate_zeros()
        reached = breadth_first_order(residual, source, return_predecessors=False)
        return int(result.flow_value), {int(vertex) for vertex in reached}

    return cut
