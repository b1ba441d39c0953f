"""Which configurations a user asks for, in words KEY=VALUE: values that are fixed or forbidden, and layouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from ..base.amounts import as_written
from ..base.errors import InputError, nearest, show
from ..base.quantities import whole_number
from ..physics.efficiencies import (
    USUAL_ERROR,
    USUAL_FORM_ERROR,
    USUAL_MEMORY_ERROR,
    MeasuredErrors,
    measured_errors,
)
from ..physics.hardware import family_of
from ..physics.schedules import SCHEDULES
from .plan import DEGREE_KEYS, FULL, Degrees, Recompute, keys_and_values, layout_counts, layout_word, read_recompute

if TYPE_CHECKING:
    from .problem import TrainingProblem

# ---- whether a rank fits -------------------------------------------------------------------------------

Fit = Literal["yes", "maybe", "no"]


@dataclass(frozen=True, slots=True)
class Margin:
    """By which share more than predicted a rank may hold, and by which share less.

    They are two: a peak above its prediction is no reason to believe that anything holds less than predicted.
    """

    more: float = USUAL_MEMORY_ERROR
    less: float = USUAL_MEMORY_ERROR


def both_sides(error: float | Margin) -> Margin:
    """One share is meant to both sides."""
    return error if isinstance(error, Margin) else Margin(error, error)


def plain_margin(error: float | Margin) -> dict[str, float]:
    """The margin in JSON; what may be less stands there only where it differs from what may be more."""
    margin = both_sides(error)
    less = {} if margin.less == margin.more else {"memory_error_below": margin.less}
    return {"memory_error": margin.more, **less}


def fit_of(held_bytes: float, limit_bytes: float | None, error: float | Margin = USUAL_MEMORY_ERROR) -> Fit:
    """`yes` where it fits even if the share `more` is held on top, `no` where it does not even if `less` is not."""
    if limit_bytes is None:
        return "yes"
    margin = both_sides(error)
    held, limit = as_written(held_bytes), as_written(limit_bytes)
    if held * (1 + as_written(margin.more)) <= limit:
        return "yes"
    return "no" if held * (1 - as_written(margin.less)) > limit else "maybe"


@dataclass(frozen=True, slots=True)
class UsualErrors:
    """By which shares times and memory of a problem may be wrong where nobody says so."""

    time: float
    memory: Margin
    form: float
    """By which the form of the model may be wrong for one configuration, once its efficiencies are known."""
    measured: MeasuredErrors | None
    """What they come from; None: nobody's runs on such GPUs with this framework were compared."""


def usual_errors(problem: TrainingProblem) -> UsualErrors:
    """The errors of published runs, and never less than usual: few publishers say nothing of clusters unlike theirs."""
    if problem.second is not None:  # the greater ones of the two sorts
        one, other = sorted(map(usual_errors, problem.pools), key=lambda own: own.time)
        memory = Margin(*(max(pair) for pair in zip(astuple(one.memory), astuple(other.memory), strict=True)))
        return replace(other, memory=memory, form=max(one.form, other.form))
    own = measured_errors(family_of(problem.gpu.name), problem.framework, problem.precision)
    if own is None:
        return UsualErrors(USUAL_ERROR, Margin(), USUAL_FORM_ERROR, None)
    memory = Margin(max(USUAL_MEMORY_ERROR, own.memory or 0.0))
    return UsualErrors(max(USUAL_ERROR, own.time), memory, own.form or USUAL_FORM_ERROR, own)


# ---- which configurations are asked for ----------------------------------------------------------------

KEYS = (*DEGREE_KEYS, "micro-batch", "zero", "schedule", "recompute", "layout", "first-pool")


