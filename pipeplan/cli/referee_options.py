"""The rules of judgement as options of `plan verify` and `plan show`, and plans read from either kind of file."""

from __future__ import annotations

from typing import Annotated

import typer

from ..instances.errors import UsageError

CONTIGUITIES = ("none", "device", "chain")
OBJECTIVES = ("max-load", "gpipe", "latency")

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="A plan or a result of `plan solve`.")]
Contiguity = Annotated[
    str | None,
    typer.Option(
        "--contiguity",
        metavar="none|device|chain",
        help="What each device's nodes must form; default: what the result was made for, else none.",
        show_default=False,
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="|".join(OBJECTIVES),
        help="Default: what the result was made for, else max-load.",
        show_default=False,
    ),
]


def one_of(option: str, value: str, choices: tuple[str, ...]) -> str:
    """The value, where it is one of the choices."""
    if value not in choices:
        raise UsageError(f"{option} is {value!r}; give one of {', '.join(choices)}.")
    return value
