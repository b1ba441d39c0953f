"""Devices within devices: paths within paths, as rows on top of those of columns.

On every level the stages are a path through the same suffix sets. The columns are the path of level 1; an arc is a
stage of a higher level, in `above` copies of the stages around it. u[e]: the plan has the stage of arc e; k[i, p]:
devices of the level at position i that stages later than part p take in the same stage of the next level. A path is
inside of the next one where all sets on that one are on it, too (14), and where both say the same copies of every
layer (15).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...instances.base.errors import TooLargeError
from ...instances.physics.tolerances import SAFETY
from ...instances.staging.problem import StagingProblem
from ..quick_pyomo import pyo
from .candidates import MAX_COLUMNS, Candidates, Column
from .links import upper_cost
from .stages import StageBook, positions


@dataclass(frozen=True, slots=True)
class Arc:
    """A stage of a level above the first."""

    level: int
    """Position in the problem's levels."""
    inner: int
    outer: int
    """Indices of the suffix sets behind it and with it."""
    members: int
    """Its layers as a bit mask."""
    d: int
    above: tuple[int, ...]
    """Copies of the stages around it, from the next level on."""
    cost: float
    """Time that the stage's links take for one micro-batch of the whole batch."""

    @property
    def within(self) -> tuple[int, ...]:
        """Copies that stages inside of it have above them."""
        return (self.d, *self.above)


Arcs = tuple[Arc, ...]
Part = Column | Arc


def highest_cost(candidates: Candidates, arcs: Arcs) -> float:
    """The highest cost of a stage, over all levels."""
    return max(max(column.cost for column in candidates.columns), max((arc.cost for arc in arcs), default=0.0))


def size_of(part: Part) -> int:
    """Devices that a stage takes of those that stand together on its level."""
    return part.t * part.d if isinstance(part, Column) else part.d


def find_arcs(book: StageBook, candidates: Candidates, cutoff: float | None) -> Arcs:
    """Stages of higher levels, each with a path of stages inside that the devices are enough for, level by level.

    Where some level has none there is no plan.
    """
    levels, all_arcs = book.problem.levels, list[Arc]()
    parts: Sequence[Part] = candidates.columns
    for level in range(1, len(levels)):
        room, arcs = levels[level - 1].devices, list[Arc]()
        by_copies: dict[tuple[int, ...], list[Part]] = defaultdict(list)
        for part in parts:
            by_copies[part.above].append(part)
        for (d, *around), of_copies in by_copies.items():
            outside = math.prod(around)
            for inner, outer in _within_room(of_copies, room):
                members = candidates.lattice.sets[outer] ^ candidates.lattice.sets[inner]
                cost = upper_cost(book.problem, positions(members), d, levels[level].bandwidth) / outside
                if cutoff is None or cost <= cutoff * (1 + SAFETY):
                    arcs.append(Arc(level, inner, outer, members, d, tuple(around), cost))
        arcs = _on_paths(arcs, len(candidates.lattice.sets) - 1)
        all_arcs += arcs
        if len(all_arcs) > MAX_COLUMNS:
            raise TooLargeError("levels", f"have stages in more than {MAX_COLUMNS} ways", "plan with dp-piper")
        parts = arcs
    return tuple(all_arcs)


def _on_paths(arcs: list[Arc], last: int) -> list[Arc]:
    """The stages that lie on some way from the empty set to the set of all layers."""
    forward, backward = {0}, {last}
    for arc in sorted(arcs, key=lambda arc: arc.inner):
        if arc.inner in forward:
            forward.add(arc.outer)
    for arc in sorted(arcs, key=lambda arc: -arc.outer):
        if arc.outer in backward:
            backward.add(arc.inner)
    return [arc for arc in arcs if arc.inner in forward and arc.outer in backward]


def _within_room(parts: Sequence[Part], room: int) -> Iterator[tuple[int, int]]:
    """Pairs of sets that a path of stages joins which together take at most `room` devices."""
    ordered = sorted(parts, key=lambda part: part.inner)
    for start in sorted({part.inner for part in parts}):
        least = {start: 0}
        for part in ordered:
            if part.inner in least and (taken := least[part.inner] + size_of(part)) <= room:
                least[part.outer] = min(taken, least.get(part.outer, taken))
        yield from ((start, end) for end in least if end != start)


# ---- rows ----------------------------------------------------------------------------------------------


def add_levels(model: Any, problem: StagingProblem, candidates: Candidates, arcs: Arcs, unit: float) -> None:
    """Add the variables of higher levels, and rows (13) to (18)."""
    model.u = pyo.Var(range(len(arcs)), domain=pyo.Binary, doc="[e] has the plan the stage e of a higher level?")
    uppers = [
        [(e, arc) for e, arc in enumerate(arcs) if arc.level == level] for level in range(1, len(problem.levels))
    ]
    paths = [_Path([*enumerate(candidates.columns)], model.x), *(_Path(parts, model.u) for parts in uppers)]
    last = len(candidates.lattice.sets) - 1
    _upper_paths(model, paths, last)
    _same_copies(model, paths, len(problem.layers))
    _devices(model, problem, paths, last)
    _links(model, paths, len(problem.layers), unit)