@dataclass(frozen=True)
class Scope:
    """Which configurations a user asks for; checked at construction."""

    fix: Mapping[str, str] = field(default_factory=dict)
    forbid: tuple[tuple[str, str], ...] = ()
    layouts: str = "any"
    """`any`, or `even`: those that the framework makes by itself."""

    def __post_init__(self) -> None:
        if self.layouts not in ("any", "even"):
            raise InputError("layouts", f"is {show(self.layouts)}", "give any or even")
        object.__setattr__(self, "fix", {key: check_choice(key, value) for key, value in self.fix.items()})
        object.__setattr__(self, "forbid", tuple((key, check_choice(key, value)) for key, value in self.forbid))

    def takes(self, key: str, value: object) -> bool:
        """May the configuration's value of this key be this one?"""
        text = str(value)
        return self.fix.get(key, text) == text and (key, text) not in self.forbid

    def takes_degrees(self, degrees: Degrees) -> bool:
        return all(self.takes(key, getattr(degrees, name)) for key, name in DEGREE_KEYS.items())

    def takes_word(self, own: Recompute) -> bool:
        """May chunks recompute so? Who forbids `full` forbids `full:2` as well."""
        return self.takes("recompute", own.word) and (
            own.modules != (FULL,) or ("recompute", FULL) not in self.forbid
        )

    @property
    def layout(self) -> tuple[int, ...] | None:
        """The units of each chunk in the layout that is fixed; None: layouts are free."""
        text = self.fix.get("layout")
        return None if text is None else tuple(int(count) for count in text.split("/"))

    @property
    def is_one_layout(self) -> bool:
        """Has each number of chunks one layout at most?"""
        return self.layouts == "even" or "layout" in self.fix

    def takes_chunks(self, count: int) -> bool:
        """Can there be so many chunks?"""
        return self.layout is None or len(self.layout) == count

    def of_framework(self, layouts: str) -> Scope:
        """The scope with even layouts alone where the framework's files have no words for others."""
        return replace(self, layouts="even") if layouts == "even" else self


def check_choice(key: str, value: str) -> str:
    """The value as configurations write it; unknown keys and values that cannot be are refused."""
    if key not in KEYS:
        close = nearest(key, KEYS)
        raise InputError(
            "scope", f"has the key {show(key)}", f'write "{close}"' if close else f"use {', '.join(KEYS)}"
        )
    if key == "recompute":
        return read_recompute("scope: recompute", value).word
    if key == "schedule":
        if not isinstance(value, str) or value not in SCHEDULES:
            raise InputError("scope: schedule", f"is {show(value)}", "give one of " + ", ".join(SCHEDULES))
        return value
    if key == "layout":
        return layout_word(layout_counts("scope: layout", value))
    number = whole_number(value)
    if number is None and isinstance(value, str) and len(value.split(",")) > 1:
        remedy = f"give one value, or leave {key} open and forbid others (--forbid {key}=VALUE)"
        raise InputError(f"scope: {key}", f"is {show(value)}", remedy)
    if number is None:
        raise InputError(f"scope: {key}", f"is {show(value)}", "give a whole number")
    return str(number)


def read_scope(fix: Iterable[str] = (), forbid: Iterable[str] = (), layouts: str = "any") -> Scope:
    """A scope from words such as KEY=VALUE for what is fixed and what is forbidden."""
    fixed: dict[str, str] = {}
    for key, value in _pairs(fix):
        if fixed.setdefault(key, value) != value:
            raise InputError("scope", f"fixes {key} twice", "give one value, or forbid others")
    scope = Scope(fixed, tuple(_pairs(forbid)), layouts)
    if any(key == "layout" for key, _ in scope.forbid):
        raise InputError("scope", "forbids a layout", "fix one instead")
    for key, value in scope.fix.items():
        taken = scope.takes_word(read_recompute(key, value)) if key == "recompute" else scope.takes(key, value)
        if not taken:
            raise InputError("scope", f"fixes {key}={value} and forbids it", "drop one of the two")
    return scope


def _pairs(words: Iterable[str]) -> list[tuple[str, str]]:
    return [pair for word in words for pair in keys_and_values("scope", word)]


def scope_of(options: Mapping[str, Any]) -> Scope:
    """The scope in the options of a method."""
    fix, forbid = ((options.get(name) or "").split() for name in ("fix", "forbid"))
    return read_scope(fix, forbid, options.get("layouts") or "any")
