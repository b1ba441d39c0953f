"""FILE:FUNCTION, the only input that is ever executed: a function that makes a model and its inputs."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..instances.base.errors import InputError, did_you_mean, show


def place_of(text: str, argument: str = "FILE:FUNCTION") -> tuple[str, str]:
    """The file, which exists, and the name of a function in it."""
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name.isidentifier():
        raise InputError(argument, f"is {show(text)}", "give a file and a function in it, such as my.py:build")
    if not os.path.isfile(file):
        raise InputError("file", "does not exist", "check the path", file)
    return file, name


def function_of(text: str, argument: str = "FILE:FUNCTION") -> Callable[..., Any]:
    """The function that the text names; its file is run for that, and its folder can be imported from."""
    file, name = place_of(text, argument)
    names = vars(_run(os.path.abspath(file), file))
    if name not in names:
        guess = did_you_mean(name, [key for key, value in names.items() if inspect.isfunction(value)])
        raise InputError("file", f"has no function {show(name)}{guess}", "name one that it defines", file)
    if not callable(names[name]):
        raise InputError("file", f"has {show(name)}, but that is no function", "name a function", file)
    function: Callable[..., Any] = names[name]
    return function


def _run(path: str, file: str) -> Any:
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InputError("file", "is no Python file", "name one that ends in .py", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise InputError("file", f"cannot be run ({type(error).__name__}: {text})", "correct it", file) from error
    return module


def for_samples(function: Callable[..., Any], samples: int | None) -> Callable[[], Any]:
    """The function with `samples` as its argument micro_batch; None: the function as it is."""
    if samples is None:
        return function
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        parameters = {}  # type: ignore[assignment]
    if "micro_batch" not in parameters:
        raise InputError(
            "--micro-batch",
            "is given, but the function takes no argument micro_batch",
            "let it be def build(micro_batch=4) and make inputs of that many samples",
        )

    def build() -> Any:
        return function(micro_batch=samples)

    return build
