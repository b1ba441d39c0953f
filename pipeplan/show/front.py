"""Curves along one axis of limits, as plain data, and how tables, pictures and pages draw them.

`of_*` says what the curves of one command or kind are called and what stands beside their points; all that follows is
the same for every kind. Pictures and pages draw the same lines (`Front.lines`)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

from ..instances.base.amounts import Amount
from ..instances.base.kind import Rules
from ..instances.base.quantities import written_bytes
from ..instances.least_memory import at_least, in_one_unit, option, said
from ..instances.registry import Problem, kind_of
from ..planners.referee import rules_of
from ..studies.memory import MemoryStudy, worse
from ..studies.sweep import Curve, CurvePoint
from . import page as html
from .console import draw_rows, put
from .lanes import from_zero
from .pictures import GROUND, INK, STYLES, THICK, THIN, canvas, explain, legible, write_picture
from .report import plan_table
from .views import CATEGORIES, devices, module_of, view_of
from .words import IN_BYTES, MemoryUnit, Times, amount, amount_or, measured, memory_unit, percent, several

if TYPE_CHECKING:
    pass

BEST, FREE = "best plan", "without a limit"
# Share of the width by which curves go on behind the last point, so that the last step is seen.
BEYOND = 0.05
LEGEND = "*: proven; %: gap to the bound; -: no plan"
# A smaller gap is shown as smaller, never as nothing.
LEAST_GAP = 0.001
# The heading of a column, and what it says of a point.
Column = tuple[str, Callable[[CurvePoint, Times], str]]


@dataclass(frozen=True, slots=True)
class Series:
    """The best plans of one method, by growing limit."""

    name: str
    points: tuple[CurvePoint, ...]
    heading: str = "value"
    """What a table calls the values."""
    exact: bool = True
    """Does the method prove bounds?"""


@dataclass(frozen=True, slots=True)
class Front:
    """Curves over one axis of limits, and how each point is judged."""

    problem: Problem
    limited: str
    """Name of the quantity that is limited."""
    value: str
    """Name of the value that is minimised."""
    series: tuple[Series, ...]
    judged: Callable[[CurvePoint], tuple[Problem, Rules]]
    """The problem and the rules that the plan of a point keeps."""
    memory: MemoryUnit = IN_BYTES
    """Unit of the limits, in multiples like those in which they are written."""
    rivals: tuple[str, tuple[tuple[float, float], ...]] = ("", ())
    """Points of what the curves are compared with: its name, and values by limit."""
    rules: tuple[tuple[str, float], ...] = ()
    """Horizontal lines by name and value."""
    what: str = ""
    """What the table shows."""
    axis: str = "memory"
    """What the table calls the limits."""
    columns: tuple[Column, ...] = ()
    """Further columns of the table, about points of a single series."""
    legend: str = LEGEND
    sentences: tuple[str, ...] = ()
    """What there is to say below the table."""
    texts: Mapping[Amount, str] | None = None
    """Limits in words, where their digits matter."""

    @property
    def points(self) -> Iterator[tuple[str, CurvePoint]]:
        """All points with the names of their curves."""
        return ((series.name, point) for series in self.series for point in series.points)

    def limits(self) -> list[float]:
        return [point.limit for _, point in self.points]

    def values(self) -> list[float]:
        """All values that are drawn upwards."""
        values = [value for _, point in self.points for value in (point.value, point.bound)]
        values += [value for _, value in (*self.rivals[1], *self.rules)]
        return [value for value in values if value is not None]

    def times(self) -> Times:
        """The unit in which values are drawn."""
        return Times.of(self.values(), self.problem.time_unit)

    def scale(self) -> tuple[float, str]:
        """The divisor of limits, and the unit of the result."""
        return self.memory.scale(max(self.limits(), default=1.0))

    def limit_text(self, limit: float) -> str:
        return self.memory.text(limit) if self.texts is None else self.texts[limit]

    def need(self, point: CurvePoint) -> str:
        """The amount that the point's plan takes of what is limited."""
        return "" if point.need is None else self.memory.text(point.need)

    def by_limit(self) -> list[tuple[float, Mapping[str, CurvePoint]]]:
        """The points of each limit by the names of their curves."""
        return [
            (limit, {name: point for name, point in self.points if point.limit == limit})
            for limit in sorted(set(self.limits()))
        ]

    def lines(self) -> list[html.Line]:
        """What pictures and pages draw, in their units: the curves, the first at the bottom, and what they are compared
        with. Each goes on a little behind the last point: a plan within a limit is within every larger one."""
        (factor, _), time = self.scale(), self.times().factor
        limits = [limit / factor for limit in self.limits()]
        until = max(limits, default=1.0) + BEYOND * (max(limits, default=1.0) - min(limits, default=0.0))
        curves = {
            one.name: [
                html.Spot(
                    point.limit / factor,
                    point.value * time,
                    _verdict(point),
                    not point.certified,
                    None if point.bound is None else point.bound * time,
                )
                for point in one.points
                if point.value is not None
            ]
            for one in self.series
        }
        curves[self.rivals[0]] = [html.Spot(limit / factor, value * time) for limit, value in self.rivals[1]]
        return [html.Line(name, tuple(spots), until) for name, spots in curves.items() if spots]


