"""Plain loops over arrays as machine code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any


@cache
def compiled(module: ModuleType, entry: str) -> Callable[..., Any]:
    """The functions of a module, compiled in a scope of their own; the machine code is kept on disk."""
    import numba

    compiler: Any = numba.njit
    scope: dict[str, Any] = dict(vars(module))
    for name, function in _functions(module):
        twin = FunctionType(function.__code__, scope, name)
        twin.__module__ = module.__name__
        # Only the entry is called from Python; wrappers for the others would double the time to compile.
        inner = {} if name == entry else {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        scope[name] = compiler(cache=True, nogil=True, error_model="numpy", **inner)(twin)
    loop: Callable[..., Any] = scope[entry]
    return loop


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    return ((name, value) for name, value in vars(module).items() if isinstance(value, FunctionType))


_begun: dict[str, threading.Thread] = {}
_lock = threading.Lock()


def ready(name: str, first_call: Callable[[], object]) -> bool:
    """Has the first call, which compiles or loads the machine code, returned? It is begun here, once per process."""
    with _lock:
        thread = _begun.get(name)
        if thread is None:
            thread = _begun[name] = threading.Thread(target=first_call, name=name)
            thread.start()
    return not thread.is_alive()
