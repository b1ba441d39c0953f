"""A plan or a simulated iteration as it is shown: plain data that the terminal, the pictures and the pages render, each
in its own way, and the colours of everything that is drawn; lessons take theirs here, too.

Each module of this folder makes the views of one kind of problem (`Views`). A field that is added here is shown nowhere
until a renderer reads it: `terminal.py`, `pictures.py`, `report.py`, or `lanes.py` for the last two."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from ...instances.base.errors import PipeplanError
from ...instances.base.kind import Rules
from ...instances.base.result import Result
from ...instances.registry import Plan, Problem, kind_of
from ...kinds import shown_kind
from ..words import IN_BYTES, Held, MemoryUnit, amount, plain, several, singular, time_scale

if TYPE_CHECKING:
    from ...instances.timeline.model import Simulation, Task, TaskKind
    from ...planners.search import Item

# ---- colours: light is forward and dark is backward; each kind of memory has its own in every picture ---------


# Blue, vermilion, purple and grey: told apart by colour-blind readers as well, each darker than the one
# before it but for the last, and three times as light or as dark as a white and a dark page.
FORWARD, BACKWARD, FOR_WEIGHTS, OTHER = "#4297d3", "#cc5229", "#8442c4", "#8c8c8c"

# What a task on a timeline is: F, B (or its half I, for inputs), W, and all that is none of these.
PHASES = (FORWARD, BACKWARD, FOR_WEIGHTS, OTHER)
PHASE_NAMES = ("forward", "backward", "backward for weights", "other")

# Colours of things that share no meaning, such as methods or devices: Paul Tol's bright scheme, which colour-
# blind readers tell apart as well.
CATEGORIES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")


def colour(i: int) -> str:
    """The colour of thing number i."""
    return CATEGORIES[i % len(CATEGORIES)]


# Colours of the terms of memory.
TERMS = {"weights": "#bbbbbb", "kept": "#aa3377", "current": "#ee6677", "direct": "#228833", "buffers": "#ccbb44"}

# Colours of the terms of memory, by the words that plans of all kinds have for them.
MEMORY: Mapping[str, str] = {
    **TERMS,
    **dict.fromkeys(("standing", "fixed", "held", "others on its device"), TERMS["weights"]),
    **dict.fromkeys(("kept activations", "taken by blocks", "taken by micro-batches"), TERMS["kept"]),
    **dict.fromkeys(("micro-batches in flight", "samples in flight", "activations"), TERMS["kept"]),
    **dict.fromkeys(("memory", "this piece"), TERMS["kept"]),
    **dict.fromkeys(("workspace", "transient"), TERMS["current"]),
    "reserve": TERMS["buffers"],
    "gradients": CATEGORIES[0],
    "optimizer": "#8cd17d",
}

# The colour of work that is not divided into phases.
COMPUTATION = "#00806a"

# Colours of what a rank of a training holds, and of what an iteration takes besides computation: any two of
# them may lie side by side.
TRAINING: Mapping[str, str] = {
    "gradients": MEMORY["gradients"],
    "recomputation": "#aa4499",
    "tensor": "#f5a742",
    "context": "#85283a",
    "expert": "#4537b5",
    "data": "#66ccee",
    "sending": "#cc5229",
    "optimizer": MEMORY["optimizer"],
    "imbalance": OTHER,
    "bubble": "#d9d9d9",
}

# Colours of the parts of a load. Work has a colour that is no device's and no method's.
LOADS: Mapping[str, str] = {
    "forward": FORWARD,
    "backward": BACKWARD,
    **dict.fromkeys(("computation", "busy", "from start to finish"), COMPUTATION),
    **dict.fromkeys(("transfers", "transfers in"), "#ccbb44"),
    "transfers out": "#66ccee",
    "synchronisation": OTHER,
    "larger of links and inside": "#bbbbbb",
    **TRAINING,
}

BLACK, WHITE = "#000000", "#ffffff"


def luminance(colour: str) -> float:
    """Luminance of a colour like #4477aa relative to white, as WCAG defines it."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """How much two colours differ: 1 if they are the same, 21 for black on white; small text needs 4.5."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: str) -> str:
    """Black or white, whichever is read better on the colour."""
    return max((BLACK, WHITE), key=lambda ink: contrast(ink, colour))


# ---- plans ----------------------------------------------------------------------------------------------------