def verdict(point: CurvePoint | None) -> str:
    """What follows a value in a table: `*` if proven, else the gap, or nothing where there is no bound."""
    if point is None or point.plan is None:
        return ""
    if point.certified:
        return "*"
    if point.gap is None:
        return ""
    return f"{100 * point.gap:.1f}%" if point.gap >= LEAST_GAP else f"<{100 * LEAST_GAP:g}%"


# ---- columns -----------------------------------------------------------------------------------------------


_BOUND: Column = ("bound", lambda point, times: times.text(point.bound, ""))
_IDLE: Column = ("idle", lambda point, times: "" if point.bubble is None else percent(point.bubble))
_SECONDS: Column = ("seconds", lambda point, times: f"{point.seconds:.1f}")


# ---- `plan pareto` -----------------------------------------------------------------------------------------


def of_chain(curve: Curve) -> Front:
    """Period against the memory of a GPU, a curve for each method."""
    from ..studies.chain_memory import EXACT_METHODS

    methods, problem = dict.fromkeys(point.method for point in curve.points), curve.problem
    series = (Series(method, curve.of(method), method, method in EXACT_METHODS) for method in methods)
    sizes = f"{several(problem.layers, 'layer')}, {several(problem.gpus, 'GPU')}"
    front = _of_memory(curve, "period per batch", sizes, plan="pattern", word="period ")
    legend = f"{LEGEND}; 2x: repeats itself after 2 batches"
    return replace(front, limited="memory of a GPU", series=tuple(series), columns=(), legend=legend)


def of_staging(curve: Curve) -> Front:
    """Time per micro-batch against the memory of a device, beside an even split."""
    problem = curve.problem
    sizes = f"{several(len(problem.layers), 'layer')}, {several(problem.devices, 'device')}"
    return _of_memory(curve, "time per micro-batch", sizes, rival="even split")


def of_schedule(curve: Curve) -> Front:
    """The value that is minimised against the memory of a device, beside the best of the named rules."""
    problem, count = curve.problem, curve.problem.micro_batches
    sizes = f"{several(len(problem.devices), 'device')}, {several(len(problem.blocks), 'block')}"
    sizes += "" if count is None else f", {several(count, 'micro-batch')}"
    front = _of_memory(
        curve,
        str(curve.settings.options["objective"]),
        sizes,
        memory_unit(problem.memory_unit),
        rival="best named rule",
        plan="schedule",
    )
    bound, *others = front.columns
    legend = "*: proven; %: gap to the bound; -: no schedule, or no named rule made for this shape and memory"
    return replace(front, columns=(bound, _IDLE, *others), legend=legend)


