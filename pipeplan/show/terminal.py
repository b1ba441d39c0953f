"""What people see in a terminal: facts about a run, the plan as tables, timelines and memory in characters, the
referee's word, profiles, and runs of a plan.

What is shown is decided in `views`, `answer` and `lanes`; here it is laid out in as many characters as there is room
for. A table must lose nothing in a narrow terminal (`tests/pipeplan/show/test_answer.py`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..instances.base.amounts import exact_sum
from ..instances.base.kind import Rules
from ..instances.base.result import Result
from ..instances.registry import Plan, Problem
from ..planners.referee import rules_of
from .answer import answer, describe_iteration, options_of, run_facts
from .console import (
    BAR_WIDTH,
    MAX_DEVICES_DRAWN,
    bar,
    can_draw,
    draw_rows,
    draw_table,
    new_table,
    number,
    out,
    put,
    room,
    styled,
)
from .views import COUNT, Bar, PlanView, Table, Timeline, devices, ink_on, module_of
from .words import Times, amount, percent, several, size

if TYPE_CHECKING:
    from rich.text import Text

    from ..instances.base.kind import Samples
    from ..instances.networks.profile.profile import Profile
    from ..models.run.report import CaseReport, Check, RunReport
    from ..planners.run.claims import ProofCheck


# ---- timelines ------------------------------------------------------------------------------------------------


# Cells of a row.
WIDTH = 66
# The most bars of a lane that can be told apart in one line, however long the others take.
FEW_BARS = WIDTH // 3
# The most characters of a lane's name.
LONGEST_LANE = 11
# The character that fills a bar behind its label.
NAMED = "─"

# The start of a window, and its number of cells.
Window = tuple[float, int]
# A character, and the colour of the task that it belongs to.
Cell = tuple[str, int | None]


def gantt(timeline: Timeline, unit: str | None) -> list[Text]:
    """One row for each lane, in the colours of its phases. A long timeline is shown in three windows of time."""
    if not timeline.bars or timeline.end <= timeline.start:
        return [styled(timeline.summary)] if timeline.summary else []
    windows, step = _windows(timeline)
    lanes, width = timeline.lanes[:MAX_DEVICES_DRAWN], _names_width(timeline)
    lines = []
    for lane in lanes:
        bars, row = [bar for bar in timeline.bars if bar.lane == lane], styled(f"{lane[:LONGEST_LANE]:>{width}} |")
        for start, count in windows:
            for colour, cells in groupby(_cells(bars, start, count, step), key=lambda cell: cell[1]):
                fill = None if colour is None else timeline.palette[colour]
                style = f"{ink_on(fill)} on {fill}" if fill else ""
                row.append_text(styled("".join(char for char, _ in cells), style))
            row.append("|")
        lines.append(row)
    cut = len(timeline.lanes) - len(lanes)
    below = [f"... and {cut} more"] if cut else []
    below += [line.rstrip() for line in _scale(timeline, windows, step, " " * (width + 2), unit)]
    return [*lines, *map(styled, below)]


def _names_width(timeline: Timeline) -> int:
    return max(len(lane[:LONGEST_LANE]) for lane in timeline.lanes[:MAX_DEVICES_DRAWN])


def _scale(timeline: Timeline, windows: Sequence[Window], step: float, indent: str, unit: str | None) -> list[str]:
    """The lines under the rows: times, from when on everything repeats, and what the marks mean."""
    lines, is_whole = [], len(windows) == 1
    if timeline.steady is not None:
        blanks = " " * int((timeline.steady - timeline.start) / step)
        at = f"{indent}{blanks}^ after this" if is_whole else f"after {amount(timeline.steady, unit)}"
        lines.append(f"{at}, everything repeats")
    if is_whole:
        start = number(timeline.start)
        lines.append(f"{indent}{start}{number(timeline.end):>{WIDTH - len(start)}}")
    else:
        count = windows[0][1]
        texts = ([number(start) for start, _ in windows], timeline.windows)
        lines += [indent + " ".join(f"{word:<{count}}" for word in words) for words in texts]
        lines.append(f"three windows of {amount(count * step, unit)} each; the time between them is left out")
    return [*lines, *filter(None, [timeline.marks, timeline.summary])]


def _windows(timeline: Timeline) -> tuple[list[Window], float]:
    """The windows that are shown, and the time of a cell: fine enough to see the passes of most stages."""
    length = timeline.end - timeline.start
    spans = sorted(bar.end - bar.start for bar in timeline.bars)
    step = max(spans[len(spans) // 4], length / 10_000)
    most_bars = max(Counter(task.lane for task in timeline.bars).values())
    if not timeline.windows or length <= WIDTH * step or most_bars <= FEW_BARS:
        return [(timeline.start, WIDTH)], length / WIDTH
    count = WIDTH // 3
    middle, last = timeline.start + (length - count * step) / 2, timeline.end - count * step
    return [(timeline.start, count), (middle, count), (last, count)], step


def _cells(bars: Iterable[Bar], start: float, count: int, step: float) -> list[Cell]:
    """Each cell shows what runs in its middle; a bar that covers no middle has the cell of its start."""
    cells: list[Cell] = [("·" if can_draw("·") else ".", None)] * count
    for task in bars:
        first, end = (math.ceil((time - start) / step - 0.5) for time in (task.start, task.end))
        place = int((task.start - start) / step)
        run = range(max(0, first), min(count, end)) if first < end else range(place, place + 1)
        # A bar whose label is not its short one shows it, if it fits.
        named = task.short and task.label != task.short and len(task.label) < len(run)
        text = task.label.ljust(len(run), NAMED) if named and can_draw(task.label + NAMED) else task.mark * len(run)
        for x, char in zip(run, text, strict=True):
            if 0 <= x < count:
                cells[x] = (char, task.colour)
    return cells


# ---- plans ----------------------------------------------------------------------------------------------------


# Characters of a bar where room is short.
SHORT_BAR = 5
# More violations of a plan than this are counted.
MOST_VIOLATIONS = 10
# The most characters of names in the columns `CUT`.
LONGEST_NAME = 12
# Characters of a column that names layers, where there is room for them and where there is not.
NAMES_WIDTH, LEAST_NAMES = 28, 13
# The most characters for the names of one device or stage in a sentence.
MOST_NAMED = 400
# Short titles of columns for a terminal.
SHORT = {
    "computation": "compute",
    "transfers in": "in",
    "transfers out": "out",
    "transfers": "moved",
    "synchronisation": "sync",
    "larger of links and inside": "nested",
}
# Parts of a load that follow from the others, so that no column shows them.
HIDDEN = ("forward", "backward")
# Columns that hold names, which are cut short.
CUT = {"type", "group", "inside"}
# Columns that are left out, in this order, where there is still no room.
SAY_LEAST = ("level", "binds", "after", "held")
# Columns that are aligned to the left.
LEFT = ("type", "group", "inside", "share", "after", "binds", "")


def draw(view: PlanView, unrolled: bool = False, briefly: bool = False) -> None:
    """Print a plan. `unrolled`: all timelines, not the first one alone; `briefly`: without what the answer says."""
    console, in_full = out(), list[str]()
    for table in filter(lambda table: table.rows, view.tables):
        rows, left = table.rows[:MAX_DEVICES_DRAWN], len(table.rows) - MAX_DEVICES_DRAWN
        columns, bar_width, names_width = _fitted(view, table, room(console))
        _draw_rows(view, table, columns, bar_width)
        put(f"... and {left} more {table.what}s" if left > 0 else "")
        cut = [row for row in rows if row.held is not None and row.held.text(names_width) != row.held.text()]
        in_full += [
            f"{row.title}: {table.items} {row.held.text(MOST_NAMED)}" for row in cut if row.held is not None
        ]
    put(view.legend, "full names:" if in_full else "", *in_full, *(() if briefly else view.sentences))
    for timeline in view.timelines if unrolled else view.timelines[:1]:
        for line in gantt(timeline, view.time_unit):
            console.print(line, soft_wrap=True)


def _fitted(view: PlanView, table: Table, width: int) -> tuple[dict[str, list[str]], int, int]:
    """The columns by title, the width of bars and the width of names that fit into `width` characters. Where
    not all fits, these go in turn: half of each bar, counts and parts of the load, the bars, letters of names,
    and columns that say least."""
    rows = table.rows[:MAX_DEVICES_DRAWN]
    columns = {
        SHORT.get(title, title): cells
        for title, cells in table.columns(rows, view.memory_unit, NAMES_WIDTH).items()
    }
    for title in HIDDEN:
        columns.pop(title, None)
    for title in CUT & columns.keys() | {table.what}:
        columns[title] = [cell[:LONGEST_NAME] for cell in columns[title]]
    room = width - 1 - len("<--") - 2 * max((row.depth for row in rows), default=0)
    less = [COUNT, *(SHORT.get(part, part) for part in table.parts)]
    bar_width = BAR_WIDTH
    if _width(columns) + bar_width > room:
        bar_width = SHORT_BAR
    while _width(columns) + bar_width > room and less:
        columns.pop(less.pop(0), None)
    names_width, last = NAMES_WIDTH, [title for title in SAY_LEAST if title in columns]
    while _width(columns) + bar_width > room:
        if bar_width:
            bar_width = 0
        elif names_width > LEAST_NAMES and table.items in columns:
            names_width -= 1
            columns[table.items] = table.columns(rows, view.memory_unit, names_width)[table.items]
        elif last:
            columns.pop(last.pop(0))
        else:
            break
    return columns, bar_width, names_width


def _draw_rows(view: PlanView, table: Table, columns: Mapping[str, Sequence[str]], bar_width: int) -> None:
    """Print the table with a bar for each load, and with its slowest rows marked."""
    drawn, titles = new_table(), list(columns)
    if bar_width:
        titles.insert(titles.index("load"), "share")
    for title in (*titles, ""):
        left = title in (table.what, table.items, *LEFT)
        drawn.add_column(title, justify="left" if left else "right", no_wrap=True)
    for i, row in enumerate(table.rows[:MAX_DEVICES_DRAWN]):
        cells = {title: styled(cell[i]) for title, cell in columns.items()}
        indent = ("│ " if can_draw("│") else "| ") * row.depth
        cells[table.what] = styled(indent + columns[table.what][i], "bold" if row.slowest else "")
        cells["share"] = styled(bar(row.load, view.full_load, bar_width), "red" if row.slowest else "cyan")
        drawn.add_row(*(cells[title] for title in titles), styled("<--" if row.slowest else "", "bold red"))
    draw_table(drawn)


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    """Width of a table, with a blank between the columns."""
    return sum(1 + max(map(len, (title, *cells))) for title, cells in columns.items())


# ---- results --------------------------------------------------------------------------------------------------


# What the sizes of a model count, where their names say too little.
COUNTED = {
    "rows": "as given to the solver, for plans up to the best known value; an exported model has no such limit",
    "groups": "nodes that must share a device count as one",
    "nets": "outputs that may have to be moved",
    "arcs": "pairs of groups, the first before the second",
}


def draw_instance(problem: Problem) -> None:
    """Print what the instance is."""
    _block("instance", {"name": problem.name, **module_of(problem).facts(problem)})


def draw_result(
    problem: Problem,
    result: Result,
    view: PlanView | None,
    verbose: bool = False,
    named: bool = False,
    samples: Samples | None = None,
) -> None:
    """Print the answer, one iteration and the plan; the last line is the referee's. `verbose`: instance, model and run
    as well; `named`: with the problem's name and devices, for readers who have not given them; `samples`: what a
    micro-batch is, if known."""
    rules, facts = rules_of(problem, result.options), run_facts(result, problem.time_unit)
    what = f"{problem.name} on {devices(problem)}: " if named else ""
    put(what + answer(problem, result, view, rules), style="bold")
    if view is not None and result.plan is not None and result.verified:
        iteration = describe_iteration(problem, result.plan, samples)
        put(iteration and iteration.in_words())
    if verbose:
        draw_instance(problem)
        if sizes := result.model_size:
            told = {
                name: f"{count} ({COUNTED[name]})" if name in COUNTED else count for name, count in sizes.items()
            }
            _block("model", {name.replace("_", " "): text for name, text in told.items()})
        options = ", ".join(f"{name}={value}" for name, value in options_of(result).items())
        _block("run", {**facts, "options": options})
    if view is not None:
        draw(view, briefly=not verbose)
    if not verbose and "cross-check" in facts:
        put(f"cross-check: {facts['cross-check']}")
    say_verdict(problem, result.plan, result.violations, rules)


def _block(title: str, facts: Mapping[str, Any]) -> None:
    from rich.table import Table

    put(title, style="bold")
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(styled(f"  {name}"), styled(value))
    draw_table(table)


def say_proof_check(check: ProofCheck) -> None:
    """Print the claim that was to be proven, the answer and its reason."""
    put(check.claim and f"claim: {check.claim}")
    put(f"proof: {check.answer}. {check.reason}", style="bold" if check.answer == "confirmed" else "bold red")


def say_differences(differences: Sequence[str]) -> None:
    """Print what a result's file claims and the referee does not find."""
    put(*(f"  - {difference}" for difference in differences))
    put("claims: the file differs from the recomputed values" if differences else "", style="bold red")


