"""Which configurations a user asks for, in words KEY=VALUE: values that are fixed or forbidden, and layouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.errors import InputError, nearest, show
from ..base.quantities import whole_number
from ..physics.schedules import SCHEDULES
from .plan import FULL, Degrees, Recompute, read_recompute

DEGREE_KEYS = {
    "tensor": "tensor",
    "context": "context",
    "pipeline": "pipeline",
    "virtual": "virtual",
    "data": "data",
    "expert": "expert",
    "expert-tensor": "expert_tensor",
}
KEYS = (*DEGREE_KEYS, "micro-batch", "zero", "schedule", "recompute")


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
        if value not in SCHEDULES:
            raise InputError("scope: schedule", f"is {show(value)}", "give one of " + ", ".join(SCHEDULES))
        return value
    number = whole_number(value)
    if number is None:
        raise InputError(f"scope: {key}", f"is {show(value)}", "give a whole number")
    return str(number)


def read_scope(fix: Iterable[str] = (), forbid: Iterable[str] = (), layouts: str = "any") -> Scope:
    """A scope from words such as KEY=VALUE for what is fixed and what is forbidden."""
    fixed: dict[str, str] = {}
    for key, value in map(_pair, fix):
        if fixed.setdefault(key, value) != value:
            raise InputError("scope", f"fixes {key} twice", "give one value, or forbid others")
    scope = Scope(fixed, tuple(map(_pair, forbid)), layouts)
    for key, value in scope.fix.items():
        taken = scope.takes_word(read_recompute(key, value)) if key == "recompute" else scope.takes(key, value)
        if not taken:
            raise InputError("scope", f"fixes {key}={value} and forbids it", "drop one of the two")
    return scope


def _pair(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals:
        raise InputError("scope", f"holds {show(word)}", "write KEY=VALUE, as in tensor=4")
    return key.strip().replace("_", "-"), value.strip()


def scope_of(options: Mapping[str, Any]) -> Scope:
    """The scope in the options of a method."""
    fix, forbid = ((options.get(name) or "").split() for name in ("fix", "forbid"))
    return read_scope(fix, forbid, options.get("layouts") or "any")
