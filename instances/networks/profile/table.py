"""A table of layers -> profile: one row a layer, units in the header.

A row gives a layer's time forward and backward, the bytes of its parameters, what it saves for the backward pass
(`activation`) and what it sends on (`output`), for one micro-batch. `count` repeats a layer as `name[0]`, `name[1]`,
...; without a column `depends_on` every layer reads from the one above it.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

from ...base.amounts import as_written
from ...base.checks import MAX_AMOUNT, MAX_ID_CHARACTERS
from ...base.cluster import SECONDS
from ...base.errors import InputError, errors_in, nearest, show
from ...base.graph import find_cycle, topological_order
from ...base.json_file import read_text
from ...base.quantities import BYTES, several, unit_like
from ...foreign import SUFFIXES
from .options import SAMPLES
from .profile import Profile, ProfileNode, ProfileTensor

# Largest number of layers of a table, all repetitions counted.
MAX_LAYERS = 10_000

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
# Characters of a number: enough for every float, and few enough to read quickly.
_LONGEST_NUMBER = 400
_NUMBER_REMEDY = "give a number such as 12.5: no unit, no thousands separator, a point before decimals"
# Names that the error about a circle of layers lists at most.
_SHOWN_CIRCLE = 6


def table_template() -> str:
    """A filled example as CSV: a transformer."""
    return resources.files(__package__).joinpath("template.csv").read_text(encoding="utf-8")


def read_table(
    path: str | os.PathLike[str],
    *,
    training: bool = True,
    bytes_per_parameter: float | None = None,
    micro_batch: int | None = None,
) -> Profile:
    """The profile in a table; errors name row and column as a spreadsheet does."""
    with errors_in(path):
        sheet = read_sheet(path)
        columns = read_header(sheet.header, training, bytes_per_parameter)
        layers = _layers(sheet, columns, training)
        nodes, tensors = _graph(layers, columns)
    unit = str(columns["forward"].unit)
    return Profile(
        nodes=nodes,
        tensors=tensors,
        name=Path(path).stem,
        training=training,
        micro_batch=1 if micro_batch is None else micro_batch,
        time_unit="us" if unit in ("µs", "μs") else unit,
        source={
            "how": "table",
            "file": Path(path).name,
            "header": list(sheet.header),
            **({} if micro_batch is None else {SAMPLES: micro_batch}),
        },
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    """A row: amounts in the profile's own units."""

    row: int
    name: str
    amounts: Mapping[str, float]
    count: int
    reads: tuple[str, ...] | None
    """Names of the layers that it reads; None: the layer above."""

    @property
    def copies(self) -> tuple[str, ...]:
        return tuple(f"{self.name}[{i}]" for i in range(self.count)) if self.count > 1 else (self.name,)


class _Cells:
    """The cells of a row by our names of the columns; errors name the row and the column."""

    def __init__(self, row: Row, columns: Mapping[str, Column]) -> None:
        self.row, self.columns = row, columns

    def get(self, name: str) -> Cell:
        return self.row.cells[self.columns[name].position] if name in self.columns else None

    def error(self, name: str, problem: str, remedy: str) -> InputError:
        return InputError(f"row {self.row.number}, {self.columns[name]}", problem, remedy)

    def text(self, name: str) -> str:
        return self.get(name) or ""

    def number(self, name: str) -> Fraction:
        text = self.get(name)
        if text is None:
            raise self.error(name, "is empty", "give a number, 0 where there is nothing")
        if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
            raise self.error(name, f"is {text}", "give a finite number >= 0")
        if not _NUMBER.fullmatch(text) or len(text) > _LONGEST_NUMBER:
            raise self.error(name, f"is {show(text)}, not a number", _NUMBER_REMEDY)
        number = Fraction(text)
        if number < 0:
            raise self.error(name, f"is negative ({text})", "give a number >= 0")
        return number

    def amount(self, name: str, per: Fraction = Fraction(1)) -> float:
        """The amount in a cell, in units of `per` seconds or bytes."""
        amount = self.number(name) * self.columns[name].factor / per
        if amount > MAX_AMOUNT:
            raise self.error(name, f"is too large ({show(self.get(name))})", f"give at most {MAX_AMOUNT:g}")
        return float(amount)

    def whole(self, name: str, most: int) -> int:
        number = self.number(name)
        if number.denominator != 1 or not 1 <= number <= most:
            raise self.error(name, f"is {show(self.get(name))}", f"give a whole number from 1 to {most}")
        return int(number)


