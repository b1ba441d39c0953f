"""Whole pages: the report of a result, whose figures are all recomputed, with the claims of the method beside them; and
the page that explores a pipeline.

A page holds what a terminal says, and more of it; its frame and its charts are `page.py`'s. The rules of the explorer
are those of the simulator, written once more in `assets/pipeline.js`; tests compare the two."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, fromstring

from ..instances.base.errors import InputError
from ..instances.base.graph import adjacency, in_turn
from ..instances.base.kind import Rules, Samples
from ..instances.base.result import Asked, Moment, Result
from ..instances.physics.optimizers import OPTIMIZERS, copies_by
from ..instances.registry import Plan, Problem
from ..planners.referee import rules_of
from ..planners.run.claims import Recomputed, check_same_problem, recompute
from . import page as html
from .answer import answer, cluster_words, describe_iteration, options_of, run_facts
from .lanes import from_zero, load_lanes, memory_lanes, memory_over_time, number, ranks, timeline_lanes
from .pictures import history_points
from .views import Graph, PlanView, Table, assumptions, colour, first_micro_batches, module_of, view_of
from .words import amount, measured, plain, several

# ---- what is shown of a plan ----------------------------------------------------------------------------------


# A graph with more nodes is not drawn: it is too large to be looked at.
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
    over_time = memory_over_time(curves, view) if curves and not (timelines and timelines[-1].over_memory) else None
    parts = [
        html.section(f"{part.what[0].upper()}{part.what[1:]}s", plan_table(view, part)) for part in view.tables
    ]
    for line in timelines[-1:]:
        if line.bars:
            chart = html.lanes_chart(timeline_lanes(line, view, html.MOST_TASKS))
            parts.append(html.section(line.title, chart, name="gantt"))
    parts.append(html.section("Loads", html.lanes_chart(load_lanes(view)), *map(_parts, view.tables)))
    for title, lanes in (("Memory", memory_lanes(view.tables, view.memory_unit)), ("Memory over time", over_time)):
        if lanes is not None:
            parts.append(html.section(title, html.lanes_chart(lanes)))
    if view.graph is not None and len(view.graph.labels) <= MOST_NODES:
        parts.append(html.section("Graph", graph(view.graph)))
    return parts


def plan_table(view: PlanView, part: Table) -> Element:
    columns = part.columns(part.rows, view.memory_unit)
    for title in part.parts:
        columns.pop(title, None)
    for title in dict.fromkeys(title for row in part.rows for title in row.told):
        columns[title] = [row.told.get(title, "") for row in part.rows]
    head = [f"load {view.unit or ''}".rstrip() if title == "load" else title for title in columns]
    legend = "; ".join(filter(None, ["Recomputed by the referee", view.legend]))
    return html.table(head, list(zip(*columns.values(), strict=True)), legend)


def _parts(part: Table) -> Element | None:
    """The parts of the loads, in numbers; None where a load has one part."""
    if len(part.parts) < 2:
        return None
    rows = [
        [row.title, plain(row.load), *(plain(row.parts.get(name, 0.0), 3) for name in part.parts)]
        for row in part.rows
    ]
    return html.details("As a table", html.table([part.what, "load", *part.parts], rows))


# ---- the graph -------------------------------------------------------------------------------------------


def graph(picture: Graph) -> Element:
    """Levels from left to right, row after row."""
    count = len(picture.labels)
    places = _places(count, picture.edges)
    drawn = [html.tag("path", {"class": "edge", "d": _curve(places[u], places[v])}) for u, v in picture.edges]
    for i, (x, y) in enumerate(places):
        title = f"{picture.labels[i]}: {picture.groups[picture.group_of[i]]}"
        shape = {"cx": x, "cy": y, "r": RADIUS, "fill": colour(picture.group_of[i])}
        drawn.append(html.mark("circle", shape, title))
    width = max(x for x, _ in places) + MARGIN
    height = max(y for _, y in places) + MARGIN
    size = {"class": "graph", "viewBox": f"0 0 {max(width, LEAST_WIDTH):g} {height:g}"}
    description = {"role": "group", "aria-label": picture.title}
    groups = html.legend((html.swatch(colour(i)), name) for i, name in enumerate(picture.groups))
    drawing = html.scrolled(html.tag("svg", {**size, **description}, *drawn))
    nodes, edges = several(count, "node"), several(len(picture.edges), "edge")
    words = f"all {nodes} and {edges}, from left to right, as lines of text where they do not fit into one"
    note = html.tag("div", {"class": "note"}, f"{words}; zoomed in, the graph scrolls sideways")
    return html.chart(drawing, picture.title, groups, note, above=html.zoom())


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (u, v) = start, end
    bend = (u - x) / 2
    return f"M{x:.1f},{y:.1f} C{x + bend:.1f},{y:.1f} {u - bend:.1f},{v:.1f} {u:.1f},{v:.1f}"


def _places(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Place of each node: levels from left to right, `PER_ROW` of them in a row, each in the middle of its row."""
    level = _levels(count, edges)
    rank = ranks(level, edges, SWEEPS)
    sizes = Counter(level)
    places, top = [(0.0, 0.0)] * count, MARGIN
    for first in range(0, max(level, default=0) + 1, PER_ROW):
        tallest = max(sizes[x] for x in range(first, first + PER_ROW))
        for i in (i for i in range(count) if first <= level[i] < first + PER_ROW):
            shift = (tallest - sizes[level[i]]) / 2
            places[i] = (MARGIN + STEP_X * (level[i] - first), top + STEP_Y * (rank[i] + shift))
        top += STEP_Y * (tallest + 1)
    return places


