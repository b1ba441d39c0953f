"""Where seconds that a search has measured choose its way, each way ends in the same answer.

A busy machine is slow, and so takes another way; here each such number is made so small, and then so large, that the
search goes either way wherever the tests run.
"""

from __future__ import annotations

from importlib import import_module

import pytest

import pipeplan
from pipeplan.instances.schedule.random_schedules import random_pipeline

pytestmark = pytest.mark.timing

SOON, LATE = 1e-6, 1e6

PLACES = {
    "chain.search": (("QUICK_S", "BOUND_LIMIT_S"), "golden-4", "exact-beaumont"),
    "schedule.exact": (("QUICK_S", "FEW_ANNEALED_S"), "three-blocks", "exact-schedule"),
    "placement.dp.search": (("CHUNK_SECONDS",), "gpt2-xl-training", "dp"),
}
"""Modules of `planners` with constants that are compared with measured seconds, a problem, and a method that reads
them. When a chain's search begins to walk is tested with the walks."""


@pytest.mark.parametrize("module", PLACES)
def test_either_way_gives_the_same_answer(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    constants, name, method = PLACES[module]
    problem = random_pipeline(3, 5, 4, 1, 0) if name == "three-blocks" else pipeplan.load_packaged(name)
    answers = []
    for seconds in (SOON, LATE):
        for constant in constants:
            monkeypatch.setattr(import_module(f"pipeplan.planners.{module}"), constant, seconds)
        result = pipeplan.solve(problem, planner=method)
        answers.append((result.stop, result.found, result.objective, result.bound))
    assert answers[0] == answers[1]
    assert answers[0][0] == pipeplan.Stop.PROVEN
