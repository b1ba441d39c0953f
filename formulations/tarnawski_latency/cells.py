"""A bound for graphs that are nearly chains: cells in a row, with cut nodes between them.

A cut node comes after all nodes before it and before all others, and no arc leads past it. Every plan takes one cut
node after the other, each on the CPUs or in a piece, and a piece that holds two of them holds all that is between. So
a plan is a row of pieces and CPU nodes, and every cell in which a piece begins or ends is divided: an ideal of it
belongs to the piece before (or nothing, where the cut node before is on the CPUs), a filter to the piece behind, and
what remains runs in between, on CPUs and on pieces of its own. The latency is the sum of all that, exactly. A dynamic
program over the row, with memory and the number of pieces, is a bound if each divided cell costs no more than it must.

What remains of a cell is priced by chains that cover it. Of two units that touch one chain, one waits for the other.
So a chain that no piece touches takes all of its CPU time. Let r pieces of loads L_p touch the other n chains, n_p
chains each, within time G, and let work y_c of chain c be done on CPUs, s >= 1 times as slowly at least. Then
s y_c + sum of its L_p <= G for each of them, and their work with what pieces must read and send of it is at most

    sum of L_p + sum of y_c <= sum of L_p (1 - n_p / s) + G n / s <= G (r - 1 + max(1, (n - r + 1) / s)):

where each chain meets one piece, sum of n_p = n, and a piece adds the larger of G and G n_p / s; where a chain meets
two, they have G together, so the sum of L_p is at most (r - 1) G. With s < 1 no more than G n / s is left.

What the r pieces have no room for is on the CPUs: nodes of work F there take Y >= s F, and H, the sum of the L_p, is at
least the work less F. A chain has done y_c <= G - L_p, so Y <= n G - (sum of n_p L_p). Let k = n - r + 1. If H is at
least (r - 1) G, then the sum is at least (r - 1) G + k (H - (r - 1) G), where the piece with the least load meets most
chains; so r G >= H + Y / k. If not, then H < (r - 1) G and H + Y <= n G, which is the case of G (r - 1 + k / s) above.
So memory may be charged with Y / k - F, as long as k <= s makes that no gain.

A plan follows from the best row (`stages_of_row`): what runs inside a cell on pieces of its own is priced by a bound,
and whole chains of it are shared out among them, the longest first, each to the piece with the least to do; the fastest
are left to the CPUs where that is quicker.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ...instances.base import clock
from ...instances.base.compiled import compiled, repays_loading
from ...instances.base.graph import closed_sets
from ..tarnawski.groups import topological_ranks
from . import cell_kernel
from .atoms import Atoms

# The most ideals of one cell and of one part of it, whose pairs are all looked at. A larger cell costs its longest path
# where it is divided.
MAX_IDEALS = 200_000
MAX_PART_IDEALS = 12_000

# The most pairs of ideals of all cells; cells beyond that number count as too large.
MAX_PAIRS = 1_000_000_000

# Pairs between two looks at the clock, about a tenth of a second; and how much of the time left all cells may take.
SLICE = 500_000
TIME_SHARE = 0.5

# Steps in which the memory for the parts of a divided cell is counted.
STEPS = 24

# No single time counts more than this many longest paths, so that sums of floats stay precise.
CAP = 100.0

# Steps of a loop from which on machine code pays, and the steps that a pair of ideals takes.
COMPILED_FROM = 20_000
STEPS_OF_A_PAIR = 10


@dataclass(frozen=True)
class Cell:
    """The nodes between two cut nodes; None: there is none, before the first cell and behind the last."""

    before: int | None
    inner: tuple[int, ...]
    """Positions of the nodes between the two cut nodes, in topological order."""
    behind: int | None


def cell_bound(atoms: Atoms, *, further: bool = True) -> float:
    """Lower bound on the latency; 0 where the graph is no row of cells. `further`: divide cells as long as the clock
    lets us; False: take what is known."""
    row = row_of(atoms)
    if row is not None and further:
        row.go_on()
    return 0.0 if row is None else row.bound


@lru_cache(maxsize=8)
def row_of(atoms: Atoms) -> Row | None:
    """The row of cells; None where there is nothing to divide."""
    cells = cells_of(atoms)
    longest = max(atoms.finish_times(atoms.least_times()))
    if len(cells) < 3 or not atoms.stages or not 0 < longest < math.inf:
        return None
    return Row(atoms, cells, CAP * longest)


def cells_of(atoms: Atoms) -> tuple[Cell, ...]:
    """The cells in topological order; a single one where the graph has no cut node."""
    rank = topological_ranks(atoms.nodes, atoms.arcs)
    order = sorted(range(atoms.nodes), key=rank.__getitem__)
    read, sent = {u for u, _ in atoms.arcs}, {v for _, v in atoms.arcs}
    first_sink = min(rank[v] for v in order if v not in read)
    last_source = max(rank[v] for v in order if v not in sent)
    furthest = [0] * atoms.nodes
    for u, v in atoms.arcs:
        furthest[rank[u]] = max(furthest[rank[u]], rank[v])
    cells: list[Cell] = []
    start, reach, before = 0, 0, None
    for place, v in enumerate(order):
        if reach <= place and last_source <= place <= first_sink:
            cells.append(Cell(before, tuple(order[start:place]), v))
            start, before = place + 1, v
        reach = max(reach, furthest[place])
    return (*cells, Cell(before, tuple(order[start:]), None))


@dataclass(frozen=True)
class Divided:
    """What a cell costs where it is divided: see `cell_kernel`."""

    table: Any
    least: Any
    most: Any
    """Memory of each step, before and behind: of the smallest and of the largest part there."""
    chains: tuple[tuple[int, ...], ...] = ()
    pairs: cell_kernel.Pairs | None = None
    """What `cell_kernel` needs to find a pair again; None: the cell is not divided, or too large."""
    steps: int = 0
    """Upper bound on the number of pairs of its ideals."""

    @property
    def ideals(self) -> int:
        return 0 if self.pairs is None else len(self.pairs.place)


@dataclass(frozen=True)
class Best:
    """The least cost of the row, and what all its beginnings cost: see `cell_kernel.best_row`."""

    value: float
    pooled: Any
    begun: Any


class Row:
    """The row as arrays."""

    def __init__(self, atoms: Atoms, cells: Sequence[Cell], cap: float) -> None:
        import numpy as np

        self.atoms, self.cells = atoms, cells
        self.fast = [min(time, cap) for time in atoms.accelerator_times]
        self.slow = [min(time, cap) if atoms.has_cpu else cap for time in atoms.cpu_times]
        self.moved = [min(time, cap) for time in atoms.transfer_times]
        self.allowed = [atoms.allowed[a] for a in atoms.atom_of]
        self.least = [min(f, s) if ok else s for f, s, ok in zip(self.fast, self.slow, self.allowed, strict=True)]
        self.node_sizes = [0.0] * atoms.nodes
        if atoms.memory is not None:
            for members, size in zip(atoms.members, atoms.sizes, strict=True):
                self.node_sizes[members[0]] = size
        self.capacity = math.inf if atoms.memory is None else atoms.memory
        self.after: list[list[int]] = [[] for _ in range(atoms.nodes)]
        for u, v in atoms.arcs:
            self.after[u].append(v)
        parts = ([cell.inner for cell in cells], [() if cell.behind is None else (cell.behind,) for cell in cells])
        self.work = np.array([[self.held(nodes) for nodes in part] for part in parts])
        self.sizes = np.array([[math.fsum(self.node_sizes[v] for v in nodes) for nodes in part] for part in parts])
        self.cpu = np.array([math.fsum(self.slow[v] for v in nodes) for nodes in parts[1]])
        self.divided = [self.coarse(cell) for cell in cells]
        self.open = sorted(range(len(cells)), key=lambda j: len(cells[j].inner), reverse=True)
        """Cells that are still to be divided, the smallest last."""
        self.pairs = 0
        self.begun: tuple[Divided, int] | None = None
        """The last cell of `open`, as far as it is divided, and the ideal with which to go on."""
        self.stack()

    def go_on(self) -> None:
        """Divide the cells that are open while there is time; the others keep their longest paths as their costs."""
        left = clock.seconds_left()
        end = math.inf if left is None else clock.now() + TIME_SHARE * left
        before = len(self.open)
        while self.open and clock.now() < end:
            j = self.open[-1]
            cell, begin = self.begun or (self.divide(self.cells[j]), 0)
            while cell is not None and cell.pairs is not None and begin < cell.ideals and clock.now() < end:
                begin = function("divisions", STEPS_OF_A_PAIR * self.pairs)(cell.pairs, cell.table, begin, SLICE)
            self.begun = None
            if cell is not None and begin < cell.ideals:
                self.begun = cell, begin
                break
            if cell is not None:
                self.divided[j] = cell
            self.open.pop()
        if len(self.open) < before:
            self.stack()

    def stack(self) -> None:
        """Join the tables of all cells, with infinite costs where a cell has no entry, and compute the bound."""
        import numpy as np

        own, steps = (max(cell.table.shape[axis] for cell in self.divided) for axis in (2, 3))
        tables = np.full((len(self.cells), 2, 2, own, steps, steps), math.inf)
        least, most = np.full((2, 2, len(self.cells), steps), math.inf)
        for j, cell in enumerate(self.divided):
            r, m = cell.table.shape[2:4]
            tables[j, :, :, :r, :m, :m] = cell.table
            least[:, j, :m], most[:, j, :m] = cell.least, cell.most
        self.tables, self.least_rooms, self.most_rooms = tables, least, most
        value = self.best(least).value
        self.bound = value if math.isfinite(value) else 0.0

    def best(self, rooms: Any) -> Best:
        """The cheapest row: with `least_rooms` its cost is a bound; with `most_rooms` all of it fits the memory."""
        import numpy as np

        cells, pieces, steps = len(self.cells), self.atoms.stages, rooms.shape[2]
        pooled, begun = np.full((cells, pieces + 1), math.inf), np.full((cells, pieces + 1, steps), math.inf)
        best_row = function("best_row", cells**2 * pieces * steps**2)
        value = best_row(self.tables, *rooms, self.work, self.sizes, self.cpu, self.capacity, pooled, begun)
        return Best(float(value), pooled, begun)

    def held(self, nodes: Sequence[int]) -> float:
        """Work of these nodes on one accelerator; infinite where none takes them all."""
        return math.fsum(self.fast[v] for v in nodes) if all(self.allowed[v] for v in nodes) else math.inf

    def divide(self, cell: Cell) -> Divided | None:
        """The cell with a table that is still to be filled; None: it is too large."""
        import numpy as np

        parts = self.parts(cell)
        if (ideals := self.ideals(parts)) is None:
            return None
        masks, strides = ideals
        twins = [k > 0 and self.looks(cell, part) == self.looks(cell, parts[k - 1]) for k, part in enumerate(parts)]
        pairs = _count_pairs([a // b for a, b in pairwise(strides)], twins)
        if self.pairs + pairs > MAX_PAIRS:
            return None
        self.pairs += pairs
        chains_of = [self.chains(part) for part in parts] or [[[]]]
        chains = [chain for of_part in chains_of for chain in of_part]
        at = {v: b for b, v in enumerate(v for part in parts for v in part)}
        member = np.concatenate([*masks, np.zeros((strides[0], 0), dtype=bool)], axis=1)
        place = np.empty((strides[0], len(chains)), dtype=np.int64)
        for c, chain in enumerate(chains):
            place[:, c] = member[:, [at[v] for v in chain]].sum(axis=1)
        crossing = self.crossing(cell, member, at)
        work, sizes, barred = (
            member @ np.array([amounts[v] for v in at])
            for amounts in (self.fast, self.node_sizes, [float(not allowed) for allowed in self.allowed])
        )
        before = np.where(barred > 0, math.inf, work + crossing)
        behind = np.where(barred < barred[-1], math.inf, work[-1] - work + crossing)
        steps, least, most = _memory_steps((sizes, sizes[-1] - sizes))
        # Lower bounds on how many times slower the CPUs are.
        ratios = [self.slow[v] / self.fast[v] for v in cell.inner if self.allowed[v] and self.fast[v] > 0]
        fast, slow, quickest = (self.prefixes(chains, times) for times in (self.fast, self.slow, self.least))
        own = min(self.atoms.stages, len(chains) + 1)  # the last stands for more, too, and so has room for all
        pairs_of = cell_kernel.Pairs(
            place=place,
            fast=fast,
            slow=slow,
            least=quickest,
            moved=self.least_moved(cell, chains),
            each=self.least_of_each(cell),
            before=before,
            behind=behind,
            steps=steps,
            sizes=self.prefixes(chains, self.node_sizes),
            relief=self.relief(cell, len(chains)),
            room=self.capacity,
            ratio=max(min(ratios, default=math.inf), 1e-18),
            gaps=np.zeros(1 + own),
            strides=np.array(strides),
            twins=np.array(twins, dtype=bool),
            firsts=np.cumsum([0, *map(len, chains_of)]),
            places=np.zeros((2, len(parts)), int),
        )
        table = np.full((2, 2, 1 + own, least.shape[1], least.shape[1]), math.inf)
        return Divided(table, least, most, tuple(map(tuple, chains)), pairs_of, pairs)

    def coarse(self, cell: Cell) -> Divided:
        """The division of a cell that is too large to look at: wherever its nodes are, it takes at least its longest
        path."""
        import numpy as np

        finish = dict.fromkeys(cell.inner, 0.0)
        for v in cell.inner:
            finish[v] += self.least[v]
            for w in self.after[v]:
                if w in finish:
                    finish[w] = max(finish[w], finish[v])
        room = np.zeros((2, 1))
        return Divided(np.full((2, 2, 1, 1, 1), max(finish.values(), default=0.0)), room, room)

    def parts(self, cell: Cell) -> list[list[int]]:
        """The nodes that hang together inside the cell; equal parts one after the other."""
        part = {v: [v] for v in cell.inner}
        for u in cell.inner:
            for v in self.after[u]:
                if v in part and part[u] is not part[v]:
                    part[u] += part[v]
                    part.update(dict.fromkeys(part[v], part[u]))
        place = {v: b for b, v in enumerate(cell.inner)}
        parts = {id(nodes): sorted(nodes, key=place.__getitem__) for nodes in part.values()}.values()
        return sorted(parts, key=lambda nodes: self.looks(cell, nodes))

    def looks(self, cell: Cell, part: Sequence[int]) -> tuple[Any, ...]:
        """All that matters of a part of a cell: the same for parts that may stand in for each other."""
        at = {v: b for b, v in enumerate((*part, cell.behind))}
        reads = () if cell.before is None else self.after[cell.before]
        amounts = (self.fast, self.slow, self.moved, self.node_sizes, self.allowed)
        return tuple(
            (v in reads, sorted(at[w] for w in self.after[v]), *(each[v] for each in amounts)) for v in part
        )

    def ideals(self, parts: Sequence[Sequence[int]]) -> tuple[list[Any], list[int]] | None:
        """All ideals of the cell, for each part a table of who is in them; an ideal has one of every part. The second
        list says after how many ideals that of a part changes: see `cell_kernel.divisions`."""
        import numpy as np

        own = []
        for part in parts:
            if (masks := self.part_ideals(part)) is None:
                return None
            own.append(np.array([[mask >> b & 1 for b in range(len(part))] for mask in masks], dtype=bool))
        strides = [math.prod(map(len, own[k:])) for k in range(len(own) + 1)]
        if strides[0] > MAX_IDEALS:
            return None
        numbers = np.arange(strides[0])
        return [masks[numbers // strides[k + 1] % len(masks)] for k, masks in enumerate(own)], strides

    def part_ideals(self, part: Sequence[int]) -> list[int] | None:
        """All sets of nodes with all that is before them, as masks of places in `part`; the smaller ones first."""
        at = {v: b for b, v in enumerate(part)}
        needs = [0] * len(part)
        for u in part:
            for v in self.after[u]:
                if v in at:
                    needs[at[v]] |= 1 << at[u]
        return closed_sets(needs, MAX_PART_IDEALS)

    def chains(self, inner: Sequence[int]) -> list[list[int]]:
        """Paths that share no node and cover all; each is the one with the most work of what is left."""
        left, paths = set(inner), []
        while left:
            ahead: dict[int, tuple[float, int | None]] = {}
            for v in reversed(inner):
                if v in left:
                    rows = ((ahead[w][0], w) for w in self.after[v] if w in left)
                    best, following = max(rows, default=(0.0, None), key=lambda row: row[0])
                    ahead[v] = (best + self.fast[v] + self.slow[v], following)
            node: int | None = max(ahead, key=lambda v: ahead[v][0])
            chain = []
            while node is not None:
                chain.append(node)
                node = ahead[node][1]
            left -= set(chain)
            paths.append(chain)
        return paths

    def prefixes(self, chains: Sequence[Sequence[int]], times: Sequence[float]) -> Any:
        """Times of the first nodes of each chain."""
        import numpy as np

        sums = np.zeros((len(chains), 1 + max(map(len, chains))))
        for c, chain in enumerate(chains):
            sums[c, 1 : 1 + len(chain)] = np.cumsum([times[v] for v in chain])
        return sums

    def crossing(self, cell: Cell, member: Any, at: Mapping[int, int]) -> Any:
        """For each ideal: transfer times of its outputs, and of the cut node before, that nodes behind it read."""
        import numpy as np

        total = np.zeros(len(member))
        for u in cell.inner if cell.before is None else (cell.before, *cell.inner):
            inside = [at[v] for v in self.after[u] if v in at]
            leaves = ~member[:, inside].all(axis=1) | any(v not in at for v in self.after[u])
            total += self.moved[u] * (leaves & member[:, at[u]] if u in at else leaves)
        return total

    def relief(self, cell: Cell, chains: int) -> Any:
        """[k, 0]: memory of nodes on the CPUs, [k, 1]: by how much the k-th part of their time there is more than their
        time on an accelerator; sums, with the best nodes first."""
        import numpy as np

        held = [v for v in cell.inner if self.node_sizes[v] > 0]
        tables = np.zeros((1 + chains, 2, 2 + len(held)))
        for k in range(1, 1 + chains):
            rows = [(self.node_sizes[v], self.slow[v] / k - self.fast[v]) for v in held]
            rows.sort(key=lambda row: row[1] / row[0])
            tables[k] = np.cumsum([(0.0, 0.0), *rows, (1.0, 0.0)], axis=0).T
        return tables

    def least_moved(self, cell: Cell, chains: Sequence[Sequence[int]]) -> Any:
        """[side, chain, first, last]: what a piece reads (side 0) and sends (1) of that part of the chain itself, and
        what the part takes in time if a piece touches it (2).

        It may begin with the chain, and read what others read, too; and it may end with the chain, where what reads
        the last node is in the piece.
        """
        import numpy as np

        width = 1 + max(map(len, chains))
        moved = np.zeros((3, len(chains), width, width))
        for c, chain in enumerate(chains):
            sends = [self.moved[v] for v in chain]
            if chain and cell.behind not in self.after[chain[-1]]:
                sends[-1] = 0.0
            for first in range(1, len(chain)):
                moved[0, c, first, first + 1 :] = min(sends[first - 1 : -1])
            for first in range(len(chain)):
                moved[1, c, first, first + 1 : len(chain) + 1] = np.minimum.accumulate(sends[first:])
                moved[2, c, first, first + 1 : len(chain) + 1] = list(self.touched(cell, chain, first, sends))
        return moved

    def touched(self, cell: Cell, chain: Sequence[int], first: int, sends: Sequence[float]) -> Iterator[float]:
        """For each end: the least time of the chain from `first` on, at least one node of it in a piece, with what the
        chain itself makes pieces read and send."""
        pooled, held, left = 0.0, math.inf, math.inf  # all on the CPUs; in a piece; on the CPUs behind one
        for place in range(first, len(chain)):
            v = chain[place]
            read = self.read(cell, chain, place)
            sent = held + (sends[place - 1] if place > first else 0.0)
            inside = min(pooled + read, left + read, held, sent + read) + self.fast[v]
            pooled, held, left = (
                pooled + self.slow[v],
                inside if self.allowed[v] else math.inf,
                min(left, sent) + self.slow[v],
            )
            yield min(left, held + sends[place])

    def read(self, cell: Cell, chain: Sequence[int], place: int) -> float:
        """What a piece reads if it has this node of the chain and nothing before."""
        if place:
            return self.moved[chain[place - 1]]
        return self.moved[cell.before] if cell.before is not None and chain[0] in self.after[cell.before] else 0.0

    def least_of_each(self, cell: Cell) -> Any:
        """The least that any piece inside the cell reads and sends."""
        import numpy as np

        if cell.before is None or cell.behind is None or not cell.inner:
            return np.zeros(2)
        sent = min(self.moved[v] for v in cell.inner)
        return np.array([min(sent, self.moved[cell.before]), sent])


def function(name: str, steps: float) -> Any:
    """A function of the kernel, compiled where there is enough to do."""
    return compiled(cell_kernel, name) if repays_loading(steps, COMPILED_FROM) else getattr(cell_kernel, name)


def _count_pairs(ideals: Sequence[int], twins: Sequence[bool]) -> int:
    """The most pairs of ideals, one in the other, where those that differ in the order of equal parts count once."""
    pairs, alike = 1, 1
    for number, twin in zip(ideals, twins, strict=True):
        alike = alike + 1 if twin else 1
        pairs = pairs * (math.comb(number + 1, 2) + alike - 1) // alike
    return pairs


def _memory_steps(held: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Divide the memory of both sides of a cut, the ideal and what is behind it, into at most `STEPS` steps.

    Returns, for each side, the step of every ideal, and the least and the largest memory of each step.
    """
    import numpy as np

    values = [np.unique(amounts) for amounts in held]
    edges = [
        v if len(v) <= STEPS else v[np.unique(np.searchsorted(v, np.linspace(0.0, v[-1], STEPS)))] for v in values
    ]
    steps = np.array(
        [np.searchsorted(e, amounts, side="right") - 1 for e, amounts in zip(edges, held, strict=True)]
    )
    least, most = np.full((2, 2, max(map(len, edges))), math.inf)
    for side, e in enumerate(edges):
        least[side, : len(e)], most[side, : len(e)] = e, 0.0
        np.maximum.at(most[side], steps[side], held[side])
    return steps, least, most


