"""Limits of a run as options; they arrive as arguments of `SolveOptions`."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..instances.errors import UsageError
from ..planners.options import typed
from . import quantities
from .signatures import option, shared

_option = partial(option, rich_help_panel="Limits")
LIMITS = (
    _option("rel_gap", float, "--gap", 0.0, help="Stop at this relative gap: 0.01 is 1 %; 0 is a proof."),
    _option("abs_gap", float, default=0.0, help="Stop at this gap in the instance's time unit."),
    _option(
        "time_limit_s",
        float,
        "--time-limit",
        parser=quantities.duration,
        metavar="TIME",
        help="30, 30s or 5min.",
    ),
    _option(
        "memory_limit_bytes",
        int,
        "--memory-limit",
        parser=quantities.whole_size,
        metavar="SIZE",
        help="Of a solver process: 4GiB.",
    ),
    _option("threads", int, help="Of the solver."),
    _option("seed", int, default=0, help="Of everything that is random."),
    _option(
        "native", list[str], metavar="KEY=VALUE", help="An option that only the chosen solver knows; repeatable."
    ),
)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    if "native" in given:
        given["native"] = dict(map(_key_and_value, given["native"]))
    return given


with_limits = shared("limits", LIMITS, _arguments)
"""The command with limits, of which those that were given arrive together as its argument `limits`."""


def _key_and_value(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"--native is {text!r}; write it as KEY=VALUE.")
    return key, typed(value)
