"""The report of one result: everything about the plan is recomputed, what the method claimed stands beside it."""

from __future__ import annotations

import json
from xml.etree.ElementTree import Element

from ...instances.errors import InputError
from ...instances.kinds import Problem
from ...instances.result import Moment, Result
from ..judge import rule
from ..referees import Rules, fits, referee_of
from ..rules import unknown_allocation
from .charts import Line, line_chart, number
from .gantt import gantt
from .kinds import sections
from .markup import tag
from .page import details, facts, page, section, table
from .timeline import timelines


def result_page(problem: Problem, result: Result) -> str:
    """One HTML page. The plan must be of the problem: a result about another one is refused."""
    _check(problem, result)
    rules = Rules.of(result.options)
    unit = problem.time_unit or ""
    parts = [_head(problem, result, rules, unit), section("Run", facts(_run(result, unit)))]
    if result.plan is not None and not rule(problem, result.plan, rules).violations:
        parts += sections(problem, result.plan, rules)
        parts += [
            section(line.title, gantt(line, unit), name="gantt") for line in timelines(problem, result.plan, rules)
        ]
    if len(result.history) > 1:
        parts.append(section("Search", _curve(result.history, unit)))
    if result.messages:
        parts.append(section("Messages", tag("ul", None, *(tag("li", None, text) for text in result.messages))))
    parts.append(
        section("Data", details("The result as JSON", tag("pre", None, json.dumps(result.to_json(), indent=1))))
    )
    return page(f"{problem.name}: {result.formulation or result.planner}", parts)


def _check(problem: Problem, result: Result) -> None:
    known = result.problem.get("hash")
    if known != problem.hash:
        remedy = "name the instance that was solved, on the same cluster"
        raise InputError("problem.hash", f"is {known}, but the instance has {problem.hash}", remedy)
    if result.plan is not None and not fits(problem, result.plan):
        raise InputError("plan.kind", f"is {result.plan.kind}", f"give a plan for a {problem.kind} problem")


def _head(problem: Problem, result: Result, rules: Rules, unit: str) -> Element:
    """What a reader came for: the value, how good it is proven to be, and whether the referee agrees."""
    words = [tag("h1", None, problem.name)]
    if result.plan is None:
        words.append(tag("p", {"class": "verdict no"}, f"No plan: {result.stop}"))
        return tag("header", None, *words)
    ruling = rule(problem, result.plan, rules)
    if ruling.violations:
        words.append(tag("p", {"class": "verdict no"}, f"Verified: no, {len(ruling.violations)} violations"))
        words.append(tag("ul", None, *(tag("li", None, text) for text in ruling.violations)))
        return tag("header", None, *words)
    value = referee_of(problem).value(problem, result.plan, rules)
    words.append(
        tag("p", {"class": "verdict yes"}, f"Verified: yes. Value {value:.7g} {unit}".rstrip() + f", {_proof(result)}")
    )
    return tag("header", None, *words)


def _proof(result: Result) -> str:
    if result.gap is None:
        return "no bound is known"
    if result.stop == "proven":
        return f"proven optimal (gap {result.gap:.2g})"
    return f"at most {100 * result.gap:.3g} % above the optimum's bound {number(result.bound or 0.0)}"


def _run(result: Result, unit: str) -> list[tuple[str, object]]:
    backend = " ".join(str(result.backend[key]) for key in ("name", "version") if result.backend.get(key))
    amounts = (("objective", result.objective), ("claimed", result.claimed), ("bound", result.bound))
    return [
        ("method", " through ".join(filter(None, (result.formulation, result.planner)))),
        ("solver", backend or None),
        ("stop", result.stop),
        ("found", result.found),
        *((name, None if value is None else f"{value:.7g} {unit}".rstrip()) for name, value in amounts),
        ("gap", None if result.gap is None else f"{100 * result.gap:.4f} %"),
        ("seconds", ", ".join(f"{name} {value:.2f}" for name, value in result.seconds.items())),
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
