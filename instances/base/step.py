"""By how much a cluster gets better, and what it takes to say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

# Pairs of a change in words and the problem with that change.
Found = Iterator[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an upgrade: so many more bytes of memory, and links that are faster by a factor; each in words, too."""

    memory_bytes: float
    more: str
    factor: float
    faster: str


def with_changed(entries: Sequence[T], number: int, **changes: Any) -> tuple[T, ...]:
    """The entries with changes to the one of this number."""
    changed: Any = entries[number]
    return (*entries[:number], replace(changed, **changes), *entries[number + 1 :])
