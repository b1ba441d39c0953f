"""The inner problem under 1F1B equals enumeration of all layouts, simulated pass by pass."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pipeplan.planners.training import judging, pipeline_kernel
from pipeplan.planners.training.judging import Intervals, Pipeline, solve

WORST = 1e-9
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Word:
    """What is computed again, by unit: seconds that backward passes take longer, and bytes that are kept."""

    added_seconds: Array
    stash_bytes: Array
    only_first: int | None = None
    """Layers of a stage, from the first on, that the word holds for; None: all."""


@dataclass(frozen=True)
class Units:
    """A row of units, one by one."""

    forward_seconds: Array
    backward_seconds: Array
    static_bytes: Array
    tail_seconds: Array
    plain: Word
    word: Word
    """What holds for all units, or for the first layers of a stage, where the others are plain."""
    is_layer: list[bool]
    """Which units count where a word holds for the first layers of a stage alone."""
    transient_bytes: Array
    """[first unit, unit behind the last]: what a stage needs besides while it works on one micro-batch."""


def intervals_of(units: Units) -> Intervals:
    size = len(units.forward_seconds) + 1
    facts = np.zeros((size, size, 5))
    for first, end in itertools.combinations(range(size), 2):
        facts[first, end] = facts_of_stage(units, first, end)
    forward, backward, tail, stash, fixed = map(np.ascontiguousarray, np.moveaxis(facts, -1, 0))
    return Intervals(forward, backward, fixed, stash, tail)


def random_units(draw: random.Random) -> Units:
    """A row with layers alike, or units of any size; a heavy head; a word that saves memory and costs time."""
    count = draw.randint(2, 7)
    alike = draw.random() < 0.5
    times = [1.0 if alike else draw.uniform(0.2, 3) for _ in range(count)]
    times[-1] *= draw.choice((1, 1, 2.5, 4))
    times[0] *= draw.choice((1, 0.01))
    forward = np.array(times)
    ratio = draw.choice((1, 2, 2.2))
    stash = np.array([draw.choice((1.0, 4.0)) for _ in times])
    plain = word = Word(np.zeros(count), stash)
    if draw.random() < 0.7:
        share, only = draw.random(), draw.choice((None, 1, 2))
        word = Word(forward * (1 - share) * draw.random(), stash * share, only)
    transient = np.array([[draw.random() for _ in range(count + 1)] for _ in range(count + 1)])
    layer = [draw.random() < 0.8 for _ in times]
    tails = np.array([draw.choice((0, 0.5)) for _ in times])
    static = np.array([draw.uniform(1, 5) for _ in times])
    return Units(forward, forward * ratio, static, tails, plain, word, layer, transient)


def random_pipeline(seed: int) -> tuple[Units, Pipeline]:
    draw = random.Random(seed)
    units = random_units(draw)
    count = len(units.forward_seconds)
    stages = draw.randint(1, min(5, count))
    memory = draw.choice((1e9, draw.uniform(2, 60)))
    delays = tuple(draw.choice((0.0, 0.1, 0.7)) for _ in range(stages - 1))
    batches = draw.choice((1, 2, 3, 4, 7, 12))
    return units, Pipeline(intervals_of(units), stages, batches, memory, delays)


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    for cuts in itertools.combinations(range(1, total), parts - 1):
        borders = (0, *cuts, total)
        yield tuple(b - a for a, b in itertools.pairwise(borders))


def facts_of_stage(units: Units, first: int, end: int) -> tuple[float, float, float, float, float]:
    """Forward and backward seconds, tail, stash and other bytes, unit by unit."""
    word = units.word
    layers = 0
    backward = stash = 0.0
    for u in range(first, end):
        holds = word
        if word.only_first is not None:
            layers += units.is_layer[u]
            holds = word if layers <= word.only_first else units.plain
        backward += units.backward_seconds[u] + holds.added_seconds[u]
        stash += holds.stash_bytes[u]
    forward = sum(units.forward_seconds[first:end])
    fixed = sum(units.static_bytes[first:end]) + units.transient_bytes[first][end]
    return forward, backward, sum(units.tail_seconds[first:end]), stash, fixed


def simulated(p: int, m: int, stages: list[tuple[float, ...]], delays: tuple[float, ...]) -> float:
    """Each stage's list of passes, run as soon as what they wait for is done."""
    lists = []
    for k in range(p):
        warm = min(m, p - k)
        passes = [("F", n) for n in range(warm)]
        for n in range(m):
            passes.append(("B", n))
            if warm + n < m:
                passes.append(("F", warm + n))
        lists.append(passes)
    done: dict[tuple[str, int, int], float] = {}
    free = [0.0] * p
    while any(lists):
        for k in range(p):
            while lists[k]:
                kind, n = lists[k][0]
                before = None
                if kind == "F" and k > 0:
                    before = ("F", k - 1, n)
                elif kind == "B" and k < p - 1:
                    before = ("B", k + 1, n)
                if before is not None and before not in done:
                    break
                wait = 0.0
                if before is not None:
                    wait = done[before] + delays[min(k, before[1])]
                lists[k].pop(0)
                free[k] = max(free[k], wait) + stages[k][0 if kind == "F" else 1]
                done[kind, k, n] = free[k]
    return max(free[k] + stages[k][2] for k in range(p))


