"""Amounts in units that can be read, times between 1 and 1000 of theirs, and layers as ranges: whole where there is
room, shortened from the middle where there is not."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import has

from pipeplan import Node, PlacementProblem, load_packaged, packaged_names, solve
from pipeplan.instances.chain.referee import TERMS as CHAIN_TERMS
from pipeplan.planners.referee import rules_of
from pipeplan.show.page import tag, to_html
from pipeplan.show.pictures import draw_plan
from pipeplan.show.report import result_page
from pipeplan.show.views import (
    CATEGORIES,
    COMPUTATION,
    LOADS,
    MEMORY,
    PHASE_NAMES,
    PHASES,
    TERMS,
    TRAINING,
    contrast,
    ink_on,
    luminance,
    view_of,
)
from pipeplan.show.words import IN_BYTES, Order, Range, amount, memory_unit, order_of, shortened, time_scale


@pytest.mark.parametrize(("value", "unit", "said"), [
    (0.1464206, "s", "146.4206 ms"), (30568.0, "us", "30.568 ms"), (12.0, "us", "12 µs"), (1000.0, "ms", "1 s"),
    (0.0, "s", "0 s"), (7200.0, "s", "7200 s"), (0.5, "ns", "0.5 ns"), (0.25, None, "0.25"),
    (0.25, "cycles", "0.25 cycles"),
])  # fmt: skip
def test_times_are_told_in_the_unit_that_suits_them(value: float, unit: str | None, said: str) -> None:
    assert amount(value, unit) == said


def test_bytes_are_told_in_the_multiple_that_suits_them_and_an_unknown_unit_has_no_name() -> None:
    assert memory_unit("bytes") is IN_BYTES
    assert IN_BYTES.text(2e9) == "1.86 GiB"
    assert IN_BYTES.scale(2e9) == (2**30, "GiB")
    assert IN_BYTES.like([None, 80e9]).text(2e9) == "2 GB", "somebody has written 80GB"
    assert IN_BYTES.like([None, 2**33, 123456789.0]) is IN_BYTES
    assert memory_unit(None).text(2e9) == "2000000000"
    assert memory_unit(None).scale(7) == (1, "")


@pytest.mark.at_once(7, "slow")
@pytest.mark.slow("s-case-study-graphpipe")
@pytest.mark.parametrize(("name", "planner"), [
    ("tiny-chain", "dp"), ("tiny-chain", "latency-greedy"), ("case-study", "graphpipe"),
    ("golden-4", "exact-beaumont"), ("bert-large-stages", "equi"), ("tiny-levels", "dp-piper"),
])  # fmt: skip
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_answer_table_legend_and_timeline_have_one_unit(name: str, planner: str, unit: str) -> None:
    problem = load_packaged(name).replace(time_unit=unit)
    result = solve(problem, planner=planner)
    assert result.plan is not None
    view = view_of(problem, result.plan, rules_of(problem, result.options))
    assert time_scale(view.full_load, view.unit) == (1.0, view.unit)
    wanted = re.search(r"[\d.e+-]+ (s|ms|µs|ns)\b", view.value)
    assert {view.unit, view.time_unit} <= {wanted[1], view.unit if "iteration" in view.value else wanted[1], unit}
    assert not view.legend or re.search(rf": {view.unit} per ", view.legend) or "load" not in view.legend
    for row in view.tables[0].rows:
        assert row.load <= view.full_load * (1 + 1e-9)
        assert not row.times
    if name == "golden-4":
        assert view.timelines[0].end == pytest.approx(view.full_load), "a period is as long in any unit"


# ---- wherever a packaged instance is shown -----------------------------------------------------------


# A planner of each kind that takes a moment.
QUICK = {
    "placement": "greedy", "chain": "contiguous", "staging": "equi", "graph-pipeline": "spp-pipedream",
    "schedule": "1f1b",
}  # fmt: skip
# The unit as files spell it, and numbers that nobody reads at a glance.
RAW = re.compile(r"\bus\b|(?<![\d.])\d{7,}|\d+e\+\d+")
NAMES = [(kind, name) for kind in QUICK for name in packaged_names(kind)]


def seen(text: str) -> str:
    """Words of a page or a picture: without the result as JSON, styles, identifiers and the hash of the problem."""
    text = re.sub(
        r"<(style|script|pre|metadata).*?</\1>|<dt>instance hash</dt><dd>.*?</dd>", "", text, flags=re.DOTALL
    )
    return "\n".join(re.findall(r">([^<>]*\S[^<>]*)<", text))


@pytest.mark.parametrize(
    ("kind", "name"),
    [entry if entry[1] == "memory-tight" else pytest.param(*entry, marks=pytest.mark.slow) for entry in NAMES],
)
def test_units_suit_eyes_wherever_a_packaged_instance_is_shown(
    plan: Any, tmp_path: Path, kind: str, name: str
) -> None:
    problem = load_packaged(name)
    periodic = kind == "schedule" and problem.micro_batches is None
    planner = "list-schedule" if periodic else QUICK[kind]
    result = solve(problem, planner=planner)
    if result.plan is None:
        pytest.skip(f"{planner} has no plan for {name}")
    draw_plan(problem, result.plan, tmp_path / "plan.svg", rules_of(problem, result.options))
    said = plan("solve", name, "--planner", planner, "--verbose").out
    shown = {
        "page": seen(result_page(problem, result)),
        "picture": seen((tmp_path / "plan.svg").read_text("utf-8")),
        "terminal": "\n".join(line for line in said.splitlines() if "|" not in line),  # where digits are marks
    }
    assert all(len(text) > 200 for text in shown.values())
    assert {where: RAW.findall(text) for where, text in shown.items() if RAW.search(text)} == {}


def test_what_more_memory_is_worth_has_a_name_and_an_axis_from_zero(plan: Any, tmp_path: Path) -> None:
    said = plan("memory", "tiny-stages", "--picture", tmp_path / "memory.svg")
    words = seen((tmp_path / "memory.svg").read_text("utf-8")).splitlines()
    assert "time per micro-batch in s" in said.out
    has(words, "time per micro-batch (s)", "0")


def test_spaces_that_do_not_break_are_spaces_and_control_characters_stay_readable() -> None:
    text = to_html(tag("p", None, "gap 5\N{NO-BREAK SPACE}%\a"))
    assert "gap 5\N{NO-BREAK SPACE}%\\x07" in text


# ---- names of layers ---------------------------------------------------------------------------------


NUMBERED = [str(i) for i in range(12)]


@pytest.mark.parametrize(("names", "places", "text"), [
    (NUMBERED, range(12), "0-11"), (NUMBERED, (9, 2, 3, 0, 4), "0, 2-4, 9"), (NUMBERED, (), ""),
    ([f"layer {i}" for i in range(12)], (3, 4, 5), "layer 3-5"),
    ([f"layer{i}" for i in range(12)], (3, 4, 5), "layer3-layer5"),
    (["embedding", "layer0", "layer1"], (0, 1, 2), "embedding-layer1"),
    (["conv-1", "conv-2"], (0, 1), "conv-1 to conv-2"),  # a hyphen of their own
])  # fmt: skip
def test_neighbours_become_ranges_in_the_order_in_which_they_run(
    names: list[str], places: tuple[int, ...], text: str
) -> None:
    assert Order(dict(enumerate(names))).fold(places).text() == text


def test_what_is_held_is_named_and_counted() -> None:
    order = Order(dict(enumerate(NUMBERED)))
    assert [order.fold(ids).named("layer") for ids in ([4], [4, 5], [])] == ["layer 4", "layers 4-5", "no layers"]
    assert order.fold([4, 5]).named("layer", 9) == "4-5", "no room"
    assert Order({0: "layer0", 1: "layer1"}).fold([0, 1]).named("layer") == "layer0-layer1"
    implied = order.fold([4, 5, 8], implied={8})
    assert (implied.count, implied.text()) == (3, "4-5")
    assert order.fold([4, 99]).count == 1, "unknown"


def test_texts_keep_to_their_width() -> None:
    names = [f"block{i}.attention.projection" for i in range(30)]
    held = Order(dict(enumerate(names))).fold([*range(5), 7, *range(9, 20), 25])
    for most in range(13, 60):
        text = held.text(most)
        assert len(text) <= most
        assert text.startswith("b")
        assert held.text() == text or ".." in text or "+" in text


@pytest.mark.parametrize(("first", "last", "most", "said"), [
    ("branch0.0.attention", "branch0.1.down", 24, "branch0.0..-1.down"),
    ("branch0.0.attention", "branch0.1.down", 26, "branch0.0.attention-1.down"),
    ("model.layers.12.attn", "model.layers.17.mlp", 30, "model.layers.12.attn-17.mlp"),
    ("model.layers.12.attn", "model.layers.17.mlp", 60, "model.layers.12.attn-model.layers.17.mlp"),
    ("branch0.1.attention", "branch0.1.attention", 13, "branch0.1.."),
    ("ParallelTransformerLayer17", "ParallelTransformerLayer17", 12, "Paral..yer17"),
    ("short", "short", 12, "short"),
])  # fmt: skip
def test_what_names_share_goes_first_then_what_stands_behind_their_numbers_or_in_their_middle(
    first: str, last: str, most: int, said: str
) -> None:
    assert Range(first, last).text(most) == said


def test_no_number_is_cut_and_dots_stand_alone() -> None:
    for most in range(8, 24):
        assert re.search(r"(?<!\d)1234$", shortened("TransformerLayerOfMine1234", most))
        assert "..." not in shortened("model.embed_tokens", most)


@pytest.mark.parametrize(("ids", "names", "edges", "order"), [
    ("cab", (None, None, None), (("a", "b"), ("b", "c")), "a, b, c"),  # along the edges where the file is not
    ("ab", ("in", "out"), (), "in, out"), ("ab", ("same", "same"), (), "a, b"), ("ab", ("in", None), (), "a, b"),
])  # fmt: skip
def test_nodes_stand_as_they_run_and_go_by_names_of_their_own(
    ids: str, names: tuple[str | None, ...], edges: tuple[tuple[str, str], ...], order: str
) -> None:
    own = zip(ids, names, strict=True)
    nodes = tuple(Node(id=i, name=name, accelerator_time=1.0, cpu_time=1.0) for i, name in own)
    problem = PlacementProblem(name="p", nodes=nodes, edges=edges, accelerators=1, cpus=0, memory_bytes=None)
    assert ", ".join(order_of(problem, problem.nodes).names) == order


# ---- colours -----------------------------------------------------------------------------------------------
# Colours are told apart by everyone, passes back are darker, and what is written on a colour can be read.


# On linear light, row after row, after Machado, Oliveira and Fernandes (2009).
SEEN_BY = {
    "all": np.eye(3),
    "protanopes": [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
    "deuteranopes": [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
    "tritanopes": [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
PAGES = ("#ffffff", "#0f141a")


def light(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(seen: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(np.clip(TO_XYZ @ seen, 0.009, 1) / (0.9505, 1.0, 1.089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def difference(one: str, other: str, reader: str) -> float:
    """For one who sees colours so."""
    first, second = (lab(np.reshape(SEEN_BY[reader], (3, 3)) @ light(colour)) for colour in (one, other))
    return float(np.linalg.norm(first - second))


MOVED = [LOADS[name] for name in ("transfers", "transfers in", "transfers out", "larger of links and inside")]
TAKES = {name: colour for name, colour in TRAINING.items() if name != "gradients"}
HOLDS = [TERMS["weights"], LOADS["gradients"], LOADS["optimizer"], TERMS["kept"]]
# What may lie side by side. Computation comes first and idling last, with something between them.
PAIRS = {
    "phases": combinations(PHASES, 2),
    "terms": pairwise(TERMS.values()),
    "categories": pairwise(CATEGORIES),
    "work and all else that a load has": ((COMPUTATION, other) for other in MOVED),
    "parts of a training's time": combinations(TAKES.values(), 2),
    "computation and these": ((COMPUTATION, colour) for name, colour in TAKES.items() if name != "imbalance"),
    "parts of a training's memory": pairwise(HOLDS),
}


@pytest.mark.parametrize("pairs", [pytest.param(list(pairs), id=name) for name, pairs in PAIRS.items()])
@pytest.mark.parametrize("reader", SEEN_BY)
def test_what_lies_side_by_side_is_told_apart_by_everyone(reader: str, pairs: list[tuple[str, str]]) -> None:
    assert min(difference(one, other, reader) for one, other in pairs) > 18


def test_phases_stand_out_from_light_and_dark_pages_and_what_goes_back_is_darker() -> None:
    assert min(contrast(colour, page) for colour in PHASES for page in PAGES) > 3
    forward, backward, for_weights = map(luminance, PHASES[:3])
    assert forward > backward > for_weights


@pytest.mark.parametrize("colour", dict.fromkeys((*PHASES, *TERMS.values(), *CATEGORIES, *LOADS.values())))
def test_what_is_written_on_a_colour_can_be_read(colour: str) -> None:
    assert contrast(colour, ink_on(colour)) >= 4.5


def test_every_phase_has_a_name_every_kind_of_memory_of_chains_a_colour_and_work_that_of_no_device() -> None:
    assert COMPUTATION not in (*CATEGORIES, *PHASES, *MEMORY.values())
    assert len(PHASES) == len(PHASE_NAMES)
    assert tuple(TERMS) == tuple(CHAIN_TERMS)
    assert set(MEMORY.values()) - {MEMORY["gradients"], MEMORY["optimizer"]} == set(TERMS.values())
