"""A path through the suffix sets whose arcs are stages, with rows for flushes and for devices within devices.

x[a]: the plan has the stage of column a; g[a]: the sum of the data-parallel degrees of all later stages, carried
into it; T: the largest load, in units of `unit`. The blocks are eq_1 .. eq_6; cut_* are implied
by them together with integrality.

Pipelines that are flushed take (N + X - m) / N times the largest load, where stages have X copies in all and none fewer
than m; on levels as well. y[n]: the plan takes n slots more than micro-batches; P[n]: the largest load where it does,
else 0. Their sum is T, so the time Z of a batch, a product of two decisions, is linear in P: eq_10 .. eq_12.

On every level the stages are a path through the same suffix sets. The columns are the path of level 1; an arc is a
stage of a higher level, in `above` copies of the stages around it. u[e]: the plan has the stage of arc e; k[i, p]:
devices of the level at position i that stages later than part p take in the same stage of the next level. A path is
inside of the next one where all sets on that one are on it, too (14), and where both say the same copies of every
layer (15): eq_13 .. eq_18.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...instances.base.errors import TooLargeError
from ...instances.physics.tolerances import SAFETY
from ...instances.staging.problem import StagingProblem
from ..quick_pyomo import pyo
from .candidates import MAX_COLUMNS, Candidates, Column
from .memory import upper_cost
from .stages import StageBook, positions

# The largest load in units: on the grid below, the whole numbers in a row of loads are too small for lost digits.
LARGEST_LOAD = 2.0**10

# Steps into which integer solvers divide a load that is as large as the bound.
GRID_STEPS = 2**24


def load_unit(floor: float, highest: float) -> float:
    """What loads are counted in: about the largest one of a good plan, so that absolute tolerances are relative ones.

    A floor far below the highest load that the model knows says little of good plans, and would make for huge
    numbers: then the highest load is the unit. It shrinks with every plan that is found.
    """
    return floor if floor * LARGEST_LOAD > highest else highest or 1.0


def build_columns(
    book: StageBook, candidates: Candidates, unit: float, counts: Counts = (), arcs: Arcs = ()
) -> Any:
    """The Pyomo model. `unit`: about the largest load, so that solvers' absolute tolerances are relative ones.

    `counts`: the numbers of slots that a plan may take, where pipelines are flushed; `arcs`: stages above level 1.
    """
    problem, columns, last = book.problem, candidates.columns, len(candidates.lattice.sets) - 1
    model = pyo.ConcreteModel("mip-piper, columns")
    model.x = pyo.Var(range(len(columns)), domain=pyo.Binary, doc="[a] has the plan the stage of column a?")
    carrying = [a for a, column in enumerate(columns) if column.inner]
    model.g = pyo.Var(carrying, bounds=lambda m, a: (0, columns[a].high))
    model.g.doc = "[a] sum of the data-parallel degrees behind the stage of column a, else 0"
    # No plan needs so much; a bound that is met exactly would only trouble solvers.
    most = 1 + 2 * highest_cost(candidates, arcs) / unit
    model.T = pyo.Var(bounds=(candidates.floor / unit, math.ceil(most)))
    model.T.doc = "the largest load of a stage, in units: the objective has the unit's length as its coefficient"
    model.objective = pyo.Objective(expr=unit * model.T)
    path = _Path([*enumerate(columns)], model.x)
    inside = sorted({*path.out, *path.into} - {0, last})
    model.eq_1 = pyo.Constraint([0, last, *inside], rule=lambda m, end: path.step(end, last))
    model.eq_1.doc = "[set] the stages are a path from no layer to all of them"
    used = [[(a, c.devices) for a, c in enumerate(columns) if c.kind == kind] for kind in range(len(problem.types))]
    model.eq_2 = pyo.Constraint(
        [kind for kind, of_kind in enumerate(used) if of_kind],
        rule=lambda m, kind: sum(count * m.x[a] for a, count in used[kind]) <= problem.types[kind].devices,
        doc="[type] all stages together have as many devices as there are",
    )
    copies = sum(c.copies * model.x[a] for a, c in enumerate(columns))
    model.eq_3 = pyo.Constraint(expr=copies <= problem.micro_batches)
    model.eq_3.doc = "all data-parallel degrees together are at most the micro-batches"
    _carried(model, columns, path, inside)
    holding = [path.of(v) for v in range(len(problem.layers))]
    _loads(model, problem, columns, holding, unit)
    if counts:
        each = [sum(columns[a].copies * model.x[a] for a in stages) for stages in holding]
        add_flush(model, copies, each, counts, unit, problem.micro_batches, book.most)
    if problem.levels:
        add_levels(model, path, problem, candidates, arcs, unit)
    return model


def _carried(model: Any, columns: tuple[Column, ...], path: _Path, inside: list[int]) -> None:
    """Suffix sums along the path; a column's range says what its memory allows."""

    def flow(m: Any, end: int) -> Any:
        arriving = sum((m.g[a] if columns[a].inner else 0) + columns[a].copies * m.x[a] for a in path.into[end])
        return sum(m.g[a] for a in path.out[end]) == arriving

    model.eq_4 = pyo.Constraint(inside, rule=flow)
    model.eq_4.doc = "[set] what is carried through a set is the sum of the degrees behind it"
    model.eq_5 = pyo.Constraint(list(model.g), rule=lambda m, a: m.g[a] <= columns[a].high * m.x[a])
    model.eq_5.doc = "[a] nothing is carried into stages not in the plan, and no more than memory allows"
    lifted = [a for a in model.g if columns[a].low]
    model.cut_low = pyo.Constraint(lifted, rule=lambda m, a: m.g[a] >= columns[a].low * m.x[a])
    model.cut_low.doc = "(5a) [a] implied: a lower bound on what is carried into the stage"