def _levels(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Length of the longest path to each node; nodes on a cycle keep the level that they have reached."""
    after, level = adjacency(count, edges), [0] * count
    for i in in_turn(after, list.pop):
        for j in after[i]:
            level[j] = max(level[j], level[i] + 1)
    return level


# ---- the page -------------------------------------------------------------------------------------------------


def result_page(problem: Problem, result: Result, samples: Samples | None = None) -> str:
    """One HTML page, of recomputed figures. The plan must be of the problem: a result about another one is refused.
    `samples`: what a micro-batch is, where that is known."""
    check_same_problem(problem, result)
    if result.plan is not None and not isinstance(result.plan, rules_of(problem, result.options).plan_type):
        raise InputError("plan.kind", f"is {result.plan.kind}", f"give a plan for a {problem.kind} problem")
    rules = rules_of(problem, result.options)
    unit = problem.time_unit or ""
    anew = recompute(problem, result)
    view = None if result.plan is None or not anew.result.verified else view_of(problem, result.plan, rules)
    parts = [_head(problem, anew, view, rules, samples)]
    if result.plan is not None and view is not None:
        parts += sections(problem, result.plan, view)
    parts += _choices(problem, anew.result)
    named = {"name": problem.name, **module_of(problem).facts(problem)}
    rests_on = html.tag("h3", None, "Assumptions"), html.listed(_assumptions(problem, result, rules))
    own = anew.result
    told = run_facts(own, unit) | {"claimed": None if own.claimed is None else amount(own.claimed, unit)}
    told |= {"asked for": shlex.join((result.asked.instance, *cluster_words(result.asked)))} if result.asked else {}
    parts.append(html.section("Problem", html.facts(named.items()), *rests_on))
    parts.append(html.section("Run", html.facts({**told, "instance hash": own.problem.get("hash")}.items())))
    if len(result.history) > 1:
        parts.append(html.section("Search", _search_curve(result.history, unit)))
    if result.messages:
        parts.append(html.section("Messages", html.listed(result.messages)))
    parts += [
        html.section("Options", html.facts(options_of(result).items())),
        html.data("The result as JSON", result),
    ]
    return html.page(f"{problem.name}: {result.formulation or result.planner}", parts)


def _choices(problem: Problem, result: Result) -> list[Element]:
    """The shortlist and the judged configurations of a training; other kinds have no such lists."""
    if result.choices is None:
        return []
    from ..instances.training.problem import TrainingProblem  # needed for trainings alone
    from ..studies.configure.result import stored_answer
    from .views.training import choice_sections

    stored = stored_answer(problem, result) if isinstance(problem, TrainingProblem) else None
    return [] if stored is None else choice_sections(stored)


def _assumptions(problem: Problem, result: Result, rules: Rules) -> Iterator[str]:
    """Sentences on how a profile or table was read, and with which optimizer, and on what the costs rest."""
    asked = result.asked or Asked("")
    optimizer = asked.cluster.get("optimizer")
    if isinstance(optimizer, str) and optimizer in OPTIMIZERS:
        yield f"memory counts {copies_by(0, optimizer).whole:g} copies of the parameters (--optimizer {optimizer})"
    yield from (*asked.notes, *assumptions(problem, rules))


def _head(
    problem: Problem, anew: Recomputed, view: PlanView | None, rules: Rules, samples: Samples | None
) -> Element:
    """The top of the page: the answer in words, whether the referee agrees, and the command."""
    result, words = anew.result, [html.paragraph(answer(problem, anew.result, view, rules), "answer")]
    iteration = None if view is None or result.plan is None else describe_iteration(problem, result.plan, samples)
    if iteration is not None:
        words.append(html.paragraph(iteration.in_words(), "note"))
    if result.plan is None:
        among = "" if result.scope is None else f" among {result.scope}"
        words.append(html.paragraph(f"No plan: {result.stop}{among}", "verdict no"))
    elif result.objective is None:
        words.append(html.paragraph(f"Verified: no, {len(result.violations)} violations", "verdict no"))
        words.append(html.listed(result.violations))
    else:
        value = amount(result.objective, problem.time_unit)
        words.append(html.paragraph(f"Verified: yes. The referee recomputed the value {value}.", "verdict yes"))
    if anew.differences:
        words += [html.paragraph("The file claims otherwise:", "verdict no"), html.listed(anew.differences)]
    return html.header(problem.name, *words, html.published())


def _search_curve(history: tuple[Moment, ...], unit: str) -> Element:
    """How incumbent and bound met, as the method claimed while it ran."""
    lines = []
    for name, points in history_points(history).items():
        end = (history[-1].seconds, points[-1][1])
        lines.append(html.Line.of(name, (*points, end) if points[-1] != end else points))
    rows = [
        [number(m.seconds), *("" if value is None else f"{value:.7g}" for value in (m.incumbent, m.bound))]
        for m in history
    ]
    values = [value for line in lines for _, value in line.points]
    low = from_zero(min(values), max(values))
    chart = html.line_chart(lines, "Incumbent and bound over time", "time (s)", measured("value", unit), low)
    table = html.table(["seconds", "incumbent", "bound"], rows)
    return html.tag("div", None, chart, html.details("As a table", table))


# ---- the page that explores a pipeline -------------------------------------------------------------------------


def explore_page() -> str:
    """The page about schedules of equal stages: its words stand in `explore.html`, its proofs in `frontier.json`."""
    body = fromstring(html.asset("explore.html"))
    body.append(html.tag("script", {"id": "grid", "type": "application/json"}, html.asset("frontier.json")))
    scripts = ["shared.js", "pipeline.js", "frontier.js", "explore.js"]
    return html.page("Explore pipeline schedules", body, styles=["explore.css"], scripts=scripts)
