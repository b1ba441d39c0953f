"""`plan import onnx`: an ONNX model as a profile."""

from __future__ import annotations

from typing import Annotated

import typer

from ..instances.base.errors import UsageError
from .arguments import Json, input_file
from .import_options import AllowUncounted, Efficiency, HardwareName, KernelStart, Output, check_output, hand_over

_File = Annotated[str, input_file("MODEL", "A model: .onnx. Weights in files beside it are not read.")]
_Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="INPUT=SIZES",
        help="Sizes of an input, where the file leaves them open: input=1,3,224,224. May be repeated.",
        show_default=False,
    ),
]
_Granularity = Annotated[
    str,
    typer.Option(
        metavar="block|module|op", help="What a node is: the outermost numbered module, the innermost, an operator."
    ),
]


def command(
    file: _File,
    output: Output = None,
    hardware: HardwareName = None,
    shape: _Shapes = None,
    granularity: _Granularity = "block",
    efficiency: Efficiency = None,
    kernel_start: KernelStart = None,
    allow_uncounted: AllowUncounted = False,
    json: Json = False,
) -> None:
    """Make a profile of an ONNX model, for inference: operations, parameters, tensors, times on a named device.

    Nothing is executed, and no weight is read. Needs pip install 'pipeplan[onnx]'.
    """
    from ..models.from_onnx import import_onnx

    check_output(output, json)
    profile = import_onnx(
        file,
        hardware=hardware,
        shapes=dict(map(_shape, shape or ())),
        granularity=granularity,
        efficiency=efficiency,
        kernel_start_s=kernel_start,
        allow_uncounted=allow_uncounted,
    )
    hand_over(profile, output, json)


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Names of inputs may hold anything but the sizes behind the last sign."""
    name, sign, sizes = text.rpartition("=")
    parts = [part.strip() for part in sizes.split(",")]
    if not sign or not name or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError(f"--shape is {text!r}; name an input and its sizes, such as input=1,3,224,224.")
    return name, tuple(map(int, parts))
