"""Tables as files: CSV, TSV, Excel and Parquet, read by pandas into plain cells that keep their places."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError, UsageError, show
from ..json_file import MAX_FILE_BYTES, read_bytes, read_text
from .header import letters
from .marks import PACKAGES, SUFFIXES

INSTALL = "pip install 'pipeplan[tables]'"
MAX_ROWS = 10_000
MAX_COLUMNS = 1_000

Cell = str | int | float | None
"""None: empty."""


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
    return _sheet(list(_frame_rows(_frame(path, suffix))))


def _sheet(rows: list[Row]) -> Sheet:
    if not rows or rows[0].number != 1:
        raise InputError("row 1", "is empty", "begin with the header: layer, forward [ms], ...")
    if len(rows) > MAX_ROWS + 1:
        raise InputError(f"row {rows[MAX_ROWS + 1].number}", f"is one too many: at most {MAX_ROWS}", "join layers")
    width = max((i + 1 for row in rows for i, cell in enumerate(row.cells) if cell is not None), default=0)
    if width > MAX_COLUMNS:
        raise InputError("row 1", f"has {width} columns", f"give at most {MAX_COLUMNS}")
    padded = [Row(row.number, (row.cells + (None,) * width)[:width]) for row in rows]
    header = tuple("" if cell is None else str(cell).strip() for cell in padded[0].cells)
    _refuse_untitled(header, padded[1:])
    return Sheet(header, tuple(padded[1:]))


def _refuse_untitled(header: tuple[str, ...], rows: list[Row]) -> None:
    for position, title in enumerate(header):
        row = None if title else next((row for row in rows if row.cells[position] is not None), None)
        if row is not None:
            raise InputError(
                f"row {row.number}, column {letters(position)}",
                f"holds {show(row.cells[position])} under no title",
                "name the column in row 1, empty the cell, or quote texts that hold a separator",
            )


def _frame_rows(frame: Any) -> Iterator[Row]:
    """Rows that are not empty, as plain values."""
    for number, values in enumerate(frame.itertuples(index=False, name=None), start=1):
        cells = tuple(_cell(value) for value in values)
        if any(cell is not None for cell in cells):
            yield Row(number, cells)


def _cell(value: Any) -> Cell:
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if value is None or (isinstance(value, float) and value != value) or str(value).strip() in ("", "<NA>", "NaT"):
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return str(value)
    return value.strip() if isinstance(value, str) else value


# ---- formats -------------------------------------------------------------------------------------------


def _frame(path: str | os.PathLike[str], suffix: str) -> Any:
    if suffix in PACKAGES:
        return _binary_frame(path, suffix)
    text = read_text(path)
    first = text.lstrip("\n").split("\n", 1)[0]
    separator = "\t" if suffix == ".tsv" else ";" if first.count(";") > first.count(",") else ","
    return _text_frame(text, separator)


def _text_frame(text: str, separator: str) -> Any:
    """As many columns as its widest row needs, so that pandas refuses no row for its length."""
    import pandas

    width = 1 + max(line.count(separator) for line in text.splitlines())
    if width > MAX_COLUMNS:
        raise InputError("row 1", f"or a later one has {width} columns", f"give at most {MAX_COLUMNS}")
    try:
        return pandas.read_csv(
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
        raise _torn(str(error)) from None


def _torn(message: str) -> InputError:
    found = re.search(r"EOF inside string starting at row (\d+)", message)
    if found is not None:
        return InputError(
            f"row {int(found[1]) + 1}", "opens a quote that nothing closes", 'close it with a second "'
        )
    return InputError("content", "cannot be read as a table", "save it as CSV once more")


def _binary_frame(path: str | os.PathLike[str], suffix: str) -> Any:
    content = read_bytes(path, MAX_FILE_BYTES)
    try:
        return _excel_frame(content) if suffix == ".xlsx" else _parquet_frame(content)
    except ImportError:
        raise UsageError(
            f"Reading {suffix} files needs {PACKAGES[suffix]}: {INSTALL}, or save the table as CSV."
        ) from None
    except InputError:
        raise
    except Exception as error:  # whatever the reader of a damaged file raises
        what = f"cannot be read as {suffix} ({type(error).__name__})"
        raise InputError("content", what, "save the table once more, or as CSV") from None


def _excel_frame(content: bytes) -> Any:
    """Of the first sheet, with the values of its formulas."""
    import pandas

    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        if sum(part.file_size for part in parts.infolist()) > MAX_FILE_BYTES:
            raise InputError("content", f"unpacks to more than {MAX_FILE_BYTES} bytes", "give a smaller table")
    return pandas.read_excel(io.BytesIO(content), header=None, dtype=object, engine="openpyxl", nrows=MAX_ROWS + 2)


def _parquet_frame(content: bytes) -> Any:
    """With its column names as the first row."""
    import pandas

    frame = pandas.read_parquet(io.BytesIO(content), engine="pyarrow").head(MAX_ROWS + 1).astype(object)
    header = pandas.DataFrame([list(map(str, frame.columns))], columns=frame.columns, dtype=object)
    return pandas.concat([header, frame], ignore_index=True)
