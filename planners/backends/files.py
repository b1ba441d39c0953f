"""MPS and LP files of a model, written by HiGHS: names made harmless, each file whole or not there at all."""

from __future__ import annotations

import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...formulations.contract import ExtraRow
from ...instances.base.compiled import child_environment, own_python
from ...instances.base.errors import InputError
from ...instances.base.json_file import write_bytes_atomically
from .model import MatrixModel
from .process import describe_end

# Longer names are cut off: readers of LP files limit them.
LONGEST_NAME = 200
# Words that LP readers take for something else than a name.
RESERVED = frozenset(
    word
    for line in (
        "st s.t. subject to such that bounds bound end free inf infinity nan obj",
        "general generals gen binary binaries bin integer integers int semi sec",
        "minimize minimise minimum min maximize maximise maximum max",
    )
    for word in line.split()
)
# A section of HiGHS's LP files that lists columns.
SECTION = re.compile(r"^(bin|gen|semi)\n((?: .*\n)*)", re.MULTILINE)
# HiGHS writes headings that CBC takes for names of columns: shortened, or with nothing below.
HEADINGS = {"bin": "binary", "gen": "general"}
# A file without its last line is not whole.
LAST_LINES = {".mps": "ENDATA\n", ".lp": "end\n"}
# The smallest coefficient that HiGHS can be told to keep; by default it drops those below 1e-9.
LEAST_COEFFICIENT = 1e-12


def write_model(model: MatrixModel, path: str | Path) -> None:
    """Write an .mps or .lp file (its name says which), from a process that has no solver loaded and wants none."""
    command = own_python("-c", f"from {__name__} import main; main()", Path(path).suffix)
    done = subprocess.run(command, input=pickle.dumps(model), env=child_environment(), capture_output=True)
    if done.returncode:
        reason = describe_end(done.returncode, done.stderr.decode().strip(), "writing")
        raise InputError(str(path), f"cannot be written ({reason})", "make room on the disk for temporary files")
    write_bytes_atomically(path, done.stdout)


def as_written(model: MatrixModel, suffix: str) -> MatrixModel:
    """The rows and columns of the file, with their names there."""
    named = replace(model, column_names=tuple(safe_names(model.column_names, model.columns, "x")))
    ready = _for_lp(named) if suffix == ".lp" else _for_mps(named)
    return replace(ready, row_names=tuple(safe_names(ready.row_names, ready.rows, "r")))


def text_of(model: MatrixModel, suffix: str) -> str:
    """What the file says, in a process that may load HiGHS. Numbers have 15 digits."""
    import highspy

    from .highs import checked, linear_program

    is_lp = suffix == ".lp"
    ready = as_written(model, suffix)
    program = linear_program(ready)
    program.model_name_ = "pipeplan FREE"  # the last word keeps CBC from guessing a fixed format
    program.col_names_ = list(ready.column_names)
    program.row_names_ = list(ready.row_names)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.silent()
    checked(solver.setOptionValue("small_matrix_value", LEAST_COEFFICIENT), "the least coefficient")
    checked(solver.setOptionValue("large_matrix_value", math.inf), "the largest coefficient")
    checked(solver.passModel(program), "the model")
    with tempfile.TemporaryDirectory(prefix="pipeplan-") as folder:
        path = Path(folder) / f"model{suffix}"
        checked(solver.writeModel(str(path)), "to write the model")
        text = path.read_text()
    if not text.endswith(LAST_LINES[suffix]):
        raise OSError("HiGHS has not written the whole model")  # it does not say so itself
    if is_lp:
        text = SECTION.sub(lambda found: f"{HEADINGS[found[1]]}\n{found[2]}" if found[2] else "", text)
    if model.maximise:
        comment = "\\" if is_lp else "*"
        text = f"{comment} made from a maximisation: all signs of the objective are turned\n{text}"
    return text


def _for_mps(model: MatrixModel) -> MatrixModel:
    """The model with a row without sides for columns of no row: HiGHS would write continuous ones as integers."""
    idle = np.flatnonzero(np.bincount(model.col_index, minlength=model.columns) == 0).tolist()
    row = ExtraRow({model.column_names[j]: 1.0 for j in idle}, -math.inf, math.inf)
    return model.with_rows([row]) if idle else model


def _for_lp(model: MatrixModel) -> MatrixModel:
    """The model with a column that is 1 in place of the constant and in rows without columns, since not every reader
    takes these."""
    name = safe_names([*model.column_names, "constant"], model.columns + 1, "x")[-1]
    empty = np.flatnonzero(np.diff(model.row_start) == 0)
    before, shift = model.row_start[empty], np.isin(np.arange(model.rows), empty)
    return replace(
        model,
        offset=0.0,
        costs=np.append(model.costs, model.offset),
        col_lower=np.append(model.col_lower, 1.0),
        col_upper=np.append(model.col_upper, 1.0),
        integer=np.append(model.integer, False),
        column_names=(*model.column_names, name),
        row_start=(model.row_start + np.append(0, np.cumsum(shift))).astype(np.int32),
        col_index=np.insert(model.col_index, before, model.columns),
        coefficients=np.insert(model.coefficients, before, 1.0),
        row_lower=model.row_lower + shift,
        row_upper=model.row_upper + shift,
    )


def safe_names(names: Sequence[str], count: int, letter: str) -> list[str]:
    """Names of letters, digits, underscores and dots, unique without regard to case, none a number or a keyword."""
    taken: set[str] = set()
    result = []
    for i in range(count):
        plain = re.sub(r"[^A-Za-z0-9_.]", "_", names[i] if names else f"{letter}{i}")[:LONGEST_NAME]
        if not re.match(r"[A-Za-z_]", plain) or re.match(r"[eE][0-9.]", plain) or plain.lower() in RESERVED:
            plain = f"{letter}_{plain}"
        unique = plain
        while unique.lower() in taken:
            unique = f"{plain}_{i}" if unique == plain else f"{unique}_"
        taken.add(unique.lower())
        result.append(unique)
    return result


def main() -> None:
    """What the process of `write_model` does. HiGHS greets on the standard output, which is the file."""
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)
        answer.write(text_of(pickle.load(sys.stdin.buffer), sys.argv[1]))
