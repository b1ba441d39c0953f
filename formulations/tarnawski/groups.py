"""From nodes to groups: what must share a device becomes one, and transfers become nets.

Every formulation of the throughput problem but the plain one starts here. Each step keeps the set of
loads that plans can have, so an optimum of the contracted problem is an optimum of the original:

* A colour class must share a device: its times, sizes and transfers are summed into one *group*.
* A transfer of u is a *net*: the groups of u and of its successors are its pins. An accelerator pays
  c[u] exactly if it holds some pins but not all of them, as sender or receiver alike; so the direction
  does not matter, nets with one pin cost nothing and nets with equal pins merge.
* Stage order (contiguous plans): an arc a -> b says stage(a) <= stage(b). Forward edges give arcs;
  a class without forward nodes (an orphan) is placed by its backward edges, mirrored. Groups on a
  common cycle of arcs share a stage, hence a device, and are merged.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...instances.base.graph import adjacency, in_turn, strong_components
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import NodeId, PlacementProblem


@dataclass(frozen=True, slots=True)
class Net:
    """A transfer: an accelerator that holds some but not all `pins` pays `cost`."""

    pins: tuple[int, ...]
    cost: float
    part: int = 0
    """The load part that pays: always 0 for `max-load`; for `gpipe` 0 forward, 1 backward."""


@dataclass(frozen=True)
class GroupProblem:
    """The contracted problem. `times[part][g]`, `cpu_times[part][g]`: work of group g in a load part."""

    members: tuple[tuple[int, ...], ...]
    """Positions of the nodes in each group."""
    times: tuple[tuple[float, ...], ...]
    cpu_times: tuple[tuple[float, ...], ...]
    sizes: tuple[float, ...]
    """Whole numbers in the unit of `memory`, so that all sums of them are exact."""
    supported: tuple[bool, ...]
    """May the whole group be on an accelerator (operators supported, memory large enough)?"""
    nets: tuple[Net, ...]
    arcs: tuple[tuple[int, int], ...]
    """Stage order for contiguous plans; empty where contiguity is not asked for."""
    accelerators: int
    cpus: int
    memory: float | None

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def parts(self) -> int:
        return len(self.times)

    @cached_property
    def total_times(self) -> tuple[float, ...]:
        """Work of each group on an accelerator, all parts together."""
        return tuple(math.fsum(part[g] for part in self.times) for g in range(self.count))

    @cached_property
    def total_cpu_times(self) -> tuple[float, ...]:
        return tuple(math.fsum(part[g] for part in self.cpu_times) for g in range(self.count))

    @cached_property
    def nets_of(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the nets at each group."""
        return adjacency(self.count, ((g, e) for e, net in enumerate(self.nets) for g in net.pins))

    def load(self, held: Iterable[int], part: int | None = None) -> float:
        """Load of an accelerator that holds these groups (one part, or all)."""
        inside = set(held)
        parts = range(self.parts) if part is None else (part,)
        terms = [self.times[q][g] for q in parts for g in inside]
        terms += [
            net.cost
            for net in self.nets
            if (part is None or net.part == part) and 0 < sum(g in inside for g in net.pins) < len(net.pins)
        ]
        return math.fsum(terms)

    # ---- translation ----------------------------------------------------------------------------------

    def plan(self, problem: PlacementProblem, device_of: Sequence[int]) -> PlacementPlan:
        """Devices 0..k-1 are accelerators, k..k+l-1 CPUs."""
        pairs = ((problem.nodes[i].id, device_of[g]) for g, members in enumerate(self.members) for i in members)
        return PlacementPlan.from_assignment(problem, dict(pairs))

    def devices(self, problem: PlacementProblem, plan: PlacementPlan) -> tuple[int, ...] | None:
        """Device of each group in `plan`; None where the plan splits a group or misses one."""
        counters = {"accelerator": 0, "cpu": self.accelerators}
        device_of: dict[NodeId, int] = {}
        for device in plan.devices:
            if device.nodes:
                device_of |= dict.fromkeys(device.nodes, counters[device.type])
                counters[device.type] += 1
        if counters["accelerator"] > self.accelerators or counters["cpu"] > self.accelerators + self.cpus:
            return None
        chosen = []
        for members in self.members:
            seen = {device_of.get(problem.nodes[i].id) for i in members}
            common = seen.pop() if len(seen) == 1 else None
            if common is None:
                return None
            chosen.append(common)
        return tuple(chosen)


def contract(problem: PlacementProblem, *, contiguous: bool, objective: str = "max-load") -> GroupProblem:
    """The contracted problem; `objective` decides whether forward and backward loads are kept apart."""
    classes = problem.color_classes
    class_of = owners(classes, len(problem.nodes))
    arcs: set[tuple[int, int]] = set()
    if contiguous:
        arcs = stage_arcs(problem, class_of)
        merged = strong_components(len(classes), arcs)
        classes = tuple(tuple(i for c in component for i in classes[c]) for component in merged)
        class_of = owners(classes, len(problem.nodes))
        arcs = stage_arcs(problem, class_of)
    parts = 2 if objective == "gpipe" else 1

    def work(attribute: str) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(
                math.fsum(
                    getattr(problem.nodes[i], attribute)
                    for i in members
                    if parts == 1 or problem.nodes[i].backward == bool(part)
                )
                for members in classes
            )
            for part in range(parts)
        )

    supported = tuple(accelerator_takes(problem, members) for members in classes)
    whole = problem.whole_sizes
    memory = whole.limits[0]
    return GroupProblem(
        members=classes,
        times=work("accelerator_time"),
        cpu_times=work("cpu_time"),
        sizes=tuple(float(sum(whole.amounts[i] for i in members)) for members in classes),
        supported=supported,
        nets=_nets(problem, class_of, parts),
        arcs=transitive_reduction(len(classes), arcs),
        accelerators=problem.accelerators,
        cpus=problem.cpus,
        memory=None if memory is None else float(memory),
    )


