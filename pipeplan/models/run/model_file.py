"""Where a function stands, so that the process of each rank can load it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from ...instances.base.errors import UsageError
from ..function_file import place_of


def address_of(build: Callable[..., Any] | str) -> str:
    """FILE:FUNCTION with the whole path."""
    if isinstance(build, str):
        file, name = place_of(build, "--model")
        return f"{os.path.abspath(file)}:{name}"
    try:
        found = inspect.getsourcefile(build)
    except TypeError:
        found = None
    name = getattr(build, "__qualname__", "")
    if found is None or not name.isidentifier() or not os.path.isfile(found):
        raise UsageError(
            "Each rank is a process that calls the function anew; give a function at the top level of a file."
        )
    return f"{os.path.abspath(found)}:{name}"
