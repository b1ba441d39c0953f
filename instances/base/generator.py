"""A family of random problems of any kind, as `plan generate` offers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a generator, as the command line offers it. `type` is int, float or flag."""

    name: str
    type: str
    default: Any
    help: str


@dataclass(frozen=True, slots=True)
class Generator(Generic[Made]):
    """A family of problems, which every parameter with its default makes callable without arguments."""

    name: str
    title: str
    build: Callable[..., Made]
    parameters: tuple[Parameter, ...] = ()

    def __call__(self, **arguments: Any) -> Made:
        usual = {parameter.name: parameter.default for parameter in self.parameters}
        return self.build(**{**usual, **arguments})
