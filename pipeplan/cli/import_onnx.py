"""`plan import onnx`: an ONNX model as a profile."""

from __future__ import annotations

from typing import Annotated

import typer

from ..instances.errors import UsageError
from ..show.console import out, print_json, styled
from .arguments import Json, input_file, output_file

_File = Annotated[str, input_file("MODEL", "A model: .onnx. Weights in files beside it are not read.")]
_Output = Annotated[str | None, output_file("The file to write: my.profile.json.", "--output", "-o")]
_Hardware = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The device whose figures give the times: a100-80gb.", show_default=False),
]
_Efficiency = Annotated[
    float | None,
    typer.Option(help="The share of its peak that it reaches; default: 0.5.", show_default=False),
]
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
        metavar="block|module|op", help="What a node is: the outermost numbered module, the innermost, one."
    ),
]
_AllowUncounted = Annotated[
    bool,
    typer.Option("--allow-uncounted", help="Count no floating-point operations of operators that have no formula."),
]


def command(
    file: _File,
    output: _Output = None,
    hardware: _Hardware = None,
    efficiency: _Efficiency = None,
    shape: _Shapes = None,
    granularity: _Granularity = "block",
    allow_uncounted: _AllowUncounted = False,
    json: Json = False,
) -> None:
    """Make a profile of an ONNX model, for inference: operations, parameters, tensors, times on a named device."""
    from ..instances.profile.files import profile_to_json
    from ..instances.workloads.hardware import DEVICES
    from ..models.from_onnx import import_onnx

    if hardware is None:
        raise UsageError(f"Say on which device it runs: give --hardware, one of {', '.join(DEVICES)}.")
    if output is None and not json:
        raise UsageError("Say where the profile goes: give -o my.profile.json, or --json.")
    profile = import_onnx(
        file,
        hardware=hardware,
        shapes=dict(map(_shape, shape or ())),
        granularity=granularity,
        efficiency=efficiency,
        allow_uncounted=allow_uncounted,
    )
    if output is not None:
        from ..instances.json_file import write_json

        write_json(output, profile_to_json(profile))
    if json:
        print_json(profile_to_json(profile))
    else:
        out().print(styled(f"a profile of {len(profile.nodes)} nodes, for inference"))


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Names of inputs may hold anything but the sizes behind the last sign."""
    name, sign, sizes = text.rpartition("=")
    parts = [part.strip() for part in sizes.split(",")]
    if not sign or not name or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError(f"--shape is {text!r}; name an input and its sizes, such as input=1,3,224,224.")
    return name, tuple(map(int, parts))
