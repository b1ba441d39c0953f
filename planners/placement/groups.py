"""What all planners of placements share: groups, their orders, and what a choice of devices for groups costs.

A group holds the nodes that must share a device. This is the planners' own contraction: exact methods in
`formulations/` have theirs, and each checks the other, so nothing of theirs may be imported here.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

from ...formulations.family import PLACEMENTS, Family
from ...instances.base.amounts import WholeAmounts
from ...instances.base.graph import adjacency, in_turn, strong_components
from ...instances.physics.tolerances import SAFETY
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import NodeId, PlacementProblem
from .. import search as incumbent
from ..contract import Request
from ..referee import rules_of

# Costs of more than this many times a known value spoil sums that are kept up to date by differences: see `capped`.
FAR = 1e4

# (pins, cost, part): an accelerator that holds some but not all pins pays the cost in that part of its load.
Net = tuple[tuple[int, ...], float, int]


@dataclass(frozen=True)
class Groups:
    """Devices are numbered: accelerators 0..k-1, then CPUs. Parts: one, or forward and backward (gpipe).

    There are never more devices of a kind than groups: the rest would stay idle.
    """

    members: tuple[tuple[int, ...], ...]
    times: tuple[tuple[float, ...], ...]
    """times[part][g]. For a group that no accelerator supports, the input may say anything: there the time only serves
    as a weight, and is no more than the CPU time."""
    cpu_times: tuple[tuple[float, ...], ...]
    sizes: tuple[float, ...]
    """Whole numbers in the unit of `memory`, so that all sums of them are exact."""
    supported: tuple[bool, ...]
    nets: tuple[Net, ...]
    arcs: tuple[tuple[int, int], ...]
    """Pairs (a, b) with stage(a) <= stage(b) in every contiguous plan, without cycles; empty for other plans."""
    accelerators: int
    cpus: int
    capacity: float
    """What an accelerator may hold; infinite where there is no limit."""

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def parts(self) -> int:
        return len(self.times)

    @property
    def devices(self) -> int:
        return self.accelerators + self.cpus

    @cached_property
    def work(self) -> tuple[float, ...]:
        """Accelerator time of each group, all parts."""
        return tuple(math.fsum(part[g] for part in self.times) for g in range(self.count))

    @cached_property
    def cpu_work(self) -> tuple[float, ...]:
        return tuple(math.fsum(part[g] for part in self.cpu_times) for g in range(self.count))

    def loads(self, device_of: Sequence[int]) -> list[list[float]]:
        """The load of each device, by part: loads[part][device], in the problem's time unit."""
        terms: list[list[list[float]]] = [[[] for _ in range(self.devices)] for _ in range(self.parts)]
        for part in range(self.parts):
            for g, d in enumerate(device_of):
                terms[part][d].append((self.times if d < self.accelerators else self.cpu_times)[part][g])
        for pins, cost, part in self.nets:
            touched = {device_of[g] for g in pins}
            if len(touched) > 1:
                for d in touched:
                    if d < self.accelerators:
                        terms[part][d].append(cost)
        return [[math.fsum(values) for values in row] for row in terms]

    def value(self, device_of: Sequence[int]) -> float:
        """The objective: the sum over the parts of the largest load."""
        return math.fsum(max(row) for row in self.loads(device_of))

    def fits(self, device_of: Sequence[int]) -> bool:
        """Is every group on a device that supports it, and does the memory of each accelerator suffice?"""
        sizes_on = [0.0] * self.accelerators
        for g, d in enumerate(device_of):
            if d < self.accelerators:
                if not self.supported[g]:
                    return False
                sizes_on[d] += self.sizes[g]
        return all(size <= self.capacity for size in sizes_on)

    def plan(self, problem: PlacementProblem, device_of: Sequence[int]) -> PlacementPlan:
        left_out = problem.accelerators - self.accelerators
        assignment: dict[NodeId, int] = {
            problem.nodes[i].id: device_of[g] + (left_out if device_of[g] >= self.accelerators else 0)
            for g, members in enumerate(self.members)
            for i in members
        }
        return PlacementPlan.from_assignment(problem, assignment)

    def device_of(self, problem: PlacementProblem, plan: PlacementPlan) -> list[int] | None:
        """The plan in our numbering; None where it splits a group or has too many devices."""
        number: dict[NodeId, int] = {}
        next_of = {"accelerator": 0, "cpu": self.accelerators}
        for device in plan.devices:
            if device.nodes:
                number.update(dict.fromkeys(device.nodes, next_of[device.type]))
                next_of[device.type] += 1
        if next_of["accelerator"] > self.accelerators or next_of["cpu"] > self.devices:
            return None
        chosen = []
        for members in self.members:
            numbers = {number.get(problem.nodes[i].id, -1) for i in members}
            if len(numbers) != 1 or -1 in numbers:
                return None
            chosen.append(numbers.pop())
        return chosen


