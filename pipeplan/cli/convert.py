"""`plan convert`: an instance from one format into another."""

from __future__ import annotations

from typing import Annotated

import typer

from ..instances.base.errors import one_of
from ..show.console import tell
from .arguments import Cluster, InstanceArgument, Json, load_instance, output_file, with_cluster

FORMATS = ("own", "published")


@with_cluster()
def command(
    *,
    instance: InstanceArgument,
    target: Annotated[str, output_file("The file to write.", "--output", "-o")],
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
    from ..instances.files import save
    from ..instances.registry import kind_of

    one_of("--to", to, FORMATS)
    problem = load_instance(instance, on)
    save(problem, target, format=to)
    facts = {"file": target, "format": to, "problem": {"name": problem.name, "hash": problem.hash}}
    tell(
        json,
        facts,
        f"{target}: a {problem.kind} problem of {kind_of(problem).size(problem)}, in the {to} format",
    )
