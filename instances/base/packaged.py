"""How a packaged instance is made, and what `plan instances` shows of the packaged instances of a kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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


@dataclass(frozen=True, slots=True)
class Packaged:
    """The packaged instances of one kind, and what their rows in `plan instances` show."""

    recipes: tuple[Recipe, ...]
    columns: Mapping[str, str]
    """Headings in the terminal, each with the text below it, where names of facts stand in braces."""
    variants: Mapping[str, str]
    """Variants whose best known values are listed, in this order, and their headings in the terminal."""
    note: str
    """What the headings of the variants mean."""
    more: Callable[[Any], dict[str, Any]] = lambda problem: {}
    """What a row says of the problem beside the facts of its kind."""
    senseless: Callable[[Any], Collection[str]] = lambda problem: ()
    """Variants that make no sense for a problem."""

    def variants_of(self, problem: Any) -> tuple[str, ...]:
        return tuple(variant for variant in self.variants if variant not in self.senseless(problem))
