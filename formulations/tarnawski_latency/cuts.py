"""What every plan pays along a critical path: memory divides it, and each division moves tensors.

A set of nodes that hangs together by arcs (a tree) and is larger than one accelerator's memory is not in one piece, so
at least one of its arcs joins different pieces, or an accelerator and the CPUs. Such *covers* give a linear relaxation
the divisions that it would otherwise blur over all accelerators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .atoms import Atoms
from .order import topological_ranks

SLACK = 1e-9
"""Relative: the referee forgives a memory that is overrun by rounding."""

LARGE = 0.01
"""Nodes beside a path join its covers from this share of the memory on."""

MAX_PATHS = 4


@dataclass(frozen=True, slots=True)
class Cover:
    """At least `least` of the arcs do not stay inside a piece."""

    arcs: tuple[tuple[int, int], ...]
    least: int


def critical_paths(atoms: Atoms) -> list[tuple[int, ...]]:
    """The longest path with every node on its faster device and no transfers, and paths through what it misses."""
    weights = [min(time, 1e300) for time in atoms.least_times()]
    paths: list[tuple[int, ...]] = []
    missed = list(weights)
    for _ in range(MAX_PATHS):
        path = _longest_path(atoms, missed)
        if path in paths or not any(missed[v] for v in path):
            break
        paths.append(path)
        for v in path:  # next time, prefer what no path has passed so far
            missed[v] = weights[v] * 0.9
    return paths


def _longest_path(atoms: Atoms, weights: Sequence[float]) -> tuple[int, ...]:
    rank = topological_ranks(atoms.nodes, atoms.arcs)
    length = list(weights)
    before: list[int | None] = [None] * atoms.nodes
    tie = 1e-9 * max(weights, default=0.0) / max(1, atoms.nodes)  # prefer longer paths among equals
    for u, v in sorted(atoms.arcs, key=lambda arc: rank[arc[0]]):
        reached = length[u] + weights[v] + tie
        if reached > length[v]:
            length[v], before[v] = reached, u
    place: int | None = max(range(atoms.nodes), key=lambda v: length[v])
    path = []
    while place is not None:
        path.append(place)
        place = before[place]
    return tuple(reversed(path))


def covers(atoms: Atoms) -> list[Cover]:
    """Along each critical path with its large neighbours: the whole, and every smallest interval that is too large."""
    if atoms.memory is None or not atoms.accelerators:
        return []
    found: dict[tuple[tuple[int, int], ...], Cover] = {}
    for path in critical_paths(atoms):
        for cover in _along(atoms, path, atoms.memory * (1 + SLACK)):
            found.setdefault(cover.arcs, cover)
    return list(found.values())


def _along(atoms: Atoms, path: Sequence[int], memory: float) -> list[Cover]:
    beside = _neighbours(atoms, path, memory)
    sizes = [_sizes(atoms, [v, *beside[v]], memory) for v in path]
    total = math.fsum(sizes)
    if total <= memory:
        return []
    found = [Cover(_tree(atoms, path, beside), math.ceil(total / memory * (1 - SLACK)) - 1)]
    first = 0
    for last in range(len(path)):
        while first < last and math.fsum(sizes[first + 1 : last + 1]) > memory:
            first += 1
        if math.fsum(sizes[first : last + 1]) > memory:
            found.append(Cover(_tree(atoms, path[first : last + 1], beside), 1))
    return [cover for cover in found if cover.arcs]


def _sizes(atoms: Atoms, nodes: Sequence[int], memory: float) -> float:
    """Every node counts at most as the memory, since one that never fits stands alone on the CPUs."""
    return math.fsum(min(_node_size(atoms, v), memory) for v in nodes)


def _node_size(atoms: Atoms, v: int) -> float:
    """An atom's size counts once, with its first node."""
    a = atoms.atom_of[v]
    return atoms.sizes[a] if atoms.members[a][0] == v else 0.0


def _neighbours(atoms: Atoms, path: Sequence[int], memory: float) -> dict[int, list[int]]:
    """Large nodes beside the path, each with one node of the path that it is joined to."""
    beside: dict[int, list[int]] = {v: [] for v in path}
    taken = set(path)
    for u, v in atoms.arcs:
        for inside, outside in ((u, v), (v, u)):
            if inside in beside and outside not in taken and _node_size(atoms, outside) > LARGE * memory:
                beside[inside].append(outside)
                taken.add(outside)
    return beside


def _tree(atoms: Atoms, path: Sequence[int], beside: dict[int, list[int]]) -> tuple[tuple[int, int], ...]:
    """The arcs that join the nodes; inside an atom nothing can come apart."""
    known = set(atoms.arcs)
    joins = [(path[i], path[i + 1]) for i in range(len(path) - 1)]
    joins += [(v, w) if (v, w) in known else (w, v) for v in path for w in beside[v]]
    return tuple((u, v) for u, v in joins if atoms.atom_of[u] != atoms.atom_of[v])
