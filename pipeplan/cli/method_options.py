"""The options that formulations and planners declare, for a command: a new method needs no line here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import typer

from ..formulations.contract import OptionSpec
from ..planners.registry import USUAL_OPTIONS, all_methods, option_owners
from .arguments import watch
from .limits import key_and_value
from .signatures import NARROW, option, with_options

_TYPES: dict[str, type] = {
    "flag": bool, "choice": str, "int": int, "float": float, "text": str, "path": str, "allocation": str,
}  # fmt: skip
_METAVARS = {"path": "FILE", "allocation": "LIST|FILE"}


# Plug-ins are imported once they are named, which is too late for options by name.
_OF_PLUGINS = option("option", list[str], metavar="KEY=VALUE", help="An option of a plug-in; repeatable.")


def with_method_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every option that a method declares; those that were given arrive as `own`."""
    return with_options(command, "own", [*map(_parameter, _declared().values()), _OF_PLUGINS], _own)


def _own(given: dict[str, Any]) -> dict[str, Any]:
    named = dict(key_and_value("--option", text) for text in given.pop("option", ()))
    return {**given, **{key.replace("-", "_"): value for key, value in named.items()}}


def _declared() -> dict[str, OptionSpec]:
    """Every declared option once, with the choices of all its owners."""
    specs: dict[str, OptionSpec] = {}
    for entry in all_methods():
        for spec in entry.options:
            first = specs.get(spec.name, spec)
            choices = tuple(dict.fromkeys(first.choices + spec.choices))
            specs[spec.name] = replace(first, choices=choices)
    return specs


def _parameter(spec: OptionSpec) -> inspect.Parameter:
    """What an option does depends on the method, whose own list of options explains it."""
    return option(
        spec.name,
        _TYPES[spec.type],
        help="An option of " + ", ".join(option_owners()[spec.name]) + ".",
        metavar="[" + "|".join(spec.choices) + "]" if spec.choices else _METAVARS.get(spec.type),
        callback=_watched if spec.type == "path" else None,
        hidden=spec.name in USUAL_OPTIONS,
        rich_help_panel=None if spec.name in USUAL_OPTIONS else NARROW,
    )


def _watched(context: typer.Context, path: str | None) -> str | None:
    """Say at the end if the file was written, as some of these files are."""
    if path is not None:
        watch(context, path)
    return path
