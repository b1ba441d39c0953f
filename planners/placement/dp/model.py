"""The contracted problem as the dynamic program sees it: groups, kinds of devices, nets.

A *kind* is a type of accelerator or the CPUs. A *net* is a transfer: a stage on an accelerator that holds some but
not all of its pins pays the cost. A *stage* is the difference of two ideals, which are the closed sets of `arcs`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ....instances.base.amounts import WholeAmounts
from ....instances.base.graph import adjacency
from ....instances.placement.problem import PlacementProblem
from ..groups import Groups, Net, contract


@dataclass(frozen=True)
class Kind:
    """Devices that are all alike."""

    count: int
    times: tuple[tuple[float, ...], ...]
    """times[part][g]; parts: one, or forward and backward (gpipe). Times of groups that the kind does not support only
    serve as weights, and are at most the least time elsewhere (`weighed`)."""
    supported: tuple[bool, ...]
    capacity: float
    """Memory of a device in the unit of the sizes; infinite where there is no limit."""
    pays: bool
    """Does it pay transfers? CPUs do not."""
    type: int | None = None
    """Position among the problem's other types; None: the base type, or CPUs."""
    true_capacity: int | None = None
    """The capacity in the unit of the true sizes, where there are such and a limit."""

    @cached_property
    def work(self) -> tuple[float, ...]:
        """Time of each group, all parts together."""
        return tuple(math.fsum(part[g] for part in self.times) for g in range(len(self.supported)))


@dataclass(frozen=True)
class Model:
    """Groups in a topological order of `arcs`; kinds with at least one device, accelerators first."""

    members: tuple[tuple[int, ...], ...]
    kinds: tuple[Kind, ...]
    sizes: tuple[float, ...]
    """Whole numbers, so that all sums and their differences are exact."""
    weights: tuple[float, ...]
    """Bytes that replicas of a group's stage must synchronise."""
    nets: tuple[Net, ...]
    arcs: tuple[tuple[int, int], ...]
    parts: int
    true_sizes: tuple[int, ...] | None
    """Exact sizes where `sizes` had to be rounded."""
    sync_bandwidth: float | None
    """Bytes per time unit between replicas; None: no replication. Several levels have one each (`Hierarchy`)."""

    @property
    def count(self) -> int:
        return len(self.members)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        return adjacency(self.count, ((v, u) for u, v in self.arcs))

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """For each group, the bit mask of itself and of all groups to which `arcs` lead from it."""
        below = [1 << v for v in range(self.count)]
        for v in range(self.count - 1, -1, -1):
            for u in self.predecessors[v]:
                below[u] |= below[v]
        return tuple(below)


def build(problem: PlacementProblem, objective: str = "max-load", sizes: WholeAmounts | None = None) -> Model:
    """Contract colour classes and cycles, then merge groups that cost nothing into a neighbour.

    `sizes`: of the nodes, and memories; None: rounded so that no plan that fits is lost.
    """
    whole = problem.whole_sizes if sizes is None else sizes
    groups = contract(problem, True, objective, whole)
    syncs = [level.sync_bandwidth for level in problem.levels if level.sync_bandwidth is not None]
    # Several levels keep the plain costs and scale them themselves.
    factor = problem.levels[0].transfer_factor if len(problem.levels) == 1 else 1.0
    model = Model(
        members=groups.members,
        kinds=weighed(
            # Without replicas, more devices than groups stay idle.
            [
                kind if syncs and kind.pays else replace(kind, count=min(kind.count, groups.count))
                for kind in _kinds(problem, groups, whole)
                if kind.count
            ]
        ),
        sizes=groups.sizes,
        true_sizes=None
        if whole.exact or sizes is not None
        else tuple(sum(problem.exact_sizes.amounts[i] for i in members) for members in groups.members),
        weights=tuple(math.fsum(problem.nodes[i].weight_bytes for i in members) for members in groups.members),
        nets=tuple((pins, cost * factor, part) for pins, cost, part in groups.nets),
        arcs=_reduced(groups.count, groups.arcs),
        parts=groups.parts,
        sync_bandwidth=syncs[0] if syncs else None,
    )
    return merge_free(_without_idle_memory(model))


