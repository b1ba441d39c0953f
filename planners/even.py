"""A row cut evenly: what anyone would try first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

Item = TypeVar("Item")


def shares(items: Sequence[Item], parts: int) -> list[Sequence[Item]]:
    """In a row; the first ones get one more where it does not divide, and nobody gets nothing."""
    parts = min(parts, len(items))
    size, more = divmod(len(items), parts)
    borders = [part * size + min(part, more) for part in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(borders)]
