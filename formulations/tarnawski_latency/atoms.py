"""The latency problem in positions: what must share a piece, what must share a device, and who feeds whom.

With one piece per accelerator a colour class is one *atom*: wherever it is, it is in one piece or on the CPUs.
With several pieces the nodes of a class may be in different pieces of one accelerator, so every node is an atom and
a class ties its atoms to one device. On the CPUs nodes run one by one in either case.

Plans in the words of the models are `Staged`: which atom is in which stage, on which accelerator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...instances.placement.plan import Device, PlacementPlan
from ...instances.placement.problem import NodeId, PlacementProblem
from ...instances.registry import evaluation_of
from ..contract import FLOAT_ROOM
from ..tarnawski.groups import accelerator_takes, owners, topological_ranks


@dataclass(frozen=True)
class Atoms:
    """Nodes and atoms are positions; times are in the problem's time unit."""

    atom_of: tuple[int, ...]
    """Node -> its atom."""
    members: tuple[tuple[int, ...], ...]
    classes: tuple[tuple[int, ...], ...]
    """Sets of two or more atoms that must share a device."""
    allowed: tuple[bool, ...]
    """May the atom be on an accelerator: supported, with all that must be there too, and small enough?"""
    sizes: tuple[float, ...]
    """Whole numbers in the unit of `memory`, so that all sums of them are exact."""
    arcs: tuple[tuple[int, int], ...]
    accelerator_times: tuple[float, ...]
    """0 for nodes that no accelerator takes."""
    cpu_times: tuple[float, ...]
    transfer_times: tuple[float, ...]
    accelerators: int
    pieces: int
    """Largest number of pieces that an accelerator runs."""
    has_cpu: bool
    memory: float | None

    @property
    def nodes(self) -> int:
        return len(self.atom_of)

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def stages(self) -> int:
        """Number of pieces of all accelerators, and no more than could hold something."""
        return min(self.accelerators * self.pieces, sum(self.allowed))

    def finish_times(self, times: tuple[float, ...]) -> list[float]:
        """Earliest finish of each node if nothing but its path took time."""
        finish = list(times)
        for u, v in self.arcs_in_order():
            finish[v] = max(finish[v], finish[u] + times[v])
        return finish

    def arcs_in_order(self) -> list[tuple[int, int]]:
        """The arcs in a topological order of their sources."""
        rank = topological_ranks(self.nodes, self.arcs)
        return sorted(self.arcs, key=lambda arc: rank[arc[0]])

    def least_times(self) -> tuple[float, ...]:
        """Time of each node on its faster kind of device."""
        return tuple(
            min(
                self.accelerator_times[v] if self.allowed[self.atom_of[v]] else math.inf,
                self.cpu_times[v] if self.has_cpu else math.inf,
            )
            for v in range(self.nodes)
        )

    def worst_value(self) -> float:
        """No plan takes longer than all work one after the other with every transfer paid in all pieces; with room for
        float solvers."""
        slow = self.cpu_times if self.has_cpu else (0.0,) * self.nodes
        work = math.fsum(map(max, self.accelerator_times, slow))
        return (work + (self.stages + 1) * math.fsum(self.transfer_times)) * (1 + FLOAT_ROOM) or 1.0


def atoms_of(problem: PlacementProblem, pieces: int, *, merged: bool = True) -> Atoms:
    """The atoms of a problem. `pieces`: subgraphs per accelerator; `merged`: classes that must share a piece are
    atoms."""
    classes = problem.color_classes
    fits = [accelerator_takes(problem, members) for members in classes]
    takes = [fits[c] for c in owners(classes, len(problem.nodes))]
    whole = problem.whole_sizes
    memory = whole.limits[0]
    members: tuple[tuple[int, ...], ...]
    ties: tuple[tuple[int, ...], ...]
    if pieces == 1 and merged:
        members, allowed, ties = classes, tuple(fits), ()
    else:
        members = tuple((i,) for i in range(len(problem.nodes)))
        allowed = tuple(takes)
        ties = tuple(nodes for nodes in classes if len(nodes) > 1)
    return Atoms(
        atom_of=tuple(owners(members, len(problem.nodes))),
        members=members,
        classes=ties,
        allowed=allowed,
        sizes=tuple(float(sum(whole.amounts[i] for i in nodes)) for nodes in members),
        arcs=problem.arcs,
        accelerator_times=tuple(
            node.accelerator_time if ok else 0.0 for node, ok in zip(problem.nodes, takes, strict=True)
        ),
        cpu_times=tuple(node.cpu_time for node in problem.nodes),
        transfer_times=tuple(node.transfer_time for node in problem.nodes),
        accelerators=problem.accelerators,
        pieces=pieces,
        has_cpu=problem.cpus > 0,
        memory=None if memory is None else float(memory),
    )


def costs_of(atoms: Atoms) -> tuple[float, ...]:
    """All costs that one node may take in one place."""
    moved = atoms.transfer_times if atoms.stages else ()
    return (*atoms.accelerator_times, *(atoms.cpu_times if atoms.has_cpu else ()), *moved)


