"""`plan import pipedream`: one of PipeDream's files as a profile."""

from __future__ import annotations

from typing import Annotated

import typer

from ..instances.errors import UsageError
from ..show.console import out, print_json, styled
from .arguments import Json, input_file, output_file

_File = Annotated[str, input_file("FILE", "A graph of layers with measured times: graph.txt.")]
_Output = Annotated[str | None, output_file("The file to write: my.profile.json.", "--output", "-o")]
_Inference = Annotated[bool, typer.Option("--inference", help="Leave the backward passes out.")]
_MicroBatch = Annotated[
    int,
    typer.Option("--micro-batch", metavar="SAMPLES", help="Samples that the times are of; the file does not say."),
]


def command(
    file: _File,
    output: _Output = None,
    inference: _Inference = False,
    micro_batch: _MicroBatch = 1,
    json: Json = False,
) -> None:
    """Make a profile of a graph.txt, which PipeDream's profiler writes.

    Commands that take an INSTANCE take the file itself, too, with the cluster and --kind beside.
    """
    from ..instances.json_file import write_json
    from ..instances.lowering import load_graph_txt
    from ..instances.profile.files import profile_to_json

    if output is None and not json:
        raise UsageError("Say where the profile goes: give -o my.profile.json, or --json.")
    profile = load_graph_txt(file, training=not inference).replace(micro_batch=micro_batch)
    if output is not None:
        write_json(output, profile_to_json(profile))
    if json:
        print_json(profile_to_json(profile))
    else:
        out().print(styled(f"a profile of {len(profile.nodes)} layers"))
