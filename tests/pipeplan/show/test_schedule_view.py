"""Schedules as they are shown: who runs what when, memory in its own unit, and one sentence on what binds."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

import pytest
from command_line import has

from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages, random_schedule
from pipeplan.instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.schedule.referee import evaluate_schedule
from pipeplan.planners.referee import rules_of
from pipeplan.show.lanes import timeline_lanes
from pipeplan.show.page import to_html
from pipeplan.show.palette import PHASES
from pipeplan.show.pictures import draw_plan, windows_of
from pipeplan.show.report import sections
from pipeplan.show.terminal import WIDTH, gantt, memory_lines
from pipeplan.show.view import PlanView, view_of
from pipeplan.show.words import IN_BYTES, memory_unit

TWO = ScheduleProblem(
    (ScheduleDevice("d0", 10, 2), ScheduleDevice("d1", 8, 1), ScheduleDevice("link")),
    (
        Block("F0", "F", ("d0",), 1, 0, {"d0": 2}),
        Block("S", "X", ("link",), 0.5),
        Block("F1", "F", ("d1",), 1, 1, {"d1": 2}),
        Block("B1", "B", ("d1",), 2, 1, {"d1": -2}, {"d1": 1}),
        Block("R", "X", ("link",), 0.5),
        Block("B0", "B", ("d0",), 2, 0, {"d0": -2}),
    ),
    tuple(BlockEdge(a, b) for a, b in (("F0", "S"), ("S", "F1"), ("F1", "B1"), ("B1", "R"), ("R", "B0"))),
    name="two",
    time_unit="ms",
    memory_unit="GiB",
)
"""Two stages and the link between them, in the steady state."""

TIMES = {"F0": 0, "S": 1, "F1": 2, "B1": 3, "R": 5, "B0": 7}
STEADY = PeriodicSchedulePlan(Fraction(3), {block: Fraction(time) for block, time in TIMES.items()})
"""A micro-batch takes 9 ms, three periods: from 6 ms on nothing is missing."""


def shown(problem: ScheduleProblem, plan: AnySchedule, **options: str) -> PlanView:
    return view_of(problem, plan, rules_of(problem, options))


def one_after_the_other(problem: ScheduleProblem) -> SchedulePlan:
    """Every block alone: a schedule of whatever problem has no lags."""
    assert problem.micro_batches is not None
    whole = sum(problem.times, Fraction(0))
    ends = accumulate(problem.times[b] for b in problem.order)
    begins = {b: end - problem.times[b] for b, end in zip(problem.order, ends, strict=True)}
    return SchedulePlan(
        {
            block.id: tuple(n * whole + begins[b] for n in range(problem.micro_batches))
            for b, block in enumerate(problem.blocks)
        }
    )


def pipeline(stages: int = 2, micro_batches: int = 3) -> ScheduleProblem:
    return divided_pipeline(equal_stages(stages, 5, 6, 4), micro_batches, 10, name="small")


def test_bars_have_the_number_of_their_micro_batch_and_the_colour_of_their_kind() -> None:
    problem = pipeline()
    (timeline,) = shown(problem, one_after_the_other(problem)).timelines
    assert timeline.lanes == ("d0", "d1")
    assert [(bar.lane, bar.start, bar.end, bar.label, bar.mark) for bar in timeline.bars[:4]] == [
        ("d0", 0, 5, "0", "0"), ("d1", 5, 10, "0", "0"), ("d1", 10, 16, "0", "a"), ("d0", 16, 22, "0", "a"),
    ]  # fmt: skip
    assert {bar.title.split()[0][0]: timeline.colours[bar.colour] for bar in timeline.bars} == {
        "F": "forward",
        "I": "backward (for inputs)",
        "W": "backward for weights",
    }
    assert [timeline.colours[i] for i in timeline.explained] == list(timeline.colours[:3])


def test_a_whole_backward_pass_is_called_so() -> None:
    (timeline,) = shown(TWO, STEADY).timelines
    assert [timeline.colours[i] for i in timeline.explained] == ["forward", "backward", "other"]


def test_a_periodic_schedule_is_shown_until_it_has_repeated() -> None:
    (timeline,) = shown(TWO, STEADY).timelines
    assert (timeline.steady, timeline.period, timeline.end) == (6, 3, 12)

    def between(start: float, end: float) -> set[tuple[str, float, str]]:
        """What runs there, with times from its start on."""
        bars = [bar for bar in timeline.bars if bar.start >= start and bar.end <= end]
        return {(bar.lane, bar.start - start, bar.title.split()[0]) for bar in bars}

    assert between(6, 9) == between(9, 12)
    assert between(3, 6) < between(6, 9)


@pytest.mark.parametrize("seed", range(20))
def test_curves_reach_the_peaks_of_the_referee_in_any_schedule(seed: int) -> None:
    problem = random_schedule(3, 8, micro_batches=3, seed=seed)
    problem = problem.replace(edges=tuple(edge for edge in problem.edges if not edge.lag and not edge.offset))
    plan = one_after_the_other(problem)
    peaks = {use.name: float(use.peak) for use in evaluate_schedule(problem, plan).devices}
    for curve in shown(problem, plan).memory:
        assert max(curve.totals) == pytest.approx(peaks[curve.name])


def test_memory_is_in_the_unit_of_the_problem() -> None:
    problem = pipeline()
    view = shown(problem, one_after_the_other(problem))
    (table,) = view.tables
    assert table.columns(table.rows, view.memory_unit)["memory"] == ["2 half-activation"] * 2
    assert table.columns(table.rows, view.memory_unit)["full"] == ["20%"] * 2
    assert view.memory_unit.scale(59520) == (1, "half-activation")
    assert shown(TWO, STEADY).memory_unit.text(8) == "8 GiB"


def test_bytes_are_told_in_the_multiple_that_suits_them_and_an_unknown_unit_has_no_name() -> None:
    assert memory_unit("bytes") is IN_BYTES
    assert IN_BYTES.text(2e9) == "1.86 GiB"
    assert IN_BYTES.scale(2e9) == (2**30, "GiB")
    assert IN_BYTES.like([None, 80e9]).text(2e9) == "2 GB", "somebody has written 80GB"
    assert IN_BYTES.like([None, 2**33, 123456789.0]) is IN_BYTES
    assert memory_unit(None).text(2e9) == "2000000000"
    assert memory_unit(None).scale(7) == (1, "")


def test_a_link_has_no_memory() -> None:
    view = shown(TWO, STEADY)
    assert [curve.name for curve in view.memory] == ["d0", "d1"]
    assert [row.memory for row in view.tables[0].rows][2] is None


def test_a_device_that_is_always_busy_limits_the_schedule() -> None:
    assert shown(TWO, STEADY).value == "period 3 ms per micro-batch"
    faster = [
        Block("F1", "F", ("d1",), 0.5, 1, block.memory) if block.id == "F1" else block for block in TWO.blocks
    ]
    said = shown(TWO.replace(blocks=tuple(faster)), STEADY).limits
    assert said == "d0 limits it and is always busy; counted over the whole period, devices idle 8.33 %"
    assert shown(TWO, STEADY).limits == "all devices are always busy"


def test_where_all_wait_the_sentence_says_so() -> None:
    problem = pipeline()
    view = shown(problem, one_after_the_other(problem), objective="span")
    assert view.value == "span 90 for 3 micro-batches"
    assert view.limits == (
        "all devices have the same work, 45; the slowest takes 90 from its first pass to its last, "
        "of which it idles 50 %"
    )
    whole = shown(problem, one_after_the_other(problem), objective="makespan")
    assert whole.limits == (
        "all devices have the same work, 45, and counted over the whole makespan, devices idle 50 %"
    )


def test_two_kinds_of_idle_have_two_names() -> None:
    """A device's own span counts where the span is minimised, else all of the value; the headline says the same."""
    problem, plan = pipeline(), one_after_the_other(pipeline())
    assert "idle" in shown(problem, plan).tables[0].rows[0].cells
    view = view_of(problem, plan, rules_of(problem, {"objective": "span"}))
    cells = [row.cells["idle in own span"] for row in view.tables[0].rows]
    assert cells[0].removesuffix(" %") in view.headline
    assert view.headline.endswith("of their own spans")
    assert "idle" in shown(TWO, STEADY).tables[0].rows[0].cells


