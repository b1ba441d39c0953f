"""`plan convert`: an instance from one format into another."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..instances.base.errors import UsageError, one_of
from ..show.console import tell
from .arguments import Cluster, InstanceArgument, Json, load_instance, output_file, with_cluster, writable_or_stdout

FORMATS = ("own", "published")


@with_cluster()
def command(
    *,
    instance: InstanceArgument,
    target: Annotated[
        str, output_file("The file to write, - for stdout.", "--output", "-o", check=writable_or_stdout)
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="|".join(FORMATS),
            help="Format to write: pipeplan's own JSON, or the published one.",
        ),
    ] = "own",
    json: Json = False,
    on: Cluster,
) -> None:
    """Convert an instance into pipeplan's JSON or the published format; what a format cannot hold is refused."""
    from ..instances.files import problem_to_text, save
    from ..instances.registry import kind_of

    one_of("--to", to, FORMATS)
    if json and target == "-":
        raise UsageError("--json and --output - both print to standard output; drop --json, or name a file.")
    problem = load_instance(instance, on)
    if target == "-":
        sys.stdout.write(problem_to_text(problem, to))
        return
    save(problem, target, format=to)
    facts = {"file": target, "format": to, "problem": {"name": problem.name, "hash": problem.hash}}
    tell(
        json,
        facts,
        f"{target}: a {problem.kind} problem of {kind_of(problem).size(problem)}, in the {to} format",
    )
