"""A path through the suffix sets whose arcs are stages.

x[a]: the plan has the stage of column a; g[a]: the sum of the data-parallel degrees of all later stages, carried
into it; T: the largest load, in units of `unit`. The blocks are eq_1 .. eq_6; cut_* are implied
by them together with integrality.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...instances.staging.problem import StagingProblem
from ..quick_pyomo import pyo
from .candidates import Candidates, Column
from .flush import Counts, add_flush
from .nested import Arcs, add_levels, highest_cost
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
    problem = book.problem
    columns = candidates.columns
    model = pyo.ConcreteModel("mip-piper, columns")
    model.x = pyo.Var(range(len(columns)), domain=pyo.Binary, doc="[a] has the plan the stage of column a?")
    carrying = [a for a, column in enumerate(columns) if column.inner and book.counts_copies]
    model.g = pyo.Var(carrying, bounds=lambda m, a: (0, columns[a].high))
    model.g.doc = "[a] sum of the data-parallel degrees behind the stage of column a, else 0"
    # No plan needs so much; a bound that is met exactly would only trouble solvers.
    most = 1 + 2 * highest_cost(candidates, arcs) / unit
    model.T = pyo.Var(bounds=(candidates.floor / unit, math.ceil(most)))
    model.T.doc = "the largest load of a stage, in units: the objective has the unit's length as its coefficient"
    model.objective = pyo.Objective(expr=unit * model.T)
    ends = _ends(candidates)
    _path(model, ends)
    _resources(model, problem, columns)
    if book.counts_copies:
        _degrees(model, problem, columns)
        _carried(model, columns, ends)
    _loads(model, problem, columns, unit)
    if counts:
        copies = sum(column.copies * model.x[a] for a, column in enumerate(columns))
        each = [sum(columns[a].copies * model.x[a] for a in stages) for stages in _holding(problem, columns)]
        add_flush(model, copies, each, counts, unit, problem.micro_batches, book.most)
    if problem.levels:
        add_levels(model, problem, candidates, arcs, unit)
    return model


class _Ends(NamedTuple):
    """Columns out of and into each suffix set."""

    out: Mapping[int, list[int]]
    into: Mapping[int, list[int]]
    last: int
    """The set of all layers; the first is 0."""
    inside: list[int]
    """All other sets at which columns begin or end."""


def _ends(candidates: Candidates) -> _Ends:
    out, into = defaultdict(list), defaultdict(list)
    for a, column in enumerate(candidates.columns):
        out[column.inner].append(a)
        into[column.outer].append(a)
    last = len(candidates.lattice.sets) - 1
    return _Ends(out, into, last, sorted((set(out) | set(into)) - {0, last}))


def _path(model: Any, ends: _Ends) -> None:
    out, into, last = ends.out, ends.into, ends.last

    def path(m: Any, end: int) -> Any:
        if end in (0, last):
            return sum(m.x[a] for a in (into[last] if end else out[0])) == 1
        return sum(m.x[a] for a in into[end]) == sum(m.x[a] for a in out[end])

    model.eq_1 = pyo.Constraint([0, last, *ends.inside], rule=path)
    model.eq_1.doc = "[set] the stages are a path from no layer to all of them"


def _resources(model: Any, problem: StagingProblem, columns: tuple[Column, ...]) -> None:
    """Devices of each type; with levels all of them, in as many copies as there are of the stage."""
    used = [[(a, c.devices) for a, c in enumerate(columns) if c.kind == kind] for kind in range(len(problem.types))]
    model.eq_2 = pyo.Constraint(
        [kind for kind, of_kind in enumerate(used) if of_kind],
        rule=lambda m, kind: sum(count * m.x[a] for a, count in used[kind]) <= problem.types[kind].devices,
        doc="[type] all stages together have as many devices as there are",
    )


def _degrees(model: Any, problem: StagingProblem, columns: tuple[Column, ...]) -> None:
    """Replicas of all stages; with levels their copies."""
    degrees = sum(c.copies * model.x[a] for a, c in enumerate(columns))
    if problem.exact_batches:
        model.eq_3 = pyo.Constraint(expr=degrees == problem.micro_batches)
        model.eq_3.doc = "all data-parallel degrees together are at most (or exactly) the micro-batches"
    else:
        model.eq_3 = pyo.Constraint(expr=degrees <= problem.micro_batches)
        model.eq_3.doc = "all data-parallel degrees together are at most (or exactly) the micro-batches"


def _carried(model: Any, columns: tuple[Column, ...], ends: _Ends) -> None:
    """Suffix sums along the path; a column's range says what its memory allows."""

    def flow(m: Any, end: int) -> Any:
        arriving = sum((m.g[a] if columns[a].inner else 0) + columns[a].copies * m.x[a] for a in ends.into[end])
        return sum(m.g[a] for a in ends.out[end]) == arriving

    model.eq_4 = pyo.Constraint(ends.inside, rule=flow)
    model.eq_4.doc = "[set] what is carried through a set is the sum of the degrees behind it"
    model.eq_5 = pyo.Constraint(list(model.g), rule=lambda m, a: m.g[a] <= columns[a].high * m.x[a])
    model.eq_5.doc = "[a] nothing is carried into stages not in the plan, and no more than memory allows"
    lifted = [a for a in model.g if columns[a].low]
    model.cut_low = pyo.Constraint(lifted, rule=lambda m, a: m.g[a] >= columns[a].low * m.x[a])
    model.cut_low.doc = "(5a) [a] implied: a lower bound on what is carried into the stage"


def _holding(problem: StagingProblem, columns: tuple[Column, ...]) -> list[list[int]]:
    """For each layer, the columns that hold it."""
    holding: list[list[int]] = [[] for _ in problem.layers]
    for a, column in enumerate(columns):
        for v in positions(column.members):
            holding[v].append(a)
    return holding


def _loads(model: Any, problem: StagingProblem, columns: tuple[Column, ...], unit: float) -> None:
    """Add one row per layer, the load of the one stage that it is in."""
    holding, layers = _holding(problem, columns), range(len(problem.layers))
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
