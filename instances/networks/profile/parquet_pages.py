"""The number of bytes that the pages of a parquet file unpack to, as each page says itself.

The footer says so, too, but readers reserve what the pages say: a footer that says less is no protection. A page begins
with a header in Thrift's compact protocol, whose second field is its unpacked size and whose third is the size that it
has in the file.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import InputError

# More pages are refused: no table of layers needs them, and each takes time to read.
MAX_PAGES = 20_000
# Numbers of a page header's fields: its sizes unpacked and in the file.
UNPACKED, PACKED = 2, 3
# Types of fields in Thrift's compact protocol.
TRUE, FALSE, BYTE, NUMBERS, DOUBLE, TEXT, STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, 12


def unpacked_bytes(content: bytes, about: Any, most: int) -> int:
    """Bytes of all columns of all row groups when they are unpacked; counting ends at the first page beyond `most`."""
    total = pages = 0
    for group in range(about.num_row_groups):
        for number in range(about.num_columns):
            column = about.row_group(group).column(number)
            at = _first_page(column)
            end = at + column.total_compressed_size
            while at < min(end, len(content)) and total <= most:
                sizes, at = _struct(content, at)
                total += sizes[UNPACKED]
                at += max(0, sizes[PACKED])
                pages += 1
                if pages > MAX_PAGES:
                    raise InputError("content", f"has more than {MAX_PAGES} pages", "save the table once more")
    return total


def _first_page(column: Any) -> int:
    first: int = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < first:
        return int(column.dictionary_page_offset)
    return first


def _struct(content: bytes, at: int) -> tuple[dict[int, int], int]:
    """The whole numbers among the fields of the structure that begins at `at`, and the place behind it."""
    numbers: dict[int, int] = {}
    name = 0
    while content[at]:
        step, kind = divmod(content[at], 16)
        at += 1
        if step:
            name += step
        else:
            name, at = _number(content, at)
        if kind in NUMBERS:
            numbers[name], at = _number(content, at)
        else:
            at = _after(content, at, kind)
    return numbers, at + 1


def _after(content: bytes, at: int, kind: int) -> int:
    """The place behind a field of that type, which is no whole number."""
    if kind in (TRUE, FALSE):
        return at
    if kind in (BYTE, DOUBLE):
        return at + (1 if kind == BYTE else 8)
    if kind == TEXT:
        length, at = _varint(content, at)
        return at + length
    if kind == STRUCT:
        return _struct(content, at)[1]
    raise ValueError(f"a page's header has no field of type {kind}")


def _number(content: bytes, at: int) -> tuple[int, int]:
    """A number of either sign, which is written as its place in 0, -1, 1, -2, ..."""
    value, at = _varint(content, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; the last one has no high bit."""
    value = shift = 0
    while content[at] & 128:
        value |= (content[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise ValueError("a number of a page's header has no end")
    return value | content[at] << shift, at + 1
