"""No planner beats what is called the best known time of a packaged graph pipeline."""

from __future__ import annotations

import pytest

import pipeplan
from pipeplan.instances.catalogue import best_known, load_packaged, packaged_names


@pytest.mark.sweeps
@pytest.mark.parametrize("objective", ["time-per-sample", "iteration"])
@pytest.mark.parametrize("planner", ["graphpipe", "graphpipe-parallel", "spp-pipedream"])
@pytest.mark.parametrize("name", packaged_names("graph-pipeline"))
def test_no_planner_beats_the_best_known_time(name: str, planner: str, objective: str) -> None:
    known = best_known(name, objective)
    result = pipeplan.solve(load_packaged(name), planner=planner, options={"objective": objective})
    assert known is not None
    assert result.objective is not None
    assert result.objective >= known.value * (1 - 1e-9)
    assert known.bound is not None
    assert known.bound <= known.value
