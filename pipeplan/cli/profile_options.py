"""Options of commands that take an instance: how a profile or a table of layers becomes a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

PANEL = "Profiles and tables of layers (what they become)"

KINDS = ("placement", "chain", "staging", "graph-pipeline")
OPTIMIZERS = ("sgd", "adam", "adam-mixed")
"""Said here again, so that a help page imports no problem; a test holds them to the tables."""


def _degrees(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise typer.BadParameter(f"{text!r} is no list of degrees like 1,2,4.")
    return tuple(map(int, parts))


def _option(flag: str, help: str, **facts: Any) -> Any:
    return typer.Option(flag, help=help, rich_help_panel=PANEL, show_default=False, **facts)


Kind = Annotated[
    str | None,
    _option("--kind", "The kind of problem to make; without it one that fits is chosen.", metavar="|".join(KINDS)),
]
Optimizer = Annotated[
    str | None,
    _option(
        "--optimizer",
        "Parameters in memory: sgd 2 copies, adam 4, adam-mixed 8 [default: sgd].",
        metavar="|".join(OPTIMIZERS),
    ),
]
InFlight = Annotated[
    int | None,
    _option("--in-flight", "Placements: micro-batches whose activations a device holds [default: devices]."),
]
Recompute = Annotated[
    bool | None,
    _option("--recompute", "Chains: compute activations again; staging problems: allow it layer by layer."),
]
DataParallel = Annotated[bool | None, _option("--data-parallel", "Staging problems: allow replicas of stages.")]
TensorParallel = Annotated[
    Any,
    _option(
        "--tensor-parallel", "Staging problems: devices that may share a layer: 1,2,4.", parser=_degrees, metavar="LIST"
    ),
]
Efficiency = Annotated[
    float | None,
    _option("--efficiency", "What is left of the ideal speed where devices share a layer: 0.9 [default: 1]."),
]
BytesPerParameter = Annotated[
    float | None, _option("--bytes-per-parameter", "Tables with a column parameters_count: the size of one.")
]

PROFILE_OPTIONS: Mapping[str, Any] = {
    "kind": Kind,
    "optimizer": Optimizer,
    "in_flight": InFlight,
    "recompute": Recompute,
    "data_parallel": DataParallel,
    "tensor_parallel": TensorParallel,
    "efficiency": Efficiency,
    "bytes_per_parameter": BytesPerParameter,
}


def profile_options(given: Mapping[str, Any]) -> Any:
    """Those that were given, together; None: none was."""
    if not given:
        return None
    from ..instances.profile.options import ProfileOptions

    return ProfileOptions(**given)
