"""The latency problem in positions: what must share a piece, what must share a device, and who feeds whom.

With one piece per accelerator a colour class is one *atom*: wherever it is, it is in one piece or on the CPUs.
With several pieces the nodes of a class may be in different pieces of one accelerator, so every node is an atom and
a class ties its atoms to one device. On the CPUs nodes run one by one in either case.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...instances.placement.problem import PlacementProblem
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

    def times_to_end(self, times: tuple[float, ...]) -> list[float]:
        """The longest path from each node on, with the node itself."""
        left = list(times)
        for u, v in reversed(self.arcs_in_order()):
            left[u] = max(left[u], times[u] + left[v])
        return left

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
