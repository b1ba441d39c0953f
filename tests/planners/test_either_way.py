"""Where seconds that a search has measured choose its way, each way ends in the same answer.

A busy machine is slow, and so takes another way; here each such number is made so small, and then so large, that the
search goes either way wherever the tests run.
"""

from __future__ import annotations

from typing import Any

import pytest
from known_pipelines import random_pipeline

import pipeplan

pytestmark = pytest.mark.timing

SOON, LATE = 1e-6, 1e6

PLACES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "chain, parts": (
        "golden-4",
        {"planner": "exact-beaumont"},
        (
            "planners.chain.exact.QUICK_S",
            "planners.chain.exact.BOUND_LIMIT_S",
            "planners.chain.schedule.CHECK_LIMIT_S",
        ),
    ),
    "chain, wholes": ("golden-4", {"planner": "exact-beaumont"},
        ("planners.chain.exact.RELAXATION_LIMIT_S", "planners.chain.exact.SCHEDULE_LIMIT_S")),
    "walks": (
        "golden-4",
        {"planner": "exact-beaumont"},
        (
            "planners.chain.exact.PATIENCE_S",
            "planners.chain.exact.ANNEALED_FIRST_S",
            "planners.chain.layer_sets.SLICE_S",
        ),
    ),
    "schedule": ("three-blocks", {"planner": "exact-schedule"},
        ("planners.schedule.exact.QUICK_S", "planners.schedule.exact.FEW_ANNEALED_S")),
    "turns of a period's model": ("three-blocks", {"formulation": "cp-periodic"},
        ("formulations.zero_bubble.periodic_cp.FIRST_TURN_S",)),
    "attempts that are good enough": ("tiny-chain",
        {"formulation": "ip-tarnawski", "solver": "cp-sat", "warm_start": "none"}, ("planners.exact.QUIET_S",)),
    "dp": ("gpt2-xl-training", {"planner": "dp"}, ("planners.placement.dp.CHUNK_SECONDS",)),
}  # fmt: skip
"""A problem, a method, and the constants that the method compares with measured seconds. When a chain's
search begins to walk is tested with the walks."""


@pytest.mark.parametrize("place", PLACES)
def test_either_way_gives_the_same_answer(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, method, constants = PLACES[place]
    problem = random_pipeline(3, 5, 4, 1, 0) if name == "three-blocks" else pipeplan.load_packaged(name)
    if place == "walks":
        for loaded_from in ("BRIEF_S", "QUICK_S"):
            monkeypatch.setattr(f"pipeplan.planners.chain.exact.{loaded_from}", 0.0)
    answers = []
    for seconds in (SOON, LATE):
        for constant in constants:
            monkeypatch.setattr(f"pipeplan.{constant}", seconds)
        result = pipeplan.solve(problem, **method)
        answers.append((result.stop, result.found, result.objective, result.bound))
    assert answers[0] == answers[1]
    assert answers[0][0] == pipeplan.Stop.PROVEN


@pytest.mark.sweeps
@pytest.mark.parametrize(("annealed", "turn"), [(SOON, 0.2), (0.2, LATE), (SOON, LATE)])
def test_long_and_short_turns_of_annealing_and_the_model_end_in_the_same_proof(
    annealed: float, turn: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = random_pipeline(3, 3, 4, 1, 0)
    at_once = pipeplan.solve(problem, planner="exact-schedule")
    for constant, value in (("FEW_RUNS", 0), ("ANNEALED_S", annealed), ("TURN_S", turn)):
        monkeypatch.setattr(f"pipeplan.planners.schedule.exact.{constant}", value)
    result = pipeplan.solve(problem, planner="exact-schedule")
    assert (result.stop, result.objective, result.bound) == (pipeplan.Stop.PROVEN, at_once.objective, at_once.bound)