def say_verdict(problem: Problem, plan: Plan | None, violations: Sequence[str], rules: Rules) -> None:
    """Print whether the referee accepts the plan, if there is one, with the value recomputed here."""
    if plan is None:
        return
    if violations:
        put(*(f"  - {violation}" for violation in violations[:MOST_VIOLATIONS]))
        more = len(violations) - MOST_VIOLATIONS
        put(f"  - and {several(more, 'other')}; --json lists all" if more > 0 else "")
        put(f"verified: no, {several(len(violations), 'violation')}", style="bold red")
    else:
        value = amount(rules.value(problem, plan), problem.time_unit)
        name = module_of(problem).value_name(rules)
        put(f"verified: yes, recomputed {name} {value}", style="bold green")


# ---- profiles -------------------------------------------------------------------------------------------------


# The most nodes that the table shows.
SHOWN_NODES = 200


def profile_report(profile: Profile) -> dict[str, Any]:
    """Sums, and one row for each node; times of one micro-batch in the profile's unit."""
    rows = [
        {
            "id": node.id,
            "forward": profile.time(node.forward),
            "backward": profile.time(node.backward),
            **{name: getattr(node, name) for name in NODE_FACTS},
            "output_bytes": float(exact_sum(tensor.bytes for tensor in made if tensor.readers)),
            "readers": list(dict.fromkeys(reader for tensor in made for reader in tensor.readers)),
        }
        for node, made in zip(profile.nodes, profile.made, strict=True)
    ]
    total = sum(row["forward"] + row["backward"] for row in rows)
    for row in rows:
        row["share"] = (row["forward"] + row["backward"]) / total if total else None
    sums = {
        **{name: getattr(profile, name) for name in ("name", "hash", "training", "micro_batch", "time_unit")},
        "nodes": len(rows),
        "tensors": len(profile.tensors),
        "row": profile.is_row,
        **{side: sum(row[side] for row in rows) for side in ("forward", "backward")},
        "parameter_bytes": float(exact_sum(row["parameter_bytes"] for row in rows)) - profile.tied_bytes,
        "tied_bytes": profile.tied_bytes,
        "saved_bytes": float(exact_sum(row["saved_bytes"] for row in rows)),
        "source": dict(profile.source),
    }
    return {"profile": sums, "nodes": rows}


