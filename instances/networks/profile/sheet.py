"""Tables as files: CSV, TSV, Excel and Parquet, read into plain cells that keep their places."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...base.checks import MAX_ID_CHARACTERS
from ...base.child import child_environment, own_python
from ...base.errors import InputError, NotInstalledError, show
from ...base.json_file import MAX_FILE_BYTES, read_bytes, read_text
from ...base.quantities import several
from .header import letters
from .marks import PACKAGES, SUFFIXES

INSTALL = "pip install 'pipeplan[tables]'"
MAX_ROWS = 10_000
MAX_COLUMNS = 1_000
MAX_CELLS = 1_000_000
# A spreadsheet that is larger when it is unpacked is refused before it is read.
MAX_UNPACKED_BYTES = 32 * 2**20
# Marks of a spreadsheet's XML, in which a cell has four. More of them take longer than ten seconds to read.
MAX_MARKS = 1_000_000
# What the reader of a spreadsheet or parquet file may hold beside its own code.
MOST_READING_BYTES = 256 * 2**20
# Rows of a parquet file that are in memory at once.
BATCH_ROWS = 8

# The value of a cell; None: it is empty.
Cell = str | int | float | None


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
    return _sheet(_read_in_child(path, suffix) if suffix in PACKAGES else list(_filled_rows(_rows(path, suffix))))


def _sheet(rows: list[Row]) -> Sheet:
    if not rows or rows[0].number != 1:
        raise InputError("row 1", "is empty", "begin with the header: layer, forward [ms], ...")
    width = max(len(row.cells) for row in rows)
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


def _filled_rows(rows: Iterable[Sequence[Any]]) -> Iterator[Row]:
    """Rows that are not empty, as plain values; the first one too many ends the reading."""
    filled = 0
    for number, values in enumerate(rows, start=1):
        cells = tuple(_cell(number, position, value) for position, value in enumerate(values))
        width = max((i + 1 for i, cell in enumerate(cells) if cell is not None), default=0)
        if width > MAX_COLUMNS:
            raise _too_wide(number, width)
        if width:
            filled += 1
            if filled > MAX_ROWS + 1:
                raise InputError(f"row {number}", f"is one too many: at most {MAX_ROWS}", "join layers")
            yield Row(number, cells[:width])


def _too_wide(row: int, columns: int) -> InputError:
    return InputError(f"row {row}", f"has {several(columns, 'column')}", f"give at most {MAX_COLUMNS}")


def _too_many_cells(rows: int, columns: int) -> InputError:
    return InputError("content", f"has up to {rows} x {columns} cells", f"give at most {MAX_CELLS}")


def _cell(row: int, position: int, value: Any) -> Cell:
    if isinstance(value, (str, bytes)) and len(value) > MAX_ID_CHARACTERS:
        place = f"row {row}, column {letters(position)}"
        raise InputError(place, f"holds {len(value)} characters", f"give at most {MAX_ID_CHARACTERS}")
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if value is None or (isinstance(value, float) and value != value) or str(value).strip() in ("", "<NA>", "NaT"):
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return str(value)
    return value.strip() if isinstance(value, str) else value


# ---- formats -------------------------------------------------------------------------------------------


def _rows(path: str | os.PathLike[str], suffix: str) -> Iterable[Sequence[Any]]:
    """All rows as they stand in the file, empty ones included."""
    text = read_text(path)
    first = text.lstrip("\n").split("\n", 1)[0]
    separator = "\t" if suffix == ".tsv" else ";" if first.count(";") > first.count(",") else ","
    end = text.find("\n", len(text.rstrip(f" \r\n{separator}")))  # empty rows at the end do not count
    return _text_rows(text if end < 0 else text[:end], separator)


def _text_rows(text: str, separator: str) -> Iterable[Sequence[Any]]:
    """The rows of a text, as wide as the widest of them, so that pandas refuses no row for its length."""
    import pandas

    lines = text.splitlines()
    number, width = max(((n, 1 + line.count(separator)) for n, line in enumerate(lines, 1)), key=lambda at: at[1])
    if width > MAX_COLUMNS:
        raise _too_wide(number, width)
    if min(len(lines), MAX_ROWS + 1) * width > MAX_CELLS:
        raise _too_many_cells(len(lines), width)
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
        raise _torn(str(error)) from None
    if len(frame) > MAX_ROWS + 1:
        raise InputError(f"row {MAX_ROWS + 2}", f"is one too many: at most {MAX_ROWS}", "join layers")
    return frame.itertuples(index=False, name=None)


def _torn(message: str) -> InputError:
    match = re.search(r"EOF inside string starting at row (\d+)", message)
    if match is not None:
        return InputError(
            f"row {int(match[1]) + 1}", "opens a quote that nothing closes", 'close it with a second "'
        )
    return InputError("content", "cannot be read as a table", "save it as CSV once more")


# ---- Excel and parquet: small files that may unpack to large ones ----------------------------------------


def _read_in_child(path: str | os.PathLike[str], suffix: str) -> list[Row]:
    """The filled rows, read by a process that may hold only so much: whatever the file unpacks to, and whatever its
    reader does with it, is no harm to this one."""
    content = read_bytes(path, MAX_FILE_BYTES)
    if find_spec(PACKAGES[suffix]) is None:
        raise NotInstalledError(
            f"Reading {suffix} files needs {PACKAGES[suffix]}: {INSTALL}, or save the table as CSV."
        )
    command = own_python("-c", f"from {__name__} import main; main()", suffix)
    done = subprocess.run(command, input=content, env=child_environment(), capture_output=True)
    if done.returncode:
        what = f"takes more than {MOST_READING_BYTES // 2**20} MiB of memory to read, or is damaged"
        raise InputError("content", what, "give a smaller table, or save it as CSV")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise InputError(*answer["error"])
    return [Row(number, tuple(cells)) for number, cells in answer["rows"]]


def main() -> None:
    """In the child: read the file from standard input, and write its filled rows, or what is wrong, as JSON."""
    suffix, content = sys.argv[1], sys.stdin.buffer.read()
    try:
        rows = _filled_rows(_excel_rows(content) if suffix == ".xlsx" else _parquet_rows(content))
        answer: dict[str, Any] = {"rows": [(row.number, row.cells) for row in rows]}
    except InputError as error:
        answer = {"error": (error.field, error.problem, error.remedy)}
    except MemoryError:
        os._exit(1)  # there is no memory left to say so
    except Exception as error:  # whatever the reader of a damaged file raises
        what = f"cannot be read as {suffix} ({type(error).__name__})"
        answer = {"error": ("content", what, "save the table once more, or as CSV")}
    sys.stdout.write(json.dumps(answer))


def _limit_memory() -> None:
    """From now on this process gets only so much more memory; where the system has no such limit, nothing happens."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        held = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MOST_READING_BYTES, held + MOST_READING_BYTES))


