"""`plan import table`: a table of layers as a profile."""

from __future__ import annotations

from typing import Annotated

import typer

from ..instances.base.errors import UsageError
from ..show.console import out, print_json, styled
from .arguments import Json, output_file

_File = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="A table: .csv, .tsv, .xlsx or .parquet.", show_default=False),
]
_Output = Annotated[
    str | None,
    output_file("The file to write: my.profile.json.", "--output", "-o"),
]
_Template = Annotated[bool, typer.Option("--template", help="Print a filled example as CSV: a transformer.")]
_Inference = Annotated[bool, typer.Option("--inference", help="Ask for no backward passes.")]
_MicroBatch = Annotated[
    int,
    typer.Option("--micro-batch", metavar="SAMPLES", help="Samples of the micro-batch that the table is about."),
]
_BytesPerParameter = Annotated[
    float | None,
    typer.Option(help="Of a table with a column parameters_count: the size of one.", show_default=False),
]


def command(
    file: _File = None,
    output: _Output = None,
    template: _Template = False,
    inference: _Inference = False,
    micro_batch: _MicroBatch = 1,
    bytes_per_parameter: _BytesPerParameter = None,
    json: Json = False,
) -> None:
    """Make a profile of a table of layers: one row a layer, units in the header.

    The columns are layer, forward, backward, parameters, activation (saved for the backward pass) and output (sent on),
    with their units, and depends_on and count if wanted: see --template. Commands that take an INSTANCE take the table,
    too.
    """
    from ..instances.networks.profile.files import profile_to_json
    from ..instances.networks.profile.table import read_table, table_template

    if template:
        if file is not None or output is not None:
            raise UsageError("--template prints an example and reads nothing; write it with > my.csv.")
        typer.echo(table_template(), nl=False)
        return
    if file is None:
        raise UsageError("Name the table, or give --template for an example.")
    if output is None and not json:
        raise UsageError("Say where the profile goes: give -o my.profile.json, or --json.")
    profile = read_table(
        file, training=not inference, bytes_per_parameter=bytes_per_parameter, micro_batch=micro_batch
    )
    if output is not None:
        from ..instances.base.json_file import write_json

        write_json(output, profile_to_json(profile))
    if json:
        print_json(profile_to_json(profile))
    else:
        out().print(styled(f"a profile of {len(profile.nodes)} layers"))