@dataclass(frozen=True)
class _Division:
    """How one cell is divided. `start`: the cell where the piece before began; None where the node before is on the
    CPUs."""

    cell: int
    start: int | None
    held_behind: bool
    own: int
    step_before: int
    step_behind: int


def stages_of_row(atoms: Atoms) -> list[int | None] | None:
    """Node -> its piece, numbered as they begin, or None for the CPUs; None where no row is known to fit."""
    row = row_of(atoms)
    if row is None:
        return None
    row.go_on()
    if any(cell.pairs is None for cell in row.divided):
        return None
    best = row.best(row.most_rooms)
    return _Builder(row, _divisions(row, best)).stages if math.isfinite(best.value) else None


def _divisions(row: Row, best: Best) -> list[_Division]:
    """The divisions of the best row in its order. They are found from its end: the costs are the very same sums."""
    cell, held, step, divisions = len(row.cells) - 1, False, 0, list[_Division]()
    pieces = min(range(best.pooled.shape[1]), key=lambda p: best.pooled[cell, p])
    while cell >= 0:
        division, pieces, step = next(_ways(row, best, cell, pieces, held, step))
        divisions.append(division)
        held = division.start is not None
        cell = cell - 1 if division.start is None else division.start
    return divisions[::-1]


def _ways(
    row: Row, best: Best, cell: int, pieces: int, held: bool, step: int
) -> Iterator[tuple[_Division, int, int]]:
    """All divisions that lead to these costs, each with the pieces before it and the step of the beginning."""
    value = best.begun[cell, pieces, step] if held else best.pooled[cell, pieces]
    for own in range(min(row.tables.shape[3], pieces - held + 1)):
        left = pieces - held - own
        start = best.pooled[cell - 1, left] if cell else (0.0 if left == 0 else math.inf)
        if _sum(row, start, cell, 0, held, own, 0, step) == value:
            yield _Division(cell, None, held, own, 0, step), left, 0
        for begin, load, size in _pieces_before(row, cell):
            for m in range(row.tables.shape[4]):
                fits = [
                    n
                    for n in range(row.tables.shape[5])
                    if size + row.most_rooms[0, cell, m] + row.most_rooms[1, begin, n] <= row.capacity
                ]
                n = min(fits, key=lambda n: best.begun[begin, left, n], default=None)
                if n is None or not math.isfinite(best.begun[begin, left, n]):
                    continue
                if _sum(row, best.begun[begin, left, n] + load, cell, 1, held, own, m, step) == value:
                    yield _Division(cell, begin, held, own, m, step), left, n