def capped(groups: Groups, limit: float) -> Groups:
    """The groups with all costs cut down to twice `limit`; plans of value at most `limit` keep their values.

    A device that pays a cost of twice the limit makes a worse plan, however much higher the cost was. But in sums with
    such a cost, by which problems often say "forbidden", the digits of small costs are lost.
    """
    most = 2 * limit
    largest = max(*map(max, (*groups.times, *groups.cpu_times)), *(cost for _, cost, _ in groups.nets))
    if not 0 < most < largest:
        return groups

    def cut(parts: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(min(time, most) for time in part) for part in parts)

    nets = tuple((pins, min(cost, most), part) for pins, cost, part in groups.nets)
    return replace(groups, times=cut(groups.times), cpu_times=cut(groups.cpu_times), nets=nets)


def contract(
    problem: PlacementProblem, contiguous: bool, objective: str = "max-load", sizes: WholeAmounts | None = None
) -> Groups:
    """Colour classes as groups; for contiguous plans also fused along cycles of the stage order.

    `sizes`: of the nodes, in whole numbers; None: rounded so that whatever fits by them fits by the true sizes.
    """
    whole = problem.safe_sizes if sizes is None else sizes
    classes: list[tuple[int, ...]] = list(problem.color_classes)
    arcs: set[tuple[int, int]] = set()
    if contiguous:
        # Classes on a common cycle must share a stage, hence a device; then they are in a topological order.
        owner = _owner(classes, len(problem.nodes))
        between = [(owner[u], owner[v]) for u, v in _stage_order(problem) if owner[u] != owner[v]]
        components = strong_components(len(classes), between)
        rank = {c: r for r, component in enumerate(components) for c in component}
        classes = [tuple(i for c in component for i in classes[c]) for component in components]
        arcs = {(rank[u], rank[v]) for u, v in between if rank[u] != rank[v]}
    owner = _owner(classes, len(problem.nodes))
    parts = 2 if objective == "gpipe" else 1
    supported = tuple(
        problem.accelerators > 0 and all(problem.nodes[i].supported for i in members) and problem.holds(members)
        for members in classes
    )
    times = sums_by_part(problem, classes, parts, [node.accelerator_time for node in problem.nodes])
    cpu_times = sums_by_part(problem, classes, parts, [node.cpu_time for node in problem.nodes])
    memory = whole.limits[0]
    return Groups(
        members=tuple(classes),
        times=tuple(
            tuple(time if ok else min(time, cpu) for time, cpu, ok in zip(fast, slow, supported, strict=True))
            for fast, slow in zip(times, cpu_times, strict=True)
        ),
        cpu_times=cpu_times,
        sizes=tuple(float(sum(whole.amounts[i] for i in members)) for members in classes),
        supported=supported,
        nets=_nets(problem, owner, parts),
        arcs=tuple(sorted(arcs)),
        accelerators=min(problem.accelerators, len(classes)),
        cpus=min(problem.cpus, len(classes)),
        capacity=math.inf if memory is None else float(memory),
    )


def sums_by_part(
    problem: PlacementProblem, classes: Iterable[Sequence[int]], parts: int, times: Sequence[float]
) -> tuple[tuple[float, ...], ...]:
    """The times of nodes added up: [part][class], where parts are one, or forward and backward."""
    backward = [node.backward for node in problem.nodes]
    return tuple(
        tuple(
            math.fsum(times[i] for i in members if parts == 1 or backward[i] == bool(part)) for members in classes
        )
        for part in range(parts)
    )