# Heading of the column that counts the layers or nodes of a row.
COUNT = "count"
# What all costs rest on.
COSTS = (
    "Times and sizes are what the instance says: nothing varies from run to run, and no link is shared with others."
)
# Nouns for what fields count, where the noun is not the field's own name.
NOUNS = {"gpus": "GPUs", "accelerators": "accelerators", "cpus": "CPUs", "micro_batches": "micro-batches"}
# Digits of times in cells.
DIGITS = 5
# The most rows that sentences are about.
MOST_TOLD = 64


@dataclass(frozen=True, slots=True)
class Row:
    """A device or a stage: a line of a table, a bar of a chart."""

    name: str
    """Short, for a column that says what it names."""
    load: float
    parts: Mapping[str, float]
    """The parts of the load by name; they add up to it."""
    cells: Mapping[str, str]
    """Other values of the row, by column; columns that are empty in all rows are left out."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Further cells by column: times, in the unit of the load."""
    label: str | None = None
    """The name where no heading says what it names."""
    memory: Mapping[str, float] | None = None
    """Amounts by what they are for, in the unit of the view; None: the row has no memory of its own."""
    limit: float | None = None
    slowest: bool = False
    depth: int = 0
    """Number of rows that contain this one."""
    held: Held | None = None
    """The layers or nodes of the row."""
    told: Mapping[str, str] = field(default_factory=dict)
    """Columns too wide for a terminal, which has sentences in their place."""

    @property
    def title(self) -> str:
        return self.name if self.label is None else self.label

    def named(self, item: str, most: int) -> str:
        """The title with the layers or nodes, which take up to `most` characters."""
        return self.title if self.held is None else f"{self.title}: {self.held.named(item, most)}"

    @property
    def memory_held(self) -> float | None:
        return None if self.memory is None else math.fsum(self.memory.values())


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one sort: devices, groups, stages."""

    what: str
    rows: tuple[Row, ...]
    item: str = "layer"
    """Noun for what the rows hold."""

    @property
    def items(self) -> str:
        """The title of the column that names the items."""
        return f"{self.item}s"

    def columns(
        self, rows: Sequence[Row], unit: MemoryUnit = IN_BYTES, names_width: int | None = None
    ) -> dict[str, list[str]]:
        """Rows of a table as text by column; names are in full, or as wide as `names_width`."""
        columns = {self.what: [row.name for row in rows]}
        columns[self.items] = ["" if row.held is None else row.held.text(names_width) for row in rows]
        columns[COUNT] = ["" if row.held is None else str(row.held.count) for row in rows]
        for title in dict.fromkeys(title for row in self.rows for title in row.cells):
            columns[title] = [row.cells.get(title, "") for row in rows]
        columns["load"] = [plain(row.load) for row in rows]
        parts = self.parts
        for part in parts if len(parts) > 1 else ():
            columns[part] = [plain(row.parts.get(part, 0.0), 3) for row in rows]
        columns["memory"] = ["" if row.memory_held is None else unit.text(row.memory_held) for row in rows]
        columns["full"] = [
            f"{100 * (row.memory_held or 0.0) / row.limit:.0f}%" if row.limit else "" for row in rows
        ]
        return {title: cells for title, cells in columns.items() if any(cells)}

    def has(self, row: Row, name: str) -> bool:
        """Is this the name of the row, with or without the noun of the table?"""
        return name in (row.name, row.label, f"{self.what} {row.name}")

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part for row in self.rows for part in row.parts))


@dataclass(frozen=True, slots=True)
class Bar:
    """A pass, transfer or other task in a lane."""

    lane: str
    start: float
    end: float
    mark: str
    """A mark of one character."""
    label: str
    """A label of a few characters."""
    title: str
    """All that is said of what runs."""
    colour: int = 0
    """Number of its colour in the timeline's palette, which tells its phase."""
    short: str = ""
    """The label where there is no room for all of it."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lanes and what runs in them when; a timeline without bars has only its summary, which says why."""

    title: str
    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    """The bars in the order of their starts."""
    end: float
    start: float = 0.0
    summary: str = ""
    marks: str = ""
    """A sentence on what the characters mean."""
    colours: tuple[str, ...] = PHASE_NAMES
    """Names of the colours of the palette."""
    palette: tuple[str, ...] = PHASES
    period: float | None = None
    steady: float | None = None
    """The time from which on everything repeats."""
    windows: tuple[str, ...] = ()
    """Names of the windows at beginning, middle and end, which are all that a terminal shows of a long timeline."""
    over_memory: bool = False
    """Is memory over the same time to be shown below it?"""

    @property
    def explained(self) -> tuple[int, ...]:
        """Colours that a legend names: those that occur."""
        return tuple(sorted({bar.colour for bar in self.bars}))


