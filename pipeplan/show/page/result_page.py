"""The report of one result: everything about the plan is recomputed, what the method claimed stands beside it."""

from __future__ import annotations

import json
from xml.etree.ElementTree import Element

from ...instances.chain.allocation import unknown_allocation
from ...instances.errors import InputError
from ...instances.kinds import Problem
from ...instances.result import Moment, Result, Stop
from ...planners.referee import rules_of
from ...planners.run.claims import Recomputed, check_same_problem, recompute
from ..run import run_facts
from ..words import amount
from .charts import Line, line_chart, number
from .markup import tag
from .page import details, facts, page, section, table
from .plan import sections


def result_page(problem: Problem, result: Result) -> str:
    """One HTML page, of recomputed figures. The plan must be of the problem: a result about another one is refused."""
    _check(problem, result)
    rules = rules_of(problem, result.options)
    unit = problem.time_unit or ""
    anew = recompute(problem, result)
    parts = [_head(problem, anew, unit), section("Run", facts(_run(anew.result, unit)))]
    if result.plan is not None and anew.result.verified:
        parts += sections(problem, result.plan, rules)
    if len(result.history) > 1:
        parts.append(section("Search", _curve(result.history, unit)))
    if result.messages:
        parts.append(section("Messages", tag("ul", None, *(tag("li", None, text) for text in result.messages))))
    parts.append(
        section("Data", details("The result as JSON", tag("pre", None, json.dumps(result.to_json(), indent=1))))
    )
    return page(f"{problem.name}: {result.formulation or result.planner}", parts)


def _check(problem: Problem, result: Result) -> None:
    check_same_problem(problem, result)
    if result.plan is not None and not isinstance(result.plan, rules_of(problem, {}).plan_type):
        raise InputError("plan.kind", f"is {result.plan.kind}", f"give a plan for a {problem.kind} problem")


def _head(problem: Problem, anew: Recomputed, unit: str) -> Element:
    """What a reader came for: the value, how good it is proven to be, and whether the referee agrees."""
    words, result = [tag("h1", None, problem.name)], anew.result
    if result.plan is None:
        words.append(tag("p", {"class": "verdict no"}, f"No plan: {result.stop}{_among(result)}"))
    elif result.objective is None:
        words.append(tag("p", {"class": "verdict no"}, f"Verified: no, {len(result.violations)} violations"))
        words.append(tag("ul", None, *(tag("li", None, text) for text in result.violations)))
    else:
        value = f"Verified: yes. Value {result.objective:.7g} {unit}".rstrip()
        words.append(tag("p", {"class": "verdict yes"}, f"{value}, {_proof(result)}"))
    if anew.differences:
        words.append(tag("p", {"class": "verdict no"}, "The file claims otherwise:"))
        words.append(tag("ul", None, *(tag("li", None, text) for text in anew.differences)))
    return tag("header", None, *words)


def _proof(result: Result) -> str:
    """By value and bound alone, and for which plans."""
    if result.gap is None:
        return "no bound is known"
    if result.stop == Stop.PROVEN:
        return f"proven optimal (gap {result.gap:.2g}){_among(result)}"
    return (
        f"at most {100 * result.gap:.3g} % above the optimum's bound {number(result.bound or 0.0)}{_among(result)}"
    )


def _among(result: Result) -> str:
    return "" if result.scope is None else f" among {result.scope}"


def _run(result: Result, unit: str) -> list[tuple[str, object]]:
    return [
        *run_facts(result, unit).items(),
        ("claimed", None if result.claimed is None else amount(result.claimed, unit)),
        ("options", ", ".join(f"{name}={value}" for name, value in result.options.items() if value is not None)),
        *(("allocation", text) for text in [unknown_allocation(result.options.get("allocation"))] if text),
        ("instance hash", result.problem.get("hash")),
    ]


def _curve(history: tuple[Moment, ...], unit: str) -> Element:
    """How incumbent and bound met; claims of the method while it ran."""
    lines = []
    for name in ("incumbent", "bound"):
        points = tuple((m.seconds, getattr(m, name)) for m in history if getattr(m, name) is not None)
        if points:
            end = (history[-1].seconds, points[-1][1])
            lines.append(Line(name, (*points, end) if points[-1] != end else points, steps=True))
    rows = [[number(m.seconds), _short(m.incumbent), _short(m.bound)] for m in history]
    chart = line_chart(lines, "Incumbent and bound over time", "seconds", unit or "value")
    return tag("div", None, chart, details("As a table", table(["seconds", "incumbent", "bound"], rows)))


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.7g}"
