"""Memory in models of placements: rows for solvers in floats, and rows that cut off what such rows let through."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..instances.base.amounts import exact_sum, fits
from ..instances.placement.plan import PlacementPlan
from ..instances.placement.problem import PlacementProblem
from .contract import ExtraRow

# What solvers in floats may overlook, in either direction, in a row whose limit is 1.
TOLERANCE = 1e-6


def memory_row(terms: Iterable[tuple[float, Any]], memory: float) -> Any:
    """Sizes times variables are at most the memory, relaxed by what a solver in floats may overlook.

    So it never calls a plan impossible that fits to the last byte. What it lets through, the referee refuses.
    """
    unit = memory or 1.0
    return sum(size / unit * variable for size, variable in terms if size) <= memory / unit + TOLERANCE


@dataclass(frozen=True, slots=True)
class Cover:
    """No accelerator can hold more than `most` of these things."""

    things: tuple[int, ...]
    most: int


def covers(problem: PlacementProblem, members: Sequence[Sequence[int]], plan: PlacementPlan) -> Iterator[Cover]:
    """A cover for each accelerator of the plan whose memory is exceeded; `members`: the nodes of each thing.

    It has the accelerator's largest things until the memory is exceeded: one of them must go. Things that are at
    least as large as all of these may stand in for any of them.
    """
    sizes = [exact_sum(problem.nodes[i].size_bytes for i in nodes) for nodes in members]
    limit = problem.memory_bytes
    for device in plan.devices:
        here = {problem.index[node_id] for node_id in device.nodes}
        if device.type != "accelerator" or fits((problem.nodes[i].size_bytes for i in here), limit):
            continue
        chosen: list[int] = []
        for thing in sorted((t for t, nodes in enumerate(members) if here & set(nodes)), key=lambda t: -sizes[t]):
            chosen.append(thing)
            if not fits((sizes[t] for t in chosen), limit):
                break
        largest = sizes[chosen[0]]
        others = (t for t in range(len(members)) if t not in chosen and sizes[t] >= largest)
        yield Cover((*chosen, *others), len(chosen) - 1)


def cover_rows(
    problem: PlacementProblem,
    members: Sequence[Sequence[int]],
    plan: PlacementPlan,
    devices: Sequence[int],
    columns: Callable[[int, int], Sequence[str]],
    unless: str | None = None,
) -> list[ExtraRow]:
    """No device holds more of a cover than fits.

    `columns`: names of the columns of a thing and a device, one of which is 1 where the thing is on the device.
    `unless`: a family of columns; a device whose column is 1 may hold anything.
    """
    rows = []
    for cover in covers(problem, members, plan):
        for i in devices:
            names = [name for thing in cover.things for name in columns(thing, i)]
            if len(names) > cover.most:
                rows.append(_at_most(names, cover.most, None if unless is None else f"{unless}[{i}]"))
    return rows


def _at_most(names: Sequence[str], most: int, unless: str | None) -> ExtraRow:
    """A row by which at most `most` of these binary columns are 1, unless the column `unless` is 1."""
    coefficients = dict.fromkeys(names, 1.0)
    if unless is not None:
        coefficients[unless] = float(most - len(names))
    return ExtraRow(coefficients, -math.inf, most)
