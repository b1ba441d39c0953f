"""A bound that joins path, memory and transfers: the best way to cut one long path into pieces and CPU nodes.

A piece is convex, so it meets a path in an interval, and the path waits for all of the piece's load. A dynamic program
over the path therefore bounds the latency: the cost of the best partition into CPU nodes and intervals, at most one for
each piece that the accelerators may run. With an interval the piece holds everything between its ends (and what must be
with it); that gives it a least load and size.
Nodes next to it that may or may not be inside are relaxed: what has no room must be left out, at its least price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ...instances.physics.tolerances import SAFETY
from .atoms import Atoms

# The most critical paths.
MAX_PATHS = 4

# Larger graphs have the path alone as their bound: sets of nodes are bit masks here.
MAX_NODES = 3000

# The most intervals of one path; a path with more of them is left out.
MAX_INTERVALS = 100_000

# By end j of an interval path[i:j]: its starts i with the least loads and sizes of such pieces.
_Loads = list[list[tuple[int, float, float]]]


def path_bound(atoms: Atoms) -> float:
    """The best bound over some critical paths; at least that of the first path alone."""
    bound = max(atoms.finish_times(atoms.least_times()))
    return max([bound, *(cut.value for cut in _cuts(atoms))])


def joined_arcs(atoms: Atoms, cutoff: float) -> list[tuple[int, int]]:
    """Arcs of critical paths that stay inside a piece in every plan of at most that latency: all partitions of the
    path with a division there cost more."""
    arcs: dict[tuple[int, int], None] = {}
    for cut in _cuts(atoms):
        for place in range(1, len(cut.path)):
            if cut.divided(place) > cutoff * (1 + SAFETY):
                arcs[cut.path[place - 1], cut.path[place]] = None
    return [(u, v) for u, v in arcs if atoms.atom_of[u] != atoms.atom_of[v]]


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


@lru_cache(maxsize=8)
def _cuts(atoms: Atoms) -> tuple[_Cut, ...]:
    if atoms.nodes > MAX_NODES:
        return ()
    reach = _Reach(atoms)
    cuts = []
    for path in critical_paths(atoms):
        loads = _interval_loads(reach, path)
        if loads is not None:
            cuts.append(_Cut(atoms, path, loads))
    return tuple(cuts)


class _Cut:
    """All partitions of one path: best[r][j] is for its first j nodes with r pieces, rest[r][j] for those from j on."""

    def __init__(self, atoms: Atoms, path: Sequence[int], loads: _Loads) -> None:
        self.path = path
        cpu = [atoms.cpu_times[v] if atoms.has_cpu else math.inf for v in path]
        tied = _tied(atoms, path)
        memory = math.inf if atoms.memory is None else atoms.memory
        self.best = _partitions(atoms.stages, cpu, loads, tied, memory)
        last = len(path)
        mirrored: _Loads = [[] for _ in range(last + 1)]
        for j, starts in enumerate(loads):
            for i, load, size in starts:
                mirrored[last - i].append((last - j, load, size))
        self.rest = [row[::-1] for row in _partitions(atoms.stages, cpu[::-1], mirrored, tied[::-1], memory)]

    @property
    def value(self) -> float:
        """The least cost of a partition; 0 where there is none at all, since the model will say why."""
        value = min(row[-1] for row in self.best)
        return value if math.isfinite(value) else 0.0

    def divided(self, place: int) -> float:
        """The least cost of a partition with a division before the node at `place`."""
        pieces = range(len(self.best))
        return min(self.best[r][place] + self.rest[s][place] for r in pieces for s in pieces if r + s < len(pieces))


def _tied(atoms: Atoms, path: Sequence[int]) -> list[bool]:
    """For each place from 0 to the length of the path: must the nodes before and behind it share a device?"""
    class_of = {a: c for c, members in enumerate(atoms.classes) for a in members}
    owners = [class_of.get(atoms.atom_of[v]) for v in path]
    return [False, *(a is not None and a == b for a, b in pairwise(owners)), False]


def _partitions(
    stages: int, cpu: Sequence[float], loads: _Loads, tied: Sequence[bool], memory: float
) -> list[list[float]]:
    """Least costs by number of pieces and nodes. Both sides of a tied place are on the CPUs, or both in pieces: a run
    of pieces with tied places between them shares one memory."""
    best = [[math.inf] * (len(cpu) + 1) for _ in range(stages + 1)]
    pooled = [[math.inf] * (len(cpu) + 1) for _ in range(stages + 1)]
    ends: dict[tuple[int, int], list[tuple[float, float]]] = {}
    best[0][0] = 0.0
    for j in range(1, len(cpu) + 1):
        for pieces in range(stages + 1):
            before = pooled if tied[j - 1] else best
            pooled[pieces][j] = before[pieces][j - 1] + cpu[j - 1]
            runs_here = []
            for i, load, size in loads[j] if pieces else ():
                runs = ends[pieces - 1, i] if tied[i] else [(0.0, best[pieces - 1][i])]
                runs_here += [(run + size, value + load) for run, value in runs if run + size <= memory]
            if tied[j]:
                ends[pieces, j] = _cheaper_with_size(runs_here)
            best[pieces][j] = min([pooled[pieces][j], *(value for _, value in runs_here)])
    return best


def _cheaper_with_size(runs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Pairs of size and cost without those that are no cheaper than a smaller one."""
    kept: list[tuple[float, float]] = []
    for size, value in sorted(runs):
        if value < (kept[-1][1] if kept else math.inf):
            kept.append((size, value))
    return kept


