"""Runs in a table: a row for each, and columns for what decides its time; what is absent is the problem's own."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ...instances.base.errors import InputError, PipeplanError, UsageError, nearest, show
from ...instances.base.json_file import read_text
from ...instances.base.quantities import GIB, whole_number
from ...instances.physics.hardware import devices_and_gpu
from ...instances.training.build import model_of
from ...instances.training.kind_functions import with_devices
from ...instances.training.known_models import with_layers
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee.verify import framework_faults, shape_faults
from ...instances.training.words import configuration_from_words
from .runs import MeasuredRun

# Columns that change the problem, those that make the configuration, and those that were measured.
OF_PROBLEM = ("model", "layers", "dense_layers", "devices", "sequence", "batch", "precision")
OF_CONFIGURATION = (
    *("micro_batch", "tensor", "context", "pipeline", "virtual", "data", "expert", "zero", "recompute"),
    *("expert_tensor", "schedule", "layout"),
)
MEASURED = ("seconds", "peak_gib")
# Columns of an empty table of measured runs.
COLUMNS = (
    *("model", "layers", "dense_layers", "devices", "sequence", "batch", "micro_batch", "tensor", "context"),
    *("pipeline", "virtual", "data", "expert", "zero", "recompute", "precision", "seconds", "peak_gib"),
)
KNOWN = ("name", *OF_PROBLEM, *OF_CONFIGURATION, *MEASURED)
MOST_ROWS = 10_000
# Larger numbers are no seconds and no GiB of anything, and overflow where they are multiplied.
MOST_AMOUNT = 1e30


def template() -> str:
    """A table with no row."""
    return ",".join(COLUMNS) + "\n"


def runs_of_table(path: str, problem: TrainingProblem) -> tuple[MeasuredRun, ...]:
    """Every row; the first that cannot have been run is refused in one sentence."""
    runs = []
    for number, row in enumerate(_rows(path), start=2):
        where = f"row {number}"
        try:
            runs.append(_run(row, where, problem))
        except InputError as error:
            raise InputError(f"{where}: {error.field}", error.problem, error.remedy, path) from None
        except PipeplanError as error:
            raise UsageError(f"{path}: {where}: {error}") from None
    if not runs:
        raise InputError("content", "has no row", "give one for each run", path)
    return tuple(runs)


def _rows(path: str) -> Iterator[Mapping[str, str]]:
    reader = csv.DictReader(io.StringIO(read_text(path)), strict=True)
    try:
        _check_columns(path, [name.strip() for name in reader.fieldnames or ()])
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        for number, row in enumerate(reader, start=2):
            if number > MOST_ROWS:
                raise InputError("content", f"has more than {MOST_ROWS} rows", "give fewer", path)
            if None in row:
                raise InputError(f"row {number}", "has more cells than there are columns", "drop them", path)
            yield {name: (cell or "").strip() for name, cell in row.items()}
    except csv.Error as error:
        raise InputError("content", f"cannot be read as a table ({error})", "give a CSV file", path) from None


def _check_columns(path: str, names: list[str]) -> None:
    for name in names:
        if name not in KNOWN:
            close = nearest(name, KNOWN)
            remedy = f'write "{close}"' if close else "give some of " + ", ".join(COLUMNS)
            raise InputError("content", f"has the column {show(name)}", remedy, path)
        if names.count(name) > 1:
            raise InputError("content", f"has the column {show(name)} twice", "give it once", path)
    if not set(MEASURED) & set(names):
        raise InputError("content", "has neither the column seconds nor peak_gib", "give what was measured", path)


def _run(row: Mapping[str, str], where: str, problem: TrainingProblem) -> MeasuredRun:
    of_run = _problem(row, problem)
    names = [name for name in OF_CONFIGURATION if row.get(name)]
    words = " ".join(f'{name.replace("_", "-")}="{row[name]}"' for name in names if '"' not in row[name])
    plan = configuration_from_words(of_run, words)
    for fault in (*shape_faults(of_run, plan), *framework_faults(of_run, plan)):
        raise UsageError(f"it cannot have been run: {fault}")
    seconds, peak = (_amount(row, name) for name in MEASURED)
    if seconds is None and peak is None:
        raise InputError("seconds", "is empty, and so is peak_gib", "give what was measured")
    name = row.get("name") or where
    run = MeasuredRun(of_run, plan, seconds, None if peak is None else peak * GIB, name)
    run.check_plausible(by_hand=True)
    return run


def _problem(row: Mapping[str, str], problem: TrainingProblem) -> TrainingProblem:
    """The problem with what this row has of its own."""
    changes: dict[str, Any] = {name: _whole(row, name) for name in ("sequence", "batch") if row.get(name)}
    if row.get("precision"):
        changes["precision"] = row["precision"].lower()
    model = model_of(row["model"]) if row.get("model") else problem.model
    layers, dense = (_whole(row, name) if row.get(name) else None for name in ("layers", "dense_layers"))
    of_run = problem.replace(model=with_layers(model, layers, dense), **changes)
    return of_run if not row.get("devices") else _on(of_run, row["devices"])


def _on(problem: TrainingProblem, text: str) -> TrainingProblem:
    """The problem on another number of the same GPUs, since efficiencies are those of one sort."""
    count = whole_number(text)
    if count is None:
        count, gpu = devices_and_gpu(text)
        if gpu.name != problem.gpu.name:
            raise InputError(
                "devices", f"are {show(text)}, and the problem has {problem.gpu.name}", "give runs on the same GPUs"
            )
    return problem if count == problem.devices else with_devices(problem, count)


def _whole(row: Mapping[str, str], name: str) -> int:
    number = whole_number(row[name])
    if number is None:
        raise InputError(name, f"is {show(row[name])}", "give a whole number")
    return number


def _amount(row: Mapping[str, str], name: str) -> float | None:
    text = row.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < MOST_AMOUNT:
        raise InputError(name, f"is {show(text)}", f"give a number above 0 and below {MOST_AMOUNT:g}")
    return value
