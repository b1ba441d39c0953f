"""How problems and results show themselves, in an interpreter and in a notebook; who does it is named from above."""

from __future__ import annotations

from typing import Any

from .kind import Later

_display: list[Later[Any]] = []


def shown_by(address: str) -> None:
    """Name the module that knows how values are shown: `brief`, `html`, `show` and `plot` are its functions."""
    _display[:] = [Later(address)]


def display() -> Any:
    """The module that shows values."""
    return _display[0].load()


class Displayed:
    """A value of three lines in an interpreter, with tables in a notebook, and in full where `show` is called."""

    __slots__ = ()

    def __repr__(self) -> str:
        text: str = display().brief(self)
        return text

    def _repr_html_(self) -> str:
        text: str = display().html(self)
        return text

    def show(self) -> None:
        """Print all that is worth knowing of it, as `plan solve` and `plan show` do."""
        display().show(self)


class Picture:
    """A drawn picture: a notebook shows it, and `svg` is its text."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg
