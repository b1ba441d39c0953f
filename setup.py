"""The packages of a wheel: the folders at the top level stand in it under `pipeplan`, with links or without.

Three symbolic links in `pipeplan/` lead to these folders. A checkout of git on Windows, or an archive that was unpacked
there, has small text files in their place, so the folders are mapped here; if one of them is missing, nothing is built.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import find_namespace_packages, setup

ROOMS = ("formulations", "instances", "planners")
HERE = Path(__file__).resolve().parent


def folders() -> dict[str, str]:
    """Where the packages lie: all of them below `pipeplan/`, except for the rooms that are no folders there."""
    unlinked = [room for room in ROOMS if not (HERE / "pipeplan" / room).is_dir()]
    for room in unlinked:
        if not (HERE / room / "__init__.py").is_file():
            raise SystemExit(
                f"pipeplan cannot be built: neither pipeplan/{room} nor {room} is a folder with Python files. "
                "The copy of the repository is incomplete; clone it anew."
            )
    return {"": ".", **{f"pipeplan.{room}": room for room in unlinked}}


def packages(mapped: dict[str, str]) -> list[str]:
    found = find_namespace_packages(str(HERE), include=["pipeplan*"])
    for name, folder in mapped.items():
        if name:
            found += [name, *(f"{name}.{inner}" for inner in find_namespace_packages(str(HERE / folder)))]
    return found


# With links an editable install is then a path, which type checkers follow, and no import hook.
mapped = folders()
setup(package_dir=mapped, packages=packages(mapped))
