"""Lanes below each other over one axis: tasks over time, parts of loads and of memory, memory over time. What they
show is decided here, once, and so are axes: from values to places, and the round values beside them. A page and a
picture only draw it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise

from .views import LOADS, MEMORY, Curve, PlanView, Table, Timeline, colour
from .words import IN_BYTES, MemoryUnit, measured

# ---- axes -----------------------------------------------------------------------------------------------------


# The most steps of an axis: on a phone, and on a wide page.
FEW, MANY = 4, 10
# With more decimals than this, a value is written with an exponent.
MOST_DECIMALS = 9
# Larger numbers are written with an exponent.
LONGEST_WHOLE = 1e10
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to positions on one axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (self.end - self.start) * ((value - self.low) / span if span else 0.5)


def number(value: float) -> str:
    """A value with four digits; a large one is rounded to a whole, because 27137 is read more easily than 2.714e+04."""
    return f"{value:.0f}" if 10**DIGITS <= abs(value) < LONGEST_WHOLE else f"{value:.{DIGITS}g}"


def round_step(span: float, most: int) -> float:
    """The smallest of ..., 1, 2, 5, 10, 20, ... that goes into the span at most `most` times."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return power * next(factor for factor in (1, 2, 5, 10) if factor * power * most >= span * (1 - 1e-9))


def ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round values from `low` to `high`, each with its text, in the decimals of the step, so that no two look alike."""
    if high <= low:
        return [(low, number(low))]
    step = round_step(high - low, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(i * step, _written(i * step, step)) for i in range(first, last + 1)]


def _written(value: float, step: float) -> str:
    if not value:
        return "0"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if decimals > MOST_DECIMALS or abs(value) >= LONGEST_WHOLE:
        return f"{value:.{DIGITS}g}"
    return f"{value:.{decimals}f}"


def round_ends(low: float, high: float, most: int) -> tuple[float, float]:
    """The next round values around two values, where an axis begins and ends."""
    if high <= low:
        low, high = min(0.0, low), max(0.0, high)
    if high <= low:
        return 0.0, 1.0
    step = round_step(high - low, most)
    return step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)


def from_zero(low: float, high: float) -> float:
    """Where an axis of these values begins: at 0, unless they lie so close together that they would look the same."""
    return 0.0 if 0.0 <= low < 0.9 * high else low


# ---- graphs ---------------------------------------------------------------------------------------------------


def ranks(levels: Sequence[int], edges: Iterable[tuple[int, int]], sweeps: int) -> list[int]:
    """The place of each node within its level, by the mean place of its neighbours, so that few edges cross. The levels
    are swept in turn from the first on, by the neighbours before a node, and from the last on, by those behind it."""
    columns: list[list[int]] = [[] for _ in range(max(levels, default=0) + 1)]
    near: tuple[list[list[int]], ...] = tuple([[] for _ in levels] for _ in range(2))
    for i, level in enumerate(levels):
        columns[level].append(i)
    for u, v in edges:
        near[0][v].append(u)
        near[1][u].append(v)
    rank = [columns[level].index(i) for i, level in enumerate(levels)]
    for sweep in range(sweeps):
        for column in columns[:: -1 if sweep % 2 else 1]:
            own = {i: near[sweep % 2][i] for i in column}
            middle = {i: sum(rank[j] for j in nodes) / len(nodes) if nodes else rank[i] for i, nodes in own.items()}
            column.sort(key=middle.__getitem__)  # of equal ones the order stays
            for place, i in enumerate(column):
                rank[i] = place
    return rank


# ---- lanes ----------------------------------------------------------------------------------------------------


# The most characters for a lane and its layers.
MOST_NAMED = 36
# With more periods than this, the times at which they begin are left out.
MOST_PERIODS = 300
# The most spans of a device's memory that have words of their own; with more of them only the whole lane has.
MOST_SPANS = 60
# Height of a lane of memory over time, relative to that of tasks.
HIGH = 2.0


@dataclass(frozen=True, slots=True)
class Shape:
    """A rectangle in a lane: a task, a part of an amount, or a time in which memory stays the same."""

    start: float
    end: float
    colour: str | None
    """None: it is not seen, but can be pointed at."""
    title: str = ""
    """All that is said of it; empty: it cannot be pointed at."""
    label: str = ""
    """A few characters inside."""
    short: str = ""
    """The label where there is no room for all of it."""
    low: float = 0.0
    """Where it begins upwards, as a share of the lane's height."""
    high: float = 1.0