# ---- rows ----------------------------------------------------------------------------------------------


def _layers(sheet: Sheet, columns: Mapping[str, Column], training: bool) -> list[_Layer]:
    if not sheet.rows:
        raise InputError("row 2", "is missing: there is a header and no layer", f"add a row a layer: {EXPECTED}")
    layers: list[_Layer] = []
    first: dict[str, int] = {}
    total = 0
    for row in sheet.rows:
        cells = _Cells(row, columns)
        layer = _layer(cells, training)
        total += layer.count
        if total > MAX_LAYERS:
            where = "count" if "count" in columns else "layer"
            raise cells.error(where, f"makes more than {MAX_LAYERS} layers", "join layers to blocks")
        for name in layer.copies:
            if name in first:
                remedy = "give every layer a name of its own, or one row with a count"
                raise cells.error("layer", f"repeats {show(name)} of row {first[name]}", remedy)
            first[name] = row.number
        layers.append(layer)
    _refuse_sum(layers, _Cells(sheet.rows[-1], columns))
    return layers


# What people call a row that adds up the others.
SUMS = ("total", "totals", "sum", "sums", "summe", "gesamt", "total:", "sum:")
# With fewer layers above it, a last row is not taken for their sum because of its numbers alone.
FEWEST = 3


def _refuse_sum(layers: Sequence[_Layer], cells: _Cells) -> None:
    """Refuse a last row that is the sum of the others, since it would be planned as one more layer."""
    *others, last = layers
    if not others:
        return
    named = last.name.lower() in SUMS
    sums = {name: math.fsum(x.count * x.amounts[name] for x in others) for name in last.amounts if name != "output"}
    adds_up = all(math.isclose(last.amounts[name], total, rel_tol=1e-3) for name, total in sums.items())
    if named or (adds_up and len(others) >= FEWEST and any(sums.values())):
        what = "a name for sums" if named else "and the row holds the sums of the rows above"
        raise cells.error("layer", f"is {show(last.name)}, {what}", "remove the row: every row is a layer")


def _layer(cells: _Cells, training: bool) -> _Layer:
    name = cells.text("layer")
    if not name:
        raise cells.error("layer", "is empty", "give the layer a name")
    if ";" in name:
        raise cells.error("layer", f"is {show(name)}", "leave out the semicolon: depends_on separates names by it")
    unit = cells.columns["forward"].factor
    amounts = {"forward": cells.amount("forward", unit)}
    if training:
        amounts["backward"] = cells.amount("backward", unit)
    amounts["parameters"] = cells.amount("parameters" if "parameters" in cells.columns else "parameters_count")
    if training:
        amounts["activation"] = cells.amount("activation")
    amounts["output"] = cells.amount("output")
    count = 1 if cells.get("count") is None else cells.whole("count", MAX_LAYERS)
    reads = None
    if "depends_on" in cells.columns:
        reads = tuple(filter(None, (part.strip() for part in cells.text("depends_on").split(";"))))
        twice = next((read for i, read in enumerate(reads) if read in reads[:i]), None)
        if twice is not None:
            raise cells.error("depends_on", f"names {show(twice)} twice", "name each layer once")
    return _Layer(cells.row.number, name, amounts, count, reads)


# ---- the graph -----------------------------------------------------------------------------------------


