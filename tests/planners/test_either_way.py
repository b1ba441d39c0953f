"""Where seconds that a search has measured choose its way, each way ends in the same answer.

A busy machine is slow, and so takes another way; here each such number is made so small, and then so large, that the
search goes either way wherever the tests run.
"""

from __future__ import annotations

import pytest

import pipeplan
from pipeplan.instances.schedule.random_schedules import random_pipeline

pytestmark = pytest.mark.timing

SOON, LATE = 1e-6, 1e6

PLACES = {
    "chain, parts": (
        "golden-4",
        "exact-beaumont",
        ("chain.search.QUICK_S", "chain.search.BOUND_LIMIT_S", "chain.schedule.CHECK_LIMIT_S"),
    ),
    "chain, wholes": (
        "golden-4",
        "exact-beaumont",
        ("chain.search.RELAXATION_LIMIT_S", "chain.search.SCHEDULE_LIMIT_S"),
    ),
    "walks": (
        "golden-4",
        "exact-beaumont",
        ("chain.search.PATIENCE_S", "chain.search.ANNEALED_FIRST_S", "chain.layer_sets.SLICE_S"),
    ),
    "schedule": (
        "three-blocks",
        "exact-schedule",
        ("schedule.exact.QUICK_S", "schedule.exact.FEW_ANNEALED_S"),
    ),
    "dp": ("gpt2-xl-training", "dp", ("placement.dp.search.CHUNK_SECONDS",)),
}
"""A problem, a method, and the constants of `planners` that the method compares with measured seconds. When a chain's
search begins to walk is tested with the walks."""


@pytest.mark.parametrize("place", PLACES)
def test_either_way_gives_the_same_answer(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, method, constants = PLACES[place]
    problem = random_pipeline(3, 5, 4, 1, 0) if name == "three-blocks" else pipeplan.load_packaged(name)
    if place == "walks":
        for loaded_from in ("BRIEF_S", "QUICK_S"):
            monkeypatch.setattr(f"pipeplan.planners.chain.search.{loaded_from}", 0.0)
    answers = []
    for seconds in (SOON, LATE):
        for constant in constants:
            monkeypatch.setattr(f"pipeplan.planners.{constant}", seconds)
        result = pipeplan.solve(problem, planner=method)
        answers.append((result.stop, result.found, result.objective, result.bound))
    assert answers[0] == answers[1]
    assert answers[0][0] == pipeplan.Stop.PROVEN
