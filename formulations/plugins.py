"""What other packages add: found by entry points or named by address, and imported only when it is asked for.

A name is that of an installed entry point, or the address `module:NAME` or `file.py:NAME` that a user wrote; names that
files give are never imported as addresses (`is_address` tells them apart).
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import wraps
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from ..instances.base.errors import PipeplanError, TooLargeError, UsageError, show
from .contract import BuiltModel
from .family import Family

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from importlib.metadata import EntryPoint


T = TypeVar("T")

OURS = __name__.partition(".")[0]

# What to do about an address at which nothing can be loaded.
REMEDY = "give MODULE:NAME as it is imported here, or FILE.py:NAME"
# Names of a module, its packages and an attribute, or a file and an attribute: `package.module:NAME`, `mine.py:NAME`.
ADDRESS = re.compile(r"([^\W\d]\w*(\.[^\W\d]\w*)*|[^:@=]+\.py):[^\W\d]\w*")


class PluginError(UsageError):
    """A plug-in was named, and cannot be loaded or used."""

    def __init__(self, what: str, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"{what} cannot be loaded ({reason}); {remedy}.")


def is_address(name: str) -> bool:
    """Is it written as `module:NAME` or `file.py:NAME`?"""
    return ADDRESS.fullmatch(name) is not None


def installed(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name; nothing of theirs is imported."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}


def load_installed(point: EntryPoint, wanted: type[T]) -> T:
    """Load what an entry point names; an error names the package that it came with."""
    package = point.dist.name if point.dist is not None else point.module
    return _made(point.load, wanted, f"The plug-in {point.name!r} of {package}", f"mend or uninstall {package}")


def load_named(address: str, wanted: type[T], convert: Callable[..., Any] | None = None) -> T:
    """Load what stands at `module:NAME` or `file.py:NAME`; `convert` may make something else of it."""
    module, _, attribute = address.partition(":")

    def find() -> Any:
        found = import_from_here(module)
        if not hasattr(found, attribute):  # named by the file, not by the name that we gave its module
            raise AttributeError(f"{module} has no {attribute!r}")
        value = getattr(found, attribute)
        return value if convert is None else convert(value, address)

    return _made(find, wanted, show(address), REMEDY)


def import_from_here(module: str) -> Any:
    """The module; what is installed comes before what lies in the current folder. A file is a module of its own, whose
    neighbours it may import."""
    name, beside = module_at(module), str(Path(module).resolve().parent)
    sys.path += [place for place in dict.fromkeys((os.getcwd(), beside)) if place not in sys.path]
    importlib.invalidate_caches()
    if name != module and name not in sys.modules:
        spec = spec_from_file_location(name, Path(module).resolve())
        assert spec is not None, "it ends with .py"
        assert spec.loader is not None
        made = module_from_spec(spec)
        spec.loader.exec_module(made)
        sys.modules[name] = made
    return importlib.import_module(name)


def module_at(place: str) -> str:
    """The name of a module in an address; that of a file says where the file lies, so that no other has it."""
    if not place.endswith(".py"):
        return place
    path = Path(place).resolve()
    return f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def mistake_in(name: str, module: str, error: BaseException) -> str:
    """What a plug-in of this name raised, with the last line of its own package that was at work."""
    package, place, step = module.partition(".")[0], "", error.__traceback__
    while step is not None:
        if str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == package:
            place = f" at {step.tb_frame.f_code.co_filename}, line {step.tb_lineno}"
        step = step.tb_next
    told = " ".join(str(error).split())
    return f"The plug-in {name} failed{place} ({type(error).__name__}: {told}); mend it{' there' if place else ''}."


class PluginMistakeError(UsageError):
    """Code of another package failed; a plan that was found before may still be reported."""


@contextmanager
def blaming(name: str, module: str, may_refuse: bool = False) -> Iterator[None]:
    """Turn errors in code of another package into a `PluginMistakeError`; errors in our own code pass.

    Refusals that the user can act on pass as well. An `InputError` is one only where that code looks at the problem
    first (`may_refuse`); later it comes from a plan or problem that the code makes itself.
    """
    try:
        yield
    except (UsageError, TooLargeError, MemoryError):
        raise
    except Exception as error:
        if module.partition(".")[0] == OURS or (may_refuse and isinstance(error, PipeplanError)):
            raise
        raise PluginMistakeError(mistake_in(name, module, error)) from error


def blamed(function: Callable[..., T], name: str, module: str, may_refuse: bool = False) -> Callable[..., T]:
    """The function, and functions in what it returns, with their mistakes told as those of the plug-in."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with blaming(name, module, may_refuse):
            answer = function(*arguments, **options)
        return blamed_fields(answer, name, module) if isinstance(answer, (BuiltModel, Family)) else answer

    return call