class _Reach:
    """What is before, behind and together with each node, as bit masks of nodes."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self.before = [0] * atoms.nodes
        self.after = [0] * atoms.nodes
        self.below = [1 << v for v in range(atoms.nodes)]
        self.above = [1 << v for v in range(atoms.nodes)]
        arcs = atoms.arcs_in_order()
        for u, v in arcs:
            self.before[v] |= 1 << u
            self.after[u] |= 1 << v
            self.above[v] |= self.above[u]
        for u, v in reversed(arcs):
            self.below[u] |= self.below[v]
        self.together = [sum(1 << i for i in members) for members in atoms.members]
        self.tied = sum(mask for mask in self.together if mask.bit_count() > 1)
        self.disallowed = sum(1 << v for v in range(atoms.nodes) if not atoms.allowed[atoms.atom_of[v]])

    def atoms_at(self, nodes: Sequence[int]) -> int:
        """All atoms that must be with one of the nodes."""
        mask = 0
        for v in nodes:
            mask |= self.together[self.atoms.atom_of[v]]
        return mask

    def closed(self, held: int, outside: int) -> int | None:
        """The least convex set of whole atoms around a convex set; None where it would hold some of `outside`."""
        while held & self.tied:
            below = above = grown = 0
            for v in bits(held):
                below |= self.below[v]
                above |= self.above[v]
                grown |= self.together[self.atoms.atom_of[v]]
            grown |= below & above
            if grown & outside:
                return None
            if grown == held:
                return held
            held = grown
        return None if held & outside else held


def bits(mask: int) -> Iterator[int]:
    """The positions of the bits that are set, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class _Piece:
    """A convex set that grows, with what its load is made of."""

    def __init__(self, reach: _Reach) -> None:
        self.reach = reach
        self.held = self.reads = self.open = 0
        """Nodes inside, their sources, and those of them that are read outside: bit masks."""
        self.work = self.size = 0.0

    def grow(self, held: int) -> None:
        reach, atoms = self.reach, self.reach.atoms
        for v in bits(held & ~self.held):
            self.work += atoms.accelerator_times[v]
            a = atoms.atom_of[v]
            self.size += atoms.sizes[a] if atoms.members[a][0] == v else 0.0
            self.reads |= reach.before[v]
            self.open |= 1 << v
        self.held = held
        for v in bits(self.open):
            if not reach.after[v] & ~held:
                self.open ^= 1 << v

    def least_load(self, barred: int, room: float) -> float:
        """Work and transfers of any piece that holds this one and nothing of `barred`, with so much memory left.

        Barred is what no accelerator takes, what must be with a node that the path has outside, and all that is before
        or behind such a node: convexity.
        """
        atoms, certain, choices = self.reach.atoms, self.work, dict[int, _Choice]()

        def choice(w: int) -> _Choice:
            a = atoms.atom_of[w]
            return choices.setdefault(
                w, _Choice(atoms.sizes[a] / len(atoms.members[a]), atoms.accelerator_times[w])
            )

        for u in bits(self.reads & ~self.held):
            if barred >> u & 1:
                certain += atoms.transfer_times[u]
            else:
                choice(u).outside += atoms.transfer_times[u]
        for v in bits(self.open):
            targets = self.reach.after[v] & ~self.held
            if targets & barred:
                certain += atoms.transfer_times[v]
            else:
                for w in bits(targets):  # paid once, as soon as one of them is outside
                    choice(w).outside += atoms.transfer_times[v] / targets.bit_count()
        self._join(choices, barred)
        return certain + _relaxed(list(choices.values()), room)

    def _join(self, choices: dict[int, _Choice], barred: int) -> None:
        """Add to the price of nodes inside: what they send to barred nodes, and what they read of them."""
        reach, moved = self.reach, self.reach.atoms.transfer_times
        readers: dict[int, list[_Choice]] = {}
        for w, choice in choices.items():
            if reach.after[w] & barred:
                choice.inside += moved[w]
            for u in bits(reach.before[w] & barred & ~self.reads):
                readers.setdefault(u, []).append(choice)
        for u, reading in readers.items():  # paid once, as soon as one of them is inside
            for choice in reading:
                choice.inside += moved[u] / len(reading)


