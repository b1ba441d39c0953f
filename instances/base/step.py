"""By how much a slightly better cluster is better, in numbers and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

# Pairs of a change in words and the problem with that change.
Found = Iterator[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """An upgrade: more bytes of memory, `more` in words, and links that are faster by `factor`, `faster` in words."""

    memory_bytes: float
    more: str
    factor: float
    faster: str


def with_changed(entries: Sequence[T], number: int, **changes: Any) -> tuple[T, ...]:
    """The entries, where the one at the position `number` has these changes."""
    changed: Any = entries[number]
    return (*entries[:number], replace(changed, **changes), *entries[number + 1 :])
