"""The curves of `plan pareto` as one HTML page: the chart, every point with its plan and its gap, how it was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from xml.etree.ElementTree import Element

from ...instances.base.quantities import written_bytes
from ...studies.sweep import Curve, CurvePoint
from ..front import Front
from ..view import module_of, view_of
from ..words import amount, measured, percent, several
from .axes import from_zero
from .curves import Line, Rule, Spot, line_chart
from .markup import tag
from .page import details, facts, page, published, section, table
from .plan import plan_table

PROVEN, OPEN = "proven", "not proven"
UNBROKEN = "\N{NO-BREAK SPACE}%"
# Share of the width by which curves go on behind the last point.
BEYOND = 0.05
# Headings of settings whose names say too little.
WORDS = {"levels": "points", "time_limit_s": "time limit (s)", "memory_bytes": "memory"}
HOW_TO_READ = (
    "A filled point is proven: no plan within the limit is better. An open one is the best plan found; its line "
    "downwards ends at the bound, below which there is proven to be none."
)


def pareto_page(curve: Curve, front: Front, command: str) -> str:
    """The whole page as text; `command` asks for it again."""
    plans = _plans(front)
    named_facts = {"name": front.problem.name, **module_of(front.problem).facts(front.problem)}
    parts = [
        _head(curve, front, command),
        section("Curves", *_curves(front)),
        section("Points", _points(front, plans)),
        *([section("Plans", *_drawn(front, plans))] if plans else []),
        section("Problem", facts(named_facts.items())),
        section("How it was asked", facts(_asked(curve).items()), name="asked"),
        section("Data", details("The points as JSON", tag("pre", None, json.dumps(curve.to_json(), indent=1)))),
    ]
    return page(f"{front.problem.name}: {front.value} against {front.limited}", parts)


def _head(curve: Curve, front: Front, command: str) -> Element:
    points = [point for _, point in front.points]
    proven = sum(point.certified for point in points)
    words = f"{front.value} against {front.limited}: {several(len(points), 'point')}, {proven} of them proven"
    unfinished = tag("p", {"class": "verdict no"}, "Interrupted: the curves are not complete.")
    return tag(
        "header",
        None,
        tag("h1", None, front.problem.name),
        tag("p", {"class": "answer"}, f"{words[0].upper()}{words[1:]}."),
        None if curve.complete else unfinished,
        tag("p", {"class": "note"}, tag("code", None, command)),
        published(),
    )


def _asked(curve: Curve) -> dict[str, object]:
    """The settings that have a value, by their headings."""
    settings = curve.settings.to_json()
    return {
        WORDS.get(name, name.replace("_", " ")): _said(name, value)
        for name, value in settings.items()
        if value is not None
    }


def _said(name: str, value: object) -> object:
    written = written_bytes if name == "memory_bytes" else str
    return ", ".join(map(written, value)) if isinstance(value, list) else value


# ---- the chart -----------------------------------------------------------------------------------------


def _curves(front: Front) -> list[Element]:
    """The chart: the best values at the bottom and most visible, what they are compared with above them."""
    (factor, unit), times = front.scale(), front.times()
    lines = [Line(series.name, _spots(series.points, factor, times.factor), steps=True) for series in front.series]
    name, rivals = front.rivals
    lines.append(
        Line(name, tuple(Spot(limit / factor, value * times.factor) for limit, value in rivals), steps=True)
    )
    lines = _with_ends([line for line in lines if line.spots])
    if not lines:
        return [tag("p", None, "No point has a plan.")]
    values = [value for line in lines for spot in line.spots for value in (spot.y, spot.bound) if value is not None]
    titles = measured(front.limited, unit), measured(front.value, times.unit)
    rules = [Rule(name, value * times.factor) for name, value in front.rules]
    label = f"{front.value} against {front.limited}"
    low = from_zero(min(values), max(values))
    return [line_chart(lines, label, *titles, low=low, rules=rules), tag("p", {"class": "note"}, HOW_TO_READ)]


def _with_ends(lines: list[Line]) -> list[Line]:
    """Let each curve go on a little behind the last point: a plan within a limit is within every larger one."""
    limits = [spot.x for line in lines for spot in line.spots]
    return [replace(line, until=max(limits) + BEYOND * (max(limits) - min(limits))) for line in lines]


def _spots(points: tuple[CurvePoint, ...], factor: float, time: float) -> tuple[Spot, ...]:
    return tuple(
        Spot(
            point.limit / factor,
            point.value * time,
            _verdict(point),
            not point.certified,
            None if point.bound is None else point.bound * time,
        )
        for point in points
        if point.value is not None
    )


def _verdict(point: CurvePoint) -> str:
    if point.certified:
        return PROVEN
    if point.plan is None:
        return "none found"
    return (
        "no bound" if point.gap is None else f"{OPEN}, gap {percent(max(0.0, point.gap))}".replace(" %", UNBROKEN)
    )


# ---- points and plans ----------------------------------------------------------------------------------


def _plans(front: Front) -> Mapping[str, tuple[int, CurvePoint]]:
    """Every plan once, by its JSON, with its number and the first point that has it."""
    plans: dict[str, tuple[int, CurvePoint]] = {}
    for _, point in front.points:
        if point.plan is not None:
            plans.setdefault(_key(point), (len(plans) + 1, point))
    return plans


def _key(point: CurvePoint) -> str:
    return json.dumps(point.plan.to_json(), sort_keys=True)


def _points(front: Front, plans: Mapping[str, tuple[int, CurvePoint]]) -> Element:
    times = front.times()
    head = [
        "curve",
        front.limited,
        measured(front.value, times.unit),
        "verdict",
        "bound",
        "needs",
        "found by",
        "plan",
        "seconds",
    ]
    rows = []
    for name, point in front.points:
        value = times.text(point.value, "no plan")
        source = getattr(point, "source", None) or ""
        plan = "" if point.plan is None else str(plans[_key(point)][0])
        bound = times.text(point.bound, "")
        cells = [value, _verdict(point), bound, front.need(point), source, plan]
        rows.append([name, front.limit_text(point.limit), *cells, f"{point.seconds:.1f}"])
    return table(head, rows, "Recomputed by the referee; a plan stands behind every larger limit as well")


def _drawn(front: Front, plans: Mapping[str, tuple[int, CurvePoint]]) -> list[Element]:
    """The tables of each plan, closed until a reader opens them."""
    return [_plan(front, number, point) for number, point in plans.values()]


def _plan(front: Front, number: int, point: CurvePoint) -> Element:
    problem, rules = front.judged(point)
    value = amount(point.value or 0.0, problem.time_unit)
    title = f"Plan {number}: {front.value} {value} within {front.limit_text(point.limit)}"
    view = view_of(problem, point.plan, rules)
    return details(title, *(plan_table(view, part) for part in view.tables))