@dataclass(frozen=True, slots=True)
class Curve:
    """Memory over time by what it is for; it stays the same from each instant to the next."""

    name: str
    times: tuple[float, ...]
    terms: Mapping[str, tuple[float, ...]]
    end: float
    limit: float | None = None

    @property
    def totals(self) -> list[float]:
        return [math.fsum(amounts) for amounts in zip(*self.terms.values(), strict=True)]


@dataclass(frozen=True, slots=True)
class Graph:
    """The problem's graph, its nodes in groups; `groups` are their names."""

    title: str
    labels: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    group_of: tuple[int, ...]
    groups: tuple[str, ...]

    @classmethod
    def of(
        cls,
        title: str,
        labels: Mapping[Any, str],
        edges: Iterable[tuple[Any, Any]],
        groups: Mapping[str, Iterable[Any]],
    ) -> Graph:
        """Make the graph from ids of nodes, each of which is in one group."""
        index = {node: i for i, node in enumerate(labels)}
        group_of = {node: g for g, nodes in enumerate(groups.values()) for node in nodes}
        pairs = tuple((index[u], index[v]) for u, v in edges)
        return cls(title, tuple(labels.values()), pairs, tuple(group_of[node] for node in labels), tuple(groups))


@dataclass(frozen=True, slots=True)
class PlanView:
    """All that is shown of a plan, from one evaluation by the referee."""

    headline: str
    """The value and what goes with it."""
    value: str
    """Value of the plan with its unit and what it is for, as `6 ms per sample`."""
    tables: tuple[Table, ...]
    """Devices or stages first."""
    full_load: float
    """The load that a bar of full length stands for."""
    sentences: tuple[str, ...]
    """Sentences on what binds, and on what else the tables leave open."""
    name: str = ""
    """Name of the problem; `of` sets it, and the units of times."""
    unit: str | None = None
    """Unit of the loads."""
    limits: str = ""
    """The words for what keeps the plan from being faster; empty: the slowest row."""
    each: str = ""
    """Words for the rows of the first table; empty: those of its heading."""
    legend: str = ""
    """A sentence on what the columns mean."""
    time_unit: str | None = None
    """Unit of the times in timelines and curves."""
    timelines: tuple[Timeline, ...] = ()
    memory: tuple[Curve, ...] = ()
    memory_unit: MemoryUnit = IN_BYTES
    """Unit of the memory in rows and curves."""
    graph: Graph | None = None

    def of(self, problem: Problem) -> PlanView:
        """The view with the name and the unit of times of its problem, in units that suit its amounts."""
        unit = problem.time_unit
        return in_units_that_suit(replace(self, name=problem.name, unit=unit, time_unit=unit))

    def named(self, lane: str, most: int) -> str:
        """A lane of a timeline with what its row holds; the lane alone where several rows have its name, or none."""
        name = lane.partition("/")[0]  # the number of a replica follows the slash
        matches = [(row, table) for table in self.tables for row in table.rows if table.has(row, name)]
        if len(matches) != 1:
            return lane
        row, table = matches[0]
        return lane if row.held is None else f"{lane}: {row.held.named(table.item, most - len(lane))}"

    def slowest(self) -> tuple[Table, Row] | None:
        """The innermost of the slowest rows, which says most about what binds."""
        slowest_rows = [(table, row) for table in self.tables for row in table.rows if row.slowest]
        return max(slowest_rows, key=lambda pair: (pair[1].held is not None, pair[1].depth), default=None)


class Views(Protocol):
    """What a module of `show.views` has for its kind; some have more, which is asked for by name."""

    def facts(self, problem: Any) -> dict[str, Any]:
        """The facts of a problem that are shown beside its name."""
        ...

    def value_name(self, rules: Rules) -> str:
        """What is minimised, in words."""
        ...

    def view(self, problem: Any, plan: Any, rules: Rules) -> PlanView:
        """All that is shown of a plan."""
        ...


def module_of(problem: Problem) -> Views:
    """The module that knows how problems of this kind and their plans are shown."""
    return shown_kind(problem).view.load()