def _owner(classes: Iterable[Sequence[int]], count: int) -> list[int]:
    owner = [0] * count
    for c, members in enumerate(classes):
        for i in members:
            owner[i] = c
    return owner


def _stage_order(problem: PlacementProblem) -> list[tuple[int, int]]:
    """Pairs of nodes (u, v) with stage(u) <= stage(v) in every chain of stages.

    Forward nodes follow their edges. A backward node is on the stage of the forward nodes of its class, so its edges
    say nothing; a class of backward nodes alone (an orphan) is visited on the way back, hence against its edges.
    """
    has_forward = {node.color for node in problem.nodes if node.color is not None and not node.backward}
    pairs = []
    for u, v in problem.arcs:
        ends = problem.nodes[u], problem.nodes[v]
        if not ends[0].backward and not ends[1].backward:
            pairs.append((u, v))
        elif ends[0].backward and any(end.color is None or end.color not in has_forward for end in ends):
            pairs.append((v, u))
    return pairs


def _nets(problem: PlacementProblem, owner: Sequence[int], parts: int) -> tuple[Net, ...]:
    """Nets of the groups: for every set of groups that the output of a node joins, the sum of transfer times.

    The part is 1 for backward nodes where there are two parts, else 0.
    """
    costs: dict[tuple[tuple[int, ...], int], list[float]] = {}
    for u, node in enumerate(problem.nodes):
        pins = tuple(sorted({owner[u], *(owner[v] for v in problem.successors[u])}))
        if node.transfer_time and len(pins) > 1:
            costs.setdefault((pins, int(node.backward) if parts == 2 else 0), []).append(node.transfer_time)
    return tuple((pins, math.fsum(terms), part) for (pins, part), terms in costs.items())


# ---- The best assignment of groups to devices that a heuristic has seen, and the bound to measure it by ----


class Incumbent(incumbent.Incumbent):
    """Keeps the best assignment of groups that a heuristic has found; those that break memory or support count
    for nothing."""

    def __init__(self, request: Request, groups: Groups) -> None:
        plan_of = partial(groups.plan, request.problem)
        super().__init__(request, groups.value, groups.fits, plan_of, lambda: lower_bound(groups))
        self.groups = groups


def groups_of(request: Request, contiguous: bool | None = None) -> Groups:
    """The groups of the request's problem, contiguous as its options say or as `contiguous` says instead."""
    if contiguous is None:
        contiguous = is_contiguous(request)
    return contract(request.problem, contiguous, objective_of(request))


def is_contiguous(request: Request) -> bool:
    return not request.options.get("non_contiguous", False)


def objective_of(request: Request) -> str:
    return str(request.options.get("objective", "max-load"))


def lower_bound(groups: Groups) -> float | None:
    """A bound on all plans: all work spread evenly over all devices, or one group on its faster kind of device.

    None where some group fits nowhere. With a weight w for CPU time, (k + l w) T >= the weighted work of any
    plan >= sum over g of min(p_g, w c_g); the best weight is the ratio p_g / c_g of some group. Transfers only
    add to this.
    """
    spread = (math.fsum(_least_work(groups, w)) / (groups.accelerators + w * groups.cpus) for w in _weights(groups))
    bound = max(*spread, *_least_work(groups, 1.0)) * (1 - SAFETY)
    return bound if math.isfinite(bound) else None


