"""The options that formulations and planners declare, as options of a command: a new method needs no line here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..formulations.contract import OptionSpec
from ..planners.registry import all_methods, option_owners

PANEL = "Options of formulations and planners"

MANY = 3
"""More owners than this are counted, not named."""

_TYPES: dict[str, type] = {"flag": bool, "choice": str, "int": int, "float": float, "text": str, "path": str}
_METAVARS = {"path": "FILE"}


def with_method_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with one more option per declared one; those that were given arrive as `own`."""
    specs = _declared()

    def run(**values: Any) -> Any:
        own = {name: values.pop(name) for name in specs}
        return command(own={name: value for name, value in own.items() if value is not None}, **values)

    signature = inspect.signature(command, eval_str=True)
    parameters = [parameter for name, parameter in signature.parameters.items() if name != "own"]
    parameters += [_parameter(spec) for spec in specs.values()]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    return run


def _declared() -> dict[str, OptionSpec]:
    """Every declared option once, with the choices of all its owners."""
    specs: dict[str, OptionSpec] = {}
    for entry in all_methods():
        for spec in entry.options:
            known = specs.get(spec.name)
            choices = tuple(dict.fromkeys((known.choices if known else ()) + spec.choices))
            specs[spec.name] = OptionSpec(spec.name, spec.type, spec.default, (known or spec).help, choices)
    return specs


def _parameter(spec: OptionSpec) -> inspect.Parameter:
    option = typer.Option(
        "--" + spec.name.replace("_", "-"),
        help=_help(spec),
        metavar="[" + "|".join(spec.choices) + "]" if spec.choices else _METAVARS.get(spec.type),
        rich_help_panel=PANEL,
        show_default=False,
    )
    return inspect.Parameter(
        spec.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[_TYPES[spec.type] | None, option],
    )


def _help(spec: OptionSpec) -> str:
    owners = option_owners()[spec.name]
    of = ", ".join(owners) if len(owners) <= MANY else f"{owners[0]} and {len(owners) - 1} planners"
    default = "" if spec.default in (None, False) else f" [default: {spec.default}]"
    return f"{spec.help}{default} ({of})"