def devices(problem: Problem) -> str:
    """Number of the devices, with the noun that the problem has for them."""
    field, count = counted_devices(problem)
    return several(count, singular(NOUNS.get(field, field)))


def counted_devices(problem: Problem) -> tuple[str, int]:
    """What the devices are called, and how many there are."""
    kind = kind_of(problem)
    field = kind.cluster.get("devices")
    if field is None:  # the problem lists them
        return "devices", kind.facts(problem)["devices"]
    return field, getattr(problem, field)


def assumptions(problem: Problem, rules: Rules) -> tuple[str, ...]:
    """What the costs rest on, a sentence each."""
    of_kind = getattr(module_of(problem), "assumptions", lambda problem, rules: ())
    return (*of_kind(problem, rules), COSTS)


def view_of(problem: Problem, plan: Plan, rules: Rules) -> PlanView:
    """The view of a plan in units that suit its amounts; raises what the referee raises where it has no value."""
    return module_of(problem).view(problem, plan, rules).of(problem)


def view_of_result(problem: Problem, result: Result) -> PlanView | None:
    """The view of a result's plan; None where the referee does not accept it."""
    from ...planners.referee import rules_of

    if result.plan is None or not result.verified:
        return None
    return view_of(problem, result.plan, rules_of(problem, result.options))


def in_units_that_suit(view: PlanView) -> PlanView:
    """The view with all loads in one unit and all timelines in one: those that a sentence would choose for the largest
    load and the first timeline. Memory is in multiples like those in which its limits are written."""
    factor, unit = time_scale(view.full_load, view.unit)
    tables = tuple(
        replace(table, rows=tuple(_row_times(row, factor) for row in table.rows)) for table in view.tables
    )
    limits = [*(row.limit for table in tables for row in table.rows), *(curve.limit for curve in view.memory)]
    memory_unit = view.memory_unit.like(limits)
    view = replace(view, tables=tables, unit=unit, full_load=view.full_load * factor, memory_unit=memory_unit)
    if not view.timelines:
        return view
    factor, unit = time_scale(view.timelines[0].end - view.timelines[0].start, view.time_unit)
    curves = (
        replace(curve, times=tuple(time * factor for time in curve.times), end=curve.end * factor)
        for curve in view.memory
    )
    lines = tuple(_timeline_times(line, factor) for line in view.timelines)
    return replace(view, time_unit=unit, timelines=lines, memory=tuple(curves))


def _row_times(row: Row, factor: float) -> Row:
    parts = {name: part * factor for name, part in row.parts.items()}
    times = {name: f"{time * factor:.{DIGITS}g}" for name, time in row.times.items()}
    return replace(row, load=row.load * factor, parts=parts, cells={**row.cells, **times}, times={})


def _timeline_times(line: Timeline, factor: float) -> Timeline:
    times = {name: getattr(line, name) for name in ("start", "end", "period", "steady")}
    bars = tuple(replace(bar, start=bar.start * factor, end=bar.end * factor) for bar in line.bars)
    return replace(line, bars=bars, **{name: time and time * factor for name, time in times.items()})


# ---- even plans -----------------------------------------------------------------------------------------------


# The name of a block, which differs from other blocks in its number alone.
BLOCK = re.compile(r"(.*\.)\d+")


def shares_of_blocks(items: Sequence[Item], names: Sequence[Hashable], parts: int) -> list[Sequence[Item]] | None:
    """The items in parts with as many blocks each: items before the first block go with it, others with the block that
    they follow. None where the blocks are not of one sort, or are fewer than the parts."""
    from ...planners.search import shares

    sorts = [match[1] if (match := BLOCK.fullmatch(str(name))) else None for name in names]
    blocks = [i for i, sort in enumerate(sorts) if sort is not None]
    if len({*sorts} - {None}) != 1 or len(blocks) < max(parts, 2):
        return None
    firsts = [share[0] for share in shares(blocks, parts)]
    return [items[start:end] for start, end in pairwise((0, *firsts[1:], len(items)))]


# ---- simulated iterations -------------------------------------------------------------------------------------


COLOUR_OF: dict[TaskKind, int] = {"forward": 0, "backward": 1, "weights": 2, "synchronisation": 3}
COLOURS = (*PHASE_NAMES[:3], "synchronisation of weights")
TITLES = {"weights": "backward for weights"}
MARKS = "digits: forward, letters: backward (1 and a: micro-batch 1), =: weights are synchronised"
WINDOWS = ("warm-up", "steady", "cool-down")
# The most micro-batches of a simulation that shows the steady state.
MOST_MICRO_BATCHES = 24