NODE_FACTS = ("flops_forward", "flops_backward", "parameter_bytes", "buffer_bytes", "saved_bytes")


def draw_profile(profile: Profile) -> None:
    """Print the sums in sentences, and a line for each node."""
    report = profile_report(profile)
    put(*_sentences(profile, report["profile"]))
    table = new_table(padding=1)
    times = Times.of((row[side] for row in report["nodes"] for side in ("forward", "backward")), profile.time_unit)
    passes, kept = (("forward", "backward"), ("saved",)) if profile.training else (("forward",), ())
    put(f"times{times.inside}, sizes of weights and saved activations")
    for i, heading in enumerate(("node", *passes, "share", "weights", *kept)):
        table.add_column(heading, overflow="fold", justify="right" if i else "left", min_width=0 if i else 20)
    for row in report["nodes"][:SHOWN_NODES]:
        costs = (times.text(row[side], digits=4) for side in passes)
        share = "-" if row["share"] is None else percent(row["share"])
        sizes = (size(row[f"{what}_bytes"]) for what in ("parameter", *kept))
        table.add_row(*map(styled, (row["id"], *costs, share, *sizes)))
    draw_table(table)
    left = len(report["nodes"]) - SHOWN_NODES
    put(f"... and {several(left, 'more node')}; --json lists all" if left > 0 else "")


