"""Malformed tables, one fault each: exit code 2 and one sentence that names row, column and remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

HEAD = "layer,forward [ms],backward [ms],parameters [MB],activation [MB],output [MB]"
A, B = "a,1,2,3,4,5", "b,1,2,3,4,5"
HEADER = "the header is layer, forward [ms], backward [ms], parameters [MB], activation [MB], output [MB]"
NUMBER = "give a number such as 12.5"


class Bad(NamedTuple):
    """A table, what its sentence says of the place and the fault, and of the remedy."""

    name: str
    content: str | bytes
    says: str
    remedy: str
    suffix: str = ".csv"
    options: tuple[str, ...] = ()


def rows(*lines: str, head: str = HEAD) -> str:
    return "\n".join([head, *lines]) + "\n"


TABLES = [
    Bad("empty file", "", "content is empty", "give a file"),
    Bad("header alone", f"{HEAD}\n", "row 2 is missing", "add a row a layer"),
    Bad("no header", f"{A}\n{B}\n", "row 1 holds no known column ('a', ...)", f"begin with a header: {HEADER}"),
    Bad("first row empty", f"\n{HEAD}\n{A}\n", "row 1 is empty", "begin with the header"),
    Bad("missing column", rows("a,1,2,3,5", head=HEAD.replace("activation [MB],", "")),
        "row 1 has no column activation", f"add it: {HEADER}"),
    Bad("missing backward", rows("a,1,3,4,5", head=HEAD.replace("backward [ms],", "")),
        "row 1 has no column backward", HEADER),
    Bad("unknown column", rows(f"{A},9", head=f"{HEAD},flops"),
        "row 1, column G is 'flops', which is no known column", f"remove it, or call it comment: {HEADER}"),
    Bad("misspelt column", rows(A, head=HEAD.replace("forward", "forwad", 1)),
        "row 1, column B is 'forwad [ms]', which is no known column", "write forward"),
    Bad("missing unit", rows(A, head=HEAD.replace("forward [ms]", "forward")),
        "row 1, column B (forward) names no unit", "write one behind it, such as forward [ms]"),
    Bad("missing unit of bytes", rows(A, head=HEAD.replace("output [MB]", "output")),
        "row 1, column F (output) names no unit", "such as output [MB]"),
    Bad("unknown unit", rows(A, head=HEAD.replace("forward [ms]", "forward [fortnights]")),
        "row 1, column B (forward [fortnights]) has the unknown unit 'fortnights'", "give one of s, ms, us, ns"),
    Bad("bits", rows(A, head=HEAD.replace("parameters [MB]", "parameters [Mbit]")),
        "row 1, column D (parameters [Mbit]) has the unknown unit 'Mbit'", "give one of B, kB, MB, GB"),
    Bad("capitals of a unit", rows(A, head=HEAD.replace("parameters [MB]", "parameters [mb]")),
        "row 1, column D (parameters [mb]) has the unknown unit 'mb'", "write parameters [MB]"),
    Bad("row of totals", rows(A, B, "Total,9,9,9,9,9"),
        "row 4, column A (layer) is 'Total', a name for sums", "remove the row"),
    Bad("row of sums", rows("a,1,2,3,5,8", "b,1,2,3,5,8", "c,1,2,3,5,8", "all,3,6,9,15,24"),
        "row 5, column A (layer) is 'all', and the row holds the sums of the rows above", "remove the row"),
    Bad("unit of bytes for a time", rows(A, head=HEAD.replace("forward [ms]", "forward [MB]")),
        "row 1, column B (forward [MB]) has the unknown unit 'MB'", "give one of s, ms"),
    Bad("unit of names", rows(A, head=HEAD.replace("layer", "layer [MB]")),
        "row 1, column A (layer [MB]) has the unit 'MB'", "write layer alone"),
    Bad("column twice", rows(f"{A},1", head=f"{HEAD},forward [us]"),
        "row 1, column G (forward [us]) says the same as column B (forward [ms])", "keep one of the two"),
    Bad("synonyms", rows(f"{A},1", head=f"{HEAD},fwd [ms]"),
        "row 1, column G (fwd [ms]) says the same as column B", "keep one of the two"),
    Bad("parameters twice", rows(f"{A},1", head=f"{HEAD},parameters_count"),
        "row 1, column G (parameters_count) stands beside column D (parameters [MB])", "keep one of the two",
        options=("bytes-per-parameter", "2")),
    Bad("count without a size", rows(A, head=HEAD.replace("parameters [MB]", "parameters_count")),
        "row 1, column D (parameters_count) counts parameters", "give --bytes-per-parameter, such as 2"),
    Bad("count with a unit", rows(A, head=HEAD.replace("parameters", "parameters_count")),
        "row 1, column D (parameters_count [MB]) has the unit 'MB'", "write parameters for bytes",
        options=("bytes-per-parameter", "2")),
    Bad("text for a number", rows(A, "b,fast,2,3,4,5"),
        "row 3, column B (forward [ms]) is 'fast', not a number", NUMBER),
    Bad("unit in a cell", rows("a,1,2,3 MB,4,5"), "row 2, column D (parameters [MB]) is '3 MB', not a number", NUMBER),
    Bad("decimal comma", rows('a,"1,5",2,3,4,5'), "row 2, column B (forward [ms]) is '1,5', not a number", NUMBER),
    Bad("thousands separator", rows("a,1,2,3_000,4,5"), "column D (parameters [MB]) is '3_000', not a number", NUMBER),
    Bad("share", rows("a,1,2,3,4,50%"), "row 2, column F (output [MB]) is '50%', not a number", NUMBER),
    Bad("spreadsheet error", rows("a,#REF!,2,3,4,5"), "column B (forward [ms]) is '#REF!', not a number", NUMBER),
    Bad("empty cell", rows(A, "b,1,,3,4,5"), "row 3, column C (backward [ms]) is empty", "0 where there is nothing"),
    Bad("short row", rows(A, "b,1,2,3"), "row 3, column E (activation [MB]) is empty", "give a number"),
    Bad("long row", rows(A, f"{B},6"), "row 3, column G holds '6' under no title", "name the column in row 1"),
    Bad("negative", rows("a,-1,2,3,4,5"), "row 2, column B (forward [ms]) is negative (-1)", "give a number >= 0"),
    Bad("NaN", rows("a,1,nan,3,4,5"), "row 2, column C (backward [ms]) is nan", "give a finite number >= 0"),
    Bad("infinite", rows("a,1,2,inf,4,5"), "row 2, column D (parameters [MB]) is inf", "give a finite number >= 0"),
    Bad("too large", rows("a,1,2,1e99,4,5"), "row 2, column D (parameters [MB]) is too large", "give at most 1e+100"),
    Bad("endless exponent", rows("a,1e999999999,2,3,4,5"), "column B (forward [ms]) is '1e999999999'", NUMBER),
    Bad("no name", rows(A, ",1,2,3,4,5"), "row 3, column A (layer) is empty", "give the layer a name"),
    Bad("name with a semicolon", rows('"a;b",1,2,3,4,5'),
        "row 2, column A (layer) is 'a;b'", "leave out the semicolon"),
    Bad("name twice", rows(A, "", A), "row 4, column A (layer) repeats 'a' of row 2", "a name of its own"),
    Bad("name of a copy", rows("a,1,2,3,4,5,2", "a[1],1,2,3,4,5,1", head=f"{HEAD},count"),
        "row 3, column A (layer) repeats 'a[1]' of row 2", "a name of its own"),
    Bad("count of nothing", rows(f"{A},0", head=f"{HEAD},count"),
        "row 2, column G (count) is '0'", "give a whole number from 1 to 10000"),
    Bad("half a count", rows(f"{A},1.5", head=f"{HEAD},count"),
        "row 2, column G (count) is '1.5'", "give a whole number from 1 to 10000"),
    Bad("too many layers", rows(f"{A},9000", f"{B},9000", head=f"{HEAD},count"),
        "row 3, column G (count) makes more than 10000 layers", "join layers to blocks"),
    Bad("too many rows", rows(*(f"l{i},1,2,3,4,5" for i in range(10_002))),
        "row 10002 is one too many: at most 10000", "join layers"),
    Bad("unknown dependency", rows(f"{A},", f"{B},c", head=f"{HEAD},depends_on"),
        "row 3, column G (depends_on) names the unknown layer 'c'", "separated by ;"),
    Bad("dependency twice", rows(f"{A},", f"{B},a;a", head=f"{HEAD},depends_on"),
        "row 3, column G (depends_on) names 'a' twice", "name each layer once"),
    Bad("reads itself", rows(f"{A},a", head=f"{HEAD},depends_on"),
        "row 2, column G (depends_on) closes the circle 'a' -> 'a'", "remove one of these dependencies"),
    Bad("circle", rows(f"{A},b", f"{B},a", head=f"{HEAD},depends_on"),
        "column G (depends_on) closes the circle 'a' -> 'b' -> 'a'", "remove one of these dependencies"),
    Bad("open quote", rows('a,"1,2,3,4,5', B), "row 2 opens a quote that nothing closes", 'close it with a second "'),
    Bad("UTF-16", rows(A).encode("utf-16"), "is not UTF-8 text", "save the file with the encoding UTF-8"),
    Bad("Latin", rows("é,1,2,3,4,5").encode("latin-1"), "is not UTF-8 text", "encoding UTF-8"),
    Bad("too many columns", rows(A, "," * 2000 + "x"), "columns", "give at most 1000"),
    Bad("no Excel file", "PK nothing", "content cannot be read as .xlsx", "save the table once more", ".xlsx"),
    Bad("no Parquet file", "PAR1 nothing",
        "content cannot be read as .parquet", "save the table once more", ".parquet"),
]  # fmt: skip


@pytest.mark.parametrize("bad", TABLES, ids=[bad.name for bad in TABLES])
def test_one_sentence_says_where_and_what_to_do(plan: Callable[..., Any], tmp_path: Path, bad: Bad) -> None:
    path = tmp_path / f"table{bad.suffix}"
    path.write_bytes(bad.content if isinstance(bad.content, bytes) else bad.content.encode())
    of_import = [f"--{bad.options[0]}", bad.options[1]] if bad.options else []
    of_solve = ["--option", "=".join(bad.options)] if bad.options else []
    for words in (("import", "table", path, "-o", tmp_path / "p.json", *of_import), ("solve", path, *of_solve)):
        said = plan(*words)
        assert said.code == 2, said
        assert said.out == ""
        assert [line[:6] for line in said.err.splitlines() if not line.startswith("Note: --")] == ["Error:"]
        for part in (str(path), bad.says, bad.remedy):
            assert part in said.err
    assert not (tmp_path / "p.json").exists()