def _graph(
    layers: Sequence[_Layer], columns: Mapping[str, Column]
) -> tuple[tuple[ProfileNode, ...], tuple[ProfileTensor, ...]]:
    """A node for each copy of a layer, and a tensor for what it sends on."""
    last = {name: name for layer in layers for name in layer.copies} | {x.name: x.copies[-1] for x in layers}
    readers: dict[str, list[str]] = {name: [] for layer in layers for name in layer.copies}
    for above, layer in zip((None, *layers), layers, strict=False):
        for producer in _producers(above, layer, last, columns):
            readers[producer].append(layer.copies[0])
        for one, next_one in zip(layer.copies, layer.copies[1:], strict=False):
            readers[one].append(next_one)
    _refuse_circles(layers, readers, columns)
    copies = [(name, layer.amounts) for layer in layers for name in layer.copies]
    nodes = tuple(
        ProfileNode(
            name,
            amounts["forward"],
            amounts.get("backward", 0.0),
            saved_bytes=amounts.get("activation", 0.0),
            parameters={name: amounts["parameters"]} if amounts["parameters"] else {},
        )
        for name, amounts in copies
    )
    return nodes, tuple(ProfileTensor(name, name, tuple(readers[name]), own["output"]) for name, own in copies)


def _producers(
    above: _Layer | None, layer: _Layer, last: Mapping[str, str], columns: Mapping[str, Column]
) -> list[str]:
    """The nodes that a layer reads; where it names a repeated layer, the last copy of that."""
    if layer.reads is None:
        return [] if above is None else [above.copies[-1]]
    for name in layer.reads:
        if name not in last:
            raise InputError(
                f"row {layer.row}, {columns['depends_on']}",
                f"names the unknown layer {show(name)}",
                "name layers of the first column, several of them separated by ;",
            )
    return list(dict.fromkeys(last[name] for name in layer.reads))


def _refuse_circles(
    layers: Sequence[_Layer], readers: Mapping[str, Sequence[str]], columns: Mapping[str, Column]
) -> None:
    names = list(readers)
    number = {name: i for i, name in enumerate(names)}
    successors = [[number[reader] for reader in readers[name]] for name in names]
    if topological_order(successors) is not None:
        return
    circle = [names[i] for i in find_cycle(successors)]
    row = next(layer.row for layer in layers if circle[-1] in layer.copies)
    shown = circle if len(circle) <= _SHOWN_CIRCLE else [*circle[: _SHOWN_CIRCLE - 2], "...", circle[-1]]
    raise InputError(
        f"row {row}, {columns['depends_on']}",
        f"closes the circle {' -> '.join(map(show, shown))}",
        "remove one of these dependencies",
    )


# ---- CSV and TSV files as plain cells that keep their places ----------------------------------------------


MAX_ROWS = 10_000
MAX_COLUMNS = 1_000
MAX_CELLS = 1_000_000

# The value of a cell; None: it is empty.
Cell = str | None


@dataclass(frozen=True, slots=True)
class Row:
    """A row that holds something, with its number in a spreadsheet: the header is row 1."""

    number: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    header: tuple[str, ...]
    rows: tuple[Row, ...]


