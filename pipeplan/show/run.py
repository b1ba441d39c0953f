"""A run in the terminal and as one HTML page: its ranks, its stages, and predicted over measured times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from ..instances.timeline.timeline import Task, TaskKind
from .console import draw_rows, out, put
from .page import data, facts, listed, page, paragraph, section, table, tag
from .report import timeline_section
from .terminal import gantt
from .view import Bar, PlanView, Timeline
from .views.simulated import COLOURS, MARKS, WINDOWS, bar_of
from .words import percent, several, size

if TYPE_CHECKING:
    from ..models.run.report import CaseReport, MeasuredPass, RunReport

# All times are shown in milliseconds, of which a second has so many.
UNIT = "ms"
PER_SECOND = 1e3


def milliseconds(seconds: float | None) -> str:
    """Milliseconds as text with four digits, or a dash where the time is None."""
    return "-" if seconds is None else f"{PER_SECOND * seconds:.4g}"


def headline(report: RunReport) -> str:
    count = len(report.plan.ranks)
    where = "GPUs" if report.device == "cuda" else "processes"
    return (
        f"{report.name} on {count} {where}, {several(report.micro_batches, 'micro-batch')}, "
        f"{several(len(report.plan.iterations), 'iteration')} with the passes in {report.plan.schedule} order"
    )


def sentences(report: RunReport) -> Iterator[str]:
    """Sentences on predicted and measured times, the gain, the check of gradients, and the profile."""
    for case in report.cases:
        yield _outcome(case)
    if report.gain_predicted is not None and report.gain_measured is not None:
        yield (
            f"gain over the even split: predicted {report.gain_predicted:.3f}, measured {report.gain_measured:.3f}"
        )
    yield from (_checked(case) for case in report.cases if case.check is not None)
    off = report.context - 1
    yield (
        f"in the run, passes took {percent(abs(off))} {'more' if off >= 0 else 'less'} time than the profile says; "
        "--save-profile keeps these times"
    )
    yield from report.notes


def _outcome(case: CaseReport) -> str:
    name = "even split" if case.name == "even" else "plan"
    off = f"the prediction is {percent(abs(case.error))} too {'long' if case.error >= 0 else 'short'}"
    predicted, measured = (f"{milliseconds(time)} {UNIT}" for time in (case.predicted, case.measured))
    start = f"{name}: an iteration was predicted to take {predicted} and took {measured}"
    if case.clean is None:
        return f"{start}; {off}"
    if case.clean:
        return f"{start}; clean, {off}"
    return (
        f"{start}; the machine was busy ({case.ratio:.2f} s of wall time for each second of CPU time), so the virtual "
        f"clock is judged, {milliseconds(case.virtual)} {UNIT}: {off}"
    )


def _checked(case: CaseReport) -> str:
    check = case.check
    assert check is not None, "only cases with a check are asked about"
    words = "agree" if check.agrees else "DO NOT AGREE"
    words = "are all zero, so nothing was checked" if check.empty else words
    loss = "none" if check.loss is None else f"{check.loss:.7g}"
    how = (
        "some are not finite"
        if check.difference is None
        else f"largest difference {check.difference:.1e} of the largest gradient"
    )
    return (
        f"check of the {'even split' if case.name == 'even' else 'plan'}: loss {loss} (one process: "
        f"{check.expected_loss:.7g}) and {check.compared} gradients {words}, {how}"
    )


RANK_COLUMNS = ("rank", "stages", f"busy {UNIT}", f"waiting {UNIT}", f"CPU {UNIT}", "sent")
STAGE_COLUMNS = ("stage", "rank", f"forward {UNIT}", "predicted", f"backward {UNIT}", "predicted")


def rank_rows(case: CaseReport) -> list[list[str]]:
    return [
        [
            str(rank.rank),
            ", ".join(rank.stages),
            *map(milliseconds, (rank.busy, rank.waiting, rank.cpu)),
            size(rank.sent_bytes),
        ]
        for rank in case.ranks
    ]


def stage_rows(case: CaseReport) -> list[list[str]]:
    return [
        [
            stage.name,
            ", ".join(map(str, ranks)),
            *map(milliseconds, (stage.forward_measured, stage.forward_predicted)),
            *map(milliseconds, (stage.backward_measured, stage.backward_predicted)),
        ]
        for stage, ranks in zip(case.stages, case.stage_ranks, strict=True)
    ]


# ---- what runs when --------------------------------------------------------------------------------------


def timeline(case: CaseReport) -> Timeline:
    """Two lanes for each rank: its passes as predicted, and below as measured in the median iteration."""
    lanes = [f"{rank.rank} {what}" for rank in case.ranks for what in ("predicted", "measured")]
    bars = list(_bars(case))
    divided = any(measured.part for measured in case.passes)
    return Timeline(
        "Predicted over measured",
        tuple(lanes),
        tuple(sorted(bars, key=lambda bar: (bar.start, bar.lane))),
        max(bar.end for bar in bars),
        marks=f"{MARKS}, +: backward for weights" if divided else MARKS,
        colours=COLOURS,
        windows=WINDOWS,
    )


def _tasks(case: CaseReport) -> Iterator[tuple[str, Task]]:
    """What runs in each lane."""
    for stage, ranks in zip(case.simulation.stages, case.stage_ranks, strict=True):
        yield from ((f"{ranks[task.replica]} predicted", task) for task in stage.tasks)
    yield from ((f"{measured.rank} measured", _task(measured)) for measured in case.passes)


def _task(measured: MeasuredPass) -> Task:
    kind: TaskKind = "weights" if measured.part == "W" else "forward" if measured.micro_batch > 0 else "backward"
    return Task(kind, abs(measured.micro_batch), 0, measured.start, measured.end)


def _bars(case: CaseReport) -> Iterator[Bar]:
    for lane, task in _tasks(case):
        start, end = PER_SECOND * task.start, PER_SECOND * task.end
        if end > start:
            yield bar_of(lane, Task(task.kind, task.micro_batch, task.replica, start, end))


# ---- terminal and page -----------------------------------------------------------------------------------


def draw_run(report: RunReport) -> None:
    """Print sentences on all cases, and tables and a timeline of the plan alone."""
    console = out()
    put(headline(report), *sentences(report), soft=True)
    console.print()
    draw_rows(RANK_COLUMNS, rank_rows(report.plan), left="stages")
    console.print("\n")
    draw_rows(STAGE_COLUMNS, stage_rows(report.plan), left="stage")
    console.print()
    for row in gantt(timeline(report.plan), UNIT):
        console.print(row, soft_wrap=True)


def run_page(report: RunReport) -> str:
    """The whole page as text."""
    first, *rest = sentences(report)
    answer = "yes" if report.agrees is not False else "no"
    head = tag(
        "header",
        None,
        tag("h1", None, report.name),
        paragraph(headline(report), "answer"),
        paragraph(first, f"verdict {answer}"),
        listed(rest),
    )
    parts = [part for case in report.cases for part in _case(case)]
    return page(f"{report.name}: run", [head, *parts, _how(report), data("The run as JSON", report)])


def _case(case: CaseReport) -> Iterator[Element]:
    name = "Even split" if case.name == "even" else "Plan"
    line = timeline(case)
    view = PlanView(case.name, "", "", (), UNIT, line.end, (), time_unit=UNIT)
    ranks = table(RANK_COLUMNS, rank_rows(case), "Medians over the iterations")
    stages = table(STAGE_COLUMNS, stage_rows(case), "Medians over the passes")
    yield timeline_section(line, view, f"{name}: predicted over measured", f"{case.name}-gantt")
    yield section(f"{name}: ranks", ranks, name=f"{case.name}-ranks")
    yield section(f"{name}: stages", stages, name=f"{case.name}-stages")


def _how(report: RunReport) -> Element:
    return section(
        "How it was run",
        facts(
            [
                ("engine", report.engine),
                ("device", report.device),
                ("torch", report.torch),
                ("bandwidth in the prediction", f"{report.bandwidth / 1e9:g} GB/s"),
                ("micro-batches", report.micro_batches),
                ("iterations", len(report.plan.iterations)),
            ]
        ),
    )
