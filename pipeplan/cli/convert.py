"""`plan convert`: an instance from one format into another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..show.console import out, print_json, styled
from .arguments import (
    Cluster,
    InstanceArgument,
    Json,
    check_output,
    load_instance,
    with_cluster,
)
from .referee_options import one_of

if TYPE_CHECKING:
    pass

FORMATS = ("own", "published")


@with_cluster
def command(
    on: Cluster,
    instance: InstanceArgument,
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write.", show_default=False)],
    to: Annotated[
        str, typer.Option("--to", metavar="|".join(FORMATS), help="own: pipeplan.placement/1; published: the paper's.")
    ] = "own",
    json: Json = False,
) -> None:
    """Convert an instance into our own JSON or the published one; what a format cannot hold is refused."""
    from ..instances.files import save
    from ..instances.kinds import kind_of

    one_of("--to", to, FORMATS)
    check_output("OUT", target)
    problem = load_instance(instance, on)
    save(problem, target, format=to)
    if json:
        print_json({"file": target, "format": to, "problem": {"name": problem.name, "hash": problem.hash}})
    else:
        out().print(
            styled(f"wrote {target} ({to}, a {problem.kind} problem of {kind_of(problem).get('size')(problem)})")
        )