def _excel_rows(content: bytes) -> Iterator[Sequence[Any]]:
    """Rows of the first sheet, with the values of its formulas."""
    import openpyxl

    _limit_memory()
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        size = sum(part.file_size for part in parts.infolist())  # no more is read of a part than it says
        if size > MAX_UNPACKED_BYTES:
            raise InputError(
                "content", f"unpacks to {size} bytes", f"give at most {MAX_UNPACKED_BYTES}, or a CSV file"
            )
        marks = sum(parts.read(part).count(b"<") for part in parts.infolist())
    if marks > MAX_MARKS:
        raise InputError("content", f"unpacks to {marks} marks of XML", f"give at most {MAX_MARKS}, or a CSV file")
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True, keep_links=False)
    sheet = book.worksheets[0]
    sheet.reset_dimensions()  # a file may say that it is larger, or smaller, than it is
    for row in sheet.iter_rows(values_only=True):
        yield [int(value) if isinstance(value, float) and value.is_integer() else value for value in row]


def _parquet_rows(content: bytes) -> Iterator[Sequence[Any]]:
    """The column names, then the rows, a few at a time: a long text that is stored once may stand in many rows."""
    from pyarrow import parquet

    _limit_memory()
    file = parquet.ParquetFile(io.BytesIO(content))
    about = file.metadata
    if about.num_columns > MAX_COLUMNS:
        raise _too_wide(1, about.num_columns)
    for column in map(file.schema.column, range(about.num_columns)):
        if column.max_repetition_level:
            raise InputError(f"column {show(column.path)}", "holds lists", "give one value in each cell")
    if about.num_rows > MAX_ROWS:
        raise InputError(f"row {MAX_ROWS + 2}", f"is one too many: at most {MAX_ROWS}", "join layers")
    if about.num_rows * about.num_columns > MAX_CELLS:
        raise _too_many_cells(about.num_rows, about.num_columns)
    yield file.schema_arrow.names
    for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
