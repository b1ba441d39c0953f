"""Pictures are written whole, by the ending of the file, and are the same for the same facts; every kind of plan has
one, which shows the numbers of the referee and in which everything can be read, wide and narrow, light and dark."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.image as mpimg
import pandas
import pytest
from command_line import has
from fontTools.ttLib import TTFont
from hypothesis import given
from hypothesis import strategies as st
from legibility import DESK, PHONE, faults, opened
from page_samples import CHAIN, FORK, PATTERN, QUICK
from problems.graph_pipelines_with_plans import chain_plan, chain_problem

from pipeplan import MemoryStudy, PatternPlan, SmallestMemory, StagedPlan, Stop, load_packaged, simulate, solve
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.chain.referee import evaluate_pattern
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.referee import NotAStageGraphError, StageGraphRules
from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.instances.placement.referee.verify import LatencyRules
from pipeplan.instances.registry import KINDS
from pipeplan.planners.referee import rules_of
from pipeplan.show.front import draw_front, of_chain, of_memory
from pipeplan.show.lanes import FEW, MANY, from_zero, number, ranks, round_ends, ticks
from pipeplan.show.pictures import (
    GROUND,
    INK,
    canvas,
    draw_plan,
    draw_view,
    format_of,
    write_picture,
    write_profile,
)
from pipeplan.show.views import view_of, view_of_simulation
from pipeplan.show.words import plain
from pipeplan.studies.chain_memory import Curve, Settings
from pipeplan.studies.sweep import Candidate, CurvePoint

# ---- files -------------------------------------------------------------------------------------------


def drawn(path: Path) -> bytes:
    with canvas() as figure:
        figure.subplots().plot([1, 2], [3, 4], label="<script>")
        figure.legend()
        write_picture(figure, path)
    return path.read_bytes()


def test_an_svg_has_escaped_text_and_the_font_of_its_words(tmp_path: Path) -> None:
    """So that they are as wide as they were drawn, whatever fonts its viewer has."""
    svg = drawn(tmp_path / "one.svg").decode()
    has(svg, "&lt;script&gt;")
    assert "<script" not in svg
    (data,) = re.findall(r"@font-face \{ font-family: 'DejaVu Sans'; src: url\(data:font/ttf;base64,([^)]*)\)", svg)
    held = TTFont(io.BytesIO(base64.b64decode(data))).getBestCmap()
    assert set(map(ord, "<script>1234")) <= held.keys()
    assert "'DejaVu Sans'" in svg.partition("</style>")[2]


def test_the_ending_decides_the_format(tmp_path: Path) -> None:
    assert drawn(tmp_path / "one.PNG").startswith(b"\x89PNG")
    assert drawn(tmp_path / "one.pdf").startswith(b"%PDF")
    assert drawn(tmp_path / "one.pdf") == drawn(tmp_path / "two.pdf")
    for name in ("plan.gif", "plan"):
        with pytest.raises(InputError, match=r"name a file that ends in \.svg, \.png or \.pdf"):
            format_of(name)


@pytest.mark.parametrize(("most", "named"), [(60.0, b">20<"), (1e7, b">10,000<")])
def test_logarithmic_axes_have_numbers_and_no_source_of_formulas(tmp_path: Path, most: float, named: bytes) -> None:
    with canvas() as figure:
        axes = figure.subplots()
        axes.plot([5, most], [0.02, 0.4])
        axes.set(xscale="log", yscale="log")
        write_picture(figure, tmp_path / "log.svg")
    text = (tmp_path / "log.svg").read_bytes()
    assert b"mathdefault" not in text
    assert named in text
    assert b">0.05<" in text


@pytest.mark.sweeps
def test_the_ink_of_an_svg_is_that_of_the_page_and_black_on_paper(tmp_path: Path) -> None:
    with canvas() as figure:
        axes = figure.subplots()
        axes.scatter([1], [2], c=[GROUND], edgecolors="#4477aa")
        axes.text(1, 2, "on a bar", color="black")
        for ending in ("svg", "png"):
            write_picture(figure, tmp_path / f"one.{ending}")
    text = (tmp_path / "one.svg").read_text("utf-8")
    assert not {colour for colour in (INK, GROUND) if colour in text}
    has(text, 'class="ground"', "prefers-color-scheme: dark")
    assert "fill: currentColor" in re.findall(r"<text[^>]*>", text)[0]
    assert "currentColor" not in next(tag for tag in re.findall(r"<text[^>]*>[^<]*", text) if "on a bar" in tag)
    assert tuple(mpimg.imread(tmp_path / "one.png")[0, 0]) == (1, 1, 1, 1), "other files have their own ground"


# ---- plans -------------------------------------------------------------------------------------------


def svg(problem: Any, plan: Any, path: Path, rules: Any = None) -> str:
    draw_plan(problem, plan, path, rules)
    return path.read_text("utf-8")


@pytest.mark.slow("graph-pipeline", "placement", "schedule", "training")
@pytest.mark.sweeps("latency", "levels")
@pytest.mark.parametrize("kind", sorted(QUICK))
def test_every_kind_has_a_picture_which_is_the_same_for_the_same_plan(kind: str, tmp_path: Path) -> None:
    assert set(KINDS) <= set(QUICK)
    name, planner = QUICK[kind]
    problem = load_packaged(name)
    result = solve(problem, planner=planner)
    rules = rules_of(problem, result.options)
    text = svg(problem, result.plan, tmp_path / "one.svg", rules)
    assert text.startswith("<?xml")
    has(text, problem.name, {"latency": "latency", "levels": "levels"}.get(kind, "memory"))
    assert svg(problem, result.plan, tmp_path / "two.svg", rules) == text


TWICE = PatternPlan(8, (0, 1), ((0, 2, 3, 5), (4, 6, 7, 9)), ({1: 1, 3: 4}, {1: 5, 3: 8}))


@pytest.mark.slow
def test_a_pattern_shows_tasks_batches_links_and_memory(tmp_path: Path) -> None:
    text = svg(CHAIN, PATTERN, tmp_path / "plan.svg")
    words = "F1₁,B2₁,gpu0: layer 1,gpu1: layer 2,link0-1,kept activations,buffers,limit,forward,backward,transfer"
    has(text, *(f">{word}</text>" for word in (*words.split(","), "time (ms)")))
    for use in evaluate_pattern(CHAIN, PATTERN).devices:
        has(text, f">gpu{use.gpu}, memory up to {use.peak_bytes:.4g} of 20 B</text>")
    has(text, "<title>F1 of batch 1, gpu0: 0 to 1 ms</title>")  # what a browser says below the pointer
    has(svg(CHAIN, TWICE, tmp_path / "twice.svg"), "for 2 batches", ">3</text>")


def test_kinds_of_memory_that_do_not_occur_are_not_in_the_legend(tmp_path: Path) -> None:
    text = svg(CHAIN.replace(memory_mode="weights", memory_bytes=None), PATTERN, tmp_path / "plan.svg")
    assert [f">{word}</text>" in text for word in ("weights", "kept activations", "limit")] == [True, False, False]


@pytest.mark.slow
def test_odd_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    """No formula, no markup, no control character, no end."""
    text = svg(CHAIN.replace(name="a$^{$<b>\x07" + "x" * 99), PATTERN, tmp_path / "plan.svg")
    has(text, "a$^{$&lt;b&gt;?xxx")
    assert "x" * 60 not in text


POOL = Device("cpu0", "cpu", ("x", "y", "z"))


def test_what_cannot_run_is_not_drawn(tmp_path: Path) -> None:
    torn = PlacementPlan((Device("acc0", "accelerator", ("b", "a"), (("b",), ("a",))), POOL))
    with pytest.raises(UsageError, match="wait for each other in a circle"):
        draw_plan(FORK, torn, tmp_path / "torn.svg", LatencyRules())
    with pytest.raises(NotAStageGraphError, match="in no stage"):
        view_of(chain_problem(3), chain_plan(2), StageGraphRules())
    locked = StageGraphPlan((GraphStage((0,), 1, 3, 3, 15), GraphStage((1,), 1, 2, 4, 8)), ((0, 1),))
    assert "The schedule cannot be run" in svg(chain_problem(2, 24), locked, tmp_path / "locked.svg")


def test_stages_and_times_stand_in_the_picture(tmp_path: Path) -> None:
    text = svg(chain_problem(3, memory_bytes=100), chain_plan(3), tmp_path / "plan.svg")
    has(text, "stage 2: operator", "depth 3")
    has(text.replace("&#39;", "'"), "idle 20.0 % of all devices' time")


# ---- in a browser ------------------------------------------------------------------------------------


def planned(name: str, planner: str) -> Callable[[Path], None]:
    def draw(path: Path) -> None:
        problem = load_packaged(name)
        result = solve(problem, planner=planner)
        assert result.plan is not None
        draw_plan(problem, result.plan, path, rules_of(problem, result.options))

    return draw


def draw_simulation(path: Path) -> None:
    problem, plan = chain_problem(4, 12), chain_plan(4, 1, 12)
    draw_view(view_of_simulation(problem, simulate(problem, plan)), path)


# The optimum, a rule of thumb that nearly reaches it, and one that has nothing at first.
PERIODS = {"exact-beaumont": (40, 31, 25), "contiguous": (44, 31, 26), "pipedream-eager": (None, 50, 33)}


def draw_periods(path: Path) -> None:
    points = tuple(
        CurvePoint(size, stop, None if value is None else Candidate(None, value, size, method), 20.0, method=method)
        for method, values in PERIODS.items()
        for size, value, stop in zip((1e9, 2e9, 3e9), values, (Stop.TIME, Stop.PROVEN, Stop.PROVEN), strict=True)
    )
    draw_front(of_chain(Curve(load_packaged("golden-4"), Settings(), None, points, True)), path)


def draw_memory(path: Path) -> None:
    points = tuple(
        CurvePoint(1e9 * 2**i, Stop.PROVEN, Candidate(StagedPlan(()), value, 1e9, "dp-piper"), bound=value)
        for i, value in enumerate((9.0, 5.0, 5.0))
    )
    least = SmallestMemory(1e9, 1e9, True, None, Stop.PROVEN, "the search")
    draw_front(of_memory(MemoryStudy(load_packaged("tiny-stages"), least, points, "dp-piper")), path)


def draw_profile(path: Path) -> None:
    methods = {"dp": [1.0, 1.0, 1.0], "greedy": [0.2, 0.6, 0.9], "local-search": [0.9, 1.0, 1.0]}
    write_profile(pandas.DataFrame({"ratio": [1.0, 1.1, 1.5], **methods}), path)


PICTURES: dict[str, Callable[[Path], None]] = {
    "placement": planned("tiny-chain", "dp"), "latency": planned("tiny-chain", "latency-greedy"),
    "periods": draw_periods, "chain": planned("resnet34-chain", "contiguous"),
    "staging": planned("resnet50-stages", "equi"), "graph pipeline": planned("case-study", "graphpipe"),
    "schedule": planned("zero-bubble-4x12", "list-schedule"), "simulation": draw_simulation,
    "memory": draw_memory, "profile": draw_profile,
}  # fmt: skip


@pytest.mark.xdist_group("browser")
@pytest.mark.sweeps("latency", "memory", "placement", "staging")
@pytest.mark.slow("chain", "graph pipeline", "periods", "profile", "schedule", "simulation")
@pytest.mark.parametrize("name", PICTURES)
def test_everything_can_be_read(browser: Any, tmp_path: Path, name: str) -> None:
    path, found = tmp_path / "picture.svg", {}
    PICTURES[name](path)
    for size in (DESK, PHONE):
        for scheme in ("light", "dark"):
            found[size, scheme] = faults(opened(browser, path, size, scheme))
    assert not any(found.values()), found


# ---- lanes -------------------------------------------------------------------------------------------------
# Axes begin and end at round values, and what is written beside them is round and never twice the same; nodes of a
# graph stand where few arrows cross.


@pytest.mark.parametrize(("low", "high", "written"), [
    (0, 427.2, "0 200 400"), (0, 0.01661, "0 0.005 0.010 0.015"), (0, 31529, "0 10000 20000 30000"),
    (15.98, 16.02, "15.98 15.99 16.00 16.01 16.02"), (-5, 5, "-5 0 5"), (7, 7, "7"),
])  # fmt: skip
def test_steps_are_1_2_or_5_and_have_as_many_decimals_as_it_takes(low: float, high: float, written: str) -> None:
    assert " ".join(text for _, text in ticks(low, high, FEW)) == written


AMOUNTS = st.floats(-1e9, 1e9).filter(lambda amount: abs(amount) > 1e-6)


@given(AMOUNTS, st.floats(1e-6, 1e9), st.sampled_from([FEW, MANY]))
def test_ticks_lie_within_and_differ_and_round_ends_are_outside_and_near(
    low: float, span: float, most: int
) -> None:
    high = low + max(span, abs(low) * 1e-6)
    slack, found, (start, end) = 1e-6 * (high - low), ticks(low, high, most), round_ends(low, high, FEW)
    assert len({text for _, text in found}) == len(found) <= most + 1
    assert all(low - slack <= value <= high + slack for value, _ in found)
    assert start <= low + slack
    assert end >= high - slack
    assert end - start <= 3 * (high - low)


def test_axes_without_any_length_have_one_and_begin_at_0_unless_values_would_look_alike() -> None:
    ends = [round_ends(low, high, FEW) for low, high in ((0.0, 100.0), (0.0, 0.0), (16.0, 16.0))]
    assert ends == [(0.0, 100.0), (0.0, 1.0), (0.0, 20.0)]
    assert [from_zero(low, high) for low, high in ((3.0, 13.0), (12.5, 13.0), (-1.0, 1.0))] == [0.0, 12.5, -1.0]


def test_large_numbers_are_written_out() -> None:
    values = (31529.4, 0.16614, 12.0, 3e12, 3.14159)
    assert [number(value) for value in values] == ["31529", "0.1661", "12", "3e+12", "3.142"]
    assert [plain(value) for value in (4392.34, 1234567.0, 0.00002)] == ["4392.3", "1234600", "0.00002"]


def test_branches_keep_their_rows() -> None:
    """Two branches of two stages that join: nobody's arrows cross."""
    assert ranks((0, 0, 1, 1, 2), ((0, 2), (1, 3), (2, 4), (3, 4)), 1) == [0, 1, 0, 1, 0]
    assert ranks((0, 0, 1, 1), ((1, 2), (0, 3)), 1) == [0, 1, 1, 0]
