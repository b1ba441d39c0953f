"""Plans of every kind as they are shown: who runs what when, loads by part, memory in its own unit, and a sentence on
what binds; in a terminal and on a page timelines have memory below the same cells."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from command_line import has
from page_samples import CHAIN, FORK, PATTERN, QUICK
from problems.schedules import random_schedule
from problems.trainings import random_configuration, random_own_training, random_training

from pipeplan import DeviceType, PatternPlan, StagedPlan, TrainingProblem, load_packaged, solve
from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.referee.verify import LatencyRules
from pipeplan.instances.registry import KINDS
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.schedule.referee import evaluate_schedule
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.referee import IterationRules
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.planners.referee import rules_of
from pipeplan.show.page import to_html
from pipeplan.show.pictures import draw_plan
from pipeplan.show.report import sections
from pipeplan.show.terminal import draw, gantt
from pipeplan.show.views import PHASES, PlanView, Timeline, view_of
from pipeplan.show.views.training import view

# ---- every kind --------------------------------------------------------------------------------------


def solved(name: str, planner: str | None = None) -> PlanView:
    problem = load_packaged(name)
    result = solve(problem, planner=planner)
    assert result.plan is not None
    return view_of(problem, result.plan, rules_of(problem, result.options))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_parts_of_a_load_add_up_to_it(kind: str) -> None:
    found = solved(*QUICK[kind])
    rows = [row for table in found.tables for row in table.rows]
    assert [sum(row.parts.values()) for row in rows] == pytest.approx([row.load for row in rows])
    longest = max(row.load for row in rows)
    assert longest == pytest.approx(found.full_load) or (kind == "schedule" and longest < found.full_load), (
        "devices of a schedule wait for each other"
    )


def test_the_longest_bar_of_levels_is_the_time_in_the_title() -> None:
    found = solved("tiny-levels")
    rows = found.tables[0].rows
    assert [row.title for row in rows] == ["stage 0 (level 2, d 2)", "stage 0.0", "stage 0.1"]
    assert [sum(row.parts.values()) for row in rows] == pytest.approx([found.full_load] * 3)
    assert found.headline.startswith("6 s per micro-batch")
    assert [row.limit for row in rows] == [None, 15.0, 15.0]


def test_stages_on_types_of_devices_name_them_and_have_their_limits() -> None:
    kinds = (DeviceType("big", 2, 1.0, 70.0), DeviceType("small", 2, 0.8, 35.0))
    problem = load_packaged("tiny-stages").replace(memory_bytes=None, device_types=kinds)
    result = solve(problem)
    assert isinstance(result.plan, StagedPlan)
    (table,) = view_of(problem, result.plan, rules_of(problem, result.options)).tables
    limits = {"big": 70.0, "small": 35.0}
    for stage, row in zip(result.plan.stages, table.rows, strict=True):
        assert row.limit == limits[str(stage.device_type)]
        assert str(stage.device_type) in row.title


# ---- chains and placements ---------------------------------------------------------------------------


def test_a_terminal_names_tasks_where_it_has_room_and_has_the_same_colours() -> None:
    pattern, pipeline = view_of(CHAIN, PATTERN, rules_of(CHAIN, {})).timelines
    first, row = gantt(pattern, "ms")[0], gantt(pipeline, "ms")
    assert first.plain.strip().startswith("gpu0 |F1₁───")
    assert {str(span.style) for span in first.spans} == {f"#000000 on {colour}" for colour in PHASES[:2]}
    assert row[0].plain.strip().startswith("gpu0 |0000")
    assert "a" in row[0].plain, "backward of batch 0"
    assert "=" in row[2].plain


def test_links_without_any_transfer_that_takes_time_are_left_out() -> None:
    assert "link0-1" in view_of(CHAIN, PATTERN, rules_of(CHAIN, {})).timelines[0].lanes
    free = CHAIN.replace(transfer_times=None)
    found = view_of(free, PatternPlan(4, (0, 1), ((0, 1, 2, 3),), ({},)), rules_of(free, {}))
    assert found.timelines[0].lanes == ("gpu0", "gpu1")


SPLIT = PlacementPlan(
    (Device("acc0", "accelerator", ("a", "b"), (("a",), ("b",))), Device("cpu0", "cpu", ("x", "y", "z")))
)
ON_THE_POOL = PlacementPlan((Device("cpu0", "cpu", tuple("axybz")),))


def lanes_of(timeline: Timeline) -> dict[str, list[tuple[float, float, str]]]:
    """Start, end and name of what runs in each lane."""
    return {
        lane: [(bar.start, bar.end, bar.label) for bar in timeline.bars if bar.lane == lane]
        for lane in timeline.lanes
    }


def test_the_pool_takes_as_many_lanes_as_run_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    lanes = lanes_of(view_of(FORK, SPLIT, LatencyRules()).timelines[0])
    assert lanes["acc0"] == [(0.0, 1.5, "a"), (2.0, 4.0, "b")]
    assert list(lanes) == ["acc0", "CPU pool", "CPU pool 2", "CPU pool 3"]
    assert [name for lane in list(lanes)[1:] for _, _, name in lanes[lane]] == ["x", "y", "z"]
    alone = view_of(FORK, ON_THE_POOL, LatencyRules())
    spans = lanes_of(alone.timelines[0])
    assert (len(spans), sum(map(len, spans.values()))) == (4, 5), "one after the other they share a lane"
    draw(alone)
    assert "CPU pool |" in capsys.readouterr().out


def test_a_sample_that_takes_no_time_has_no_gantt() -> None:
    problem = PlacementProblem((Node("a", 0.0, 0.0, 0.0, 0.0),), (), 1, 0)
    plan = PlacementPlan((Device("acc0", "accelerator", ("a",), (("a",),)),))
    assert gantt(view_of(problem, plan, LatencyRules()).timelines[0], "s") == []


# ---- schedules ---------------------------------------------------------------------------------------


# Two stages and the link between them, in the steady state.
TWO = ScheduleProblem(
    (ScheduleDevice("d0", 10, 2), ScheduleDevice("d1", 8, 1), ScheduleDevice("link")),
    (
        Block("F0", "F", ("d0",), 1, 0, {"d0": 2}), Block("S", "X", ("link",), 0.5),
        Block("F1", "F", ("d1",), 1, 1, {"d1": 2}), Block("B1", "B", ("d1",), 2, 1, {"d1": -2}, {"d1": 1}),
        Block("R", "X", ("link",), 0.5), Block("B0", "B", ("d0",), 2, 0, {"d0": -2}),
    ),
    tuple(BlockEdge(a, b) for a, b in (("F0", "S"), ("S", "F1"), ("F1", "B1"), ("B1", "R"), ("R", "B0"))),
    name="two",
    time_unit="ms",
    memory_unit="GiB",
)  # fmt: skip

TIMES = {"F0": 0, "S": 1, "F1": 2, "B1": 3, "R": 5, "B0": 7}
# A micro-batch takes 9 ms, three periods: from 6 ms on nothing is missing.
STEADY = PeriodicSchedulePlan(Fraction(3), {block: Fraction(time) for block, time in TIMES.items()})


def shown(problem: ScheduleProblem, plan: AnySchedule | None = None, **options: str) -> PlanView:
    return view_of(problem, plan or one_after_the_other(problem), rules_of(problem, options))


def one_after_the_other(problem: ScheduleProblem) -> SchedulePlan:
    """Every block alone: a schedule of whatever problem has no lags."""
    assert problem.micro_batches is not None
    whole, ends = sum(problem.times, Fraction(0)), accumulate(problem.times[b] for b in problem.order)
    begins = {problem.blocks[b].id: end - problem.times[b] for b, end in zip(problem.order, ends, strict=True)}
    return SchedulePlan(
        {name: tuple(n * whole + begin for n in range(problem.micro_batches)) for name, begin in begins.items()}
    )


def pipeline(stages: int = 2, micro_batches: int = 3) -> ScheduleProblem:
    return divided_pipeline(equal_stages(stages, 5, 6, 4), micro_batches, 10, name="small")


def test_bars_have_the_number_of_their_micro_batch_and_the_colour_of_their_kind() -> None:
    (timeline,) = shown(pipeline()).timelines
    assert timeline.lanes == ("d0", "d1")
    assert [(bar.lane, bar.start, bar.end, bar.label, bar.mark) for bar in timeline.bars[:4]] == [
        ("d0", 0, 5, "0", "0"), ("d1", 5, 10, "0", "0"), ("d1", 10, 16, "0", "a"), ("d0", 16, 22, "0", "a"),
    ]  # fmt: skip
    names = {bar.title.split()[0][0]: timeline.colours[bar.colour] for bar in timeline.bars}
    assert names == {"F": "forward", "I": "backward (for inputs)", "W": "backward for weights"}
    whole = shown(TWO, STEADY).timelines[0]
    assert [whole.colours[i] for i in whole.explained] == ["forward", "backward", "other"]


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
    curves = shown(problem, plan).memory
    assert {curve.name: max(curve.totals) for curve in curves} == pytest.approx(
        {curve.name: peaks[curve.name] for curve in curves}
    )


def test_memory_is_in_the_unit_of_the_problem_and_a_link_has_none() -> None:
    found, steady = shown(pipeline()), shown(TWO, STEADY)
    columns = found.tables[0].columns(found.tables[0].rows, found.memory_unit)
    assert (columns["memory"], columns["full"]) == (["2 half-activation"] * 2, ["20%"] * 2)
    assert found.memory_unit.scale(59520) == (1, "half-activation")
    assert steady.memory_unit.text(8) == "8 GiB"
    assert [curve.name for curve in steady.memory] == ["d0", "d1"]
    assert steady.tables[0].rows[2].memory is None


def with_block(problem: ScheduleProblem, name: str, time: float) -> ScheduleProblem:
    blocks = (replace(block, time=time) if block.id == name else block for block in problem.blocks)
    return problem.replace(blocks=tuple(blocks))


SAME = "every device works for 45"


@pytest.mark.parametrize(("found", "limits"), [
    (lambda: shown(TWO, STEADY), "all devices are always busy"),
    (lambda: shown(with_block(TWO, "F1", 0.5), STEADY),
     "d0 limits it and is always busy; devices are idle for 8.33 % of the period"),
    (lambda: shown(pipeline(), objective="span"),
     f"{SAME}; the slowest takes 90 from its first pass to its last, of which it idles 50 %"),
    (lambda: shown(pipeline(), objective="makespan"),
     f"{SAME}; devices are idle for 50 % of the makespan"),
    (lambda: shown(with_block(pipeline(), "W1", 5)),
     "waiting for data or memory limits it, even d1 is busy for no more than 51.6 % of it"),
], ids=["busy", "one", "span", "makespan", "uneven"])  # fmt: skip
def test_a_sentence_says_what_limits_a_schedule(found: Callable[[], PlanView], limits: str) -> None:
    assert found().limits.startswith(limits)


def test_two_kinds_of_idle_have_two_names() -> None:
    """A device's own span counts where the span is minimised, else all of the value; the headline says the same."""
    span = shown(pipeline(), objective="span")
    assert (span.value, shown(TWO, STEADY).value) == ("span 90 for 3 micro-batches", "period 3 ms per micro-batch")
    assert span.tables[0].rows[0].cells["idle in own span"].removesuffix(" %") in span.headline
    assert span.headline.endswith("of their own spans")
    assert all("idle" in found.tables[0].rows[0].cells for found in (shown(pipeline()), shown(TWO, STEADY)))