def _sentences(profile: Profile, facts: Mapping[str, Any]) -> list[str]:
    unit, shape = profile.time_unit, "in sequence" if facts["row"] else "that form a graph"
    twice = f", of which {size(profile.tied_bytes)} also occur in a second node" if profile.tied else ""
    passes = f"forward {amount(facts['forward'], unit, 4)}"
    if profile.training:
        kept = f"; {size(facts['saved_bytes'])} of activations saved between them"
        passes += f", backward {amount(facts['backward'], unit, 4)}{kept}"
    entries = {key: value for key, value in profile.source.items() if not key.endswith("sha256")}
    source = "; ".join(f"{key} {value}" for key, value in entries.items() if isinstance(value, (str, int)))
    return [
        f"{profile.name}: a profile of {several(facts['nodes'], 'node')} {shape}, without a cluster",
        f"a micro-batch of {several(profile.micro_batch, 'sample')}: {passes}",
        f"weights {size(facts['parameter_bytes'])}{twice}",
        *([f"source: {source}"] if source else []),
    ]


# ---- runs -----------------------------------------------------------------------------------------------------


# All times are shown in milliseconds, of which a second has so many.
UNIT = "ms"
PER_SECOND = 1e3


def milliseconds(seconds: float) -> str:
    """Milliseconds as text with four digits."""
    return f"{PER_SECOND * seconds:.4g}"


