"""`plan import pipedream`: one of PipeDream's files as a profile."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import Json, input_file
from .import_options import Inference, Output, check_output, hand_over

_File = Annotated[str, input_file("FILE", "A graph of layers with measured times: graph.txt.")]
_MicroBatch = Annotated[
    int,
    typer.Option("--micro-batch", metavar="SAMPLES", help="Samples that the times are of; the file does not say."),
]


def command(
    file: _File,
    output: Output = None,
    inference: Inference = False,
    micro_batch: _MicroBatch = 1,
    json: Json = False,
) -> None:
    """Make a profile of a graph.txt, which PipeDream's profiler writes.

    Commands that take an INSTANCE take the file itself, too, with the cluster and --kind beside.
    """
    from ..instances.lowering import load_graph_txt

    check_output(output, json)
    profile = load_graph_txt(file, training=not inference).replace(micro_batch=micro_batch)
    hand_over(profile, output, json)
