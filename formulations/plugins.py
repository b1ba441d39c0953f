"""What other packages add: found by entry points or named by address, and imported only when it is asked for.

A name is that of an installed entry point, or the address `module:NAME` that a user wrote; names that files give are
never imported as addresses (`is_address` tells them apart).
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.util import find_spec
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
REMEDY = "give MODULE:NAME as it is imported here"
# Names of a module, its packages and an attribute: `package.module:NAME`.
ADDRESS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


class PluginError(UsageError):
    """A plug-in was named, and cannot be loaded or used."""

    def __init__(self, what: str, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"{what} cannot be loaded ({reason}); {remedy}.")


def is_address(name: str) -> bool:
    """Is it written as `module:NAME`?"""
    return ADDRESS.fullmatch(name) is not None


def installed(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name; nothing of theirs is imported."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}


def load_installed(point: EntryPoint, wanted: type[T]) -> T:
    """Load what an entry point names; an error names the package that it came with."""
    package = point.dist.name if point.dist is not None else point.module
    return _made(point.load, wanted, f"The plug-in {point.name!r} of {package}", f"mend or uninstall {package}")


def load_named(address: str, wanted: type[T]) -> T:
    """Load what stands at `module:NAME`, which may be in the current folder."""
    module, _, attribute = address.partition(":")
    return _made(lambda: getattr(import_from_here(module), attribute), wanted, show(address), REMEDY)


def import_from_here(module: str) -> Any:
    """The module; what is installed comes before what lies in the current folder."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    importlib.invalidate_caches()
    return importlib.import_module(module)


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


def code_digest(modules: Iterable[str]) -> str:
    """A digest of the files of these modules' packages, and of the versions of the distributions that they belong to.

    Files beside a module count where it imports them, so that a helper of one's own may not change unseen. What is
    imported from installed packages does not count.
    """
    import hashlib
    from importlib.metadata import packages_distributions, version

    packages = _with_neighbours({module.partition(".")[0] for module in modules})
    distributions = packages_distributions()
    digest = hashlib.sha256()
    for name in sorted(packages):
        for distribution in sorted(set(distributions.get(name, ()))):
            digest.update(f"{distribution} {version(distribution)}\n".encode())
        for path in _files(packages[name]):
            digest.update(f"{name} {path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def _with_neighbours(names: Iterable[str]) -> dict[str, ModuleSpec]:
    """The packages of these names, and those beside them that their files import, and so on; installed packages are
    nobody's own files."""
    packages: dict[str, ModuleSpec] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        spec = None if name in packages else find_spec(name)
        if spec is None:
            continue
        packages[name] = spec
        folder = Path(str(next(iter(spec.submodule_search_locations or ()), spec.origin))).parent
        if folder.name in ("site-packages", "dist-packages"):
            continue
        imported = {other for path in _files(spec) for other in _imported(path)}
        waiting += [x for x in imported if (folder / f"{x}.py").is_file() or (folder / x).is_dir()]
    return packages


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
