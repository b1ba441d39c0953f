"""FILE:FUNCTION, the only input that is ever executed: a function without arguments that makes a model."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...instances.errors import InputError, UsageError, show


def address_of(build: Callable[[], Any] | str) -> tuple[str, str]:
    """File and name of a function, so that other processes can load it."""
    if isinstance(build, str):
        file, colon, function = build.rpartition(":")
        if not colon or not file or not function.isidentifier():
            raise InputError("--model", f"is {show(build)}", "give FILE:FUNCTION, such as my.py:build")
        return os.path.abspath(file), function
    try:
        found = inspect.getsourcefile(build)
    except TypeError:
        found = None
    name = getattr(build, "__qualname__", "")
    if found is None or not name.isidentifier() or not os.path.isfile(found):
        raise UsageError(
            "Each rank is a process that calls the function anew; give a function at the top level of a file."
        )
    return os.path.abspath(found), name


def load_function(file: str, function: str) -> Callable[[], Any]:
    """The function in the file, which is run for that; its folder can be imported from."""
    if not os.path.isfile(file):
        raise InputError("file", "does not exist", "check the path", file)
    folder = str(Path(file).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise InputError("file", "is no Python file", "name one that ends in .py", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(
            "file", f"cannot be run ({type(error).__name__}: {text})", "correct it", file
        ) from error
    found = getattr(module, function, None)
    if not callable(found):
        raise InputError("file", f"has no function {show(function)}", "name one that it defines", file)
    return found  # type: ignore[no-any-return]
