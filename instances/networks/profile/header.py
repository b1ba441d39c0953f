"""The columns of a table of layers: names, synonyms and units, as they stand in its first row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...base.amounts import as_written
from ...base.cluster import SECONDS
from ...base.errors import InputError, nearest, show
from ...base.quantities import BYTES, unit_like

# Both signs that stand for micro.
TIME_UNITS: Mapping[str, Fraction] = {**SECONDS, "µs": SECONDS["us"], "μs": SECONDS["us"]}
BYTE_UNITS: Mapping[str, Fraction] = {unit: as_written(factor) for unit, factor in BYTES.items() if unit}

EXPECTED = "layer, forward [ms], backward [ms], parameters [MB], activation [MB], output [MB]"
OPTIONAL = "parameters_count in place of parameters, depends_on, count and comment"
REMEDY = f"the header is {EXPECTED}; also {OPTIONAL}"


@dataclass(frozen=True, slots=True)
class ColumnType:
    """What a column may be called, and which units it may have; None: the column has no unit."""

    synonyms: str
    units: Mapping[str, Fraction] | None = None
    example: str = ""


COLUMNS: Mapping[str, ColumnType] = {
    "layer": ColumnType("name node block module operator op layer_name"),
    "forward": ColumnType("fwd fw forward_time fwd_time time_forward forward_pass", TIME_UNITS, "ms"),
    "backward": ColumnType("bwd bw backward_time bwd_time time_backward backward_pass", TIME_UNITS, "ms"),
    "parameters": ColumnType("parameter params param weights weight parameter_size", BYTE_UNITS, "MB"),
    "parameters_count": ColumnType("parameter_count params_count param_count num_parameters num_params"),
    "activation": ColumnType("activations saved stash saved_for_backward activation_size", BYTE_UNITS, "MB"),
    "output": ColumnType("outputs out output_size sent sends", BYTE_UNITS, "MB"),
    "depends_on": ColumnType("depends dependencies inputs reads reads_from parents after"),
    "count": ColumnType("repeat repeats copies"),
}
_NAMES: Mapping[str, str] = {
    word: name for name, column in COLUMNS.items() for word in (name, *column.synonyms.split())
}
# Columns for people, which are never read.
IGNORED = ("comment", "comments", "note", "notes", "remark", "remarks", "description")
_HEADER = re.compile(r"(?P<name>[^\[\](){}]*?)\s*(?:[\[({]\s*(?P<unit>[^\[\](){}]*?)\s*[\])}])?")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: our name and the table's title, its place, and how many seconds or bytes a 1 in it means."""

    name: str
    position: int
    title: str
    unit: str | None
    factor: Fraction

    def __str__(self) -> str:
        return f"column {letters(self.position)} ({self.title})"


def letters(position: int) -> str:
    """A, B, ..., Z, AA, ...: columns as spreadsheets name them."""
    text, rest = "", position + 1
    while rest:
        rest, digit = divmod(rest - 1, 26)
        text = chr(ord("A") + digit) + text
    return text


def read_header(titles: Sequence[str], training: bool, bytes_per_parameter: float | None) -> dict[str, Column]:
    """The columns by our own names; unknown, repeated and missing columns and wrong units are refused."""
    columns: dict[str, Column] = {}
    if not any(_word(title) in (*_NAMES, *IGNORED) or nearest(_word(title), _NAMES) for title in titles):
        raise InputError(
            "row 1", f"holds no known column ({show(titles[0])}, ...)", f"begin with a header: {REMEDY}"
        )
    for position, title in enumerate(titles):
        if not title or _word(title) in IGNORED:  # empty titles: nothing stands below them
            continue
        column = _column(position, title, bytes_per_parameter)
        if column.name in columns:
            first = columns[column.name]
            raise InputError(f"row 1, {column}", f"says the same as {first}", "keep one of the two")
        columns[column.name] = column
    if "parameters" in columns and "parameters_count" in columns:
        raise InputError(
            f"row 1, {columns['parameters_count']}", f"stands beside {columns['parameters']}", "keep one of the two"
        )
    for name in _needed(columns, training):
        if name not in columns:
            raise InputError("row 1", f"has no column {name}", f"add it: {REMEDY}")
    return columns


def _needed(columns: Mapping[str, Column], training: bool) -> tuple[str, ...]:
    parameters = "parameters_count" if "parameters_count" in columns else "parameters"
    return ("layer", "forward", *(("backward", "activation") if training else ()), parameters, "output")


def _column(position: int, title: str, bytes_per_parameter: float | None) -> Column:
    place = f"row 1, column {letters(position)}"
    match, word = _HEADER.fullmatch(title), _word(title)
    name = _NAMES.get(word)
    if match is None or name is None:
        raise InputError(place, f"is {show(title)}, which is no known column", _nearest(word))
    where = f"{place} ({title})"
    if name == "parameters_count":
        return Column(name, position, title, None, _per_parameter(where, match["unit"], bytes_per_parameter))
    return Column(name, position, title, match["unit"], _factor(where, name, match["unit"]))


def _word(title: str) -> str:
    """A column title without its unit, in small letters, with underscores between words; empty where it is no
    title."""
    match = _HEADER.fullmatch(title)
    return re.sub(r"[\s.-]+", "_", match["name"].strip().lower()) if match else ""


def _nearest(word: str) -> str:
    close = nearest(word, _NAMES)
    meant = "remove it, or call it comment" if close is None else f"write {_NAMES[close]}"
    return f"{meant}: {REMEDY}"


def _factor(where: str, name: str, unit: str | None) -> Fraction:
    units, example = COLUMNS[name].units, COLUMNS[name].example
    if units is None:
        if unit:
            raise InputError(where, f"has the unit {show(unit)}", f"write {name} alone: it has none")
        return Fraction(1)
    if not unit:
        raise InputError(where, "names no unit", f"write one behind it, such as {name} [{example}]")
    if unit not in units:
        similar = unit_like(unit, units)
        remedy = f"give one of {', '.join(units)}" if similar is None else f"write {name} [{similar}]"
        raise InputError(where, f"has the unknown unit {show(unit)}", remedy)
    return units[unit]


def _per_parameter(where: str, unit: str | None, bytes_per_parameter: float | None) -> Fraction:
    if unit:
        raise InputError(where, f"has the unit {show(unit)}", "write parameters for bytes, or drop the unit")
    if bytes_per_parameter is None:
        remedy = "give --bytes-per-parameter, such as 2, or a column parameters [MB]"
        raise InputError(where, "counts parameters and nobody says how large one is", remedy)
    return as_written(bytes_per_parameter)
