"""Plain Python functions as machine code, made when it is first needed and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType
from typing import Any


@cache
def compiled(module: ModuleType, entry: str) -> Callable[..., Any]:
    """The module's function `entry`, with all functions of the module that it calls.

    They are compiled in a scope of their own, so that the plain ones remain what they are.
    """
    import numba

    compiler: Any = numba.njit
    scope: dict[str, Any] = dict(vars(module))
    for name, function in vars(module).items():
        if isinstance(function, FunctionType) and function.__module__ == module.__name__:
            twin = FunctionType(function.__code__, scope, name, function.__defaults__)
            twin.__module__ = module.__name__
            # Only `entry` is called from Python; wrappers for the others would double the time to compile.
            inner = {} if name == entry else {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
            scope[name] = compiler(cache=True, nogil=True, error_model="numpy", **inner)(twin)
    function_of_entry: Callable[..., Any] = scope[entry]
    return function_of_entry