def headline(report: RunReport) -> str:
    count = len(report.plan.ranks)
    return (
        f"{report.name} on {count} processes, {several(report.micro_batches, 'micro-batch')}, "
        f"{several(len(report.plan.iterations), 'iteration')} with the passes in the plan's order"
    )


def sentences(report: RunReport) -> Iterator[str]:
    """Sentences on predicted and measured times, the gain, the check of gradients, and the profile."""
    for case in report.cases:
        yield _outcome(case)
    if report.gain_predicted is not None and report.gain_measured is not None:
        yield (
            f"gain over the even split: predicted {report.gain_predicted:.3f}, measured {report.gain_measured:.3f}"
        )
    for case in report.cases:
        if case.check is not None:
            yield _checked(case, case.check)
    off = report.context - 1
    yield (
        f"in the run, passes took {percent(abs(off))} {'more' if off >= 0 else 'less'} time than in the profile; "
        "--save-profile stores these times"
    )
    yield from report.notes


def _outcome(case: CaseReport) -> str:
    off = f"the prediction is {percent(abs(case.error))} too {'long' if case.error >= 0 else 'short'}"
    predicted, measured, virtual = (
        f"{milliseconds(time)} {UNIT}" for time in (case.predicted, case.measured, case.virtual)
    )
    start = f"{_name(case)}: an iteration was predicted to take {predicted} and took {measured}"
    if case.clean:
        return f"{start}; clean, {off}"
    return (
        f"{start}; the machine was busy ({case.ratio:.2f} s of wall time per second of CPU time), so the virtual "
        f"clock counts, {virtual}: {off}"
    )


def _name(case: CaseReport) -> str:
    return "even split" if case.name == "even" else "plan"


def _checked(case: CaseReport, check: Check) -> str:
    words = "are all zero, so nothing was checked" if check.empty else "agree" if check.agrees else "DO NOT AGREE"
    loss = "none" if check.loss is None else f"{check.loss:.7g}"
    how = "some are not finite"
    if check.difference is not None:
        how = f"largest difference {check.difference:.1e} of the largest gradient"
    return (
        f"check of the {_name(case)}: loss {loss} (one process: "
        f"{check.expected_loss:.7g}) and {check.compared} gradients {words}, {how}"
    )


def run_tables(case: CaseReport) -> tuple[tuple[Sequence[str], list[Sequence[str]]], ...]:
    """Head and rows of the tables of ranks and of stages."""
    ranks, stages = list[Sequence[str]](), list[Sequence[str]]()
    for rank in case.ranks:
        times = map(milliseconds, (rank.busy, rank.waiting, rank.cpu))
        ranks.append((str(rank.rank), ", ".join(rank.stages), *times, size(rank.sent_bytes)))
    for own, held_by in zip(case.stages, case.stage_ranks, strict=True):
        passes = (own.forward_measured, own.forward_predicted, own.backward_measured, own.backward_predicted)
        stages.append((own.name, ", ".join(map(str, held_by)), *map(milliseconds, passes)))
    return (
        (("rank", "stages", f"busy {UNIT}", f"waiting {UNIT}", f"CPU {UNIT}", "sent"), ranks),
        (("stage", "rank", f"forward {UNIT}", "predicted", f"backward {UNIT}", "predicted"), stages),
    )


def draw_run(report: RunReport) -> None:
    """Print sentences on all cases, and tables of the plan alone."""
    put(headline(report), *sentences(report), soft=True)
    for (titles, rows), left in zip(run_tables(report.plan), ("stages", "stage"), strict=True):
        out().print()
        draw_rows(titles, rows, left)