def costs_of(groups: GroupProblem) -> Iterator[float]:
    """All costs that a device may pay at once."""
    for g in range(groups.count):
        if groups.supported[g]:
            yield groups.total_times[g]
        if groups.cpus:
            yield groups.total_cpu_times[g]
    if groups.accelerators:
        yield from (net.cost for net in groups.nets)


def capped(groups: GroupProblem, limit: float) -> GroupProblem:
    """The problem for all plans of value at most `limit`, without costs that are far above it.

    A device that pays more than twice the limit at once makes a worse plan, however much more it is; and next to a
    "forbidden" that is written as 1e12 no solver would see the other costs.
    """
    most = 2 * limit
    largest = max(*map(max, (*groups.times, *groups.cpu_times)), *(net.cost for net in groups.nets))
    if not 0 < most < largest:
        return groups

    def cut(parts: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(min(time, most) for time in part) for part in parts)

    nets = tuple(replace(net, cost=min(net.cost, most)) for net in groups.nets)
    return replace(groups, times=cut(groups.times), cpu_times=cut(groups.cpu_times), nets=nets)


def accelerator_takes(problem: PlacementProblem, members: Sequence[int]) -> bool:
    """May all of these nodes be on one accelerator, as far as they alone decide it?"""
    return problem.accelerators > 0 and all(problem.nodes[i].supported for i in members) and problem.holds(members)


def owners(classes: Sequence[Sequence[int]], count: int) -> list[int]:
    """The class of each of `count` nodes."""
    owner = [0] * count
    for c, members in enumerate(classes):
        for i in members:
            owner[i] = c
    return owner


def stage_arcs(problem: PlacementProblem, class_of: Sequence[int]) -> set[tuple[int, int]]:
    """Arcs a -> b between classes with stage(a) <= stage(b); see the module's first lines."""
    with_forward = {
        i
        for members in problem.color_classes
        if not all(problem.nodes[i].backward for i in members)
        for i in members
    }
    arcs = set()
    for u, v in problem.arcs:
        if not problem.nodes[v].backward:
            arcs.add((class_of[u], class_of[v]))
        elif problem.nodes[u].backward and not {u, v} <= with_forward:
            arcs.add((class_of[v], class_of[u]))
    return {(a, b) for a, b in arcs if a != b}


def transitive_reduction(count: int, arcs: Collection[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The arcs that no longer path implies. `arcs` must be acyclic."""
    rank, successors = topological_ranks(count, arcs), adjacency(count, sorted(set(arcs)))
    reach = [0] * count  # bit sets
    kept = []
    for u in sorted(range(count), key=rank.__getitem__, reverse=True):
        for v in sorted(successors[u], key=rank.__getitem__):
            if not reach[u] >> v & 1:
                kept.append((u, v))
                reach[u] |= reach[v] | 1 << v
    return tuple(sorted(kept))


def _nets(problem: PlacementProblem, class_of: Sequence[int], parts: int) -> tuple[Net, ...]:
    costs: dict[tuple[tuple[int, ...], int], list[float]] = {}
    for u, node in enumerate(problem.nodes):
        pins = tuple(sorted({class_of[u], *(class_of[v] for v in problem.successors[u])}))
        if node.transfer_time and len(pins) > 1:
            part = int(node.backward) if parts == 2 else 0
            costs.setdefault((pins, part), []).append(node.transfer_time)
    return _summed(costs)


def _summed(costs: Mapping[tuple[tuple[int, ...], int], Sequence[float]]) -> tuple[Net, ...]:
    """Nets with the same pins and part, made one net."""
    return tuple(Net(pins, math.fsum(terms), part) for (pins, part), terms in costs.items())


def merge(groups: GroupProblem, leader: Mapping[int, int] | Sequence[int]) -> GroupProblem:
    """The problem with each group fused into its leader (a leader leads itself)."""
    leaders = sorted({leader[g] for g in range(groups.count)})
    rank = {g: r for r, g in enumerate(leaders)}
    new = [rank[leader[g]] for g in range(groups.count)]
    fused: list[list[int]] = [[] for _ in leaders]
    for g, r in enumerate(new):
        fused[r].append(g)

    def total(values: Sequence[float]) -> tuple[float, ...]:
        return tuple(math.fsum(values[g] for g in old) for old in fused)

    sizes = total(groups.sizes)
    costs: dict[tuple[tuple[int, ...], int], list[float]] = {}
    for net in groups.nets:
        pins = tuple(sorted({new[g] for g in net.pins}))
        if len(pins) > 1:
            costs.setdefault((pins, net.part), []).append(net.cost)
    arcs = {(new[u], new[v]) for u, v in groups.arcs if new[u] != new[v]}
    return replace(
        groups,
        members=tuple(tuple(i for g in old for i in groups.members[g]) for old in fused),
        times=tuple(total(part) for part in groups.times),
        cpu_times=tuple(total(part) for part in groups.cpu_times),
        sizes=sizes,
        supported=tuple(
            all(groups.supported[g] for g in old) and (groups.memory is None or size <= groups.memory)
            for old, size in zip(fused, sizes, strict=True)
        ),
        nets=_summed(costs),
        arcs=transitive_reduction(len(leaders), arcs),
    )


def topological_ranks(count: int, arcs: Iterable[tuple[int, int]]) -> list[int]:
    """Rank of each node in one topological order."""
    order = in_turn(adjacency(count, arcs), lambda ready: ready.pop(0))
    rank = [0] * count
    for place, v in enumerate(order):
        rank[v] = place
    return rank
