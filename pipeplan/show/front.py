"""Curves along one axis of limits, as plain data, and how tables and pictures draw them.

`of_*` says what the curves of one command are called and what stands beside their points."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..instances.base.amounts import Amount
from ..instances.least_memory import in_one_unit, option, said
from ..instances.registry import Problem
from ..planners.referee import rules_of
from ..studies.memory import MemoryStudy, worse
from ..studies.sweep import CurvePoint
from .console import draw_rows, put
from .lanes import from_zero
from .pictures import GROUND, INK, STYLES, THICK, THIN, canvas, explain, legible, write_picture
from .views import CATEGORIES, devices, module_of
from .words import IN_BYTES, MemoryUnit, Times, amount_or, measured, memory_unit, several

if TYPE_CHECKING:
    from ..studies.chain_memory import Curve

FREE = "without a limit"
# Share of the width by which curves go on behind the last point, so that the last step is seen.
BEYOND = 0.05
LEGEND = "gap: * means proven optimal, a percentage is the distance to the bound"
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
    """Curves over one axis of limits."""

    problem: Problem
    limited: str
    """Name of the quantity that is limited."""
    value: str
    """Name of the value that is minimised."""
    series: tuple[Series, ...]
    memory: MemoryUnit = IN_BYTES
    """Unit of the limits, in multiples like those in which they are written."""
    rules: tuple[tuple[str, float], ...] = ()
    """Horizontal lines by name and value."""
    what: str = ""
    """What the table shows."""
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
        values += [value for _, value in self.rules]
        return [value for value in values if value is not None]

    def times(self) -> Times:
        """The unit in which values are drawn."""
        return Times.of(self.values(), self.problem.time_unit)

    def scale(self) -> tuple[float, str]:
        """The divisor of limits, and the unit of the result."""
        return self.memory.scale(max(self.limits(), default=1.0))

    def limit_text(self, limit: float) -> str:
        return self.memory.text(limit) if self.texts is None else self.texts[limit]

    def by_limit(self) -> list[tuple[float, Mapping[str, CurvePoint]]]:
        """The points of each limit by the names of their curves."""
        return [
            (limit, {name: point for name, point in self.points if point.limit == limit})
            for limit in sorted(set(self.limits()))
        ]


def verdict(point: CurvePoint | None) -> str:
    """What follows a value in a table: `*` if proven, else the gap, or nothing where there is no bound."""
    if point is None or point.plan is None:
        return ""
    if point.certified:
        return "*"
    if point.gap is None:
        return ""
    return f"{100 * point.gap:.1f}%" if point.gap >= LEAST_GAP else f"<{100 * LEAST_GAP:g}%"


# ---- `plan pareto` -----------------------------------------------------------------------------------------


def of_chain(curve: Curve) -> Front:
    """Period against the memory of a GPU, a curve for each method."""
    from ..studies.chain_memory import EXACT_METHODS

    methods, problem, ends = dict.fromkeys(point.method for point in curve.points), curve.problem, curve.ends
    memory, rules = IN_BYTES.like(point.limit for point in curve.points), tuple[tuple[str, float], ...]()
    sentences: tuple[str, ...] = ()
    if ends is not None:  # what is known of both ends of the curve
        rules = ((f"{'optimum' if ends.best_proven else 'best found'} {FREE}", ends.best.value),)
        least = "proven" if ends.least_proven else f"none exists with less than {memory.text(ends.lower)}"
        free = "proven" if ends.best_proven else f"bound {amount_or(ends.bound, problem.time_unit, 'unknown')}"
        best = f"period {amount_or(ends.best.value, problem.time_unit)} ({free})"
        sentences = (
            f"smallest memory with any pattern: {memory.text(ends.least.need)} ({least})",
            f"{FREE}: {best}, found with {memory.text(ends.best.need)}",
        )
    value, sizes = "period per batch", f"{several(problem.layers, 'layer')}, {several(problem.gpus, 'GPU')}"
    front = Front(
        problem,
        "memory of a GPU",
        value,
        tuple(Series(method, curve.of(method), method, method in EXACT_METHODS) for method in methods),
        memory=memory,
        rules=rules,
        sentences=sentences,
        legend=f"{LEGEND}; 2x: the pattern has 2 batches",
    )
    return replace(front, what=f"{sizes}; {value}{front.times().inside}")


# ---- `plan memory` -----------------------------------------------------------------------------------------


def of_memory(study: MemoryStudy) -> Front:
    """The value of a plan against the memory of a device, from the least with a plan on."""
    problem, least, points = study.problem, study.least, study.points
    value = "value" if not points else str(module_of(problem).value_name(rules_of(problem, study.options)))
    times = Times.of((point.value for point in points), problem.time_unit)
    exact = "" if least.memory_bytes is None else f"; use {option(least.memory_bytes, least.counted)}"
    return Front(
        problem,
        "memory of a device",
        value,
        (Series(str(study.method), points, f"{value}{times.inside}"),),
        memory=memory_unit(least.counted).like(point.limit for point in points),
        what=f"{said(least)}{exact}",
        columns=(("time saved", lambda point, times: _less(point, points[0].value)),),
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
        return "the time limit was reached before the gain from more memory was known"
    value, amounts = best.value, in_one_unit((point.limit for point in study.points), counted)
    lower = in_one_unit((point.limit for point in study.points), counted, math.floor)
    slower = [p for p in study.points if p.bound is not None and value is not None and worse(p.bound, value)]
    if not best.certified:
        return f"with more than {amounts[best.limit]}, {study.method} found nothing better (not proven)"
    words = f"above {amounts[best.limit]}, more memory does not help (proven by {study.method})"
    return f"{words}; at {lower[slower[-1].limit]} it still does" if slower else words


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
            rows.append((front.limit_text(limit), *cells, *others))
        draw_rows(["memory", *headings, *(heading for heading, _ in front.columns)], rows)
        put(front.legend + "; -: no plan" * any(point.value is None for _, point in front.points))
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
    (divisor, unit), limits = front.scale(), [limit / front.scale()[0] for limit in front.limits()]
    until = max(limits, default=1.0) + BEYOND * (max(limits, default=1.0) - min(limits, default=0.0))
    curves = [(one.name, [(p.limit, p.value) for p in one.points if p.value is not None]) for one in front.series]
    points, exact = {one.name: one.points for one in front.series}, {one.name for one in front.series if one.exact}
    drawn = [(name, steps) for name, steps in curves if steps]
    with canvas() as figure:
        axes = figure.add_subplot()
        for i, (name, steps) in reversed(list(enumerate(drawn))):
            ink, style = CATEGORIES[i % len(CATEGORIES)], {"linestyle": "-", "linewidth": THIN}
            if name not in exact:
                style = {"linestyle": STYLES[i % len(STYLES)], "linewidth": THICK}
            upwards = [y * times.factor for _, y in steps]
            look: dict[str, Any] = {"color": ink, "label": name, "drawstyle": "steps-post", **style}
            axes.plot([*(x / divisor for x, _ in steps), until], [*upwards, upwards[-1]], **look)
            for point in points.get(name, ()):
                if point.value is None:
                    continue
                x, y, filled = point.limit / divisor, point.value * times.factor, point.certified
                axes.scatter([x], [y], s=22, c=[ink if filled else GROUND], edgecolors=ink, zorder=3)
                if point.bound is not None and not filled:
                    axes.vlines(x, point.bound * times.factor, y, colors=ink, linewidth=0.8)
                    axes.plot([x], [point.bound * times.factor], marker="_", markersize=8, color=ink)
        for name, value in front.rules:
            axes.axhline(value * times.factor, color=INK, linewidth=0.8, linestyle=":", label=name)
        # From 0 on, unless the values would look alike or the largest would hide the others.
        if values and min(values) > 0 and max(values) > MOST_LINEAR * min(values):
            axes.set_yscale("log")
        elif values and from_zero(min(values), max(values)) == 0:
            axes.set_ylim(bottom=0)
        axes.set(xlabel=measured(front.limited, unit), ylabel=measured(front.value, times.unit))
        name = f"{legible(front.problem.name)}, {devices(front.problem)}"
        axes.set_title(f"{name} (filled: proven; whisker: down to the bound)")
        explain(figure, [axes])
        write_picture(figure, path)
