"""Whole pages: the report of a result, whose figures are all recomputed, with the claims of the method beside them; and
the page that explores a pipeline.

A page holds what a terminal says, and more of it; its frame and its charts are `page.py`'s. The rules of the explorer
are those of the simulator, written once more in `assets/pipeline.js`; tests compare the two."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from xml.etree.ElementTree import Element

from ..instances.base.errors import InputError
from ..instances.base.graph import adjacency, in_turn
from ..instances.base.kind import Rules, Samples
from ..instances.base.quantities import GIB
from ..instances.base.result import Asked, Moment, Result
from ..instances.physics.optimizers import OPTIMIZERS, copies_by
from ..instances.registry import Plan, Problem
from ..planners.referee import rules_of
from ..planners.run.claims import Recomputed, check_same_problem, recompute
from . import page as html
from .answer import answer, cluster_words, describe_iteration, options_of, run_facts
from .lanes import from_zero, load_lanes, memory_lanes, memory_over_time, number, ranks, timeline_lanes
from .pictures import history_points
from .views import (
    BACKWARD,
    FORWARD,
    TERMS,
    Graph,
    PlanView,
    Table,
    assumptions,
    colour,
    first_micro_batches,
    ink_on,
    module_of,
    view_of,
)
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


Settings = Mapping[str, float | str]

SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "kfkb": "kFkB"}
USUAL_SCHEDULE = "1f1b"
MOST_STAGES, MOST_MICRO_BATCHES = 16, 64


@dataclass(frozen=True, slots=True)
class Slider:
    """A slider. Its steps are powers of two, so that sums in the browser are exact."""

    key: str
    """Key of the setting, in addresses of the page too."""
    name: str
    low: float
    high: float
    step: float
    value: float
    unit: str = ""
    zero: str = ""
    """Words that stand for the value 0."""


STAGES = Slider("stages", "stages", 1, MOST_STAGES, 1, 4)
BATCHES = Slider("batches", "micro-batches", 1, MOST_MICRO_BATCHES, 1, 8)
GROUPS = Slider("k", "k of kFkB", 1, 8, 1, 2)
TIMES = (
    Slider("forward", "forward pass", 0.5, 50, 0.5, 10, "ms"),
    Slider("backward", "backward pass", 0.5, 100, 0.5, 20, "ms"),
    Slider("transfer", "transfer between stages", 0, 20, 0.5, 0, "ms"),
)
SLOW = Slider("slow", "slow stage", 0, MOST_STAGES, 1, 0, zero="none")
FACTOR = Slider("factor", "its passes take", 1, 4, 0.25, 2, "× as long")
MEMORY = (
    Slider("weights", "weights of a stage", 0, 64, 0.25, 4, "GiB"),
    Slider("kept", "activations of a micro-batch", 0, 8, 0.125, 1, "GiB"),
)
LIMIT = Slider("limit", "memory of a device", 1, 192, 1, 16, "GiB")
SLIDERS = (STAGES, BATCHES, GROUPS, *TIMES, SLOW, FACTOR, *MEMORY, LIMIT)

# The settings that the page shows at first.
USUAL: Settings = {"schedule": USUAL_SCHEDULE, **{slider.key: slider.value for slider in SLIDERS}}


@dataclass(frozen=True, slots=True)
class Situation:
    """A situation that a reader should see, with the settings that show it."""

    name: str
    settings: Settings
    see: str


SITUATIONS = (
    Situation(
        "GPipe runs out of memory",
        {**USUAL, "batches": 16, "schedule": "gpipe"},
        "GPipe keeps the activations of all 16 micro-batches: every device needs 20 GiB. Choose 1F1B: the iteration "
        "takes the same 570 ms, and the first device needs 8 GiB, the last one 5 GiB.",
    ),
    Situation(
        "More micro-batches, smaller bubble",
        {**USUAL, "stages": 8, "batches": 4},
        "With four micro-batches eight devices are idle 63.6 % of the time. With 32 micro-batches the bubble is "
        "17.9 %, with 64 it is 9.9 %: to fill and to drain the pipeline takes as long, however many there are.",
    ),
    Situation(
        "One slow stage",
        {**USUAL, "batches": 16, "slow": 3},
        "Stage 3 takes twice as long and the others wait for it: they are busy less than half of the time, and the "
        "iteration takes 1030 ms in place of 570 ms. No schedule mends that; a better split of the layers does.",
    ),
    Situation(
        "Devices wait for slow links",
        {**USUAL, "batches": 32, "transfer": 5},
        "With 1F1B every device waits for transfers: 1310 ms. Choose kFkB with k = 2: 1080 ms, for the first device "
        "holds 8 micro-batches in place of 4 and works on another one meanwhile. It needs 4 GiB more.",
    ),
    Situation(
        "The first device holds the most",
        {**USUAL, "stages": 12, "batches": 24},
        "The first of twelve stages holds twelve micro-batches at once, the last one holds one: 16 GiB against 5 GiB, "
        "for equal stages. That is why a planner gives the first stage fewer layers.",
    ),
)


# Colours of bars by what they show.
INKS = {"forward": FORWARD, "backward": BACKWARD, "weights": TERMS["weights"], "activations": TERMS["kept"]}
TITLE = "Explore a pipeline"


def explore_page() -> str:
    """The page for a pipeline of equal stages, with situations to begin with. Its script reads what is no slider."""
    setup = {
        "timeUnit": "ms",
        "perSecond": 1000,
        "memory": {"bytes": GIB, "unit": "GiB"},
        "situations": [asdict(entry) for entry in SITUATIONS],
        "colours": {name: {"fill": ink, "text": ink_on(ink)} for name, ink in INKS.items()},
    }
    heard = html.tag("div", {"class": "heard", "aria-live": "polite"})
    parts = [
        _explorer_head(),
        html.tag("p", {"id": "refused", "class": "verdict no", "role": "status"}),
        html.tag(
            "noscript", None, html.paragraph("This page computes in the browser; please allow its script to run.")
        ),
        html.tag(
            "div",
            {"class": "explorer"},
            html.tag("div", {"class": "numbers"}, html.paragraph(None, "answer"), html.paragraph(None, "verdict")),
            html.section("Settings", html.tag("div", {"class": "settings"}, *_fields())),
            html.tag("div", None, *_explorer_charts()),
        ),
        heard,
        html.tag("script", {"id": "setup", "type": "application/json"}, json.dumps(setup)),
    ]
    return html.page(TITLE, parts, styles=["explore.css"], scripts=["pipeline.js", "explore.js"])


def _explorer_head() -> Element:
    options = [html.tag("option", {"value": ""}, "settings of your own")]
    options += [html.tag("option", {"value": i}, entry.name) for i, entry in enumerate(SITUATIONS)]
    choice = html.tag("select", {"id": "situation", "autocomplete": "off"}, *options)
    told = "A network in stages, one on each device, and a batch in micro-batches that pass through them."
    situation = html.tag("p", None, html.tag("label", {"for": "situation"}, "Situation "), choice)
    lesson = html.tag("p", {"id": "lesson", "aria-live": "polite"})
    return html.header(TITLE, html.paragraph(told), situation, lesson)


def _fields() -> list[Element]:
    """The sliders in groups, and the choice of a schedule before its k."""
    groups = {"Pipeline": (STAGES, BATCHES, GROUPS), "Time": (*TIMES, SLOW, FACTOR), "Memory": (*MEMORY, LIMIT)}
    fields = [
        html.tag("fieldset", None, html.tag("legend", None, name), *map(_slider, rows))
        for name, rows in groups.items()
    ]
    options = [
        html.tag("option", {"value": key, "selected": "" if key == USUAL_SCHEDULE else None}, name)
        for key, name in SCHEDULES.items()
    ]
    choice = html.tag("select", {"id": "schedule", "data-setting": "schedule", "data-name": "schedule"}, *options)
    schedule = html.tag("div", {"class": "setting"}, html.tag("label", {"for": "schedule"}, "schedule"), choice)
    fields[0].insert(len(fields[0]) - 1, schedule)
    return fields


def _explorer_charts() -> Iterator[Element]:
    """What the script draws: the timeline, and memory under its limit."""
    swatches = {name: (html.swatch(ink), name) for name, ink in INKS.items()}
    label, axis = "What each device runs when", html.tag("div", {"class": "axis"}, "time ms")
    signs = html.legend([swatches["forward"], swatches["backward"]])
    drawn = html.scrolled(html.svg(0, label))
    yield html.section("Timeline", html.chart(drawn, label, axis, signs, above=html.zoom()))
    label = "Memory of each device at its peak"
    signs = html.legend([swatches["weights"], swatches["activations"], (html.line_swatch("limit"), "limit")])
    yield html.section("Memory", html.chart(html.scrolled(html.svg(0, label)), label, signs))


def _slider(slider: Slider) -> Element:
    """A native slider below its name and its value."""
    numbers = {"min": slider.low, "max": slider.high, "step": slider.step, "value": slider.value}
    input_attributes = {"id": slider.key, "type": "range", "data-setting": slider.key, "data-name": slider.name}
    output_attributes = {"for": slider.key, "data-unit": slider.unit, "data-zero": slider.zero, "aria-live": "off"}
    knob = html.tag("input", {**input_attributes, **numbers})
    label, output = html.tag("label", {"for": slider.key}, slider.name), html.tag("output", output_attributes)
    return html.tag("div", {"class": "setting"}, label, output, knob)
