"""Quantities on the command line: what cannot be read is a usage error of the option."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import typer

from ..instances import quantities


def _option(read: Callable[[str], float]) -> Callable[[str], float]:
    @wraps(read)
    def parser(text: str) -> float:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parser


duration = _option(quantities.duration)
size = _option(quantities.size)
rate = _option(quantities.rate)
size_or_none = _option(quantities.size_or_none)
