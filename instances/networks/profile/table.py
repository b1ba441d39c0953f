"""A table of layers -> profile: one row a layer, units in the header.

A row gives a layer's time forward and backward, the bytes of its parameters, what it saves for the backward pass
(`activation`) and what it sends on (`output`), for one micro-batch. `count` repeats a layer as `name[0]`, `name[1]`,
...; without a column `depends_on` every layer reads from the one above it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

from ...base.checks import MAX_AMOUNT, MAX_ID_CHARACTERS
from ...base.errors import InputError, show
from ...base.graph import find_cycle, topological_order
from .header import EXPECTED, Column, read_header
from .options import SAMPLES
from .profile import Profile, ProfileNode, ProfileTensor
from .sheet import Cell, Row, Sheet, read_sheet

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
    try:
        sheet = read_sheet(path)
        columns = read_header(sheet.header, training, bytes_per_parameter)
        layers = _layers(sheet, columns, training)
        nodes, tensors = _graph(layers, columns)
    except InputError as error:
        raise error.in_file(str(path)) from None
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
        """The cell as text; a number that serves as a name loses the .0 that spreadsheets give it."""
        value = self.get(name)
        whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
        text = "" if value is None else str(int(value)) if whole and isinstance(value, float) else str(value)
        if len(text) > MAX_ID_CHARACTERS:
            raise self.error(name, f"is a text of {len(text)} characters", f"give at most {MAX_ID_CHARACTERS}")
        return text

    def number(self, name: str) -> Fraction:
        value = self.get(name)
        if value is None:
            raise self.error(name, "is empty", "give a number, 0 where there is nothing")
        text = repr(value) if isinstance(value, (int, float)) else value
        if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
            raise self.error(name, f"is {text}", "give a finite number >= 0")
        if not _NUMBER.fullmatch(text) or len(text) > _LONGEST_NUMBER:
            raise self.error(name, f"is {show(value)}, not a number", _NUMBER_REMEDY)
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
    amounts = _amounts(cells, training)
    count = 1 if cells.get("count") is None else cells.whole("count", MAX_LAYERS)
    return _Layer(cells.row.number, name, amounts, count, _reads(cells))


def _amounts(cells: _Cells, training: bool) -> dict[str, float]:
    unit = cells.columns["forward"].factor
    amounts = {"forward": cells.amount("forward", unit)}
    if training:
        amounts["backward"] = cells.amount("backward", unit)
    amounts["parameters"] = cells.amount("parameters" if "parameters" in cells.columns else "parameters_count")
    if training:
        amounts["activation"] = cells.amount("activation")
    return amounts | {"output": cells.amount("output")}


def _reads(cells: _Cells) -> tuple[str, ...] | None:
    if "depends_on" not in cells.columns:
        return None
    names = tuple(filter(None, (part.strip() for part in cells.text("depends_on").split(";"))))
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise cells.error("depends_on", f"names {show(twice)} twice", "name each layer once")
    return names


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
    nodes = tuple(_node(name, layer) for layer in layers for name in layer.copies)
    tensors = tuple(
        ProfileTensor(name, name, tuple(readers[name]), layer.amounts["output"])
        for layer in layers
        for name in layer.copies
    )
    return nodes, tensors


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


def _node(name: str, layer: _Layer) -> ProfileNode:
    amounts: Mapping[str, Any] = layer.amounts
    parameters = {name: amounts["parameters"]} if amounts["parameters"] else {}
    return ProfileNode(
        name,
        amounts["forward"],
        amounts.get("backward", 0.0),
        saved_bytes=amounts.get("activation", 0.0),
        parameters=parameters,
    )
