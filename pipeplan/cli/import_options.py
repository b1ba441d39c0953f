"""Options that the commands which import models share, and what becomes of the profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..instances.base.errors import UsageError
from ..show.console import out, print_json, say_note, styled
from . import quantities
from .arguments import output_file

if TYPE_CHECKING:
    from ..instances.networks.profile.profile import Profile

Output = Annotated[str | None, output_file("The file to write: my.profile.json.", "--output", "-o")]
HardwareName = Annotated[
    str | None,
    typer.Option(
        "--hardware", metavar="NAME", help="Calculate times for this device: h100-80gb.", show_default=False
    ),
]
Inference = Annotated[bool, typer.Option("--inference", help="Leave the backward passes out.")]
Granularity = Annotated[
    str,
    typer.Option(
        metavar="block|module|op|share:X",
        help="What a node is: the outermost numbered module, the innermost, an operation; share:0.1 divides modules "
        "while they hold more of the floating-point operations.",
    ),
]
Efficiency = Annotated[
    float | None,
    typer.Option(help="Share of its peak that the device reaches; default: its own.", show_default=False),
]
KernelStart = Annotated[
    float | None,
    typer.Option(
        parser=quantities.short_time,
        metavar="TIME",
        help="Time that the start of a kernel takes: 5us; default: the device's own.",
        show_default=False,
    ),
]
Attention = Annotated[
    str, typer.Option(metavar="fused|math", help="Attention as one kernel, or step by step with its scores.")
]
AllowUncounted = Annotated[
    bool,
    typer.Option(
        "--allow-uncounted", help="Let operations that read weights count nothing where they have no formula."
    ),
]


def check_output(output: str | None, json: bool) -> None:
    """Before the work, not after it."""
    if output is None and not json:
        raise UsageError("Say where the profile goes: give -o my.profile.json, or --json.")


def hand_over(profile: Profile, output: str | None, json: bool) -> None:
    """Write it, or print it, and say what it is."""
    from ..instances.networks.profile.files import profile_to_json

    for warning in profile.source.get("warnings", ()):
        say_note(warning)
    if output is not None:
        from ..instances.base.json_file import write_json

        write_json(output, profile_to_json(profile))
    if json:
        print_json(profile_to_json(profile))
    else:
        out().print(styled(_summary(profile)))


def _summary(profile: Profile) -> str:
    second = {name for _, name in profile.tied}
    held = sum(size for node in profile.nodes for name, size in node.parameters.items() if name not in second)
    passes = "forward and backward passes" if profile.training else "inference"
    return (
        f"a profile of {len(profile.nodes)} nodes with {quantities.in_bytes(held)} of parameters, {passes}, "
        f"{profile.source.get('times', 'times of unknown origin')}"
    )
