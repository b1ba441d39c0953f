"""Limits of a run as options; they arrive as arguments of `SolveOptions`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..instances.base.amounts import as_written
from ..instances.base.cluster import SECONDS
from ..instances.base.errors import InputError, UsageError
from ..instances.base.quantities import TimeGap
from ..instances.registry import Problem
from ..planners.options import SolveOptions, typed
from . import quantities
from .signatures import flag_of, option, shared

_option = partial(option, rich_help_panel="Limits")
LIMITS = (
    _option(
        "rel_gap",
        float,
        "--gap",
        parser=quantities.share,
        metavar="SHARE",
        help="Stop at this relative gap: 0.01 or 1%.",
    ),
    _option(
        "abs_gap",
        Any,
        parser=quantities.time_gap,
        metavar="TIME",
        help="Stop when the gap is at most this: 5ms, or 5 (in the unit of the instance).",
    ),
    _option(
        "time_limit_s",
        float,
        "--time-limit",
        parser=quantities.duration,
        metavar="TIME",
        help="Stop after this time: 30, 30s or 5min.",
    ),
    _option(
        "memory_limit_bytes",
        int,
        "--memory-limit",
        parser=quantities.whole_size,
        metavar="SIZE",
        help="Stop a solver process that needs more memory than this: 4GiB.",
    ),
    _option("threads", int, help="Number of threads that the solver may use."),
    _option("seed", int, default=0, help="Seed of all random choices."),
    _option(
        "native",
        list[str],
        metavar="KEY=VALUE",
        help="Pass an option to the chosen solver under its own name; repeatable.",
    ),
)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    if "native" in given:
        given["native"] = dict(key_and_value("--native", text) for text in given["native"])
    return given


# How the command line names what `SolveOptions` refuses.
FLAGS = {parameter.name: flag_of(parameter.name) for parameter in LIMITS} | {
    "rel_gap": "--gap",
    "time_limit_s": "--time-limit",
    "memory_limit_bytes": "--memory-limit",
}

# Gives a command the limits; those that the user gives arrive together as its argument `limits`.
with_limits = shared("limits", LIMITS, _arguments)


def limits_for(problem: Problem | None, given: Mapping[str, Any], **more: Any) -> SolveOptions:
    """The limits, checked; an absolute gap is turned into the problem's unit of time."""
    try:
        gap = given.get("abs_gap")
        in_unit = {} if gap is None or problem is None else {"abs_gap": in_unit_of(problem, gap)}
        return SolveOptions(**{**given, **in_unit, **more})
    except InputError as error:
        raise error.renamed(FLAGS) from None


def in_unit_of(problem: Problem, gap: TimeGap) -> float:
    """The gap as a number in the problem's unit of time."""
    unit = problem.time_unit
    if gap.unit in ("", unit):
        return gap.amount
    if unit not in SECONDS:
        remedy = "give a number in its unit"
        raise InputError(
            "abs_gap", f"is in {gap.unit}, and the instance's times are in {unit or 'no unit'}", remedy
        )
    return float(as_written(gap.amount) * SECONDS[gap.unit] / SECONDS[unit])


def key_and_value(flag: str, text: str) -> tuple[str, Any]:
    """Read the value of a repeatable option, KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"{flag} is {text!r}; write it as KEY=VALUE.")
    return key, typed(value)
