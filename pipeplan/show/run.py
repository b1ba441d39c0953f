"""How a method got to its result, in words: the same for the terminal and for pages."""

from __future__ import annotations

from ..instances.base.result import Found, Result, Stop
from .words import amount, percent

EXACT = 1e-12
"""Value and bound that differ by less are the same but for rounding."""


def run_facts(result: Result, unit: str | None) -> dict[str, str]:
    """By name; what a run does not have is left out, but for the values that a reader looks for."""
    method = " through ".join(filter(None, [result.formulation, result.planner]))
    if result.backend.get("name"):
        method += f" on {result.backend['name']} {result.backend.get('version') or ''}".rstrip()
    facts = {
        "method": method,
        "stop": str(result.stop),
        "found": _found(result),
        "objective": _value(result.objective, unit),
        "bound": _value(result.bound, unit),
        "gap": "unknown" if result.gap is None else percent(max(0.0, result.gap)),
        "scope": result.scope,
        "in scope": None if result.in_scope is None else _in_scope(result.in_scope, unit),
        "wider": result.scope and result.wider and f"{result.wider} asks for more plans",
        "proof": None if result.proof is None else "; ".join(result.proof.checks),
        "start": _start(result),
        "cross-check": _cross_check(result),
        "seconds": ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items()),
    }
    return {name: text for name, text in facts.items() if text is not None}


def _in_scope(own: Result, unit: str | None) -> str:
    """The method's own answer, where the plan is a better one from elsewhere."""
    facts = run_facts(own, unit)
    stop = f" ({own.stop})" if own.stop not in (Stop.PROVEN, Stop.COMPLETED) else ""
    among = "" if own.scope is None else f" among {own.scope}"
    return f"{facts['found']}{stop}{among}: {facts['objective']}, bound {facts['bound']}"


def options_of(result: Result) -> dict[str, str]:
    """What was asked for, by the names of options; what says nothing is left out."""
    return {name: str(value) for name, value in result.options.items() if value is not None and value != {}}


def _value(value: float | None, unit: str | None) -> str:
    return "none" if value is None else amount(value, unit)


def _found(result: Result) -> str:
    """`optimal` never stands alone: it holds within the gap that was proven."""
    if result.found == Found.OPTIMAL and result.stop == Stop.PROVEN and result.gap is not None:
        return optimal(result.gap)
    return str(result.found)


def optimal(gap: float = 0.0) -> str:
    """How near the bound is to a value that it meets."""
    return "optimal, proven" if gap <= EXACT else f"optimal, proven within {percent(gap)}"


def _start(result: Result) -> str:
    start = result.warm_start
    facts = [
        f"from {start.source}" if start.source else "",
        f"at {amount(start.value, None)}" if start.value else "",
    ]
    return " ".join(filter(None, [str(start.outcome), *facts]))


def _cross_check(result: Result) -> str | None:
    facts = result.cross_check
    if facts is None:
        return None
    method = facts.get("planner") or facts.get("formulation")
    word = "CONTRADICTS" if result.contradicted else "no contradiction"
    if "message" in facts:
        return f"{method}: no check, {facts['message']}"
    values = f"value {_value(facts.get('objective'), None)}, bound {_value(facts.get('bound'), None)}"
    return f"{method}: {facts.get('stop')}, {values}: {word}"
