"""The whole table of Piper's program: the least time on every number of devices and every sum of degrees, in one run.

For planning clusters: what more devices are worth, and from where on more replicas (and with them a larger batch)
gain nothing. The entry (k, s) is the optimum on at most k devices with data-parallel degrees of at most s in sum.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...formulations.contract import Problem
from ...instances.base.errors import InputError
from ...instances.base.json_file import write_bytes_atomically
from ...instances.staging.problem import StagingProblem
from .model import PiperModel
from .search import Search
from .tables import loop

# Largest number of entries of the table (downsets times devices times sums of degrees), of 8 bytes each.
MAX_ENTRIES = 100_000_000


@dataclass(frozen=True, slots=True)
class DegreeTable:
    """`times[k - 1][s - 1]`: least time per micro-batch on at most k devices, degrees of at most s in sum; None: no
    plan. `proven`: every knapsack behind it was solved to the optimum, and memory counted exactly."""

    times: tuple[tuple[float | None, ...], ...]
    proven: bool
    name: str | None = None
    time_unit: str | None = None

    def time(self, devices: int, degrees: int) -> float | None:
        """Entry (k, s), both counted from 1; larger sums than the table has gain nothing."""
        row = self.times[devices - 1]
        return row[min(degrees, len(row)) - 1]

    def to_csv(self) -> str:
        """One line for each number of devices, one column for each sum of degrees; empty where there is no plan."""
        head = ["devices", *(str(s) for s in range(1, len(self.times[0]) + 1))]
        lines = [
            [str(k), *("" if time is None else repr(time) for time in row)]
            for k, row in enumerate(self.times, start=1)
        ]
        return "".join(",".join(line) + "\n" for line in [head, *lines])


def table_of(search: Search) -> DegreeTable:
    """The table for the model of a search, which has the stages and the knapsacks that it has solved so far."""
    model, tables = search.model, search.tables
    check_size(model)
    values = np.empty((model.downsets, _most(model.problem) + 1, model.problem.devices + 1))
    values[0] = 0.0
    fill, undecided = loop(model, "fill_values"), 0
    for j in range(1, model.downsets):
        undecided += fill(tables.layers, tables.table, tables.cluster, search.exact, j, j + 1, values)
        search.tick()
    final: list[list[float]] = values[-1, 1:, 1:].T.tolist()
    times = tuple(tuple(value if math.isfinite(value) else None for value in row) for row in final)
    proven = search.exact and not undecided and model.memory.exact
    return DegreeTable(times, proven, model.problem.name, model.problem.time_unit)


def _most(problem: StagingProblem) -> int:
    """Largest sum of degrees: a stage takes at least as many devices as replicas, so no sum exceeds the devices."""
    return min(problem.devices, problem.micro_batches)


def check_size(model: PiperModel) -> None:
    """Refuse a table that is too large. This is also asked before the search, whose result would be lost otherwise."""
    problem = model.problem
    if model.downsets * (_most(problem) + 1) * (problem.devices + 1) > MAX_ENTRIES:
        raise InputError(
            "devices", "make too large a table with this network", "ask for fewer devices or drop --option table"
        )


def check_table(problem: StagingProblem, path: str | os.PathLike[str] | None) -> None:
    """Refuse, before anything is computed, a problem that has no such table and a file that is not a .csv."""
    if problem.exact_batches:
        raise InputError(
            "exact_batches",
            "leaves no table of smaller sums of degrees",
            "plan for at most N, or drop --option table",
        )
    if path is not None and Path(path).suffix.lower() != ".csv":
        ending = Path(path).suffix or "nothing"
        raise InputError("table", f"ends in {ending!r}", "name a file that ends in .csv", str(path))


def read_table(path: str | os.PathLike[str], problem: Problem) -> DegreeTable:
    """Read the times of a table that `write_table` wrote; `proven` is lost."""
    _, *rows = Path(path).read_text("utf-8").splitlines()
    times = tuple(tuple(float(cell) if cell else None for cell in row.split(",")[1:]) for row in rows)
    return DegreeTable(times, False, problem.name, problem.time_unit)


def write_table(table: DegreeTable, path: str | os.PathLike[str]) -> None:
    write_bytes_atomically(path, table.to_csv().encode())