def _weights(groups: Groups) -> list[float]:
    """Ratios worth trying, thinned out where there are many; any positive weight gives a valid bound."""
    if not groups.accelerators or not groups.cpus:
        return [1.0]
    ratios = sorted(
        {
            work / cpu
            for work, cpu, ok in zip(groups.work, groups.cpu_work, groups.supported, strict=True)
            if ok and cpu > 0 and work > 0
        }
    )
    return ratios[:: 1 + len(ratios) // 200] or [1.0]


def _least_work(groups: Groups, w: float) -> list[float]:
    """Least work of each group, on the kind of device that suits it better; CPU time is weighted."""
    return [
        min(work if ok else math.inf, w * cpu if groups.cpus else math.inf)
        for work, cpu, ok in zip(groups.work, groups.cpu_work, groups.supported, strict=True)
    ]


# ---- Topological orders of groups ---------------------------------------------------------------------------------
# Topological orders of groups.


class Ordered(Protocol):
    """What can be put in order: `count` numbered things, and arcs from what comes before to what comes after."""

    @property
    def count(self) -> int: ...

    @property
    def arcs(self) -> tuple[tuple[int, int], ...]: ...


def various_orders(groups: Ordered, count: int, seed: int) -> list[list[int]]:
    """Depth first along the arcs and against them, the input's own order, then seeded ties; each order once.

    Depth first keeps branches together; the input's own order is better where the graph is a long narrow band.
    """
    rng = random.Random(seed)
    numbers = list(range(groups.count))
    as_given = in_turn(adjacency(groups.count, groups.arcs), heapq.heappop, heapq.heappush)
    orders = [depth_first(groups, numbers), depth_first(groups, numbers, backwards=True), as_given]
    orders += [
        depth_first(groups, rng.sample(numbers, groups.count), backwards=n % 2 == 0) for n in range(3, count)
    ]
    return [list(order) for order in dict.fromkeys(map(tuple, orders[:count]))]


def depth_first(groups: Ordered, priority: Sequence[int], backwards: bool = False) -> list[int]:
    """A topological order that follows one branch as long as it can; `backwards`: from the sinks up."""

    def ranked(members: Iterable[int]) -> list[int]:
        return sorted(members, key=lambda g: priority[g], reverse=not backwards)

    arcs = ((v, u) for u, v in groups.arcs) if backwards else groups.arcs
    after = list(map(ranked, adjacency(groups.count, arcs)))
    order = in_turn(after, list.pop, first=ranked(range(groups.count)))
    return order[::-1] if backwards else order


def random_order(groups: Ordered, rng: random.Random) -> list[int]:
    """A topological order in which each next group is drawn from all that are ready."""

    def draw(ready: list[int]) -> int:
        place = rng.randrange(len(ready))
        ready[place], ready[-1] = ready[-1], ready[place]
        return ready.pop()

    return in_turn(adjacency(groups.count, groups.arcs), draw)


def gathered_order(groups: Ordered, part_of: Sequence[int]) -> list[int]:
    """A topological order that stays in one part as long as it can, and then goes on with the earliest part."""
    size = [0] * (max(part_of) + 1)
    middle = [0.0] * len(size)
    for place, g in enumerate(depth_first(groups, range(groups.count))):
        size[part_of[g]] += 1
        middle[part_of[g]] += place
    rank = [middle[part] / max(1, size[part]) for part in range(len(size))]
    here = -1

    def nearest(ready: list[int]) -> int:
        nonlocal here
        g = min(ready, key=lambda g: (part_of[g] != here, rank[part_of[g]], g))
        ready.remove(g)
        here = part_of[g]
        return g

    return in_turn(adjacency(groups.count, groups.arcs), nearest)


# ---- For which placements the bounds of planners hold: named by address in `planners/registry.py` -----------------
# For which placements the bounds of planners hold; `planners/registry.py` names these functions by address.


def placements(problem: PlacementProblem, options: Mapping[str, Any]) -> Family:
    """The family of brute force, which tries the plans that the rules allow."""
    contiguity = str(rules_of(problem, options).to_options()["contiguity"])
    return Family(PLACEMENTS[contiguity], None if contiguity == "none" else "--non-contiguous")


def all_placements(problem: PlacementProblem, options: Mapping[str, Any]) -> Family:
    """The family of heuristics, whose bounds are those of the work alone."""
    return Family(PLACEMENTS["none"])


def chains_of_stages(problem: PlacementProblem, options: Mapping[str, Any]) -> Family:
    """The family of the dynamic program over ideals."""
    wider = None if problem.extensions else "--formulation ip-tarnawski --non-contiguous"
    return Family(PLACEMENTS["chain"], wider)
