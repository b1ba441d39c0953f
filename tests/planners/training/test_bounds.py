"""No layout that fits is faster than a bound, however tight the memory is: by what ranks do and hold, and by paths."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pipeplan.instances.training.cases import NONE, WHOLE, ParallelismChoice
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.planners.training import bounds
from pipeplan.planners.training.bounds import LoadBound, PathBound
from pipeplan.planners.training.judging import LayoutEvaluator
from pipeplan.planners.training.search import Search

from ...problems.trainings import random_training

MOST_LAYOUTS = 130
CLOSE = 1e-9


def pipelines(seed: int) -> TrainingProblem:
    """Enough units for several chunks on a rank, and micro-batches enough to fill a pipeline."""
    slow = random.Random(seed).random() < 0.4
    problem = random_training(seed, devices=random.Random(seed).choice((4, 6) if slow else (2, 2, 3, 4)))
    model, devices = problem.model, problem.devices
    layers = random.Random(seed).randint(3, 7)
    # Of what slow links send between data-parallel ranks no more is hidden than a pass takes.
    levels = tuple(replace(level, bandwidth=level.bandwidth / 100) for level in problem.levels)
    experts = model.experts and replace(model.experts, dense_layers=min(model.experts.dense_layers, layers - 1))
    return problem.replace(
        model=replace(model, layers=layers, experts=experts),
        batch=devices * random.Random(seed).choice((2, 4, 6)),
        levels=levels if slow else problem.levels,
        efficiencies=replace(problem.efficiencies, data_hidden=1.0 if slow else 0.8),
        framework=("megatron", "megatron", "torchtitan", "deepspeed")[seed % 4],
    )


def choices(search: Search, draw: random.Random) -> list[ParallelismChoice]:
    """Some with more than one stage and few layouts."""
    found = [
        gamma
        for row in range(len(search.space))
        for gamma in search.space.gammas(row)
        if gamma.degrees.pipeline > 1
        and math.comb(search.space.units - 1, gamma.degrees.chunks - 1) <= MOST_LAYOUTS
    ]
    return draw.sample(found, min(6, len(found)))


Judged = list[tuple[float, float]]


def judged(judge: LayoutEvaluator) -> Judged:
    """Seconds and fullest rank of every layout."""
    answers = [judge.judge(layout) for layout in judge.all_layouts()]
    return [(seconds, max(held)) for seconds, held in answers]


def limits(found: Judged, draw: random.Random) -> list[float]:
    """Some that layouts meet exactly, and one that none does by far."""
    held = sorted({size for _, size in found})
    return [held[0] / 2, held[0], *draw.sample(held, min(4, len(held))), held[-1]]


def best(found: Judged, limit: float) -> float:
    return min((seconds for seconds, held in found if held <= limit), default=math.inf)


def compared(seed: int) -> Iterator[tuple[str, float, float]]:
    """What, its bound, and the least time of enumeration."""
    draw = random.Random(seed)
    search = Search(pipelines(seed))
    for gamma in choices(search, draw):
        words = draw.sample(search.space.words, min(3, len(search.space.words)))
        counted: dict[int | None, Judged] = {}
        for word, count in [*((word, None) for word in words), *((WHOLE, n) for n in (1, 2, 3, None))]:
            if gamma.schedule not in ("1f1b", "gpipe", "interleaved-1f1b") and word != NONE:
                continue
            search.space.maker.with_word(search.case(gamma), word)
            judge = LayoutEvaluator(search.case(gamma), word, count)
            found = judged(judge)
            if word == WHOLE:
                counted[count] = found
            own = LoadBound(search.loads(gamma), judge)
            for limit in limits(found, draw):
                yield f"{seed} {gamma} {word} {count}", own.seconds(limit), best(found, limit)
                yield (
                    f"{seed} {gamma} {word} {count} paths",
                    PathBound(own).seconds(limit, math.inf, rounds=4),
                    best(found, limit),
                )
        for least in (1, 2) if counted else ():
            several = [pair for count, own in counted.items() if count is None or count >= least for pair in own]
            judge = LayoutEvaluator(search.case(gamma), WHOLE, least)
            for limit in limits(several, draw):
                bound = LoadBound(search.loads(gamma), judge, least).seconds(limit)
                yield f"{seed} {gamma} from {least} layers on", bound, best(several, limit)


@pytest.mark.parametrize("seed", [258, *range(40)])
def test_no_layout_that_fits_is_faster_than_the_bound(seed: int) -> None:
    looked = 0
    for what, bound, truth in compared(seed):
        looked += truth < math.inf
        assert bound <= truth * (1 + CLOSE), what
    assert looked


def test_the_bound_knows_time_and_memory() -> None:
    """Where nothing fits by far it says so, and it is not far below the least time."""
    found = [own for seed in range(2) for own in compared(seed)]
    assert any(bound == math.inf for _, bound, _ in found)
    near = [bound > 0.8 * truth for _, bound, truth in found if truth < math.inf]
    assert sum(near) > 0.7 * len(near)


def test_paths_know_what_chunks_cost_while_a_pipeline_fills() -> None:
    """With several chunks on a rank they are nearer to the least time than what ranks do in all, and see no memory."""
    nearer, without_memory = [], []
    for seed in (0, 2, 8):
        search = Search(pipelines(seed))
        for gamma in choices(search, random.Random(seed)):
            if gamma.degrees.virtual > 1:
                load = LoadBound(search.loads(gamma), LayoutEvaluator(search.case(gamma), NONE))
                nearer.append(PathBound(load).seconds(math.inf, math.inf) > load.seconds(math.inf))
                without_memory.append(PathBound(load).seconds(1.0, math.inf))
    assert sum(nearer) > 0.7 * len(nearer)
    assert set(without_memory) == {math.inf}


@pytest.mark.machine_code
def test_plain_python_finds_the_same_paths_until_machine_code_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds.known_of.cache_clear()
    compiled = list(compared(3))
    bounds.known_of.cache_clear()
    monkeypatch.setattr(bounds, "compiled", lambda unit, entry, **_: getattr(unit, entry))
    assert list(compared(3)) == compiled