def _without_idle_memory(model: Model) -> Model:
    """The model without sizes where a device of any kind could hold everything, so that sizes decide nothing."""
    total = sum(model.sizes)
    if any(kind.capacity < total for kind in model.kinds):
        return model
    if model.true_sizes is not None and any(
        kind.true_capacity is not None and kind.true_capacity < sum(model.true_sizes) for kind in model.kinds
    ):
        return model
    return replace(
        model,
        sizes=(0.0,) * model.count,
        true_sizes=None,
        kinds=tuple(replace(kind, capacity=math.inf) for kind in model.kinds),
    )


def weighed(kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """The kinds with times of groups that they do not support lowered to the least time on a kind that does.

    Bounds and the order of ideals use times on the first kind as weights. The bounds hold for any weights, but one that
    is far too large drowns the others.
    """
    least = [
        min((kind.work[g] for kind in kinds if kind.supported[g]), default=0.0)
        for g in range(len(kinds[0].supported))
    ]

    def lowered(kind: Kind) -> Kind:
        if all(ok or work <= most for ok, work, most in zip(kind.supported, kind.work, least, strict=True)):
            return kind
        shares = [
            1.0 if ok or work <= most else most / work
            for ok, work, most in zip(kind.supported, kind.work, least, strict=True)
        ]
        return replace(
            kind,
            times=tuple(
                tuple(time * share for time, share in zip(part, shares, strict=True)) for part in kind.times
            ),
        )

    return tuple(map(lowered, kinds))


def _kinds(problem: PlacementProblem, groups: Groups, whole: WholeAmounts) -> list[Kind]:
    everywhere = (True,) * groups.count
    true = problem.exact_sizes.limits[0]
    base = Kind(problem.accelerators, groups.times, groups.supported, groups.capacity, True, true_capacity=true)
    others = [_other_kind(problem, groups, t, whole.limits[1 + t]) for t in range(len(problem.other_types))]
    return [base, *others, Kind(problem.cpus, groups.cpu_times, everywhere, math.inf, False)]


def _other_kind(problem: PlacementProblem, groups: Groups, t: int, memory: int | None) -> Kind:
    """Accelerators of a further type: times and support of their own, transfers as everywhere."""
    kind = problem.other_types[t]
    time_of = [problem.time_on(i, t) for i in range(len(problem.nodes))]
    times = tuple(
        tuple(
            math.fsum(
                time_of[i] or 0.0 for i in members if groups.parts == 1 or problem.nodes[i].backward == bool(part)
            )
            for members in groups.members
        )
        for part in range(groups.parts)
    )
    supported = tuple(
        all(time_of[i] is not None for i in members) and problem.holds(members, t) for members in groups.members
    )
    capacity = math.inf if memory is None else float(memory)
    return Kind(kind.count, times, supported, capacity, True, t, problem.exact_sizes.limits[1 + t])


def _reduced(count: int, arcs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The arcs without those that a longer path replaces; `arcs` lead from lower to higher numbers."""
    after = adjacency(count, arcs)
    below = [1 << v for v in range(count)]
    kept = []
    for u in range(count - 1, -1, -1):
        reached = 0
        for v in sorted(after[u]):  # nearest first: what it leads to needs no arc of its own
            if not reached >> v & 1:
                kept.append((u, v))
                reached |= below[v]
        below[u] |= reached
    return tuple(sorted(kept))


# ---- groups that cost nothing ----------------------------------------------------------------------------


def merge_free(model: Model) -> Model:
    """Merge a group without work or size into its only predecessor (or only successor), where no load can rise.

    Let v cost nothing on any device and u be its only predecessor. Moving v from its stage X to the stage Y of u
    keeps the order valid. Before, X and Y both paid the net {u, v}, afterwards neither does; nets that hold both
    can only become uncut; nets at v without u can become cut, for X and Y each, at most once. So where the
    latter cost no more than {u, v}, no load rises, and some optimal plan has u and v together.
    """
    work = _Merging(model)
    while sum(work.try_merge(v) for v in range(model.count)):
        pass  # each merge may allow others
    return work.model() if work.merged else model


class _Merging:
    def __init__(self, model: Model) -> None:
        self.old = model
        self.members: list[tuple[int, ...] | None] = list(model.members)
        self.into = list(range(model.count))
        self.merged = False
        self.before = list(map(set, model.predecessors))
        self.after = list(map(set, adjacency(model.count, model.arcs)))
        self.nets: dict[tuple[tuple[int, ...], int], float] = {
            (pins, part): cost for pins, cost, part in model.nets
        }
        self.nets_of: list[set[tuple[tuple[int, ...], int]]] = [set() for _ in range(model.count)]
        for pins, part in self.nets:
            for g in pins:
                self.nets_of[g].add((pins, part))
        self.free = [
            not any(kind.work[g] for kind in model.kinds)
            and all(kind.supported[g] for kind in model.kinds)
            and not (model.sizes if model.true_sizes is None else model.true_sizes)[g]
            and not model.weights[g]
            for g in range(model.count)
        ]

    def try_merge(self, v: int) -> bool:
        if self.members[v] is None or not self.free[v]:
            return False
        for neighbours in (self.before[v], self.after[v]):
            if len(neighbours) == 1:
                (u,) = neighbours
                if self._pays(u, v):
                    self._merge(u, v)
                    return True
        return False

    def _pays(self, u: int, v: int) -> bool:
        """Do the nets at v without u cost no more than the net {u, v}, in every part?"""
        pair = (min(u, v), max(u, v))
        return all(
            math.fsum(self.nets[net] for net in self.nets_of[v] if u not in net[0] and net[1] == part)
            <= self.nets.get((pair, part), 0.0)
            for part in range(self.old.parts)
        )

    def _merge(self, u: int, v: int) -> None:
        """Merge v into u, whose number stays: it is above all that must come before and below all that comes after."""
        mine, theirs = self.members[u], self.members[v]
        assert mine is not None
        assert theirs is not None
        self.members[u], self.members[v], self.merged = mine + theirs, None, True
        for this, other in ((self.before, self.after), (self.after, self.before)):
            for w in this[v]:
                other[w].discard(v)
                if w != u:
                    other[w].add(u)
                    this[u].add(w)
            this[u].discard(v)
        for net in list(self.nets_of[v]):
            self._move_net(net, u, v)

    def _move_net(self, net: tuple[tuple[int, ...], int], u: int, v: int) -> None:
        pins, part = net
        cost = self.nets.pop(net)
        for g in pins:
            self.nets_of[g].discard(net)
        moved = tuple(sorted({u if g == v else g for g in pins}))
        if len(moved) > 1:
            self.nets[moved, part] = self.nets.get((moved, part), 0.0) + cost
            for g in moved:
                self.nets_of[g].add((moved, part))

    def model(self) -> Model:
        old, kept = self.old, [g for g, members in enumerate(self.members) if members is not None]
        number = {g: i for i, g in enumerate(kept)}

        def pick(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[g] for g in kept)

        return replace(
            old,
            members=pick(self.members),
            kinds=tuple(
                replace(kind, times=tuple(map(pick, kind.times)), supported=pick(kind.supported))
                for kind in old.kinds
            ),
            sizes=pick(old.sizes),
            true_sizes=None if old.true_sizes is None else pick(old.true_sizes),
            weights=pick(old.weights),
            nets=tuple((tuple(number[g] for g in pins), cost, part) for (pins, part), cost in self.nets.items()),
            arcs=_reduced(len(kept), sorted((number[u], number[v]) for v in kept for u in self.before[v])),
        )