def of_training(curve: Curve) -> Front:
    """Time of an iteration against the number of GPUs, and how much more GPU time it takes than on the fewest."""
    from ..instances.training.kind_functions import with_devices

    def judged(point: CurvePoint) -> tuple[Problem, Rules]:
        used = point.limit if point.need is None else point.need
        problem = with_devices(curve.problem, int(used))
        return problem, kind_of(problem).rules(problem, curve.settings.options)

    costs = [cost for cost in map(_gpu_time, curve.points) if cost]
    model, value = curve.problem.model, "time of an iteration"
    columns: tuple[Column, ...] = (
        _BOUND,
        ("used", lambda point, times: "" if point.need is None else f"{point.need:g}"),
        ("GPU time", lambda point, times: "" if point.value is None else percent(_gpu_time(point) / costs[0] - 1)),
        _SECONDS,
    )
    front = Front(
        curve.problem,
        "number of GPUs",
        value,
        (Series(BEST, curve.points),),
        judged,
        memory=MemoryUnit("GPUs"),
        axis="GPUs",
        columns=columns,
        legend=f"{LEGEND}; GPU time: more than with the fewest GPUs",
    )
    return _headed(front, f"{model.name}, {several(len(model.units), 'unit')}; {value}")


def _gpu_time(point: CurvePoint) -> float:
    return (point.value or 0.0) * (point.need or 0.0)


def _of_memory(
    curve: Curve,
    value: str,
    sizes: str,
    unit: MemoryUnit = IN_BYTES,
    rival: str = "",
    plan: str = "plan",
    word: str = "",
) -> Front:
    """A curve over memory; `plan` is the noun for a plan, and `word` stands before the best value."""
    problem, options, ends = curve.problem, curve.settings.options, curve.ends
    memory, rules = unit.like(point.limit for point in curve.points), tuple[tuple[str, float], ...]()
    sentences: tuple[str, ...] = ()
    if ends is not None:  # what is known of both ends of the curve
        rules = ((f"{'optimum' if ends.best_proven else 'best found'} {FREE}", ends.best.value),)
        least = "proven" if ends.least_proven else f"none exists with less than {memory.text(ends.lower)}"
        free = "proven" if ends.best_proven else f"bound {amount_or(ends.bound, problem.time_unit, 'unknown')}"
        best = f"{word}{amount_or(ends.best.value, problem.time_unit)} ({free})"
        sentences = (
            f"smallest memory with any {plan}: {memory.text(ends.least.need)} ({least})",
            f"{FREE}: {best}, found with {memory.text(ends.best.need)}",
        )
    front = Front(
        problem,
        "memory of a device",
        value,
        (Series(BEST, curve.points),),
        lambda point: _within(problem, point, options),
        memory=memory,
        rivals=(rival, tuple((point.limit, point.rival) for point in curve.points if point.rival is not None)),
        rules=rules,
        sentences=sentences,
    )
    needs: Column = ("needs", lambda point, times: front.need(point))
    columns = (_BOUND, needs, (rival, lambda point, times: times.text(point.rival)), _SECONDS)
    return _headed(replace(front, columns=columns), f"{sizes}; {value}")


def _headed(front: Front, what: str) -> Front:
    return replace(front, what=f"{what}{front.times().inside}")


def _within(problem: Problem, point: CurvePoint, options: Mapping[str, Any]) -> tuple[Problem, Rules]:
    kind = kind_of(problem)
    limited = kind.with_memory(problem, point.limit)
    return limited, kind.rules(limited, options)


# ---- `plan memory` -----------------------------------------------------------------------------------------


def of_memory(study: MemoryStudy) -> Front:
    """The value of a plan against the memory of a device, from the least with a plan on."""
    problem, least, points = study.problem, study.least, study.points
    value = "value" if not points else str(module_of(problem).value_name(rules_of(problem, study.options)))
    times = Times.of((point.value for point in points), problem.time_unit)
    exact = "" if least.memory_bytes is None else f"; {option(least.memory_bytes, least.counted)} asks for it"
    return Front(
        problem,
        "memory of a device",
        value,
        (Series(str(study.method), points, f"{value}{times.inside}"),),
        lambda point: _within(problem, point, study.options),
        memory=memory_unit(least.counted).like(point.limit for point in points),
        what=f"{said(least)}{exact}",
        columns=(("less time", lambda point, times: _less(point, points[0].value)),),
        sentences=(_closing(study),) if points else (),
        texts=in_one_unit((point.limit for point in points), least.counted),
    )


def _less(point: CurvePoint, first: float | None) -> str:
    if not first or point.value is None or point.value == first:
        return ""
    return f"{100 * (1 - point.value / first):.1f} %"


