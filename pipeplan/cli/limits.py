"""Limits of a run as options, and what they are for the planners."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from ..instances.errors import UsageError
from ..planners.options import SolveOptions, typed
from . import quantities

PANEL = "Limits"

Gap = Annotated[
    float, typer.Option("--gap", rich_help_panel=PANEL, help="Stop at this relative gap: 0.01 is 1 %; 0 is a proof.")
]
AbsGap = Annotated[
    float, typer.Option("--abs-gap", rich_help_panel=PANEL, help="Stop at this gap in the instance's time unit.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        parser=quantities.duration,
        rich_help_panel=PANEL,
        metavar="TIME",
        help="30, 30s or 5min.",
        show_default=False,
    ),
]
MemoryLimit = Annotated[
    float | None,
    typer.Option(
        "--memory-limit",
        parser=quantities.size,
        rich_help_panel=PANEL,
        metavar="SIZE",
        help="Of a solver process: 4GiB.",
        show_default=False,
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", rich_help_panel=PANEL, help="Of the solver.", show_default=False)
]
Seed = Annotated[int, typer.Option("--seed", rich_help_panel=PANEL, help="Of everything that is random.")]
Log = Annotated[
    str | None,
    typer.Option("--log", rich_help_panel="Output", metavar="FILE", help="The solver's own log.", show_default=False),
]
Native = Annotated[
    list[str] | None,
    typer.Option(
        "--native",
        rich_help_panel=PANEL,
        metavar="KEY=VALUE",
        help="An option that only the chosen solver knows; repeatable.",
        show_default=False,
    ),
]


def limits(
    gap: float,
    abs_gap: float,
    time_limit: float | None,
    memory_limit: float | None,
    threads: int | None,
    seed: int,
    log: str | None,
    native: list[str] | None,
) -> SolveOptions:
    """The common options of every solver; out of range is an `InputError`."""
    return SolveOptions(
        time_limit_s=time_limit,
        rel_gap=gap,
        abs_gap=abs_gap,
        threads=threads,
        memory_limit_bytes=None if memory_limit is None else math.ceil(memory_limit),
        seed=seed,
        log_path=log,
        native=dict(_key_and_value(text) for text in native or ()),
    )


def given(gap: float, time_limit: float | None, memory_limit: float | None, threads: int | None) -> dict[str, object]:
    """Those that were given, as arguments of `SolveOptions`, which checks them."""
    found: dict[str, Any] = {
        "rel_gap": gap or None,
        "time_limit_s": time_limit,
        "memory_limit_bytes": None if memory_limit is None else math.ceil(memory_limit),
        "threads": threads,
    }
    found = {name: value for name, value in found.items() if value is not None}
    SolveOptions(**found)
    return found


def _key_and_value(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"--native is {text!r}; write it as KEY=VALUE.")
    return key, typed(value)
