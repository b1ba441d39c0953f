"""The options that formulations and planners declare, as options of a command: a new method needs no line here."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ..formulations.contract import OptionSpec
from ..planners.registry import all_methods, option_owners
from .signatures import option, with_options

PANEL = "Options of formulations and planners"
MANY = 3
"""More owners than this are counted, not named."""

_TYPES: dict[str, type] = {
    "flag": bool, "choice": str, "int": int, "float": float, "time": str, "text": str, "path": str, "allocation": str,
}  # fmt: skip
_METAVARS = {"path": "FILE", "allocation": "LIST|FILE", "time": "TIME"}


def with_method_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one more option per declared one; those that were given arrive as `own`."""
    return with_options(command, "own", map(_parameter, _declared().values()))


def _declared() -> dict[str, OptionSpec]:
    """Every declared option once, with the choices of all its owners."""
    specs: dict[str, OptionSpec] = {}
    for entry in all_methods():
        for spec in entry.options:
            known = specs.get(spec.name, spec)
            choices = tuple(dict.fromkeys(known.choices + spec.choices))
            default = known.default if spec.default == known.default else None
            specs[spec.name] = OptionSpec(spec.name, known.type, default, _both(known.help, spec.help), choices)
    return specs


def _both(known: str, more: str) -> str:
    """What several owners say of options of one name."""
    return known if more in known else f"{known} {more}"


def _parameter(spec: OptionSpec) -> inspect.Parameter:
    return option(
        spec.name,
        _TYPES[spec.type],
        help=_help(spec),
        metavar="[" + "|".join(spec.choices) + "]" if spec.choices else _METAVARS.get(spec.type),
        rich_help_panel=PANEL,
    )


def _help(spec: OptionSpec) -> str:
    owners = option_owners()[spec.name]
    of = ", ".join(owners) if len(owners) <= MANY else f"{owners[0]} and {len(owners) - 1} planners"
    default = "" if spec.default in (None, False) else f" [default: {spec.default}]"
    return f"{spec.help}{default} ({of})"