def _sum(row: Row, value: float, cell: int, side: int, held: bool, own: int, m: int, n: int) -> float:
    cost = row.tables[cell, side, int(held), own, m, n if held else 0]
    return float(value + cost if held else value + cost + row.cpu[cell])


def _pieces_before(row: Row, cell: int) -> Iterator[tuple[int, float, float]]:
    """Where a piece that ends in the cell may have begun, with the load and the size of what lies between."""
    load = size = 0.0
    for begin in range(cell - 1, -1, -1):
        inner = begin < cell - 1
        load += row.work[1, begin] + (row.work[0, begin + 1] if inner else 0.0)
        size += row.sizes[1, begin] + (row.sizes[0, begin + 1] if inner else 0.0)
        if load == math.inf or size > row.capacity:
            return
        yield begin, load, size


class _Builder:
    """Gives each node its piece, division after division."""

    def __init__(self, row: Row, divisions: Sequence[_Division]) -> None:
        self.row = row
        self.stages: list[int | None] = [None] * row.atoms.nodes
        self.count = 0
        piece = None
        for division in divisions:
            if division.start is not None:
                self.whole(range(division.start, division.cell), piece)
            piece = self.divide(division, piece)

    def new(self) -> int:
        self.count += 1
        return self.count - 1

    def put(self, nodes: Sequence[int], piece: int | None) -> None:
        for v in nodes:
            self.stages[v] = piece

    def whole(self, cells: range, piece: int | None) -> None:
        """Put the cut nodes behind these cells, and all nodes between them, into the piece."""
        for j in cells:
            behind = self.row.cells[j].behind
            assert behind is not None, "only the last cell has nothing behind it"
            self.stages[behind] = piece
            if j > cells[0]:
                self.put(self.row.cells[j].inner, piece)

    def divide(self, division: _Division, piece: int | None) -> int | None:
        """Put the nodes of a cell in which `piece` ends; returns the piece that begins there."""
        cell = self.row.divided[division.cell]
        assert cell.pairs is not None, "there is no plan otherwise"
        place = cell.pairs.place
        held = division.start is not None
        pair_of = function("pair_of", len(place) ** 2)
        entry = int(held), int(division.held_behind), division.own, division.step_before, division.step_behind
        i, j = pair_of(cell.pairs, *entry, cell.table[entry])
        parts = []
        for c, chain in enumerate(cell.chains):
            self.put(chain[: place[i, c]], piece)
            parts.append(chain[place[i, c] : place[j, c]])
        self.share(parts, [self.new() for _ in range(division.own)])
        begun = self.new() if division.held_behind else None
        for c, chain in enumerate(cell.chains):
            self.put(chain[place[j, c] :], begun)
        return begun

    def share(self, parts: Sequence[Sequence[int]], pieces: Sequence[int]) -> None:
        """Share parts of chains out among pieces; the CPUs get the fastest parts, as many of them as is best."""
        fast, slow = (
            {part: math.fsum(times[v] for v in part) for part in map(tuple, parts)}
            for times in (self.row.fast, self.row.slow)
        )
        ordered = sorted(fast, key=lambda part: -slow[part])
        trials = []
        for touched in range(len(ordered) + 1) if pieces else (0,):
            loads, rooms = dict.fromkeys(pieces, 0.0), dict.fromkeys(pieces, self.row.capacity)
            chosen = {}
            for part in sorted(ordered[:touched], key=lambda part: -fast[part]):
                size = math.fsum(self.row.node_sizes[v] for v in part)
                fitting = [piece for piece in pieces if size <= rooms[piece]]
                if fitting:
                    least = min(fitting, key=lambda piece: loads[piece])
                    chosen[part] = least
                    loads[least] += fast[part]
                    rooms[least] -= size
            value = max([*loads.values(), *(slow[part] for part in ordered if part not in chosen)], default=0.0)
            trials.append((value, chosen))
        _, best = min(trials, key=lambda trial: trial[0])
        for part in ordered:
            self.put(part, best.get(part))