@pytest.mark.slow
def test_many_micro_batches_are_a_small_picture(tmp_path: Path) -> None:
    problem, path = pipeline(4, 64), tmp_path / "plan.svg"
    draw_plan(problem, one_after_the_other(problem), path)
    assert path.stat().st_size < 1_000_000


def test_the_page_has_memory_below_the_bars_and_labels_for_those_who_zoom_in() -> None:
    def page(problem: ScheduleProblem, plan: AnySchedule) -> str:
        return "".join(to_html(part) for part in sections(problem, plan, shown(problem, plan)))

    text = page(pipeline(2, 64), one_after_the_other(pipeline(2, 64)))
    has(text, ">memory up to 2 of 10 half-activation</text>")
    assert text.count("</svg>limit</li>") == 2, "of memory at its peak, and over time"
    needed = [int(width) for width in re.findall(r'inside later[^>]*data-needs="(\d+)"', text)]
    assert needed
    assert all(1040 < width <= 8 * 1040 for width in needed)
    assert 'data-part="memory over time"' not in text, "it is below the bars"
    lines = page(TWO, STEADY).count('class="steady"')
    assert lines == len(TWO.devices) + 2 + 1, "and on two lanes of memory and in the legend"


# ---- trainings ---------------------------------------------------------------------------------------


