"""Formulas of amounts, read off the code that computes them: a page shows them, and its script evaluates them.

Code runs with letters in place of numbers, and what it returns is a formula: a number, a letter, or a list of a sign
and formulas, such as ["*", 2, "h"]. Amounts are never negative. To let code use another operation, add its sign to
`_SIGNS`, and to `SIGNS` in `assets/memory.js`.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import fields
from math import prod
from typing import Any

_SIGNS: Mapping[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": max,
    ">": operator.gt,
    "<=": operator.le,
    "==": operator.eq,
}
_QUESTIONS = (">", "<=", "==")


def _joined(sign: str, swapped: bool = False) -> Any:
    return lambda one, other: _term(sign, other, one) if swapped else _term(sign, one, other)


class Term:
    """A formula that code may compute with; `value`: its number, where no letter in it varies."""

    __slots__ = ("form", "value")

    def __init__(self, form: Any, value: Any = None) -> None:
        self.form, self.value = form, value

    __add__, __radd__, __mul__, __rmul__ = _joined("+"), _joined("+", True), _joined("*"), _joined("*", True)
    __sub__, __truediv__, __floordiv__ = _joined("-"), _joined("/"), _joined("//")
    __mod__, __rmod__ = _joined("%"), _joined("%", True)
    __gt__, __le__, __eq__ = _joined(">"), _joined("<="), _joined("==")
    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: bool) -> Any:
        return self if other else False

    def __bool__(self) -> bool:
        if self.value is not None:
            return bool(self.value)
        question = json.dumps(self.form)
        if question not in _answers:
            raise _OpenError(self)
        return _answers[question]

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any) -> Any:
        return _term({"maximum": "max"}[function.__name__], *inputs)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        condition, yes, no = inputs
        assert function.__name__ == "where"
        return Term(["if", form_of(condition), form_of(yes), form_of(no)])


def form_of(amount: Any) -> Any:
    """The formula of an amount, which may be a plain number or word."""
    if isinstance(amount, Term):
        return amount.form
    if isinstance(amount, str):
        return ["text", amount]
    return int(amount) if amount == int(amount) else float(amount)


def _term(sign: str, *parts: Any) -> Any:
    values = [part.value if isinstance(part, Term) else part for part in parts]
    value = None if any(own is None for own in values) else _SIGNS[sign](*values)
    if sign in _QUESTIONS and value is not None:
        return value
    return Term(_simple(sign, [form_of(part) for part in parts]), value)


def _simple(sign: str, forms: list[Any]) -> Any:
    """The formula without factors 1, sums with 0, and lists within lists of the same sign."""
    if sign in ("+", "*"):
        forms = [inner for own in forms for inner in (own[1:] if _begins(own, sign) else [own])]
    if sign == "*":
        factor = prod(own for own in forms if not isinstance(own, list | str))
        questions = [own for own in forms if _begins(own, *_QUESTIONS)]
        rest = [own for own in forms if isinstance(own, list | str) and own not in questions]
        forms = [factor, *rest] if factor != 1 or not rest else rest
        if factor == 0:
            return 0
        if questions:
            return ["if", questions[0], _simple("*", forms), 0]
    elif sign in ("+", "max"):
        forms = [own for own in forms if own != 0] or [0]
    elif sign in ("/", "-") and forms[1] == (sign == "/"):
        forms = forms[:1]
    elif sign == "/" and _begins(forms[0], "*") and not isinstance(forms[0][1], list | str):
        number, *rest = forms[0][1:]
        return _simple("*", [number, ["/", _simple("*", rest), forms[1]]])
    return forms[0] if len(forms) == 1 else [sign, *forms]


def _begins(form: Any, *signs: str) -> bool:
    return isinstance(form, list) and form[0] in signs


def with_letters(record: Any, letters: Mapping[str, Any]) -> tuple[Any, dict[str, float]]:
    """A frozen record with letters in place of those of its numbers that are not 0, and these numbers by letter; for a
    record in it `letters` has a table of its own."""
    twin = copy(record)
    numbers: dict[str, float] = {}
    for name, letter in letters.items():
        value = getattr(record, name)
        if not value:
            continue
        if isinstance(letter, str):
            inner, own = Term(letter, value), {letter: value}
        else:
            inner, own = with_letters(value, letter)
        numbers |= own
        object.__setattr__(twin, name, inner)
    return twin, numbers


def plain(value: Any) -> Any:
    """A formula, or a record of formulas, as JSON has it."""
    if isinstance(value, Term):
        return value.form
    return {entry.name: getattr(value, entry.name) for entry in fields(value)}


# ---- code that decides ------------------------------------------------------------------------------------


# What is assumed of conditions while code runs.
_answers: dict[str, bool] = {}


class _OpenError(Exception):
    """A condition of which nothing is assumed yet."""

    def __init__(self, condition: Term) -> None:
        self.condition = condition


def decision(code: Callable[[], Any]) -> Any:
    """True, false, or the formula of when the answer of this code is true: it runs once for each way through it."""
    try:
        return bool(code())
    except _OpenError as error:
        form = error.condition.form
    question, ways = json.dumps(form), []
    for answer in (True, False):
        _answers[question] = answer
        ways.append(decision(code))
        del _answers[question]
    return ways[0] if ways[0] == ways[1] else form if ways == [True, False] else ["if", form, *ways]
