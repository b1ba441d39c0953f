"""`plan import torch`: a PyTorch model as a profile."""

from __future__ import annotations

from typing import Annotated, Any

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

_Function = Annotated[
    str,
    typer.Argument(
        metavar="FILE:FUNCTION",
        help="A function in a Python file, which is run: my.py:build; it returns (model, args, kwargs).",
        show_default=False,
    ),
]
_Measure = Annotated[bool, typer.Option("--measure", help="Measure real passes on this machine instead.")]
_Repeats = Annotated[int, typer.Option(help="Passes that are measured; their median counts.")]
_Loss = Annotated[
    str | None,
    typer.Option(metavar="sum", help="Take the sum of the first output as the loss.", show_default=False),
]


def _sizes(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise typer.BadParameter(f"{text!r} is no list of sizes like 1,2,4.")
    return tuple(map(int, parts))


_MicroBatch = Annotated[
    Any,
    typer.Option(
        "--micro-batch",
        parser=_sizes,
        metavar="SAMPLES",
        help="Samples of a micro-batch, which the function takes as its argument micro_batch; 4,1,2,8 makes curves of "
        "times, and all other amounts are of the first.",
        show_default=False,
    ),
]


def command(
    function: _Function,
    output: Output = None,
    hardware: HardwareName = None,
    measure: _Measure = False,
    repeats: _Repeats = 10,
    inference: Inference = False,
    granularity: Granularity = "block",
    micro_batch: _MicroBatch = None,
    efficiency: Efficiency = None,
    kernel_start: KernelStart = None,
    attention: Attention = "fused",
    loss: _Loss = None,
    allow_uncounted: AllowUncounted = False,
    json: Json = False,
) -> None:
    """Make a profile of a PyTorch model: what its blocks cost, calculated for a device or measured on this machine.

    Calculated, the model is built without memory for its weights, so it may be larger than this machine. The first
    scalar output that can be differentiated is the loss. Needs pip install 'pipeplan[torch]'.
    """
    from ..models.from_torch import import_torch

    check_output(output, json)
    profile = import_torch(
        function,
        hardware=hardware,
        measure=measure,
        repeats=repeats,
        training=not inference,
        granularity=granularity,
        micro_batch=micro_batch,
        efficiency=efficiency,
        kernel_start_s=kernel_start,
        attention=attention,
        loss=loss,
        allow_uncounted=allow_uncounted,
    )
    hand_over(profile, output, json)
