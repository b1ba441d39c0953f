"""Periodic patterns: which GPU holds each layer, when each task and each transfer starts, and the period."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from ..base.errors import InputError, show
from ..base.fields import as_list, as_number, as_object, as_whole, each, join, read_plan
from ..base.kind import AnyPlan
from ..base.quantities import whole_number, whole_numbers
from .problem import ChainProblem

EXAMPLE = '{"kind": "pattern", "period": ..., "allocation": [...], "starts": [...], "transfers": {...}}'


@dataclass(frozen=True, repr=False)
class PatternPlan(AnyPlan):
    """Batch r of the pattern starts task t at `starts[r][t - 1]`; with k rows, batch r + j k runs j periods later.

    Nothing is checked here: judging plans is the referee's task. Times may be fractions, which are kept exact
    until they are written to a file.
    """

    period: float
    """Period of the pattern, in which k batches enter and leave."""
    allocation: tuple[int, ...]
    """The GPU (from 0) of layers 1..L."""
    starts: tuple[tuple[float, ...], ...]
    """For each batch of the pattern, the absolute starts of tasks 1..2L."""
    transfers: tuple[Mapping[int, float], ...]
    """For each batch of the pattern, the absolute starts of the transfers of edges between GPUs."""

    kind = "pattern"

    @property
    def batches_per_period(self) -> int:
        return len(self.starts)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON data: starts are one flat row for one batch per period, and a list of rows for more."""
        starts = [[_number(time) for time in row] for row in self.starts]
        transfers = [{str(edge): _number(row[edge]) for edge in sorted(row)} for row in self.transfers]
        flat = len(starts) == len(transfers) == 1
        return {
            "kind": self.kind,
            "period": _number(self.period),
            "batches_per_period": self.batches_per_period,
            "allocation": list(self.allocation),
            "starts": starts[0] if flat else starts,
            "transfers": transfers[0] if flat else transfers,
        }

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> PatternPlan:
        """Read a plan object; shape and types are checked, merits are not. `where` is its path in the file."""
        batches = as_object(where, data, EXAMPLE).get("batches_per_period", 1)
        as_whole(join(where, "batches_per_period"), batches)
        return read_plan(
            cls,
            cls.kind,
            where,
            data,
            EXAMPLE,
            period=as_number,
            allocation=each(as_whole),
            starts=partial(_starts, batches=batches),
            transfers=partial(_transfers, batches=batches),
        )


def _number(value: float | Fraction) -> float:
    """What JSON can hold: whole numbers as such, other fractions as the nearest floating-point number."""
    if isinstance(value, int):
        return value
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return float(value)


def _rows(where: str, value: object, batches: int, flat: bool) -> Sequence[tuple[str, object]]:
    """Each batch's row with its path in the file; one batch may be written without the list around it."""
    if flat and batches == 1:
        return [(where, value)]
    rows = as_list(where, value)
    if len(rows) != batches:
        raise InputError(where, f"has {len(rows)} rows for {batches} batches per period", f"give {batches} rows")
    return [(f"{where}[{r}]", row) for r, row in enumerate(rows)]


def _starts(where: str, value: object, batches: int) -> tuple[tuple[float, ...], ...]:
    flat = not any(isinstance(entry, list) for entry in as_list(where, value))
    rows = [(place, as_list(place, row)) for place, row in _rows(where, value, batches, flat)]
    return tuple(tuple(as_number(f"{place}[{i}]", time) for i, time in enumerate(row)) for place, row in rows)


def _transfers(where: str, value: object, batches: int) -> tuple[Mapping[int, float], ...]:
    flat = not isinstance(value, list)
    return tuple(_transfer_row(place, row) for place, row in _rows(where, value, batches, flat))


def _transfer_row(where: str, value: object) -> Mapping[int, float]:
    row = as_object(where, value, '{"EDGE": start}')
    starts: dict[int, float] = {}
    for key, time in row.items():
        edge = whole_number(key)
        if edge is None:
            raise InputError(where, f"has the key {show(key)}, not an edge", "give the number of an edge")
        starts[edge] = as_number(join(where, key), time)
    return starts


# ---- an allocation that the user gives: the schedule alone is sought then ----------------------------

FIELD = "option allocation"
REMEDY = "give the GPU (from 0) of each layer, as 0,1,1,0, or a file with such a list, a plan or a result"

# A text that holds the numbers themselves, and is no name of a file.
_NUMBERS = re.compile(r"\[?[\s0-9,]*\]?")


def given_allocation(problem: ChainProblem, options: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The GPU of each layer by the option `allocation`; None where it is not given."""
    value = options.get("allocation")
    if value is None:
        return None
    values = read_allocation(value)
    if len(values) != problem.layers:
        raise InputError(FIELD, f"has {len(values)} entries for {problem.layers} layers", REMEDY)
    return _gpu_numbers(values, problem.gpus)


def read_allocation(value: Any) -> list[Any]:
    """The GPU of each layer, from a list, a text with one, or the name of a file.

    Files are read once, at the door: what is stored in options and results is the list.
    """
    if isinstance(value, (list, tuple)):
        return list(value)
    if not isinstance(value, str):
        raise InputError(FIELD, f"is {show(value)}", REMEDY)
    if _NUMBERS.fullmatch(value) is None:
        return _from_file(value)
    numbers = whole_numbers(value.strip("[] \t\n"))
    if numbers is None:
        raise InputError(FIELD, f"is {show(value)}", REMEDY)
    return list(numbers)


def _from_file(path: str) -> list[Any]:
    """The list in a file: the file is that list, or a plan or a result with an `allocation`."""
    from ..base.json_file import read_json

    if not os.path.exists(path):
        raise InputError(FIELD, f"is {show(path)}, which is neither a list nor a file", REMEDY)
    data = read_json(path)
    if isinstance(data, dict) and isinstance(data.get("plan"), dict):
        data = data["plan"]
    if isinstance(data, dict):
        data = data.get("allocation")
    if not isinstance(data, list):
        raise InputError(FIELD, "holds no allocation", REMEDY, path)
    return data


def _gpu_numbers(values: Sequence[Any], gpus: int | None = None) -> tuple[int, ...]:
    """The values, which must be whole numbers from 0 and, where it is given, below the number of GPUs."""
    for i, gpu in enumerate(values):
        whole = isinstance(gpu, int) and not isinstance(gpu, bool)
        if not whole or gpu < 0 or (gpus is not None and gpu >= gpus):
            remedy = "give whole numbers from 0" + ("" if gpus is None else f" to {gpus - 1}")
            raise InputError(FIELD, f"puts layer {i + 1} on GPU {show(gpu)}", remedy)
    return tuple(values)


def canonical(allocation: Sequence[int]) -> tuple[int, ...]:
    """GPUs numbered by their first layers, as the models number them."""
    label: dict[int, int] = {}
    return tuple(label.setdefault(gpu, len(label)) for gpu in allocation)


def stored_allocation(value: Any) -> tuple[int, ...] | None:
    """The allocation that a result was made for; None where it says none. No file is read for what a result says."""
    if isinstance(value, str) and _NUMBERS.fullmatch(value) is None:
        raise InputError(FIELD, f"is {show(value)}", "give the GPU (from 0) of each layer, as 0,1,1,0")
    return None if value is None else _gpu_numbers(read_allocation(value))
