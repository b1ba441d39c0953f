"""Limits and settings that every solver understands, checked once; and the record of progress."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..instances.base.errors import InputError, UsageError, show, wrong_argument
from ..instances.base.fields import check_members
from ..instances.base.result import relative_gap

# Solvers keep this number in a word of the machine, and start so many threads.
MOST_THREADS = 1024


# The share of its time limit by which a method may answer late.
LATE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """Common options; what only one solver knows goes into `native`, where a misspelt name is an error.

    None means no limit (time, memory), or the solver's own choice (threads).
    """

    time_limit_s: float | None = None
    rel_gap: float = 0.0
    """Stop when (objective - bound) / |objective| is at most this."""
    abs_gap: float = 0.0
    """Stop when objective - bound is at most this."""
    threads: int | None = None
    memory_limit_bytes: int | None = None
    seed: int = 0
    log_path: str | None = None
    native: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_members(self)
        for name in ("time_limit_s", "rel_gap", "abs_gap"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and value >= 0 and math.isfinite(value)):
                raise InputError(name, f"is {value!r}", "give a finite number >= 0")
        if self.rel_gap > 1:
            percent = f"is {self.rel_gap:g}, which is {100 * self.rel_gap:g} %"
            raise InputError("rel_gap", percent, "give at most 1, and 0.01 for 1 %")
        for name, least in (("threads", 1), ("memory_limit_bytes", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InputError(name, f"is {show(value)}", f"give a whole number >= {least}")
        if self.threads is not None and self.threads > MOST_THREADS:
            raise InputError("threads", f"is {show(self.threads)}", f"give a whole number from 1 to {MOST_THREADS}")

    def reached(self, value: float, bound: float | None) -> bool:
        """Is the gap that was asked for reached?"""
        gap = relative_gap(value, bound)
        return bound is not None and (value - bound <= self.abs_gap or (gap is not None and gap <= self.rel_gap))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def limits_of(given: object, time_limit_s: float | None = None, gap: float | None = None) -> SolveOptions:
    """The limits of a public function, from its arguments `limits`, `time_limit_s` and `gap`; None: no limits."""
    asked = {"time_limit_s": time_limit_s, "rel_gap": gap}
    single: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if given is None:
        try:
            return SolveOptions(**single)
        except InputError as error:
            raise error.renamed({"rel_gap": "gap"}) from None
    if single:
        raise UsageError(
            "limits are given, and time_limit_s or gap beside them; say it all in pipeplan.SolveOptions."
        )
    if not isinstance(given, SolveOptions):
        raise wrong_argument("limits", given, "limits", "give pipeplan.SolveOptions(time_limit_s=60), say, or None")
    return given


def check_asked(names: Mapping[str, object], options: object, on_progress: object) -> None:
    """The other arguments that public functions share: names of methods, their options, and who watches."""
    for argument, name in names.items():
        left_out = name is None and argument != "solver"  # there is "auto" for that
        if not left_out and not isinstance(name, str):
            raise wrong_argument(argument, name, "a name", f"give one as `plan {argument}s` lists them")
    if options is not None and not isinstance(options, Mapping):
        remedy = 'give a dict of names and values, {"non_contiguous": True} say'
        raise wrong_argument("options", options, "options", remedy)
    if on_progress is not None and not callable(on_progress):
        raise wrong_argument("on_progress", on_progress, "a function", "give one that takes a pipeplan.Progress")


@dataclass(frozen=True, slots=True)
class Progress:
    """One line of progress. Values are in the problem's time unit, of a search for the least memory in the unit that
    `source` names; absent is None."""

    seconds: float
    incumbent: float | None = None
    bound: float | None = None
    nodes: int | None = None
    source: str = ""
    """The method or backend that says so."""

    @property
    def gap(self) -> float | None:
        return relative_gap(self.incumbent, self.bound)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "gap": self.gap}


def typed(text: str) -> Any:
    """The value of an option that was written as text: numbers and truth values as such, everything else as text."""
    truth = {"true": True, "false": False}
    if text.lower() in truth:
        return truth[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