def _loads(
    model: Any, problem: StagingProblem, columns: tuple[Column, ...], holding: list[list[int]], unit: float
) -> None:
    """Add one row per layer, the load of the one stage that it is in."""
    layers = range(len(problem.layers))
    model.eq_6 = pyo.Constraint(
        layers, rule=lambda m, v: sum(columns[a].cost / unit * m.x[a] for a in holding[v]) <= m.T
    )
    model.eq_6.doc = "[layer] the load of the stage that holds it is at most T"
    model.cut_cover = pyo.Constraint(layers, rule=lambda m, v: sum(m.x[a] for a in holding[v]) == 1)
    model.cut_cover.doc = "(6a) [layer] implied: one stage holds the layer"
    speeds = [kind.speed for kind in problem.types]
    device_time = sum(c.devices * speeds[c.kind] * c.cost / unit * model.x[a] for a, c in enumerate(columns))
    capacity = sum(kind.devices * kind.speed for kind in problem.types)
    model.cut_devices = pyo.Constraint(expr=device_time <= capacity * model.T)
    model.cut_devices.doc = "(6b) implied: the time of all devices together is enough"


class Count(NamedTuple):
    """A number of slots that a plan may take."""

    more: int
    """Number of slots beyond the N micro-batches."""
    slots: int
    """Number of slots together with the micro-batches."""
    most: float
    """The largest load that a plan of so many slots may have, in the model's unit."""


Counts = tuple[Count, ...]


def counts_of(most: int, batches: int, floor: float, cutoff: float | None, unit: float, step: float) -> Counts:
    """Numbers of slots, for at most so many copies in all, with which a plan may be as good as the cut-off; no load is
    below `floor`."""
    counts = []
    for more in range(most):
        slots = batches + more
        if cutoff is None:
            counts.append(Count(more, slots, math.inf))
        elif slots / batches * floor <= cutoff:
            # Rounded up, or a plan as good as the cut-off would be lost on the grid.
            counts.append(Count(more, slots, math.ceil(cutoff * batches / slots / unit / step) * step))
    return tuple(counts)


