"""Plain Python functions as machine code, made when it is first needed and kept on disk."""

from __future__ import annotations

import hashlib
import inspect
import os
import pkgutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from threading import RLock
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from . import clock
from .errors import UsageError

if TYPE_CHECKING:
    import subprocess

MACHINE_CODE = "PIPEPLAN_MACHINE_CODE"
# Is machine code used for problems of every size?
_always = False

# Two threads that import numba at the same time have waited for each other's locks without end.
_loading = RLock()


def compiled(unit: ModuleType, entry: str, *, meanwhile: bool = False) -> Callable[..., Any]:
    """The unit's function `entry`, with all functions of the unit that it calls.

    A unit is a module, or a package: its modules import functions of each other by name. The functions are compiled in
    scopes of their own, so that the plain ones remain what they are. Where another process makes the code, the plain
    function will do if `meanwhile` is true; who says otherwise waits.
    """
    if _runs_plain_loops():
        return getattr(unit, entry)  # type: ignore[no-any-return]
    with _loading:
        if (unit, entry) in _makers:
            if meanwhile and not _always and _is_being_made(unit, entry):
                return getattr(unit, entry)  # type: ignore[no-any-return]
            clock.stop()
            try:
                while _is_being_made(unit, entry):
                    time.sleep(LOOK_S)
            finally:
                clock.go_on()
            del _makers[unit, entry]
        return _compiled(unit, entry)


# Seconds between two looks at whether the code is there.
LOOK_S = 0.01
# Processes that make code which this one has not called yet.
_makers: dict[tuple[ModuleType, str], subprocess.Popen[bytes]] = {}


def _is_being_made(unit: ModuleType, entry: str) -> bool:
    return _makers[unit, entry].poll() is None and not _is_on_disk(dispatcher(unit, entry))


def make_beside(
    command: Sequence[str], environment: Mapping[str, str], entries: Iterable[tuple[ModuleType, str]]
) -> None:
    """Start a process that makes the code of these entries."""
    import subprocess

    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
    )
    _makers.update((entry, process) for entry in entries)


def make(unit: ModuleType, entry: str, *like: Any) -> None:
    """Make and keep on disk the code of the entry for arguments of the types of these, without a call."""
    import numba

    types_of: Any = numba.typeof
    dispatcher(unit, entry).compile(tuple(map(types_of, like)))


def is_kept(unit: ModuleType, entry: str) -> bool:
    """Is code of the entry there already, or on its way to the disk?"""
    if _runs_plain_loops() or (unit, entry) in _makers:
        return True
    own = dispatcher(unit, entry)
    return bool(own.signatures) or _is_on_disk(own)


def _is_on_disk(own: Any) -> bool:
    """Numba writes the code itself last, and all at once."""
    folder = own.stats.cache_path
    return folder is not None and any(Path(folder).glob(f"*.{own.py_func.__qualname__}-*.nbc"))


def can_be_kept(unit: ModuleType, entry: str) -> bool:
    """Is there a folder in which code of the entry may be kept? Where there is none, each process makes its own."""
    return not _runs_plain_loops() and dispatcher(unit, entry).stats.cache_path is not None


def dispatcher(unit: ModuleType, entry: str) -> Any:
    """Numba's own object behind the function that `compiled` returns."""
    with _loading:
        return _compiled(unit, entry).__wrapped__  # type: ignore[attr-defined]


@cache
def _compiled(unit: ModuleType, entry: str) -> Callable[..., Any]:
    _stop_the_clock_while_compiling()
    modules = _modules(unit)
    version = _version(modules)
    scopes = {module.__name__: dict(vars(module)) for module in modules}
    called = getattr(unit, entry)
    twins: dict[FunctionType, Any] = {}
    for scope in scopes.values():
        for name, value in scope.items():
            if isinstance(value, FunctionType) and value.__module__ in scopes:
                if value not in twins:
                    twins[value] = _twin(value, scopes[value.__module__], version, value is called)
                scope[name] = twins[value]
    return _interruptible(twins[called])


