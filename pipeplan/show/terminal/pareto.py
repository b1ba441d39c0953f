"""The curves of `plan pareto` as tables: a line for each limit, and for chains a column for each method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...studies.pareto.chains import EXACT_METHODS
from ...studies.pareto.curve import Curve, CurvePoint, Ends
from ...studies.pareto.export import by_memory, verdict
from ..console import clean, columns, new_table, out
from ..words import IN_BYTES, MemoryUnit, Times, amount_or, memory_unit, percent, several

# One fewer than elsewhere, so that the usual methods of chains fit into 80 columns.
DIGITS = 6
LEGEND = "*: proven; %: gap to the bound; -: no plan"


def draw_chains(curve: Curve) -> None:
    """Print periods per batch with their verdicts, and what the ends of the curves are."""
    problem, memory = curve.problem, _memory(curve, IN_BYTES)
    times = Times.of((point.value for point in curve.points), problem.time_unit)
    methods = list(dict.fromkeys(point.method for point in curve.points))
    titles = (
        "memory",
        *(title for method in methods for title in ([method, "gap"] if method in EXACT_METHODS else [method])),
    )
    rows = [
        [memory.text(level), *(cell for method in methods for cell in _period(points.get(method), method, times))]
        for level, points in by_memory(curve)
    ]
    what = f"{several(problem.layers, 'layer')}, {several(problem.gpus, 'GPU')}; period per batch"
    sentences = _ends_in_memory(curve, memory, "pattern", "period ", lambda ends: "not proven")
    _draw(curve, what, times, titles, rows, f"{LEGEND}; 2x: repeats itself after 2 batches", sentences)


def _period(point: CurvePoint | None, method: str, times: Times) -> list[str]:
    if point is None:
        text = ""
    elif point.value is None:
        text = _none(point)
    else:
        count = point.batches_per_period or 1
        text = f"{count}x " * (count > 1) + times.text(point.value, digits=DIGITS)
    return [text, verdict(point)] if method in EXACT_METHODS else [text]


def draw_stagings(curve: Curve) -> None:
    """Print the best value in each memory, that of an even split, and what the ends of the curve are."""
    problem = curve.problem
    what = f"{several(len(problem.layers), 'layer')}, {several(problem.devices, 'device')}; time per micro-batch"
    _draw_in_memory(curve, what, IN_BYTES, "even split", "plan", LEGEND)


def draw_schedules(curve: Curve) -> None:
    """Print the best value in each memory, the share of time that devices idle, and what the ends of the curve are."""
    problem, count = curve.problem, curve.problem.micro_batches
    sizes = f"{several(len(problem.devices), 'device')}, {several(len(problem.blocks), 'block')}"
    batches = "" if count is None else f", {several(count, 'micro-batch')}"
    what = f"{sizes}{batches}; {curve.settings.options['objective']}"
    legend = "*: proven; %: gap to the bound; -: no schedule, or no named rule made for this shape and memory"
    _draw_in_memory(curve, what, memory_unit(problem.memory_unit), "best rule", "schedule", legend, idle=True)


def draw_trainings(curve: Curve) -> None:
    """Print the best time on each number of GPUs, and how much more GPU time it takes than on the fewest."""
    problem = curve.problem
    times = Times.of((point.value for point in curve.points), problem.time_unit)
    costs = [point.value * point.need for point in curve.points if point.value is not None and point.need]
    rows = []
    for point in curve.points:
        cost = None if point.value is None or point.need is None else point.value * point.need
        more = "" if cost is None else percent(cost / costs[0] - 1)
        value = [times.text(point.value, _none(point)), verdict(point), times.text(point.bound, "")]
        used = "" if point.need is None else f"{point.need:g}"
        rows.append([f"{point.limit:g}", *value, used, more, _seconds(point)])
    titles = ("GPUs", "value", "gap", "bound", "used", "GPU time", "seconds")
    what = f"{problem.model.name}, {several(len(problem.model.units), 'unit')}; time of an iteration"
    legend = f"{LEGEND}; GPU time: more than with the fewest GPUs"
    _draw(curve, what, times, titles, rows, legend, ())


def _draw_in_memory(
    curve: Curve, what: str, unit: MemoryUnit, rival: str, plan: str, legend: str, idle: bool = False
) -> None:
    """Print a curve over memory beside its rival; `plan` is the noun for a plan, `idle` adds the idle share."""
    memory = _memory(curve, unit)
    times = Times.of(
        (time for point in curve.points for time in (point.value, point.rival)), curve.problem.time_unit
    )
    titles = ("memory", "value", "gap", "bound", *(["idle"] * idle), "needs", rival, "seconds")
    rows = []
    for point in curve.points:
        value = [times.text(point.value, _none(point)), verdict(point), times.text(point.bound, "")]
        bubble = ["" if point.bubble is None else percent(point.bubble)] * idle
        need = "" if point.need is None else memory.text(point.need)
        rows.append([memory.text(point.limit), *value, *bubble, need, times.text(point.rival), _seconds(point)])
    sentences = _ends_in_memory(
        curve, memory, plan, "", lambda ends: f"none exists with less than {memory.text(ends.lower)}"
    )
    _draw(curve, what, times, titles, rows, legend, sentences)


def _ends_in_memory(
    curve: Curve, memory: MemoryUnit, plan: str, value: str, open_least: Callable[[Ends], str]
) -> list[str]:
    """Lines on both ends of a curve over memory; `open_least` says what is known of a least memory without proof."""
    ends, unit = curve.ends, curve.problem.time_unit
    if ends is None:
        return []
    least = "proven" if ends.least_proven else open_least(ends)
    free = "proven" if ends.best_proven else f"bound {amount_or(ends.bound, unit, 'unknown')}"
    best = f"{value}{amount_or(ends.best.value, unit)} ({free}), found with {memory.text(ends.best.need)}"
    return [
        f"smallest memory with any {plan}: {memory.text(ends.least.need)} ({least})",
        f"without a limit: {best}",
    ]


def _memory(curve: Curve, unit: MemoryUnit) -> MemoryUnit:
    return unit.like(point.limit for point in curve.points)


def _none(point: CurvePoint) -> str:
    return "-*" if point.certified else "-"


def _seconds(point: CurvePoint) -> str:
    return f"{point.seconds:.1f}"


def _draw(
    curve: Curve,
    what: str,
    times: Times,
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    legend: str,
    sentences: Iterable[str],
) -> None:
    page, table = out(), new_table()
    page.print(clean(f"{curve.problem.name}: {what}{times.inside}"), soft_wrap=True)
    columns(table, ",".join(titles))
    for row in rows:
        table.add_row(*row)
    page.print(table)
    page.print(legend)
    for sentence in sentences:
        page.print(sentence, soft_wrap=True)
