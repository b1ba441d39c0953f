"""`plan generate`: pipelines of a few numbers."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from ..instances.base.errors import UsageError
from ..instances.registry import kind_of
from ..instances.schedule.generators import GENERATORS
from ..show.console import print_json, print_table, tell
from ..studies.generate import PARAMETERS, made, option_of
from .arguments import Json
from .signatures import described, option, shared

PANEL = "Parameters (`plan generate` without a name lists them by generator)"


def _typer_parameter(name: str) -> inspect.Parameter:
    type_, meaning = PARAMETERS[name]
    flag = option_of(name)
    return option(
        name,
        type_,
        f"{flag}/--no-{flag[2:]}" if type_ is bool else flag,
        help=f"{meaning[0].upper()}{meaning[1:]}.",
        rich_help_panel=PANEL,
    )


with_parameters = shared("given", map(_typer_parameter, PARAMETERS))


@with_parameters()
@described(
    """
    name argument NAME: A generator; without a name, all are listed.
    output output --output -o: The file to write; default: standard output.
    """
)
def command(
    *, name: str | None = None, output: str | None = None, json: Json = False, given: dict[str, Any]
) -> None:
    """Make a schedule problem for a pipeline of equal stages."""
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


def _list(given: dict[str, Any], output: str | None, json: bool) -> None:
    if given or output is not None:
        raise UsageError("Name what to generate; `plan generate` alone lists what there is.")
    rows = [
        {"name": name, "title": generator.title, "parameters": [option_of(each) for each in generator.parameters]}
        for name, generator in GENERATORS.items()
    ]
    print_json(rows) if json else print_table(rows)
