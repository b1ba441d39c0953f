"""A digest of somebody else's code, so that what it has computed is not taken for the work of code that came later."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path


def code_digest(modules: Iterable[str]) -> str:
    """A digest of the files of these modules' packages, and of the versions of the distributions that they belong to.

    Files beside a module count where it imports them, so that a helper of one's own may not change unseen. What is
    imported from installed packages does not count.
    """
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
    """The packages of these names, and those beside them that their files import, and so on."""
    packages: dict[str, ModuleSpec] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        spec = None if name in packages else find_spec(name)
        if spec is None:
            continue
        packages[name] = spec
        for path in _files(spec):
            waiting += [other for other in _imported(path) if _lies_in(_folder(spec), other)]
    return packages


def _folder(spec: ModuleSpec) -> Path:
    """The folder from which the package is imported."""
    place = next(iter(spec.submodule_search_locations or ()), spec.origin)
    return Path(str(place)).parent


def _files(spec: ModuleSpec) -> list[Path]:
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    found = [path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts]
    if not folders:
        found = [Path(spec.origin or "")]
    return sorted(path for path in found if path.is_file())


def _lies_in(folder: Path, name: str) -> bool:
    """Is there a module of that name among somebody's own files? Installed packages are not."""
    if folder.name in ("site-packages", "dist-packages"):
        return False
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


def _imported(path: Path) -> Iterator[str]:
    """The top-level names that a file imports, anywhere in it; none where it is no Python."""
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