def made_by(units: Units, pipeline: Pipeline, layout: tuple[int, ...]) -> float | None:
    """The time of a layout; None: it does not fit."""
    p, m = pipeline.stages, pipeline.micro_batches
    borders = list(itertools.accumulate(layout, initial=0))
    stages = [facts_of_stage(units, borders[k], borders[k + 1]) for k in range(p)]
    if any(own[4] + min(m, p - k) * own[3] > pipeline.memory_bytes for k, own in enumerate(stages)):
        return None
    return simulated(p, m, stages, pipeline.delays)


def enumerated(units: Units, pipeline: Pipeline) -> float | None:
    layouts = compositions(len(units.forward_seconds), pipeline.stages)
    values = (made_by(units, pipeline, layout) for layout in layouts)
    return min((value for value in values if value is not None), default=None)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("start", range(0, 300, 25))
def test_the_best_layout_is_that_of_enumeration(start: int) -> None:
    some = 0
    for seed in range(start, start + 25):
        units, pipeline = random_pipeline(seed)
        best, truth = solve(pipeline), enumerated(units, pipeline)
        if truth is None:
            assert best.value is None, seed
            assert best.bound == float("inf"), seed
            continue
        some += 1
        assert best.value is not None, seed
        assert abs(best.value - truth) <= WORST * truth, seed
        assert best.value * (1 - WORST) <= best.bound <= best.value, seed
        assert made_by(units, pipeline, best.layout) == pytest.approx(best.value, rel=WORST), seed
    assert some > 10


@pytest.mark.machine_code
def test_plain_python_answers_the_same_until_machine_code_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines = [random_pipeline(3000 + seed)[1] for seed in range(40)]
    compiled = [solve(pipeline) for pipeline in pipelines]
    monkeypatch.setattr(judging, "compiled", lambda unit, entry, **_: getattr(unit, entry))
    assert [solve(pipeline) for pipeline in pipelines] == compiled


@pytest.mark.parametrize("seed", range(60))
def test_bounds_alone_and_cut_offs_never_exclude_the_best(seed: int) -> None:
    units, pipeline = random_pipeline(2000 + seed)
    truth = enumerated(units, pipeline)
    if truth is None:
        return
    assert solve(pipeline, most_nodes=-1).bound <= truth * (1 + WORST)
    below, above = solve(pipeline, cutoff=0.9 * truth), solve(pipeline, cutoff=1.1 * truth)
    assert 0.9 * truth * (1 - WORST) <= below.bound <= truth * (1 + WORST)
    assert above.value == pytest.approx(truth)
    rough = solve(pipeline, tolerance=0.05, most_nodes=3)
    assert rough.value is not None
    assert rough.bound <= truth * (1 + WORST)
    assert rough.value >= truth * (1 - WORST)


@pytest.mark.parametrize("seed", range(8))
def test_turns_that_repeat_others_are_counted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation of a long batch skips turns, and ends when the one of all turns does."""
    draw = random.Random(seed)
    p, m = draw.randint(1, 3), draw.randint(300, 600)
    forward, backward, tails = (np.array([draw.choice((0.1, 0.3, 0.7, 1)) for _ in range(p)]) for _ in range(3))
    down = np.cumsum([0.0, *(draw.choice((0, 0.2, 3)) for _ in range(p - 1))])
    short = pipeline_kernel.simulate(0, p, p, m, forward, backward, tails, down)
    monkeypatch.setattr(pipeline_kernel, "LONG", 10**9)
    assert short == pytest.approx(pipeline_kernel.simulate(0, p, p, m, forward, backward, tails, down), rel=1e-11)


def test_a_batch_of_millions_takes_no_more_turns_than_one_of_thousands() -> None:
    """Plain Python would run these turns for minutes."""
    turns = 0

    class Counted(np.ndarray):  # type: ignore[type-arg]
        def __getitem__(self, key: Any) -> Any:
            nonlocal turns
            turns += 1
            return super().__getitem__(key)

    backward = np.array([2.0, 2.0]).view(Counted)
    ones, down = np.ones(2), np.array([0.0, 0.5])
    pipeline_kernel.simulate(0, 2, 2, 10**9, ones, backward, ones, down)
    assert turns <= 2 * 2 * pipeline_kernel.LAG * pipeline_kernel.LONG * 2
