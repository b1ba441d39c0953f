"""A training configuration as it is shown: stages with time and memory by part, and what runs when."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from problems.trainings import random_configuration, random_own_training, random_training

from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.referee import IterationRules
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.show.view import PlanView, view_of
from pipeplan.show.views.training import view

RULES = IterationRules()


def llama() -> TrainingProblem:
    return problem_of("llama-3-8b", "16xh100-80gb", batch=64, sequence=8192)


def seen(words: str) -> PlanView:
    return view(llama(), configuration_from_words(llama(), words), RULES)


def test_each_stage_is_a_row_with_its_time_and_memory_by_part() -> None:
    own = RULES.evaluation(llama(), configuration_from_words(llama(), "tensor=2 pipeline=4"))
    (table,) = seen("tensor=2 pipeline=4").tables
    assert [row.name for row in table.rows] == ["0", "1", "2", "3"]
    for row, memory, time in zip(table.rows, own.memory, own.timing.ranks, strict=True):
        assert row.memory == memory.parts
        assert row.limit == llama().memory_bytes
        assert row.load == pytest.approx(own.timing.seconds - time.idle - time.pipeline)
        assert sum(row.parts.values()) == pytest.approx(row.load)
    assert [row.name for row in table.rows if row.slowest] == ["3"], "the head weighs as much as several layers"


def test_units_have_their_names() -> None:
    (table,) = seen("pipeline=2 virtual=2 layout=9/8/8/9").tables
    held = [row.held.text() for row in table.rows if row.held is not None]
    assert held == ["embedding-layer 7, layer 16-23", "layer 8-15, layer 24-head"]


def test_the_timeline_has_a_lane_for_each_stage_and_says_how_much_it_shows() -> None:
    (line,) = seen("pipeline=4").timelines
    assert line.title == "16 micro-batches, simulated"
    assert line.lanes == ("stage 0", "stage 1", "stage 2", "stage 3")
    assert sum(bar.lane == "stage 0" for bar in line.bars) == 2 * 16
    (longer,) = seen("tensor=2 pipeline=8").timelines
    assert longer.title == "24 of 64 micro-batches, simulated"


def test_bars_of_one_stage_do_not_overlap() -> None:
    (line,) = seen("pipeline=2 virtual=2 layout=9/8/8/9").timelines
    for lane in line.lanes:
        bars = [bar for bar in line.bars if bar.lane == lane]
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(bars))
    assert any(bar.title.endswith("of chunk 2") for bar in line.bars)


def test_divided_backward_passes_have_a_colour_of_their_own() -> None:
    problem = problem_of("llama-3-8b", "16xh100-80gb", batch=64, sequence=8192, framework="torchtitan")
    plan = configuration_from_words(problem, "pipeline=2 virtual=2 schedule=zb-v layout=9/8/8/9")
    (line,) = view(problem, plan, RULES).timelines
    assert {bar.colour for bar in line.bars} == {0, 1, 2}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_can_be_evaluated_can_be_shown(seed: int) -> None:
    for problem in (random_training(seed), random_own_training(seed)):
        plan: Configuration = random_configuration(problem, seed)
        shown = view_of(problem, plan, RULES)
        assert math.isfinite(shown.full_load)
        assert len(shown.tables[0].rows) == plan.degrees.pipeline
        assert all(sentence.strip() for sentence in shown.sentences)
