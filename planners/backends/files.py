"""MPS and LP files of a model: names made unique and harmless, written whole or not at all."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ...instances.errors import InputError
from .model import MatrixModel

LONGEST_NAME = 200
TERMS_PER_LINE = 8
RESERVED = frozenset(
    word
    for line in (
        "st s.t. subject to such that bounds bound end free inf infinity nan obj",
        "general generals gen binary binaries bin integer integers int semi sec",
        "minimize minimise minimum min maximize maximise maximum max",
    )
    for word in line.split()
)
"""Words that LP readers take for something else than a name."""


def write_mps(model: MatrixModel, path: str | Path) -> None:
    """Write the model as a free-format MPS file (names without spaces), atomically."""
    _write(path, _mps_lines(model))


def write_lp(model: MatrixModel, path: str | Path) -> None:
    """Write the model as an LP file, atomically; a constant in the objective becomes a column fixed at 1."""
    _write(path, _lp_lines(model))


def _write(path: str | Path, lines: Iterable[str]) -> None:
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="ascii") as stream:
            stream.writelines(line + "\n" for line in lines)
        part.replace(target)
    except OSError as error:
        raise InputError(
            str(target), f"cannot be written ({error.strerror})", "choose a place that you may write to"
        ) from error
    finally:
        part.unlink(missing_ok=True)


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


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


# ---- MPS -----------------------------------------------------------------------------------------------


def _mps_lines(model: MatrixModel) -> Iterator[str]:
    columns = safe_names(model.column_names, model.columns, "x")
    rows = safe_names(model.row_names, model.rows, "r")
    lower, upper = model.row_lower.tolist(), model.row_upper.tolist()
    if model.maximise:
        yield "* made from a maximisation: all signs of the objective are turned"
    yield "NAME pipeplan FREE"  # the last word keeps CBC from guessing a fixed format
    yield "ROWS"
    yield " N obj"
    for name, low, high in zip(rows, lower, upper, strict=True):
        yield f" {_row_type(low, high)} {name}"
    yield "COLUMNS"
    yield from _mps_columns(model, columns, rows)
    yield "RHS"
    if model.offset:
        yield f" rhs obj {_number(-model.offset)}"
    for name, low, high in zip(rows, lower, upper, strict=True):
        right = high if math.isfinite(high) else low
        if right and math.isfinite(right):
            yield f" rhs {name} {_number(right)}"
    yield "RANGES"
    for name, low, high in zip(rows, lower, upper, strict=True):
        if low != high and math.isfinite(low) and math.isfinite(high):
            yield f" rng {name} {_number(high - low)}"
    yield "BOUNDS"
    for j, name in enumerate(columns):
        yield from _mps_bounds(name, float(model.col_lower[j]), float(model.col_upper[j]), bool(model.integer[j]))
    yield "ENDATA"


def _row_type(low: float, high: float) -> str:
    if low == high:
        return "E"
    if math.isfinite(high):
        return "L"
    return "G" if math.isfinite(low) else "N"


def _mps_columns(model: MatrixModel, columns: Sequence[str], rows: Sequence[str]) -> Iterator[str]:
    by_column = model.A.tocsc()
    starts, entries = by_column.indptr.tolist(), by_column.indices.tolist()
    coefficients, costs = by_column.data.tolist(), model.costs.tolist()
    whole = False
    for j, name in enumerate(columns):
        if bool(model.integer[j]) != whole:
            whole = not whole
            yield f" marker{j} 'MARKER' '{'INTORG' if whole else 'INTEND'}'"
        # A column without any entry would be lost, so the objective names every column.
        if costs[j] or starts[j] == starts[j + 1]:
            yield f" {name} obj {_number(costs[j])}"
        for k in range(starts[j], starts[j + 1]):
            yield f" {name} {rows[entries[k]]} {_number(coefficients[k])}"
    if whole:
        yield " marker 'MARKER' 'INTEND'"


def _mps_bounds(name: str, low: float, high: float, integer: bool) -> Iterator[str]:
    """Readers differ in their defaults (integers up to 1, a negative upper bound): say everything that matters."""
    if low == high:
        yield f" FX bnd {name} {_number(low)}"
        return
    if low == -math.inf and high == math.inf:
        yield f" FR bnd {name}"
        return
    if low == -math.inf:
        yield f" MI bnd {name}"
    elif low or integer or high <= 0:
        yield f" LO bnd {name} {_number(low)}"
    if high < math.inf:
        yield f" UP bnd {name} {_number(high)}"
    elif integer:
        yield f" PL bnd {name}"


# ---- LP ------------------------------------------------------------------------------------------------


def _lp_lines(model: MatrixModel) -> Iterator[str]:
    columns = safe_names(model.column_names, model.columns, "x")
    constant = next(name for name in (f"constant{'_' * k}" for k in range(len(columns) + 1)) if name not in columns)
    if model.maximise:
        yield "\\ made from a maximisation: all signs of the objective are turned"
    yield "minimize"
    yield " obj:"
    terms = [(a, columns[j]) for j, a in enumerate(model.costs.tolist()) if a]
    terms += [(model.offset, constant)] if model.offset else []
    yield from _wrapped(terms or [(0.0, columns[0] if columns else constant)])
    yield "subject to"
    yield from _lp_rows(model, columns, constant)
    yield "bounds"
    # Every column is named here: one without entries would be lost.
    for name, low, high in zip(columns, model.col_lower.tolist(), model.col_upper.tolist(), strict=True):
        yield f" {_lp_bound(name, low, high)}"
    yield f" {constant} = 1"
    whole = [name for j, name in enumerate(columns) if model.integer[j]]
    if whole:
        yield "general"
        yield from (f" {name}" for name in whole)
    yield "end"


def _lp_rows(model: MatrixModel, columns: Sequence[str], constant: str) -> Iterator[str]:
    names = safe_names(model.row_names, model.rows, "r")
    for i, name in enumerate(names):
        index, coefficients = model.row(i)
        terms = [(a, columns[j]) for j, a in zip(index.tolist(), coefficients.tolist(), strict=True)]
        terms = terms or [(0.0, columns[0] if columns else constant)]
        low, high = float(model.row_lower[i]), float(model.row_upper[i])
        # Not every reader takes rows with two sides, so such a row is written twice.
        if low == high:
            yield from _lp_row(name, terms, "=", low)
            continue
        if math.isfinite(high):
            yield from _lp_row(name, terms, "<=", high)
        if math.isfinite(low):
            yield from _lp_row(f"{name}{'_low' if math.isfinite(high) else ''}", terms, ">=", low)


def _lp_row(name: str, terms: Sequence[tuple[float, str]], sign: str, right: float) -> Iterator[str]:
    yield f" {name}:"
    yield from _wrapped(terms)
    yield f"  {sign} {_number(right)}"


def _wrapped(terms: Sequence[tuple[float, str]]) -> Iterator[str]:
    for first in range(0, len(terms), TERMS_PER_LINE):
        part = terms[first : first + TERMS_PER_LINE]
        yield "  " + " ".join(f"{'-' if a < 0 else '+'} {_number(abs(a))} {name}" for a, name in part)


def _lp_bound(name: str, low: float, high: float) -> str:
    if low == high:
        return f"{name} = {_number(low)}"
    if low == -math.inf and high == math.inf:
        return f"{name} free"
    left = "-inf" if low == -math.inf else _number(low)
    right = "+inf" if high == math.inf else _number(high)
    return f"{left} <= {name} <= {right}"
