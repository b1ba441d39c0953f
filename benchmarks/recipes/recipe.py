"""How one packaged instance is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one packaged instance is made; `source` says of what, in one line."""

    name: str
    source: str
    build: Callable[[], Any]
    """The function that builds the problem."""

    def named(self) -> Recipe:
        """A recipe whose problem has the name of the recipe."""
        return Recipe(self.name, self.source, lambda: self.build().replace(name=self.name))