def _closing(study: MemoryStudy) -> str:
    """A sentence that says from where on more memory does not help, and below which amount it is known to help."""
    best, counted = study.no_more_helps, study.least.counted
    if best is None:
        return "what more memory is worth was not found in time"
    value, amounts = best.value, in_one_unit((point.limit for point in study.points), counted)
    slower = [p for p in study.points if p.bound is not None and value is not None and worse(p.bound, value)]
    if not best.certified:
        return f"with more than {amounts[best.limit]} nothing better was found ({study.method}, not proven)"
    words = f"from {amounts[best.limit]} on more memory does not help (proven by {study.method})"
    return f"{words}; with {at_least(slower[-1].limit, counted)} it still does" if slower else words


# ---- tables ---------------------------------------------------------------------------------------------------


# Of values of several curves one fewer than elsewhere, so that the usual methods of chains fit into 80 columns.
USUAL_DIGITS, FEWER = 7, 6


def draw_front_table(front: Front) -> None:
    """Print what the curves are, their values with verdicts, and what there is to say of them."""
    times, single = front.times(), len(front.series) == 1
    put(f"{front.problem.name}: {front.what}", soft=True)
    if front.limits():
        headings = [heading for one in front.series for heading in (one.heading, "gap")[: 1 + one.exact]]
        rows = []
        for limit, points in front.by_limit():
            cells = [cell for one in front.series for cell in _cells(one, points.get(one.name), times, single)]
            others = (text(point, times) for _, text in front.columns for point in points.values())
            rows.append((front.limit_text(limit).removesuffix(f" {front.axis}"), *cells, *others))
        draw_rows([front.axis, *headings, *(heading for heading, _ in front.columns)], rows)
        put(front.legend)
    put(*front.sentences, soft=True)


def _cells(series: Series, point: CurvePoint | None, times: Times, single: bool) -> Iterator[str]:
    """The value, and its verdict where the method proves bounds; nothing where no point was reached."""
    if point is None:
        yield ""
    elif point.value is None:
        yield "-*" if point.certified else "-"
    else:
        count = point.batches_per_period or 1
        yield f"{count}x " * (count > 1) + times.text(point.value, digits=USUAL_DIGITS if single else FEWER)
    if series.exact:
        yield verdict(point)


# ---- pictures -------------------------------------------------------------------------------------------------


# Values that span more than this factor are drawn on a logarithmic axis.
MOST_LINEAR = 10.0


def draw_front(front: Front, path: str | os.PathLike[str]) -> None:
    """Draw the curves into an SVG, PNG or PDF file. Exact curves are thin and lie on the others, which stay visible."""
    times, values = front.times(), [value * front.times().factor for value in front.values()]
    exact = {one.name for one in front.series if one.exact}
    with canvas() as figure:
        axes = figure.add_subplot()
        for i, line in reversed(list(enumerate(front.lines()))):
            ink, limits = CATEGORIES[i % len(CATEGORIES)], [spot.x for spot in line.spots]
            style = {"linestyle": "-", "linewidth": THIN}
            if line.name not in exact:
                style = {"linestyle": STYLES[i % len(STYLES)], "linewidth": THICK}
            steps = [spot.y for spot in line.spots]
            look: dict[str, Any] = {"color": ink, "label": line.name, "drawstyle": "steps-post", **style}
            axes.plot([*limits, line.until or 0.0], [*steps, steps[-1]], **look)
            if line.name == front.rivals[0]:
                continue
            filled = [GROUND if spot.open else ink for spot in line.spots]
            axes.scatter(limits, steps, s=22, c=filled, edgecolors=ink, zorder=3)
            for spot in line.spots:
                if spot.bound is not None and spot.open:
                    axes.vlines(spot.x, spot.bound, spot.y, colors=ink, linewidth=0.8)
                    axes.plot([spot.x], [spot.bound], marker="_", markersize=8, color=ink)
        for name, value in front.rules:
            axes.axhline(value * times.factor, color=INK, linewidth=0.8, linestyle=":", label=name)
        # From 0 on, unless the values would look alike or the largest would hide the others.
        if values and min(values) > 0 and max(values) > MOST_LINEAR * min(values):
            axes.set_yscale("log")
        elif values and from_zero(min(values), max(values)) == 0:
            axes.set_ylim(bottom=0)
        axes.set(xlabel=measured(front.limited, front.scale()[1]), ylabel=measured(front.value, times.unit))
        name = f"{legible(front.problem.name)}, {devices(front.problem)}"
        axes.set_title(f"{name} (filled: proven; whisker: down to the bound)")
        explain(figure, [axes])
        write_picture(figure, path)


