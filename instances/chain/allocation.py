"""An allocation that the user gives: the schedule alone is sought then."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import InputError, show
from .problem import ChainProblem

FIELD = "option allocation"
REMEDY = "give the GPU (from 0) of each layer, as 0,1,1,0, or a file with such a list, a plan or a result"

_NUMBERS = re.compile(r"\[?[\s0-9,]*\]?")


def given_allocation(problem: ChainProblem, options: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The GPU of each layer by the option `allocation`; None where it is not given."""
    value = options.get("allocation")
    return None if value is None else _checked(problem, read_allocation(value))


def read_allocation(value: Any) -> list[Any]:
    """The GPU of each layer, from a list, a text with one, or the name of a file.

    Files are read once, at the door: what is stored in options and results is the list.
    """
    if isinstance(value, (list, tuple)):
        return list(value)
    if not isinstance(value, str):
        raise InputError(FIELD, f"is {show(value)}", REMEDY)
    return _listed(value) if is_listed(value) else _from_file(value)


def is_listed(text: str) -> bool:
    """Does the text hold the numbers themselves?"""
    return _NUMBERS.fullmatch(text) is not None


def _listed(text: str) -> list[Any]:
    parts = [part.strip() for part in text.strip("[] \t\n").split(",")]
    if not all(part.isdigit() and len(part) < 10 for part in parts):
        raise InputError(FIELD, f"is {show(text)}", REMEDY)
    return [int(part) for part in parts]


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


def whole_numbers(values: Sequence[Any], gpus: int | None = None) -> tuple[int, ...]:
    """The values, which must be whole numbers from 0 and, where it is given, below the number of GPUs."""
    for i, gpu in enumerate(values):
        whole = isinstance(gpu, int) and not isinstance(gpu, bool)
        if not whole or gpu < 0 or (gpus is not None and gpu >= gpus):
            remedy = "give whole numbers from 0" + ("" if gpus is None else f" to {gpus - 1}")
            raise InputError(FIELD, f"puts layer {i + 1} on GPU {show(gpu)}", remedy)
    return tuple(values)


def _checked(problem: ChainProblem, values: Sequence[Any]) -> tuple[int, ...]:
    if len(values) != problem.layers:
        raise InputError(FIELD, f"has {len(values)} entries for {problem.layers} layers", REMEDY)
    return whole_numbers(values, problem.gpus)


def canonical(allocation: Sequence[int]) -> tuple[int, ...]:
    """GPUs numbered by their first layers, as the models number them."""
    label: dict[int, int] = {}
    return tuple(label.setdefault(gpu, len(label)) for gpu in allocation)


def stored_allocation(value: Any) -> tuple[int, ...] | None:
    """The allocation that a result was made for; None where it says none, or only the name of a file."""
    if value is None or (isinstance(value, str) and not is_listed(value)):
        return None
    return whole_numbers(read_allocation(value))


def unknown_allocation(value: Any) -> str | None:
    """A sentence on a result that has the name of a file in place of its allocation, as results once had."""
    if value is None or stored_allocation(value) is not None:
        return None
    return (
        f"the result names a file for its allocation, {value!r}, and not the allocation itself: "
        "whether the plan has that allocation was not checked; solve again to have it stored"
    )