@dataclass(frozen=True, slots=True)
class Lane:
    """What stands side by side."""

    name: str
    shapes: Sequence[Shape]
    value: str = ""
    """Words on the whole lane."""
    limit: float | None = None
    """Where along the axis the lane has a limit."""
    level: float | None = None
    """Where upwards it has one, as a share of its height."""
    is_slowest: bool = False
    height: float = 1.0


@dataclass(frozen=True, slots=True)
class Lanes:
    """A chart of lanes."""

    title: str
    axis: str
    """What is measured along the axis, with its unit."""
    lanes: tuple[Lane, ...]
    end: float
    start: float = 0.0
    colours: Mapping[str, str] = field(default_factory=dict)
    """Colours by what they mean."""
    rules: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Places along the axis where all lanes have a line, by what it means."""
    notes: tuple[str, ...] = ()
    is_over_time: bool = False


# ---- tasks over time -------------------------------------------------------------------------------------


def timeline_lanes(timeline: Timeline, view: PlanView, most: int | None = None) -> Lanes:
    """The first tasks of a timeline, `most` of them, and memory over the same time where the timeline asks for it."""
    unit, bars = view.time_unit or "", timeline.bars[:most]
    shapes: dict[str, list[Shape]] = {lane: [] for lane in timeline.lanes}
    for bar in bars:
        title = f"{bar.title}, {bar.lane}: {number(bar.start)} to {number(bar.end)} {unit}".rstrip()
        ink = timeline.palette[bar.colour]
        shapes[bar.lane].append(Shape(bar.start, bar.end, ink, title, bar.label, bar.short))
    notes, end = [timeline.summary] if timeline.summary else [], timeline.end
    if len(bars) < len(timeline.bars):
        notes.append(f"the first {len(bars)} of {len(timeline.bars)} tasks are drawn")
        end = max(bar.end for bar in bars)
    tasks = Lanes(
        timeline.title,
        measured("time", view.time_unit),
        tuple(Lane(view.named(lane, MOST_NAMED), own) for lane, own in shapes.items()),
        end,
        timeline.start,
        {timeline.colours[i]: timeline.palette[i] for i in timeline.explained},
        _repetitions(timeline),
        tuple(notes),
        is_over_time=True,
    )
    if not timeline.over_memory or not view.memory:
        return tasks
    memory = memory_over_time(view.memory, view)
    return replace(tasks, lanes=tasks.lanes + memory.lanes, colours={**tasks.colours, **memory.colours})


def _repetitions(timeline: Timeline) -> dict[str, list[float]]:
    """From when on everything repeats, and where periods begin."""
    rules = {}
    if timeline.steady is not None:
        rules[f"from {number(timeline.steady)} on everything repeats"] = [timeline.steady]
    if timeline.period:
        first, last = math.ceil(timeline.start / timeline.period), int(timeline.end / timeline.period)
        if last - first <= MOST_PERIODS:
            rules["a period begins"] = [timeline.period * i for i in range(first, last + 1)]
    return rules


# ---- memory over time ------------------------------------------------------------------------------------


def memory_over_time(curves: Sequence[Curve], view: PlanView) -> Lanes:
    """A lane for each device. It is as high as its limit, or else as the highest amount of all."""
    terms = dict.fromkeys(term for curve in curves for term, amounts in curve.terms.items() if any(amounts))
    colours = {term: MEMORY.get(term) or colour(i) for i, term in enumerate(terms)}
    most = max(max(*curve.totals, curve.limit or 0.0) for curve in curves)
    lanes = []
    for curve in curves:
        top = (most if curve.limit is None else max(*curve.totals, curve.limit)) or 1.0
        level = None if curve.limit is None else curve.limit / top
        value, spans = _in_words(curve, view, most)
        shapes = [*_layers(curve, colours, top), *spans]
        lanes.append(Lane(curve.name, shapes, value, level=level, height=HIGH))
    start, end = min(curve.times[0] for curve in curves), max(curve.end for curve in curves)
    axis = measured("time", view.time_unit)
    return Lanes("Memory of each device over time", axis, tuple(lanes), end, start, colours, is_over_time=True)


def _spans(curve: Curve) -> list[tuple[float, float]]:
    return list(zip(curve.times, (*curve.times[1:], curve.end), strict=True))


def _layers(curve: Curve, colours: Mapping[str, str], top: float) -> Iterator[Shape]:
    """The uses of the memory, one upon the other."""
    below = [0.0] * len(curve.times)
    for term, amounts in curve.terms.items():
        above = [low + amount for low, amount in zip(below, amounts, strict=True)]
        steps = zip(_spans(curve), below, above, strict=True)
        for (low, high), alike in groupby(steps, key=lambda step: step[1:]):
            spans = [span for span, *_ in alike]
            if high > low and spans[-1][1] > spans[0][0]:
                yield Shape(spans[0][0], spans[-1][1], colours[term], low=low / top, high=high / top)
        below = above


def _in_words(curve: Curve, view: PlanView, most: float) -> tuple[str, list[Shape]]:
    """Words on the peak, and on each span of time in which nothing changes."""
    factor, unit = view.memory_unit.scale(most)
    of = "" if curve.limit is None else f" of {number(curve.limit / factor)}"
    value = f"memory up to {number(max(curve.totals) / factor)}{of} {unit}".rstrip()
    if len(curve.times) > MOST_SPANS:
        return value, [Shape(curve.times[0], curve.end, None, f"{curve.name}: {value}")]
    spans: list[Shape] = []
    for i, (start, end) in enumerate(_spans(curve)):
        told = ", ".join(f"{term} {number(all_[i] / factor)}" for term, all_ in curve.terms.items() if all_[i])
        amount = f"{number(curve.totals[i] / factor)} {unit}".rstrip()
        when = f"from {number(start)} to {number(end)} {view.time_unit or ''}".rstrip()
        title = f"{curve.name}: {amount} {when}" + (f" ({told})" if told else "")
        spans += [Shape(start, end, None, title)] if end > start else []
    return value, spans


# ---- amounts and their parts -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Amount:
    """A named amount that consists of parts, with a limit where it has one."""

    name: str
    parts: Mapping[str, float]
    limit: float | None = None
    is_slowest: bool = False


def amount_lanes(amounts: Sequence[Amount], title: str, what: str, unit: str) -> Lanes:
    """A lane for each amount; parts of the same name have the same colour in all charts."""
    names = dict.fromkeys(name for amount in amounts for name, size in amount.parts.items() if size > 0)
    colours = {name: MEMORY.get(name) or LOADS.get(name) or colour(i) for i, name in enumerate(names)}
    lanes = tuple(_amount_lane(amount, colours, unit) for amount in amounts)
    ends = (max(math.fsum(amount.parts.values()), amount.limit or 0.0) for amount in amounts)
    meanings = colours if len(colours) > 1 else {}
    return Lanes(title, measured(what, unit), lanes, max(ends, default=0.0) or 1.0, colours=meanings)


def _amount_lane(amount: Amount, colours: Mapping[str, str], unit: str) -> Lane:
    parts = {name: size for name, size in amount.parts.items() if size > 0}
    places = pairwise(accumulate(parts.values(), initial=0.0))
    shapes = [
        Shape(*place, colours[name], f"{amount.name}: {name} {number(size)} {unit}".rstrip())
        for place, (name, size) in zip(places, parts.items(), strict=True)
    ]
    limit = f" of {number(amount.limit)}" if amount.limit else ""
    value = f"{number(math.fsum(amount.parts.values()))}{limit} {unit}".rstrip()
    return Lane(amount.name, shapes, value, amount.limit or None, is_slowest=amount.is_slowest)


def load_lanes(view: PlanView) -> Lanes:
    """The loads of all rows by part, up to the load that the pace is measured by."""
    amounts = [
        Amount(row.named(table.item, MOST_NAMED), row.parts, is_slowest=row.slowest)
        for table in view.tables
        for row in table.rows
    ]
    lanes = amount_lanes(amounts, f"Load of each {view.each or view.tables[0].what}", "load", view.unit or "")
    return replace(lanes, end=max(lanes.end, view.full_load))


def memory_lanes(tables: Sequence[Table], unit: MemoryUnit = IN_BYTES) -> Lanes | None:
    """The memory of all rows that have any, by what it is for; None where none has."""
    rows = [row for table in tables for row in table.rows if row.memory]
    if not rows:
        return None
    factor, name = unit.scale(max(max(row.memory_held or 0.0, row.limit or 0.0) for row in rows))
    amounts = [
        Amount(
            row.title,
            {name: amount / factor for name, amount in (row.memory or {}).items()},
            row.limit and row.limit / factor,
            row.slowest,
        )
        for row in rows
    ]
    return amount_lanes(amounts, f"Memory of a device of each {tables[0].what}", "memory", name)
