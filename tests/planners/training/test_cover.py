"""Wherever the cluster lies in the plausible box, one of the cover's families is as near the best as it says."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from pipeplan.instances.training.scope import Scope
from pipeplan.planners.training.cover import Cover, chosen, cover_of
from pipeplan.planners.training.forms import AMOUNTS, HIDDEN, Timed, believed, plausible, values_of
from pipeplan.planners.training.space import Space

from ...oracles.training import configurations
from ...problems.trainings import random_training
from .test_forms import point


def asked(seed: int) -> tuple[list[Timed], list[bool], Cover]:
    """Some configurations of a random problem, the fastest first, of which some fit for sure, and their cover."""
    draw = random.Random(seed)
    problem = random_training(seed, devices=draw.choice((2, 4)))
    problem = problem.replace(batch=8 * problem.devices, gpu=replace(problem.gpu, memory_bytes=None))
    plans = list(islice(configurations(problem), 2_000))
    timed = [Timed(problem, plan) for plan in draw.sample(plans, min(8, len(plans)))]
    own = believed(problem.efficiencies)
    timed.sort(key=lambda each: each.seconds(own))
    sure = [draw.random() < 0.7 for _ in timed]
    sure[-1] = True
    return timed, sure, cover_of(Space(problem, Scope()), [each.plan for each in timed], sure)


@pytest.mark.parametrize("seed", range(300))
def test_a_member_is_as_near_the_best_as_is_proven_anywhere_in_the_box(seed: int) -> None:
    draw, (timed, sure, cover) = random.Random(seed), asked(seed)
    box = plausible(timed[0].problem)
    assert sure.index(True) in [own.family for own in cover.members], "the fastest that fits for sure"
    holds(timed, sure, cover, [point(box, draw) for _ in range(20)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_it_is_so_on_grids_of_three_coordinates_and_at_thousands_of_points(seed: int) -> None:
    """Half a minute each, so that all of them take two hours."""
    draw, (timed, sure, cover) = random.Random(f"grid {seed}"), asked(seed)
    box = plausible(timed[0].problem)
    three = draw.sample([name for name, (low, high) in sorted(box.ranges.items()) if low < high], 3)
    values = [np.linspace(*box.ranges[name], 9) for name in three]
    rest = point(box, draw)
    grid = [rest | dict(zip(three, map(float, at), strict=True)) for at in itertools.product(*values)]
    holds(timed, sure, cover, [*grid, *(point(box, draw) for _ in range(2_000))])


def holds(timed: list[Timed], sure: list[bool], cover: Cover, points: list[dict[str, float]]) -> None:
    members = [own.family for own in cover.members]
    for at in points:
        seconds = [own.seconds(at) for own in timed]
        for f, own in enumerate(seconds):
            against = [seconds[s] for s in members if sure[s] or not sure[f]]
            assert min(against) <= own * (1 + cover.proven) * (1 + 1e-6)


def test_the_fewest_families_are_chosen() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        near = draw.random((7, 12)) < 0.4
        near[draw.integers(7)] |= ~near.any(axis=0)
        members = chosen(near, 0)
        assert 0 in members
        assert near[members].any(axis=0).all()
        fewer = itertools.combinations(range(1, 7), len(members) - 2) if len(members) > 1 else ()
        assert not any(near[[0, *others]].any(axis=0).all() for others in fewer)


def test_where_a_condition_begins_a_family_is_as_fast_as_the_best() -> None:
    seen = 0
    for seed in range(12):
        timed, sure, cover = asked(seed)
        known = timed[0].problem.efficiencies
        for member in cover.members:
            if member.wins is not None:
                name, value = member.wins.name, member.wins.value
                q = 1 - value if name in HIDDEN else value / member.wins.known
                q = q if name in HIDDEN or name in AMOUNTS else 1 / q
                values = values_of({**believed(known), name: q})
                best = timed[sure.index(True)].form @ values
                assert timed[member.family].form @ values == pytest.approx(best, rel=1e-6)
                seen += 1
    assert seen