def _interruptible(function: Any) -> Callable[..., Any]:
    """The function, raising `KeyboardInterrupt` on an interrupt: while machine code runs that returns arrays, Python
    wraps it in a `SystemError` for each array."""

    @wraps(function)
    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except SystemError as error:
            cause: BaseException | None = error
            while isinstance(cause, SystemError):
                cause = cause.__cause__
            if isinstance(cause, KeyboardInterrupt):
                raise cause from None
            raise

    return call


def _runs_plain_loops() -> bool:
    """With `PIPEPLAN_MACHINE_CODE=no` loops run as plain Python: the same plans, slower, and nothing is compiled."""
    told = os.environ.get(MACHINE_CODE, "yes")
    if told not in ("yes", "no"):
        raise UsageError(f"{MACHINE_CODE} is {told!r}, which is neither yes nor no; give one of them, or unset it.")
    return told == "no" and not _always


def repays_loading(size: float, least: float) -> bool:
    """Is a problem of this size large enough for machine code? Smaller ones are done before it is loaded."""
    return _always or size >= least


@contextmanager
def always_compiled() -> Iterator[None]:
    """Within it machine code is used for the smallest problem, too, so that all of it is made and kept on disk."""
    global _always
    before, _always = _always, True
    try:
        yield
        for process in _makers.values():
            process.wait()
    finally:
        _always = before


@cache
def _stop_the_clock_while_compiling() -> None:
    """Numba tells when it compiles. Loading from disk is quick, and the clock goes on meanwhile."""
    from numba.core import event

    class Watch(event.Listener):
        def on_start(self, event: object) -> None:
            clock.stop()

        def on_end(self, event: object) -> None:
            clock.go_on()

    event.register("numba:compile", Watch())  # type: ignore[no-untyped-call]


def _modules(unit: ModuleType) -> list[ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(getattr(unit, "__path__", [])))
    return [unit, *(import_module(f"{unit.__name__}.{name}") for name in names)]


def _version(modules: list[ModuleType]) -> str:
    """A digest of the source of the whole unit: machine code holds what it calls and the constants that it reads."""
    source = "\0".join(inspect.getsource(module) for module in modules)
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def _twin(function: FunctionType, scope: dict[str, Any], version: str, called: bool) -> Any:
    """The function in the scope, to be compiled at its first call.

    Numba looks on disk by the function's name and for changes in its own file alone; so the version is in the name.
    """
    import numba

    twin = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    twin.__module__ = function.__module__
    twin.__qualname__ = f"{function.__name__}-{version}" + ("" if called else "-inner")
    # Only the entry is called from Python; wrappers for the others would double the time to compile.
    inner = {} if called else {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiler: Any = numba.njit(nogil=True, error_model="numpy", **inner)  # type: ignore[call-overload]
    own = compiler(twin)
    # Without a folder that can be written, as in a read-only container, numba raises: then nothing is kept.
    with suppress(RuntimeError, OSError):
        own._cache = _kept_code()(twin)
    return own


@cache
def _kept_code() -> Any:
    """Numba's cache of a function, to which files that cannot be read or written are as good as none.

    A process that was ended, or a full disk, must not stop all later ones.
    """
    from numba.core import caching

    numbas: Any = caching.FunctionCache

    class KeptCode(numbas):  # type: ignore[misc]
        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # whatever unpickling half a file raises
                with suppress(OSError):
                    self.flush()
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(OSError):
                super().save_overload(sig, data)

    return KeptCode


# ---- processes -----------------------------------------------------------------------------------------
# How a process of our own is started: by this Python, from our package, and never from the user's folder.

PACKAGE_ROOT = str(Path(__file__).absolute().parents[3])


def own_python(*words: str) -> list[str]:
    """The command of a child: this Python, which imports nothing from the folder in which the user happens to be."""
    return [sys.executable, "-P", *words]


def child_environment() -> dict[str, str]:
    """The child finds our package first, wherever it is started, and what the parent's environment adds."""
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (PACKAGE_ROOT, inherited)))}