# ---- pages ----------------------------------------------------------------------------------------------------


PROVEN, OPEN = "proven", "not proven"
UNBROKEN = "\N{NO-BREAK SPACE}%"
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
        html.section("Curves", *_curves(front)),
        html.section("Points", _table_of_points(front, plans)),
        *([html.section("Plans", *(_table_of_plan(front, *one) for one in plans.values()))] if plans else []),
        html.section("Problem", html.facts(named_facts.items())),
        html.section("How it was asked", html.facts(_asked(curve)), name="asked"),
        html.data("The points as JSON", curve),
    ]
    return html.page(f"{front.problem.name}: {front.value} against {front.limited}", parts)


def _head(curve: Curve, front: Front, command: str) -> Element:
    points = [point for _, point in front.points]
    proven = sum(point.certified for point in points)
    words = f"{front.value} against {front.limited}: {several(len(points), 'point')}, {proven} of them proven"
    return html.header(
        front.problem.name,
        html.paragraph(f"{words[0].upper()}{words[1:]}.", "answer"),
        None if curve.complete else html.paragraph("Interrupted: the curves are not complete.", "verdict no"),
        html.paragraph(html.tag("code", None, command), "note"),
        html.published(),
    )


def _asked(curve: Curve) -> Iterator[tuple[str, object]]:
    """The settings that have a value, by their headings."""
    for name, value in curve.settings.to_json().items():
        written = written_bytes if name == "memory_bytes" else str
        if value is not None:
            shown = ", ".join(map(written, value)) if isinstance(value, list) else value
            yield WORDS.get(name, name.replace("_", " ")), shown


# ---- the chart -----------------------------------------------------------------------------------------


def _curves(front: Front) -> list[Element]:
    """The chart: the best values at the bottom and most visible, what they are compared with above them."""
    lines, times = front.lines(), front.times()
    if not lines:
        return [html.paragraph("No point has a plan.")]
    xs = [spot.x for line in lines for spot in line.spots]
    lines = [replace(line, until=max(xs) + BEYOND * (max(xs) - min(xs))) for line in lines]
    values = [value for line in lines for spot in line.spots for value in (spot.y, spot.bound) if value is not None]
    titles = measured(front.limited, front.scale()[1]), measured(front.value, times.unit)
    rules = [(name, value * times.factor) for name, value in front.rules]
    label, low = f"{front.value} against {front.limited}", from_zero(min(values), max(values))
    return [html.line_chart(lines, label, *titles, low=low, rules=rules), html.paragraph(HOW_TO_READ, "note")]


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


def _table_of_points(front: Front, plans: Mapping[str, tuple[int, CurvePoint]]) -> Element:
    times = front.times()
    head = ["curve", front.limited, measured(front.value, times.unit)]
    head += ["verdict", "bound", "needs", "found by", "plan", "seconds"]
    rows = []
    for name, point in front.points:
        plan = "" if point.plan is None else str(plans[_key(point)][0])
        values = [times.text(point.value, "no plan"), _verdict(point), times.text(point.bound, "")]
        cells = [*values, front.need(point), getattr(point, "source", None) or "", plan, f"{point.seconds:.1f}"]
        rows.append([name, front.limit_text(point.limit), *cells])
    return html.table(head, rows, "Recomputed by the referee; a plan stands behind every larger limit as well")


def _table_of_plan(front: Front, number: int, point: CurvePoint) -> Element:
    """The tables of a plan, closed until a reader opens them."""
    problem, rules = front.judged(point)
    value = amount(point.value or 0.0, problem.time_unit)
    title = f"Plan {number}: {front.value} {value} within {front.limit_text(point.limit)}"
    view = view_of(problem, point.plan, rules)
    return html.details(title, *(plan_table(view, part) for part in view.tables))
