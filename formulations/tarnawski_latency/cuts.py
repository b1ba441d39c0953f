"""What every plan pays along a critical path: memory divides it, and each division moves tensors.

A part of a path whose nodes (with large neighbours) are larger than n accelerators' memory passes more than n pieces,
as far as it is not on the CPUs. Between two pieces it leaves one and enters another. Such *covers* give a linear
relaxation the divisions that it would otherwise blur over all accelerators.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...instances.physics.tolerances import SAFETY
from .atoms import Atoms

# Nodes beside a path join its covers from this share of the memory on.
LARGE = 0.01

# The most critical paths.
MAX_PATHS = 4


@dataclass(frozen=True, slots=True)
class Cover:
    """entries(arcs) + partings(beside) + sum of relief cpu[node] >= least, and the same with exits for entries.

    An entry is an arc whose target is in a piece without its source, an exit the reverse; a parting is either.
    """

    arcs: tuple[tuple[int, int], ...]
    beside: tuple[tuple[int, int], ...]
    """Arcs that join neighbours to the path."""
    reliefs: tuple[tuple[int, float], ...]
    """(node, by how much it lowers the need where it is on the CPUs)."""
    least: int


def critical_paths(atoms: Atoms) -> list[tuple[int, ...]]:
    """The longest path with every node on its faster device and no transfers, paths through what it
    misses, and the longest one if every transfer were paid."""
    weights = [min(time, 1e300) for time in atoms.least_times()]
    paths: list[tuple[int, ...]] = []
    missed = list(weights)
    costly = _longest_path(atoms, [w + c for w, c in zip(weights, atoms.transfer_times, strict=True)])
    for _ in range(MAX_PATHS - 1):
        path = _longest_path(atoms, missed)
        if path in paths or not any(missed[v] for v in path):
            break
        paths.append(path)
        for v in path:  # next time, prefer what no path has passed so far
            missed[v] = weights[v] * 0.9
    return paths if costly in paths or not any(weights[v] for v in costly) else [*paths, costly]


def _longest_path(atoms: Atoms, weights: Sequence[float]) -> tuple[int, ...]:
    length = list(weights)
    before: list[int | None] = [None] * atoms.nodes
    tie = 1e-9 * max(weights, default=0.0) / max(1, atoms.nodes)  # prefer longer paths among equals
    for u, v in atoms.arcs_in_order():
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
    """Along each critical path with its large neighbours: the shortest intervals that need 2, 3, ... pieces."""
    if atoms.memory is None or not atoms.accelerators:
        return []
    covers_by_key: dict[tuple[int, tuple[tuple[int, int], ...]], Cover] = {}
    for path in critical_paths(atoms):
        for cover in _along(atoms, path, atoms.memory):
            covers_by_key.setdefault((cover.least, cover.arcs + cover.beside), cover)
    return [cover for cover in covers_by_key.values() if cover.arcs or cover.beside]


def _along(atoms: Atoms, path: Sequence[int], memory: float) -> list[Cover]:
    """The covers of the shortest intervals of a path."""
    beside = _neighbours(atoms, path, memory)
    shares = [math.fsum(_share(atoms, w, memory) for w in (v, *beside[v])) for v in path]
    path_covers = []
    for least in range(1, min(atoms.stages, math.ceil(math.fsum(shares)))):
        first = 0
        for last in range(len(path)):
            if math.fsum(shares[first : last + 1]) <= least * (1 + SAFETY):
                continue
            while math.fsum(shares[first + 1 : last + 1]) > least * (1 + SAFETY):
                first += 1
            path_covers.append(_cover(atoms, path[first : last + 1], beside, memory, least))
            first += 1
    return path_covers


def _cover(atoms: Atoms, path: Sequence[int], beside: dict[int, list[int]], memory: float, least: int) -> Cover:
    """The cover of one interval: it passes n >= total - s pieces with s the share that is on CPUs; n is whole, so
    n + s / f >= least + 1 with f = the fraction of the total above `least` (mixed-integer rounding)."""
    members = [w for v in path for w in (v, *beside[v])]
    shares = {w: share for w in members if (share := _share(atoms, w, memory)) > 0}
    fraction = min(1.0, math.fsum(shares.values()) - least)
    reliefs = tuple((w, min(float(least), share / fraction * (1 + SAFETY))) for w, share in shares.items())
    arcs = set(atoms.arcs)
    hanging = ((v, w) if (v, w) in arcs else (w, v) for v in path for w in beside[v])
    return Cover(_between(atoms, pairwise(path)), _between(atoms, hanging), reliefs, least)


def _between(atoms: Atoms, arcs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The arcs between different atoms: inside an atom nothing can come apart."""
    return tuple((u, v) for u, v in arcs if atoms.atom_of[u] != atoms.atom_of[v])


def _share(atoms: Atoms, v: int, memory: float) -> float:
    """The share of the memory that an atom takes. What never fits is on the CPUs anyway, and takes no part."""
    size = _node_size(atoms, v)
    return size / memory if 0 < size <= memory else 0.0


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
