"""`plan import hf`: a model of transformers as a profile, from its configuration."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import Json
from .import_options import (
    AllowUncounted,
    Attention,
    Efficiency,
    Granularity,
    HardwareName,
    Inference,
    KernelStart,
    Output,
    check_output,
    hand_over,
)

_Config = Annotated[
    str,
    typer.Argument(metavar="CONFIG", help="A config.json on this machine; nothing is fetched.", show_default=False),
]
_Batch = Annotated[int, typer.Option(metavar="SAMPLES", help="Samples of a micro-batch.")]
_Sequence = Annotated[
    int | None,
    typer.Option(metavar="TOKENS", help="Tokens of a sample, for models that read text.", show_default=False),
]
_Dtype = Annotated[str, typer.Option(metavar="bfloat16|float16|float32", help="Type of the weights.")]


def command(
    config: _Config,
    output: Output = None,
    batch: _Batch = 1,
    sequence: _Sequence = None,
    dtype: _Dtype = "bfloat16",
    hardware: HardwareName = None,
    inference: Inference = False,
    granularity: Granularity = "block",
    efficiency: Efficiency = None,
    kernel_start: KernelStart = None,
    attention: Attention = "fused",
    allow_uncounted: AllowUncounted = False,
    json: Json = False,
) -> None:
    """Make a profile of a Hugging Face model from its configuration alone: no weights, no hub.

    Times are calculated for the device that --hardware names. Needs pip install 'pipeplan[hf]'.
    """
    from ..models.from_hf import import_hf

    check_output(output, json)
    profile = import_hf(
        config,
        batch=batch,
        sequence=sequence,
        dtype=dtype,
        hardware=hardware,
        training=not inference,
        granularity=granularity,
        efficiency=efficiency,
        kernel_start_s=kernel_start,
        attention=attention,
        allow_uncounted=allow_uncounted,
    )
    hand_over(profile, output, json)