def test_uneven_devices_wait() -> None:
    problem = pipeline()
    uneven = problem.replace(
        blocks=tuple(b if b.id != "W1" else Block("W1", "W", ("d1",), 5, 1, b.memory) for b in problem.blocks)
    )
    said = shown(uneven, one_after_the_other(uneven)).limits
    assert said.startswith("waiting for data or memory limits it, even d1 is busy for no more than 51.6 % of it")


def test_the_picture_has_numbers_kinds_and_memory_below(tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    problem = pipeline()
    draw_plan(problem, one_after_the_other(problem), path)
    text = path.read_text("utf-8")
    for words in ("d0", "0", "2", "forward", "backward for weights", "limit"):
        assert f">{words}</text>" in text
    assert ">d0, memory up to 2 of 10 half-activation</text>" in text
    assert all(colour in text for colour in PHASES[:3])
    draw_plan(TWO, STEADY, path)
    assert "from 6 on everything repeats" in path.read_text("utf-8")


@pytest.mark.slow
def test_many_micro_batches_are_shown_in_windows_as_well(tmp_path: Path) -> None:
    problem = pipeline(4, 64)
    plan = one_after_the_other(problem)
    view = shown(problem, plan)
    timeline = timeline_lanes(view.timelines[0], view)
    windows = windows_of(timeline)
    assert [window.title for window in windows] == ["filling", "between", "draining"]
    assert (windows[0].start, windows[-1].end) == (timeline.start, timeline.end)
    shapes = [(window, shape) for window in windows for lane in window.lanes for shape in lane.shapes]
    assert all(window.start <= shape.start < shape.end <= window.end for window, shape in shapes)
    short = shown(pipeline(), one_after_the_other(pipeline()))
    assert windows_of(timeline_lanes(short.timelines[0], short)) == []
    path = tmp_path / "plan.svg"
    draw_plan(problem, plan, path)
    has(path.read_text("utf-8"), ">draining</text>", ">63</text>")
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("micro_batches", [3, 64])
def test_the_terminal_has_memory_below_the_same_cells(micro_batches: int) -> None:
    problem = pipeline(2, micro_batches)
    view = shown(problem, one_after_the_other(problem))
    rows = [line.plain for line in gantt(view.timelines[0], None) if line.plain.startswith("d")]
    below = memory_lines(view)
    assert [len(line) for line in rows[:2]] == [len(line) for line in below[:2]]
    assert [i for i, char in enumerate(rows[0]) if char == "|"] == [
        i for i, char in enumerate(below[0]) if char == "|"
    ]
    assert below[-1] == "memory over the same time; a full block is the limit, 10 half-activation"
    first = "".join(rows[0].split("|")[1:])
    assert set(first) <= set("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ·")
    assert len(rows[0]) - 2 - rows[0].count("|") - 1 == WIDTH


def test_limits_that_differ_are_those_of_each_device() -> None:
    assert memory_lines(shown(TWO, STEADY))[-1] == (
        "memory over the same time; a full block is each device's limit, at most 10 GiB"
    )


def test_the_page_has_memory_below_the_bars_and_labels_for_those_who_zoom_in() -> None:
    problem = pipeline(2, 64)
    plan = one_after_the_other(problem)
    text = "".join(to_html(part) for part in sections(problem, plan, shown(problem, plan)))
    assert ">memory up to 2 of 10 half-activation</text>" in text
    assert text.count("</svg>limit</li>") == 2, "of memory at its peak, and over time"
    needed = [int(width) for width in re.findall(r'inside later[^>]*data-needs="(\d+)"', text)]
    assert needed
    assert all(1040 < width <= 8 * 1040 for width in needed)
    assert 'data-part="memory over time"' not in text, "it is below the bars"
    steady = "".join(to_html(part) for part in sections(TWO, STEADY, shown(TWO, STEADY)))
    assert steady.count('class="steady"') == len(TWO.devices) + 2 + 1, (
        "and on two lanes of memory and in the legend"
    )