def _interval_loads(reach: _Reach, path: Sequence[int]) -> _Loads | None:
    """For each end j the starts i, least loads and sizes of pieces that hold path[i:j], as far as an accelerator takes
    them; None: there are too many."""
    loads: _Loads = [[] for _ in range(len(path) + 1)]
    whole = sum(1 << v for v in path)
    behind = [reach.atoms_at(path[j:]) for j in range(len(path) + 1)]
    limit = math.inf if reach.atoms.memory is None else reach.atoms.memory
    for i in range(len(path)):
        piece, inside, elsewhere = _Piece(reach), 0, reach.atoms_at(path[:i])
        for j in range(i + 1, len(path) + 1):
            inside |= 1 << path[j - 1]
            held = reach.closed(reach.below[path[i]] & reach.above[path[j - 1]], whole & ~inside)
            if held is None:
                continue  # with more of the path it may be whole
            piece.grow(held)
            if held & reach.disallowed or piece.size > limit:
                break  # so are all longer ones
            barred = reach.disallowed | elsewhere | (reach.above[path[i - 1]] if i else 0)
            barred |= behind[j] | (reach.below[path[j]] if j < len(path) else 0)
            loads[j].append((i, piece.least_load(barred, limit - piece.size), piece.size))
        if sum(map(len, loads)) > MAX_INTERVALS:
            return None
    return loads


@dataclass
class _Choice:
    """A node that may join a piece: what it costs inside and at least outside."""

    size: float
    inside: float
    outside: float = 0.0


def _relaxed(choices: Sequence[_Choice], room: float) -> float:
    """The least price of the choices where those inside may take no more than `room` (a fractional knapsack)."""
    least = math.fsum(min(c.inside, c.outside) for c in choices)
    wanted = math.fsum(c.size for c in choices if c.inside < c.outside)
    excess = wanted * (1 - SAFETY) - room  # sizes are divided among the nodes of an atom
    dearer = (c for c in choices if c.inside < c.outside and c.size > 0)
    for c in sorted(dearer, key=lambda c: (c.outside - c.inside) / c.size):
        if excess <= 0:
            break
        least += min(1.0, excess / c.size) * (c.outside - c.inside)
        excess -= c.size
    return least
