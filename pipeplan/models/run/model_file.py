"""Where a function stands, so that the process of each rank can load it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from ...instances.errors import InputError, UsageError, show


def address_of(build: Callable[..., Any] | str) -> str:
    """FILE:FUNCTION with the whole path."""
    if isinstance(build, str):
        file, colon, name = build.rpartition(":")
        if not colon or not file or not name.isidentifier():
            raise InputError(
                "--model", f"is {show(build)}", "give a file and a function in it, such as my.py:build"
            )
        if not os.path.isfile(file):
            raise InputError("file", "does not exist", "check the path", file)
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