def capped(atoms: Atoms, limit: float) -> Atoms:
    """The problem for all plans of latency at most `limit`, without times that are far above it.

    A path with more than twice the limit in one place is too long, however much more it is; and next to a "forbidden"
    that is written as 1e12 no solver would see the other times.
    """
    most = 2 * limit
    families = (atoms.accelerator_times, atoms.cpu_times, atoms.transfer_times)
    if not 0 < most < max(map(max, families)):
        return atoms
    fast, slow, moved = (tuple(min(time, most) for time in times) for times in families)
    return replace(atoms, accelerator_times=fast, cpu_times=slow, transfer_times=moved)


@dataclass(frozen=True, slots=True)
class Staged:
    """A plan in the words of the models."""

    stage_of: tuple[int | None, ...]
    """Atom -> its stage; None: on the CPUs."""
    device_of: tuple[int, ...]
    """Stage -> its accelerator, numbered in the order of first stages; one entry for every stage."""


def plan_of(problem: PlacementProblem, atoms: Atoms, staged: Staged) -> PlacementPlan:
    """The plan of these stages: all that is in none runs on the first CPU, which stands for the pool."""
    nodes_of_device: list[list[int]] = [[] for _ in staged.device_of]
    pool: list[int] = []
    for a, stage in enumerate(staged.stage_of):
        (pool if stage is None else nodes_of_device[stage]).extend(atoms.members[a])
    pieces: list[list[tuple[NodeId, ...]]] = [[] for _ in range(problem.accelerators)]
    for device, nodes in zip(staged.device_of, nodes_of_device, strict=True):
        if nodes:
            pieces[device].append(tuple(problem.nodes[i].id for i in sorted(nodes)))
    devices = [
        Device(f"acc{d}", "accelerator", tuple(node_id for piece in mine for node_id in piece), tuple(mine))
        for d, mine in enumerate(pieces)
    ]
    shared = tuple(problem.nodes[i].id for i in sorted(pool))
    devices += [Device(f"cpu{c}", "cpu", () if c else shared) for c in range(problem.cpus)]
    return PlacementPlan(tuple(devices))


def staged_of(problem: PlacementProblem, atoms: Atoms, plan: PlacementPlan) -> Staged | None:
    """The plan's pieces in the order of their starts; None where it has no such form (too many, torn atoms)."""
    evaluation = evaluation_of(problem, plan, objective="latency")
    if evaluation.latency is None:
        return None
    place = {i: rank for rank, i in enumerate(problem.topological_order)}
    ordered = sorted(
        enumerate(evaluation.pieces),
        key=lambda entry: (entry[1].start, entry[1].finish, min(place[problem.index[i]] for i in entry[1].nodes)),
    )
    if len(ordered) > atoms.stages:
        return None
    number: dict[str, int] = {}
    stage_of_node: dict[int, int] = {}
    device_of = []
    for stage, (_, piece) in enumerate(ordered):
        device_of.append(number.setdefault(piece.device, len(number)))
        stage_of_node.update((problem.index[node_id], stage) for node_id in piece.nodes)
    if any(device_of.count(d) > atoms.pieces for d in range(len(number))):
        return None
    stages: list[int | None] = []
    for members in atoms.members:
        seen = {stage_of_node.get(i) for i in members}
        if len(seen) > 1:
            return None
        stages.append(seen.pop())
    while len(device_of) < atoms.stages:  # stages that stay empty have the next devices that have room
        device_of.append(next(d for d in range(atoms.accelerators) if device_of.count(d) < atoms.pieces))
    return Staged(tuple(stages), tuple(device_of))


def read_staged(values: Mapping[str, float], atoms: Atoms) -> Staged:
    """Read a plan from the variables x[a,p] and, with several pieces per accelerator, d[p,i]."""
    stage_of = tuple(
        next((p for p in range(atoms.stages) if values.get(f"x[{a},{p}]", 0.0) > 0.5), None)
        for a in range(atoms.count)
    )
    if atoms.pieces == 1:
        return Staged(stage_of, tuple(range(atoms.stages)))
    device_of = tuple(
        max(range(atoms.accelerators), key=lambda i: values.get(f"d[{p},{i}]", 0.0)) for p in range(atoms.stages)
    )
    return Staged(stage_of, device_of)


def write_staged(staged: Staged, atoms: Atoms) -> dict[str, float]:
    """A plan as values of the variables that `read_staged` reads, and of cpu[a]; with several pieces also of h[a,i],
    which says which accelerator holds a."""
    values: dict[str, float] = {}
    for a, stage in enumerate(staged.stage_of):
        values[f"cpu[{a}]"] = float(stage is None)
        values |= {f"x[{a},{p}]": float(stage == p) for p in range(atoms.stages)}
    if atoms.pieces > 1:
        for p, device in enumerate(staged.device_of):
            values |= {f"d[{p},{i}]": float(device == i) for i in range(atoms.accelerators)}
        for a, stage in enumerate(staged.stage_of):
            home = None if stage is None else staged.device_of[stage]
            values |= {f"h[{a},{i}]": float(home == i) for i in range(atoms.accelerators)}
    return values


def held_columns(atoms: Atoms, a: int, i: int) -> list[str]:
    """The variables of which one is 1 where accelerator i holds atom a."""
    if atoms.pieces > 1:
        return [f"h[{a},{i}]"]
    return [f"x[{a},{i}]"] if i < atoms.stages else []
