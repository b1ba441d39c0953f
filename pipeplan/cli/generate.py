"""`plan generate`: random problems by seed, and graph pipelines of the GraphPipe paper."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..instances.base.errors import UsageError
from ..instances.base.kind import Parameter
from ..instances.registry import kind_of
from ..show.console import print_json, print_table, tell
from ..studies.generate import families, made, option_of
from .arguments import Json
from .signatures import described, option, size_or_none, with_options

PANEL = "Parameters (`plan generate` alone shows which generator has which)"

_TYPES: dict[str, type] = {"flag": bool, "int": int, "float": float, "text": str, "size": float}


def _with_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option per parameter of any generator; those that were given arrive as `given`."""
    parameter_of: dict[str, Parameter] = {}
    for _, parameters in families().values():
        for parameter in parameters:
            parameter_of.setdefault(parameter.name, parameter)
    return with_options(command, "given", map(_typer_parameter, parameter_of.values()))


def _typer_parameter(parameter: Parameter) -> inspect.Parameter:
    kind = "size" if parameter.name == "memory_bytes" else parameter.type
    flag = option_of(parameter.name)
    return option(
        parameter.name,
        _TYPES[kind],
        f"{flag}/--no-{flag[2:]}" if kind == "flag" else flag,
        parser=size_or_none if kind == "size" else None,
        metavar="SIZE" if kind == "size" else None,
        help=f"{parameter.help[0].upper()}{parameter.help[1:]}.",
        rich_help_panel=PANEL,
    )


@_with_parameters
@described(
    """
    name argument NAME: A generator; without it all are listed.
    output output --output -o: File to write; default: stdout.
    """
)
def command(
    *, name: str | None = None, output: str | None = None, json: Json = False, given: dict[str, Any]
) -> None:
    """Make a problem: a random one by seed, or a model of the GraphPipe paper."""
    if name is None:
        _list(given, output, json)
        return
    from ..instances.files import problem_to_text, save

    problem = made(name, given)
    if output is None:
        sys.stdout.write(problem_to_text(problem))
        return
    save(problem, output)
    facts = {"name": problem.name, "hash": problem.hash}
    tell(json, {"file": output, "problem": facts}, f"{output}: {kind_of(problem).size(problem)}")


def _list(given: Mapping[str, Any], output: str | None, json: bool) -> None:
    if given or output is not None:
        raise UsageError("Name what to generate; `plan generate` alone lists what there is.")
    rows = [
        {"name": name, "title": title, "parameters": [option_of(parameter.name) for parameter in parameters]}
        for name, (title, parameters) in families().items()
    ]
    print_json(rows) if json else print_table(rows)