def read_sheet(path: str | os.PathLike[str]) -> Sheet:
    """The cells of a table; surplus empty rows and columns are left out."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError("file", f"has the ending {suffix or '(none)'}", f"give a table: {', '.join(SUFFIXES)}")
    rows = list(_filled_rows(_text_rows(read_text(path), suffix)))
    if not rows or rows[0].number != 1:
        raise InputError("row 1", "is empty", "begin with the header: layer, forward [ms], ...")
    width = max(len(row.cells) for row in rows)
    titles, *padded = (Row(row.number, (row.cells + (None,) * width)[:width]) for row in rows)
    header = tuple(cell or "" for cell in titles.cells)
    for position, title in enumerate(header):
        row = None if title else next((row for row in padded if row.cells[position] is not None), None)
        if row is not None:
            raise InputError(
                f"row {row.number}, column {letters(position)}",
                f"holds {show(row.cells[position])} under no title",
                "name the column in row 1, empty the cell, or quote texts that hold a separator",
            )
    return Sheet(header, tuple(padded))


def _filled_rows(rows: Iterable[Sequence[Any]]) -> Iterator[Row]:
    """Rows that are not empty, as plain values."""
    for number, values in enumerate(rows, start=1):
        cells = tuple(_cell(number, position, value) for position, value in enumerate(values))
        width = max((i + 1 for i, cell in enumerate(cells) if cell is not None), default=0)
        if width:
            yield Row(number, cells[:width])


def _cell(row: int, position: int, value: Any) -> Cell:
    """The text without spaces around it; None for an empty cell, and for one that a short row does not have."""
    if not isinstance(value, str):
        return None
    if len(value) > MAX_ID_CHARACTERS:
        place = f"row {row}, column {letters(position)}"
        raise InputError(place, f"holds {len(value)} characters", f"give at most {MAX_ID_CHARACTERS}")
    return value.strip() or None


# ---- formats -------------------------------------------------------------------------------------------


def _text_rows(text: str, suffix: str) -> Iterable[Sequence[Any]]:
    """All rows as they stand in the text, empty ones included, as wide as the widest of them: pandas refuses no row
    for its length then."""
    import pandas

    first = text.lstrip("\n").split("\n", 1)[0]
    separator = "\t" if suffix == ".tsv" else ";" if first.count(";") > first.count(",") else ","
    end = text.find("\n", len(text.rstrip(f" \r\n{separator}")))  # empty rows at the end do not count
    text = text if end < 0 else text[:end]
    lines = text.splitlines()
    number, width = max(((n, 1 + line.count(separator)) for n, line in enumerate(lines, 1)), key=lambda at: at[1])
    if width > MAX_COLUMNS:
        raise InputError(f"row {number}", f"has {several(width, 'column')}", f"give at most {MAX_COLUMNS}")
    if min(len(lines), MAX_ROWS + 1) * width > MAX_CELLS:
        raise InputError("content", f"has up to {len(lines)} x {width} cells", f"give at most {MAX_CELLS}")
    try:
        frame = pandas.read_csv(
            io.StringIO(text),
            sep=separator,
            header=None,
            names=range(width),
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
            nrows=MAX_ROWS + 2,
        )
    except pandas.errors.ParserError as error:
        match = re.search(r"EOF inside string starting at row (\d+)", str(error))
        if match is None:
            raise InputError("content", "cannot be read as a table", "save it as CSV once more") from None
        place = f"row {int(match[1]) + 1}"
        raise InputError(place, "opens a quote that nothing closes", 'close it with a second "') from None
    if len(frame) > MAX_ROWS + 1:
        raise InputError(f"row {MAX_ROWS + 2}", f"is one too many: at most {MAX_ROWS}", "join layers")
    return frame.itertuples(index=False, name=None)


# ---- the columns of a table of layers: names, synonyms and units in its first row ---------------------


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
    parameters = "parameters_count" if "parameters_count" in columns else "parameters"
    trained = ("backward", "activation") if training else ()
    for name in ("layer", "forward", *trained, parameters, "output"):
        if name not in columns:
            raise InputError("row 1", f"has no column {name}", f"add it: {REMEDY}")
    return columns


def _column(position: int, title: str, bytes_per_parameter: float | None) -> Column:
    place = f"row 1, column {letters(position)}"
    match, word = _HEADER.fullmatch(title), _word(title)
    name = _NAMES.get(word)
    if match is None or name is None:
        close = nearest(word, _NAMES)
        remedy = "remove it, or call it comment" if close is None else f"write {_NAMES[close]}"
        raise InputError(place, f"is {show(title)}, which is no known column", f"{remedy}: {REMEDY}")
    where = f"{place} ({title})"
    if name == "parameters_count":
        return Column(name, position, title, None, _per_parameter(where, match["unit"], bytes_per_parameter))
    return Column(name, position, title, match["unit"], _factor(where, name, match["unit"]))


def _word(title: str) -> str:
    """A column title without its unit, in small letters, with underscores between words; empty where it is no
    title."""
    match = _HEADER.fullmatch(title)
    return re.sub(r"[\s.-]+", "_", match["name"].strip().lower()) if match else ""


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