def view_of_simulation(problem: Problem, simulation: Simulation) -> PlanView:
    """Stages with their work, their memory and the timeline of the iteration."""
    iteration = simulation.iteration
    rows = tuple(
        Row(
            name=stage.name,
            load=stage.busy,
            parts={"computation": stage.busy},
            cells={
                "devices": str(stage.devices),
                "busy": f"{100 * stage.busy / iteration:.0f}%" if iteration else "-",
                "warm-up": str(stage.warm_up),
                "held": str(stage.peak_in_flight),
            },
            memory={"memory": stage.memory_bytes},
        )
        for stage in simulation.stages
    )
    view = PlanView(
        value="",
        headline=f"{several(len(simulation.stages), 'stage')}, simulated",
        tables=(Table("stage", rows),),
        full_load=iteration,
        sentences=(),
        timelines=(timeline_of(simulation, kind_of(problem).counted),),
        memory=memory_of(simulation),
    )
    return view.of(problem)


def first_micro_batches(problem: Problem, plan: Plan) -> tuple[tuple[Timeline, ...], tuple[Curve, ...]]:
    """A simulation of a plan that fixes no times: as many micro-batches as show its steady state, if the plan can be
    run."""
    from ...instances.placement.plan import PlacementPlan
    from ...instances.simulate import simulate
    from ...instances.staging.plan import LeveledPlan

    if isinstance(plan, PlacementPlan):
        stages = len(plan.devices)
    else:  # those of the innermost level
        stages = len(list(plan.leaves()) if isinstance(plan, LeveledPlan) else getattr(plan, "stages", ()))
    batch = kind_of(problem).batch
    count = min(
        2 * stages + 2, MOST_MICRO_BATCHES, MOST_MICRO_BATCHES if batch is None else getattr(problem, batch)
    )
    try:
        simulation = simulate(problem, plan, micro_batches=count)
    except PipeplanError:
        return (), ()
    timeline = timeline_of(simulation, "micro-batches", f"{several(count, 'micro-batch')}, simulated")
    return (timeline,), memory_of(simulation)


def timeline_of(simulation: Simulation, counted: str = "samples", title: str = "One iteration") -> Timeline:
    """A lane for each replica of each stage."""
    tasks = {
        stage.name if stage.replicas == 1 else f"{stage.name}/{replica}": [
            task for task in stage.tasks if task.replica == replica
        ]
        for stage in simulation.stages
        for replica in range(stage.replicas)
    }
    return Timeline(
        title,
        tuple(tasks),
        in_order(bar_of(lane, task) for lane, own in tasks.items() for task in own),
        simulation.iteration,
        summary=f"iteration {amount(simulation.iteration, simulation.time_unit)} for {simulation.mini_batch} "
        f"{counted}, depth {simulation.depth}, idle {100 * simulation.bubble:.1f} % of all devices' time",
        marks=MARKS,
        colours=COLOURS,
        windows=WINDOWS,
    )


def in_order(bars: Iterable[Bar]) -> tuple[Bar, ...]:
    """The bars that take any time, in the order of their starts."""
    return tuple(sorted((bar for bar in bars if bar.end > bar.start), key=lambda bar: (bar.start, bar.lane)))


def bar_of(lane: str, task: Task) -> Bar:
    """The bar of a pass, or of a synchronisation of weights, in its lane."""
    mark, label, title = "=", "", str(task.kind)
    if task.micro_batch:
        letter = chr(ord("a") + (task.micro_batch - 1) % 26)
        marks = {"forward": str(task.micro_batch % 10), "weights": "+"}
        mark, label = marks.get(task.kind, letter), str(task.micro_batch)
        title = f"{TITLES.get(task.kind, task.kind)} of micro-batch {task.micro_batch}"
    return Bar(lane, task.start, task.end, mark, label, title, COLOUR_OF[task.kind])


def memory_of(simulation: Simulation) -> tuple[Curve, ...]:
    """Memory over time of each stage, of a device of its first replica; empty where nothing changes."""
    if not any(stage.micro_batch_bytes for stage in simulation.stages):
        return ()
    curves = []
    for stage in simulation.stages:
        times, amounts = zip(*stage.memory_over_time(), strict=True)
        curves.append(Curve(stage.name, times, {"memory": amounts}, simulation.iteration, stage.limit_bytes))
    return tuple(curves)