class _Path:
    """The stages of one level with their variables."""

    def __init__(self, parts: Sequence[tuple[int, Part]], chosen: Any) -> None:
        self.parts, self.chosen = dict(parts), chosen
        self.out: dict[int, list[int]] = defaultdict(list)
        self.into: dict[int, list[int]] = defaultdict(list)
        for number, part in parts:
            self.out[part.inner].append(number)
            self.into[part.outer].append(number)

    def through(self, end: int) -> Any:
        """A sum that is 1 where the path comes to that set, else 0."""
        return sum(self.chosen[number] for number in self.into.get(end, ()))

    def of(self, v: int) -> list[int]:
        """Stages that hold the layer."""
        return [number for number, part in self.parts.items() if part.members >> v & 1]


def _upper_paths(model: Any, paths: list[_Path], last: int) -> None:
    """On each level a path of its own, through sets that the path of the level below comes to as well."""
    uppers = range(1, len(paths))
    ends = [(level, end) for level in uppers for end in sorted({0, last, *paths[level].out, *paths[level].into})]

    def path(m: Any, level: int, end: int) -> Any:
        leaving = sum(m.u[e] for e in paths[level].out.get(end, ()))
        if end == 0:
            return leaving == 1
        if end == last:
            return paths[level].through(last) == 1
        return paths[level].through(end) == leaving

    model.eq_13 = pyo.Constraint(ends, rule=path, doc="[level, set] on each level the stages are a path")
    inside = [(level, end) for level, end in ends if end not in (0, last) and paths[level].into.get(end)]
    model.eq_14 = pyo.Constraint(
        inside, rule=lambda m, level, end: paths[level].through(end) <= paths[level - 1].through(end)
    )
    model.eq_14.doc = "[level, set] the path of a level goes through sets of the path below it"


def _same_copies(model: Any, paths: list[_Path], layers: int) -> None:
    """A layer's stage has as many copies above it as the stages around it have."""
    sides: dict[Any, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for level in range(1, len(paths)):
        for v in range(layers):
            for number in paths[level - 1].of(v):
                sides[level, v, paths[level - 1].parts[number].above][0].append(paths[level - 1].chosen[number])
            for e in paths[level].of(v):
                arc = paths[level].parts[e]
                assert isinstance(arc, Arc)
                sides[level, v, arc.within][1].append(model.u[e])
    rows = list(sides.values())
    model.eq_15 = pyo.Constraint(range(len(rows)), rule=lambda m, r: sum(rows[r][0]) == sum(rows[r][1]))
    model.eq_15.doc = "a layer's stage has as many copies above it as the stages of higher levels around it say"


def _devices(model: Any, problem: StagingProblem, paths: list[_Path], last: int) -> None:
    """Stages inside one copy share its devices: what they take is carried from set to set, and forgotten between."""
    rooms = [level.devices for level in problem.levels]
    lower = range(len(paths) - 1)
    carrying = [(level, number) for level in lower for number, part in paths[level].parts.items() if part.inner]

    def room(level: int, number: int) -> int:
        return rooms[level] - size_of(paths[level].parts[number])

    model.k = pyo.Var(carrying, bounds=lambda m, level, number: (0, room(level, number)))
    model.k.doc = "[level, a] devices that stages behind it take inside of the same copy"
    model.eq_16 = pyo.Constraint(
        carrying,
        rule=lambda m, level, number: m.k[level, number] <= room(level, number) * paths[level].chosen[number],
        doc="[level, a] nothing is carried into stages that the plan does not have",
    )

    def carried(m: Any, level: int, end: int) -> Any:
        path = paths[level]
        arriving = sum(
            size_of(path.parts[number]) * path.chosen[number]
            + (m.k[level, number] if path.parts[number].inner else 0)
            for number in path.into[end]
        )
        leaving = sum(m.k[level, number] for number in path.out.get(end, ()))
        return leaving + rooms[level] * paths[level + 1].through(end) >= arriving

    inside = [(level, end) for level in lower for end in sorted(paths[level].into) if end != last]
    model.eq_17_carried = pyo.Constraint(inside, rule=carried)
    model.eq_17_carried.doc = "[level, set] devices taken inside of one copy are carried on"
    top = paths[-1]
    model.eq_17_highest = pyo.Constraint(
        expr=sum(size_of(part) * top.chosen[number] for number, part in top.parts.items()) <= rooms[-1]
    )
    model.eq_17_highest.doc = "the devices of the highest level are enough"


def _links(model: Any, paths: list[_Path], layers: int, unit: float) -> None:
    """The load is no less than what the links of the one stage on each level take that holds a layer."""
    held = {(level, v): paths[level].of(v) for level in range(1, len(paths)) for v in range(layers)}
    model.eq_18 = pyo.Constraint(
        [key for key, numbers in held.items() if numbers],
        rule=lambda m, level, v: sum(paths[level].parts[e].cost / unit * m.u[e] for e in held[level, v]) <= m.T,
        doc="[level, layer] what the links of a level take is at most T",
    )
