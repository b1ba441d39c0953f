"""From the best row of cells to a plan: what the dynamic program of `cells` chose, as pieces.

What runs inside a cell on pieces of its own is priced by a bound there. Here whole chains are shared out among them,
the longest first, each to the piece with the least to do; the fastest are left to the CPUs where that is quicker.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .atoms import Atoms
from .cells import Best, Row, function, row_of


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
        place = cell.pairs[0]
        held = division.start is not None
        pair_of = function("pair_of", len(place) ** 2)
        entry = int(held), int(division.held_behind), division.own, division.step_before, division.step_behind
        i, j = pair_of(*cell.pairs, *entry, cell.table[entry])
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