RULES = IterationRules()


def llama(**changes: str) -> TrainingProblem:
    return problem_of("llama-3-8b", "16xh100-80gb", batch=64, sequence=8192, **changes)


def seen(words: str, **changes: str) -> PlanView:
    return view(llama(**changes), configuration_from_words(llama(**changes), words), RULES)


def test_each_stage_is_a_row_with_its_time_and_memory_by_part() -> None:
    own = RULES.evaluation(llama(), configuration_from_words(llama(), "tensor=2 pipeline=4"))
    (table,) = seen("tensor=2 pipeline=4").tables
    for row, memory, time in zip(table.rows, own.memory, own.timing.ranks, strict=True):
        assert (row.memory, row.limit) == (memory.parts, llama().memory_bytes)
        assert row.load == pytest.approx(own.timing.seconds - time.idle - time.pipeline)
        assert sum(row.parts.values()) == pytest.approx(row.load)
    assert [(row.name, row.slowest) for row in table.rows] == [
        ("0", False),
        ("1", False),
        ("2", False),
        ("3", True),
    ], "the head weighs as much as several layers"


def test_the_timeline_has_a_lane_for_each_stage_and_says_how_much_it_shows() -> None:
    (line,), (longer,) = seen("pipeline=4").timelines, seen("tensor=2 pipeline=8").timelines
    assert line.lanes == ("stage 0", "stage 1", "stage 2", "stage 3")
    assert sum(bar.lane == "stage 0" for bar in line.bars) == 2 * 16
    assert (line.title, longer.title) == ("16 micro-batches, simulated", "24 of 64 micro-batches, simulated")


def test_units_have_their_names_and_bars_of_one_stage_do_not_overlap() -> None:
    found = seen("pipeline=2 virtual=2 layout=9/8/8/9")
    held = [row.held.text() for row in found.tables[0].rows if row.held is not None]
    assert held == ["embedding-layer 7, layer 16-23", "layer 8-15, layer 24-head"]
    (line,) = found.timelines
    for bars in lanes_of(line).values():
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(bars))
    assert any(bar.title.endswith("of chunk 2") for bar in line.bars)


def test_divided_backward_passes_have_a_colour_of_their_own() -> None:
    (line,) = seen("pipeline=2 virtual=2 schedule=zb-v layout=9/8/8/9", framework="torchtitan").timelines
    assert {bar.colour for bar in line.bars} == {0, 1, 2}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_can_be_evaluated_can_be_shown(seed: int) -> None:
    for problem in (random_training(seed), random_own_training(seed)):
        plan = random_configuration(problem, seed)
        found = view_of(problem, plan, RULES)
        assert math.isfinite(found.full_load)
        assert len(found.tables[0].rows) == plan.degrees.pipeline
        assert all(sentence.strip() for sentence in found.sentences)
