"""Wherever the cluster lies, no choice is faster than the cover by more than is said, but for those that are open."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import asdict
from itertools import islice

import numpy as np
import pytest

from pipeplan.instances.training.cases import NONE, ParallelismChoice, words_of_chunk
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.referee import memory_of_ranks
from pipeplan.instances.training.scope import Scope
from pipeplan.planners.training import cover as others
from pipeplan.planners.training.cover import Closer, Layers, others_of, works_of
from pipeplan.planners.training.forms import Timed, believed, plausible, values_of
from pipeplan.planners.training.space import Space

from ...oracles.training import configurations
from ...problems.trainings import random_own_training, random_training
from .test_forms import point

CLOSE = 1e-6


def asked(seed: int) -> tuple[Space, list[Timed], float]:
    """Some configurations of a problem that fit, and the bytes up to which they do; the memory is scarce."""
    draw = random.Random(seed)
    problem = random_own_training(seed) if seed % 10 == 9 else random_training(seed, devices=draw.choice((2, 4)))
    problem = problem.replace(batch=8 * problem.devices)
    plans = list(islice(configurations(problem), 2_000))
    timed = [Timed(problem, plan) for plan in draw.sample(plans, min(60, len(plans)))]
    held = [max(rank.bytes for rank in memory_of_ranks(problem, one.plan)) for one in timed]
    limit, own = sorted(held)[len(held) * 2 // 3], believed(problem.efficiencies)
    fit = [one for one, size in zip(timed, held, strict=True) if size <= limit]
    fit.sort(key=lambda one: one.seconds(own))
    return Space(problem, Scope().of_framework(problem.rules.layouts)), fit, limit


def row_of(space: Space, plan: Configuration) -> int | None:
    """The family of a configuration; None: the space has it under another name."""
    own = {**asdict(plan.degrees), "micro_batch": plan.micro_batch, "zero": plan.zero}
    alike = np.logical_and.reduce([column == own[name] for name, column in space.columns.items()])
    return int(np.flatnonzero(alike)[0]) if alike.any() else None


@pytest.mark.parametrize("seed", range(200))
def test_no_choice_beats_the_cover_by_more_than_is_said(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is open in the last share, so that all that is said is tried."""
    monkeypatch.setattr(others, "SHARES", (0.02, 0.1, 0.3, 1.0, 1e9))
    monkeypatch.setattr(others, "FEW", random.Random(seed).choice((0.0, 0.05, 0.3)))
    space, fit, limit = asked(seed)
    members, draw, box = fit[:2], random.Random(seed), plausible(space.problem)
    said = others_of(space, box, [(np.array([one.above(box) for one in members]), limit)])
    faster = set()
    for _ in range(8):
        at = point(box, draw)
        best = min(member.seconds(at) for member in members)
        faster |= {
            ParallelismChoice.of(one.plan)
            for one in fit
            if one.seconds(at) * (1 + said.within) < best * (1 - CLOSE)
        }
    assert len(faster) <= said.open


@pytest.mark.parametrize("seed", range(200))
def test_no_configuration_that_fits_is_faster_than_its_bound(seed: int) -> None:
    """The work of its family, what its word computes again, and of whole layers at least so many as memory asks for."""
    space, fit, _ = asked(seed)
    problem, draw, works = space.problem, random.Random(seed), works_of(space)
    box = plausible(problem)
    found = {i: row for i, one in enumerate(fit) if (row := row_of(space, one.plan)) is not None}
    fit, rows = [fit[i] for i in found], np.array(list(found.values()))
    closer = None if problem.model.own else Closer(space, rows, works[rows])
    for i, one in enumerate(fit):
        plan, form = one.plan, works[rows[i]]
        if closer is not None:
            shape = plan.degrees.pipeline, plan.degrees.virtual, plan.micro_batches(problem.batch)
            held = max(rank.bytes for rank in memory_of_ranks(problem, plan))  # the least that lets it fit
            layers, word = Layers(space, rows[i : i + 1], plan.schedule, shape, held), plan.recompute[0].modules
            if word in closer.words or word == NONE:
                assert layers.fit(word)[0]
                form = form + (0 if word == NONE else closer.agains[closer.words.index(word), i])
            else:
                again = Counter(
                    problem.model.units[unit]
                    for chunk in range(plan.degrees.chunks)
                    for unit, own in words_of_chunk(problem, plan, chunk)
                    if own
                )
                for k, name in enumerate(space.layers):
                    assert layers.least_again(name)[0] <= again[name] + CLOSE
                    form = form + layers.least_again(name)[0] * closer.agains[len(closer.words) + k, i]
        for _ in range(4):
            at = point(box, draw)
            assert form @ values_of(at) <= one.seconds(at) * (1 + CLOSE)
