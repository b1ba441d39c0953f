"""Heuristics on the published inputs: values of the paper's tables and of the study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pipeplan

LAYER = "tarnawski/throughput/layer"
OPERATOR = "tarnawski/throughput/operator"

CONTIGUOUS = {
    f"{LAYER}/bert24_inference": 17.78990625,
    f"{LAYER}/bert24_training": 41.7458125,
    f"{LAYER}/gnmt_inference": 32.9107,
    f"{LAYER}/resnet50_inference": 33.7747,
    f"{LAYER}/inceptionv3_inference": 51.5519,
    f"{OPERATOR}/bert_l-3_inference": 27.9186,
    f"{OPERATOR}/bert_l-3_training": 65.3031,
    f"{OPERATOR}/bert_l-6_inference": 29.5795,
    f"{OPERATOR}/resnet50_inference": 124.3488,
}
"""Proven optima."""

PIPEDREAM = {
    f"{LAYER}/bert24_inference": 17.79,
    f"{LAYER}/bert24_training": 41.75,
    f"{LAYER}/inceptionv3_inference": 60.42,
}
"""The paper's Table 1."""

ANY_DEVICES = {
    f"{LAYER}/bert24_training": 39.7895,
    f"{LAYER}/gnmt_inference": 31.6873,
    f"{OPERATOR}/bert_l-3_inference": 21.9084,
    f"{OPERATOR}/bert_l-3_training": 54.2074,
    f"{OPERATOR}/bert_l-6_inference": 28.3322,
}
"""Best known without contiguity."""


def solve(workloads: Path, name: str, planner: str, **options: Any) -> float:
    result = pipeplan.solve(pipeplan.load(workloads / f"{name}.json"), planner=planner, options=options)
    assert result.verified
    assert result.objective is not None
    return result.objective


@pytest.mark.workloads
@pytest.mark.parametrize("name", CONTIGUOUS)
def test_linear_dp_is_within_a_tenth_of_a_percent_of_the_contiguous_optimum(workloads: Path, name: str) -> None:
    ratio = solve(workloads, name, "linear-dp") / CONTIGUOUS[name]
    assert 1 - 1e-5 <= ratio <= 1.001


@pytest.mark.workloads
@pytest.mark.parametrize("name", PIPEDREAM)
def test_pipedream_gives_the_papers_values(workloads: Path, name: str) -> None:
    assert solve(workloads, name, "pipedream") == pytest.approx(PIPEDREAM[name], abs=0.005)


@pytest.mark.sweeps
@pytest.mark.workloads
@pytest.mark.parametrize("name", ANY_DEVICES)
def test_lns_reaches_the_best_known_values(workloads: Path, name: str) -> None:
    """In a fixed number of steps, about two seconds."""
    value = solve(workloads, name, "lns", non_contiguous=True, cycles=6)
    assert value == pytest.approx(ANY_DEVICES[name], rel=1e-4)


@pytest.mark.workloads
@pytest.mark.parametrize(("name", "value"), [("bert24_inference", 20.08), ("gnmt_inference", 46.21)])
def test_experts_split_as_published(workloads: Path, name: str, value: float) -> None:
    split = str(workloads / "tarnawski" / "experts" / f"{name}_expert.json")
    assert solve(workloads, f"{LAYER}/{name}", "expert", split=split, non_contiguous=True) == pytest.approx(
        value, abs=0.005
    )