# Functions of a built model and of a family.
CALLED = ("decode", "encode", "exclude", "key", "outside")


def blamed_fields(record: Any, name: str, module: str) -> Any:
    """The record with mistakes in each of its functions told as those of the plug-in."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return replace(
        record, **{key: blamed(value, name, module) for key, value in values.items() if key in CALLED and value}
    )


# Functions of a method that look at the problem first, and may refuse it by any error of ours.
REFUSING = ("check", "plan")


def blamed_method(method: Any, name: str, module: str) -> Any:
    """What stands for a method of another package: the same attributes, with mistakes told as those of the plug-in."""
    stand_in = SimpleNamespace()
    for key in dir(method):
        if not key.startswith("_"):
            with blaming(name, module):
                value = getattr(method, key)
            setattr(stand_in, key, blamed(value, name, module, key in REFUSING) if callable(value) else value)
    return stand_in


def _made(find: Callable[[], Any], wanted: type[T], what: str, remedy: str) -> T:
    """An object of the wanted type, or what a function without arguments makes of it."""
    try:
        value = find()
        made = value() if callable(value) and not isinstance(value, wanted) else value
    except Exception as error:  # whatever is wrong with one plug-in, the others work
        raise PluginError(what, f"{type(error).__name__}: {error}", remedy) from error
    if not isinstance(made, wanted):
        reason = f"it holds an object of type {type(made).__name__}, where {wanted.__name__} is expected"
        raise PluginError(what, reason, remedy)
    return made


def code_digest(modules: Iterable[str], depends: Iterable[str] = ()) -> str:
    """A digest of the files of these modules' packages, of the versions of the distributions that they belong to, and
    of the files on which they depend besides.

    What a module imports from outside of installed packages counts, wherever it lies, so that a helper of one's own may
    not change unseen. Modules whose names are computed are not followed: name their files in `depends`.
    """
    from importlib.metadata import packages_distributions, version

    packages = _with_neighbours({module.partition(".")[0] for module in modules})
    distributions = packages_distributions()
    named = {d for name in packages for d in distributions.get(name, ())}
    paths = [*(path for spec in packages.values() for path in _files(spec)), *map(Path, depends)]
    lines = [f"{name} {version(name)}" for name in named]
    for path in paths:
        if not path.is_file():
            raise PluginError(
                f"The file {str(path)!r}, on which a method depends,", "there is none", "mend `depends`"
            )
        lines.append(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def _with_neighbours(names: Iterable[str]) -> dict[str, ModuleSpec]:
    """The packages of these names, and those of no installed package that their files import, and so on."""
    packages: dict[str, ModuleSpec] = {}
    waiting = [(name, find_spec(name)) for name in names]
    while waiting:
        name, spec = waiting.pop()
        if spec is None or name in packages:
            continue
        packages[name] = spec
        if _is_own(spec):
            imported = {other for path in _files(spec) for other in _imported(path)} - {
                OURS,
                *sys.stdlib_module_names,
            }
            found = ((other, PathFinder.find_spec(other)) for other in imported)
            waiting += [(other, its) for other, its in found if its is not None and _is_own(its)]
    return packages


def _is_own(spec: ModuleSpec) -> bool:
    """Does it lie outside of the folders of installed packages?"""
    place = Path(str(next(iter(spec.submodule_search_locations or ()), spec.origin)))
    return place.exists() and not {"site-packages", "dist-packages"} & {*place.parts}


def _files(spec: ModuleSpec) -> list[Path]:
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    found = [path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts]
    if not folders:
        found = [Path(spec.origin or "")]
    return sorted(path for path in found if path.is_file())


def _imported(path: Path) -> Iterator[str]:
    """The top-level names that a file imports, anywhere in it; none where it is no Python."""
    import ast

    if path.suffix != ".py":
        return
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
