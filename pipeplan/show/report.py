"""The report of one result: everything about the plan is recomputed, and the claims of the method stand beside it.

It shows tables, loads and memory as bars, memory over time, the graph, and what runs when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from ..instances.base.errors import InputError
from ..instances.base.kind import Rules, Samples
from ..instances.base.result import Asked, Moment, Result
from ..instances.chain.plan import unknown_allocation
from ..instances.physics.optimizers import OPTIMIZERS, copies_by
from ..instances.registry import Plan, Problem
from ..planners.referee import rules_of
from ..planners.run.claims import Recomputed, check_same_problem, recompute
from .answer import answer, command_of, describe_iteration, options_of, run_facts
from .lanes import from_zero, load_lanes, memory_lanes, memory_over_time, number, timeline_lanes
from .page import (
    MOST_TASKS,
    Line,
    chart,
    data,
    details,
    facts,
    lanes_chart,
    legend,
    line_chart,
    listed,
    mark,
    page,
    paragraph,
    published,
    scrolled,
    section,
    swatch,
    table,
    tag,
    zoom,
)
from .palette import colour
from .pictures import history_points
from .view import Graph, PlanView, Table, Timeline, assumptions, module_of, view_of
from .views.simulated import first_micro_batches
from .words import amount, measured, plain, several

# ---- what is shown of a plan ----------------------------------------------------------------------------------


# A graph with more nodes is not drawn.
MOST_NODES = 1500
# Distances between levels and between nodes, the radius of a node, and the margin.
STEP_X, STEP_Y, RADIUS, MARGIN = 26.0, 20.0, 7.0, 14.0
LEAST_WIDTH = 640.0
# The most levels side by side; the others follow below, as lines of text do.
PER_ROW = 40
# Rounds in which nodes are ordered by their neighbours within the levels.
SWEEPS = 4


def sections(problem: Problem, plan: Plan, view: PlanView) -> list[Element]:
    """The sections of a plan: tables, timeline, loads, memory, graph. Where the plan fixes no times, an iteration is
    simulated, if it can be run."""
    timelines, curves = (view.timelines, view.memory) if view.timelines else first_micro_batches(problem, plan)
    memory, drawn = memory_lanes(view), None if view.graph is None else graph(view.graph)
    over_time = () if timelines[-1:] and timelines[-1].over_memory else curves
    return [
        *(section(f"{part.what[0].upper()}{part.what[1:]}s", plan_table(view, part)) for part in view.tables),
        *(timeline_section(line, view) for line in timelines[-1:] if line.bars),
        section("Loads", lanes_chart(load_lanes(view)), *map(_parts, view.tables)),
        *([] if memory is None else [section("Memory", lanes_chart(memory))]),
        *([section("Memory over time", lanes_chart(memory_over_time(over_time, view)))] if over_time else []),
        *([] if drawn is None else [section("Graph", drawn)]),
    ]


def timeline_section(line: Timeline, view: PlanView, title: str = "", name: str = "gantt") -> Element:
    return section(title or line.title, lanes_chart(timeline_lanes(line, view, MOST_TASKS)), name=name)


def plan_table(view: PlanView, part: Table) -> Element:
    columns = part.columns(part.rows, view.memory_unit)
    for title in part.parts:
        columns.pop(title, None)
    for title in dict.fromkeys(title for row in part.rows for title in row.told):
        columns[title] = [row.told.get(title, "") for row in part.rows]
    head = [f"load {view.unit or ''}".rstrip() if title == "load" else title for title in columns]
    legend = "; ".join(filter(None, ["Recomputed by the referee", view.legend]))
    return table(head, list(zip(*columns.values(), strict=True)), legend)


def _parts(part: Table) -> Element | None:
    """The parts of the loads, in numbers; None where a load has one part."""
    if len(part.parts) < 2:
        return None
    rows = [
        [row.title, plain(row.load), *(plain(row.parts.get(name, 0.0), 3) for name in part.parts)]
        for row in part.rows
    ]
    return details("As a table", table([part.what, "load", *part.parts], rows))


# ---- the graph -------------------------------------------------------------------------------------------


def graph(picture: Graph) -> Element | None:
    """Levels from left to right, row after row; None where the graph is too large to be looked at."""
    count = len(picture.labels)
    if count > MOST_NODES:
        return None
    places = _places(count, picture.edges)
    drawn = [tag("path", {"class": "edge", "d": _curve(places[u], places[v])}) for u, v in picture.edges]
    for i, (x, y) in enumerate(places):
        title = f"{picture.labels[i]}: {picture.groups[picture.group_of[i]]}"
        shape = {"cx": x, "cy": y, "r": RADIUS, "fill": colour(picture.group_of[i])}
        drawn.append(mark("circle", shape, title))
    width = max(x for x, _ in places) + MARGIN
    height = max(y for _, y in places) + MARGIN
    size = {"class": "graph", "viewBox": f"0 0 {max(width, LEAST_WIDTH):g} {height:g}"}
    description = {"role": "group", "aria-label": picture.title}
    groups = legend((swatch(colour(i)), name) for i, name in enumerate(picture.groups))
    drawing = scrolled(tag("svg", {**size, **description}, *drawn))
    return chart(drawing, picture.title, groups, _note(picture), above=zoom())


def _note(picture: Graph) -> Element:
    """A note that nothing is missing, and on how the picture is read."""
    count, edges = several(len(picture.labels), "node"), several(len(picture.edges), "edge")
    words = f"all {count} and {edges}, from left to right, as lines of text where they do not fit into one"
    return tag("div", {"class": "note"}, f"{words}; zoomed in, the graph scrolls sideways")


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (u, v) = start, end
    bend = (u - x) / 2
    return f"M{x:.1f},{y:.1f} C{x + bend:.1f},{y:.1f} {u - bend:.1f},{v:.1f} {u:.1f},{v:.1f}"


def _places(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Place of each node: levels from left to right, `PER_ROW` of them in a row, each in the middle of its row."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for u, v in edges:
        before[v].append(u)
        after[u].append(v)
    level = _levels(before, after)
    columns: list[list[int]] = [[] for _ in range(max(level, default=0) + 1)]
    for i in range(count):
        columns[level[i]].append(i)
    rank = _ranks(columns, before, after)
    places = [(0.0, 0.0)] * count
    top = MARGIN
    for first in range(0, len(columns), PER_ROW):
        row = columns[first : first + PER_ROW]
        tallest = max(len(column) for column in row)
        for x, column in enumerate(row):
            shift = (tallest - len(column)) / 2
            for i in column:
                places[i] = (MARGIN + STEP_X * x, top + STEP_Y * (rank[i] + shift))
        top += STEP_Y * (tallest + 1)
    return places


def _levels(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """Length of the longest path to each node; nodes on a cycle keep the level that they have reached."""
    waiting = [len(sources) for sources in before]
    level = [0] * len(before)
    ready = [i for i, count in enumerate(waiting) if not count]
    for i in ready:
        for j in after[i]:
            level[j] = max(level[j], level[i] + 1)
            waiting[j] -= 1
            if not waiting[j]:
                ready.append(j)
    return level


def _ranks(
    columns: list[list[int]], before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> dict[int, int]:
    """The place of each node within its level, by the mean place of its neighbours, so that few edges cross."""
    rank = {i: r for column in columns for r, i in enumerate(column)}
    for sweep in range(SWEEPS):
        near = before if sweep % 2 == 0 else after
        for column in columns if sweep % 2 == 0 else reversed(columns):
            middle = {i: sum(rank[j] for j in near[i]) / len(near[i]) if near[i] else rank[i] for i in column}
            column.sort(key=lambda i: (middle[i], rank[i]))
            rank.update({i: r for r, i in enumerate(column)})
    return rank


# ---- the page -------------------------------------------------------------------------------------------------


def result_page(problem: Problem, result: Result, samples: Samples | None = None) -> str:
    """One HTML page, of recomputed figures. The plan must be of the problem: a result about another one is refused.
    `samples`: what a micro-batch is, where that is known."""
    _check(problem, result)
    rules = rules_of(problem, result.options)
    unit = problem.time_unit or ""
    anew = recompute(problem, result)
    view = None if result.plan is None or not anew.result.verified else view_of(problem, result.plan, rules)
    parts = [_head(problem, anew, view, rules, samples)]
    if result.plan is not None and view is not None:
        parts += sections(problem, result.plan, view)
    parts += _choices(problem, anew.result)
    parts += [_problem(problem, result, rules), section("Run", facts(_run(anew.result, unit)))]
    if len(result.history) > 1:
        parts.append(section("Search", _search_curve(result.history, unit)))
    if result.messages:
        parts.append(section("Messages", listed(result.messages)))
    parts += [section("Options", facts(options_of(result).items())), data("The result as JSON", result)]
    return page(f"{problem.name}: {result.formulation or result.planner}", parts)


def _choices(problem: Problem, result: Result) -> list[Element]:
    """The shortlist and the judged configurations of a training; other kinds have no such lists."""
    if result.choices is None:
        return []
    from ..instances.training.problem import TrainingProblem  # needed for trainings alone
    from ..studies.configure.result import stored_answer
    from .configurations import choice_sections

    stored = stored_answer(problem, result) if isinstance(problem, TrainingProblem) else None
    return [] if stored is None else choice_sections(stored)


def _check(problem: Problem, result: Result) -> None:
    check_same_problem(problem, result)
    if result.plan is not None and not isinstance(result.plan, rules_of(problem, result.options).plan_type):
        raise InputError("plan.kind", f"is {result.plan.kind}", f"give a plan for a {problem.kind} problem")


def _problem(problem: Problem, result: Result, rules: Rules) -> Element:
    """The model and the cluster, and what the costs rest on."""
    named_facts = {"name": problem.name, **module_of(problem).facts(problem)}
    rests_on = (*_of_the_table(result.asked), *assumptions(problem, rules))
    return section("Problem", facts(named_facts.items()), tag("h3", None, "Assumptions"), listed(rests_on))


def _of_the_table(asked: Asked | None) -> Iterable[str]:
    """Sentences on how a profile or table was read, and with which optimizer."""
    if asked is None:
        return
    optimizer = asked.cluster.get("optimizer")
    if isinstance(optimizer, str) and optimizer in OPTIMIZERS:
        yield f"memory counts {copies_by(0, optimizer).whole:g} copies of the parameters (--optimizer {optimizer})"
    yield from asked.notes


def _head(
    problem: Problem, anew: Recomputed, view: PlanView | None, rules: Rules, samples: Samples | None
) -> Element:
    """The top of the page: the answer in words, whether the referee agrees, and the command."""
    words, result = [tag("h1", None, problem.name)], anew.result
    words.append(paragraph(answer(problem, result, view, rules), "answer"))
    iteration = None if view is None or result.plan is None else describe_iteration(problem, result.plan, samples)
    if iteration is not None:
        words.append(paragraph(iteration.in_words(), "note"))
    among = "" if result.scope is None else f" among {result.scope}"
    if result.plan is None:
        words.append(paragraph(f"No plan: {result.stop}{among}", "verdict no"))
    elif result.objective is None:
        words.append(paragraph(f"Verified: no, {len(result.violations)} violations", "verdict no"))
        words.append(listed(result.violations))
    else:
        value = amount(result.objective, problem.time_unit)
        words.append(paragraph(f"Verified: yes. The referee recomputed the value {value}.", "verdict yes"))
    if anew.differences:
        words.append(paragraph("The file claims otherwise:", "verdict no"))
        words.append(listed(anew.differences))
    command = command_of(result)
    if command is not None:
        words.append(paragraph(tag("code", None, command), "note"))
    words.append(published())
    return tag("header", None, *words)


def _run(result: Result, unit: str) -> list[tuple[str, object]]:
    return [
        *run_facts(result, unit).items(),
        ("claimed", None if result.claimed is None else amount(result.claimed, unit)),
        *(("allocation", text) for text in [unknown_allocation(result.options.get("allocation"))] if text),
        ("instance hash", result.problem.get("hash")),
    ]


def _search_curve(history: tuple[Moment, ...], unit: str) -> Element:
    """How incumbent and bound met, as the method claimed while it ran."""
    lines = []
    for name, points in history_points(history).items():
        end = (history[-1].seconds, points[-1][1])
        lines.append(Line.of(name, (*points, end) if points[-1] != end else points, steps=True))
    rows = [[number(m.seconds), _short(m.incumbent), _short(m.bound)] for m in history]
    values = [spot.y for line in lines for spot in line.spots]
    low = from_zero(min(values), max(values))
    chart = line_chart(lines, "Incumbent and bound over time", "time (s)", measured("value", unit), low)
    return tag("div", None, chart, details("As a table", table(["seconds", "incumbent", "bound"], rows)))


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.7g}"
