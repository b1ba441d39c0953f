"""A broken rule, whatever the kind of problem."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, by its stable name, and how it is broken."""

    rule: str
    message: str

    def __str__(self) -> str:
        return self.message