def add_flush(
    model: Any, copies: Any, each: Sequence[Any], counts: Counts, unit: float, batches: int, most: int
) -> None:
    """Add these rows to a model. `copies`: number of copies of all stages, as an expression; `each`: that of single
    stages; `most`: the largest number that a stage may have.

    The objective is made anew: one number times Z, which solvers of whole numbers take as it is.
    """
    from ..quick_pyomo import pyo

    numbers, highest = range(len(counts)), model.T.ub
    model.m = pyo.Var(bounds=(1, most), doc="the fewest copies of a stage, or fewer")
    model.y = pyo.Var(numbers, domain=pyo.Binary, doc="[n] does a batch take the n-th number of slots?")
    model.P = pyo.Var(numbers, bounds=lambda m, i: (0, min(counts[i].most, highest)))
    model.P.doc = "[n] the largest load if it does, else 0"
    model.eq_10_one_number = pyo.Constraint(expr=sum(model.y[i] for i in numbers) == 1)
    model.eq_10_one_number.doc = "a batch takes one number of slots"
    model.eq_10_fewest = pyo.Constraint(range(len(each)), rule=lambda m, i: m.m <= each[i])
    model.eq_10_fewest.doc = "[s] no stage has fewer copies than m"
    model.eq_10_slots = pyo.Constraint(
        expr=sum(count.more * model.y[i] for i, count in enumerate(counts)) == copies - model.m
    )
    model.eq_10_slots.doc = "the slots beyond the micro-batches are the copies of all stages, less m"
    model.eq_11 = pyo.Constraint(numbers, rule=lambda m, i: m.P[i] <= m.P[i].ub * m.y[i])
    model.eq_11.doc = "[n] P is 0 for other numbers of slots"
    model.eq_12_largest = pyo.Constraint(expr=sum(model.P[i] for i in numbers) == model.T, doc="the sum of P is T")
    model.cut_least = pyo.Constraint(numbers, rule=lambda m, i: m.P[i] >= m.T.lb * m.y[i])
    model.cut_least.doc = "(12c) [n] P is at least the bound that is known for T"
    model.Z = pyo.Var(bounds=(0, max((count.slots * min(count.most, highest) for count in counts), default=0)))
    model.Z.doc = "the time of a batch, in units"
    model.eq_12_batch = pyo.Constraint(
        expr=sum(count.slots * model.P[i] for i, count in enumerate(counts)) == model.Z
    )
    model.eq_12_batch.doc = "Z is the sum of the P, each times its number of slots"
    model.del_component(model.objective)
    model.objective = pyo.Objective(expr=unit / batches * model.Z)


def flush_values(counts: Counts, copies: Sequence[int], load: float) -> dict[str, float] | None:
    """Values of these variables where the stages have these copies; {} where nothing is flushed, and None where the
    model knows no plan of so many slots."""
    if not counts:
        return {}
    more = sum(copies) - min(copies)
    if more not in {count.more for count in counts}:
        return None
    values = {"m": float(min(copies))}
    for i, count in enumerate(counts):
        here = count.more == more
        values |= {f"y[{i}]": float(here), f"P[{i}]": load if here else 0.0}
        values |= {"Z": count.slots * load} if here else {}
    return values


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


def add_levels(
    model: Any, lowest: _Path, problem: StagingProblem, candidates: Candidates, arcs: Arcs, unit: float
) -> None:
    """Add the variables of higher levels, and rows (13) to (18); `lowest`: the path of columns."""
    model.u = pyo.Var(range(len(arcs)), domain=pyo.Binary, doc="[e] has the plan the stage e of a higher level?")
    uppers = [
        [(e, arc) for e, arc in enumerate(arcs) if arc.level == level] for level in range(1, len(problem.levels))
    ]
    paths = [lowest, *(_Path(parts, model.u) for parts in uppers)]
    last = len(candidates.lattice.sets) - 1
    _upper_paths(model, paths, last)
    _same_copies(model, paths, len(problem.layers))
    _devices(model, problem, paths, last)
    held = {(level, v): paths[level].of(v) for level in range(1, len(paths)) for v in range(len(problem.layers))}
    model.eq_18 = pyo.Constraint(
        [key for key, numbers in held.items() if numbers],
        rule=lambda m, level, v: sum(paths[level].parts[e].cost / unit * m.u[e] for e in held[level, v]) <= m.T,
        doc="[level, layer] what the links of a level take is at most T",
    )


class _Path:
    """The stages of one level with their variables, and those out of and into each suffix set."""

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

    def step(self, end: int, last: int) -> Any:
        """The path begins at no layer, ends at all of them (`last`), and leaves every other set that it comes to."""
        leaving = sum(self.chosen[number] for number in self.out.get(end, ()))
        if end == 0:
            return leaving == 1
        return self.through(end) == (1 if end == last else leaving)

    def of(self, v: int) -> list[int]:
        """Stages that hold the layer."""
        return [number for number, part in self.parts.items() if part.members >> v & 1]


def _upper_paths(model: Any, paths: list[_Path], last: int) -> None:
    """On each level a path of its own, through sets that the path of the level below comes to as well."""
    uppers = range(1, len(paths))
    ends = [(level, end) for level in uppers for end in sorted({0, last, *paths[level].out, *paths[level].into})]
    model.eq_13 = pyo.Constraint(ends, rule=lambda m, level, end: paths[level].step(end, last))
    model.eq_13.doc = "[level, set] on each level the stages are a path"
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
