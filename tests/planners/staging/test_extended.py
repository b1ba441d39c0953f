"""Beyond the paper: flushes behind every batch and devices of several types, through `pipeplan.solve`."""

from __future__ import annotations

from typing import Any

import pytest

import pipeplan
from pipeplan import Configuration, DeviceType, Edge, InputError, Layer, StagedPlan, StagingProblem, UsageError
from pipeplan.instances.staging.referee import evaluate_stages

FLUSH = {"objective": "flush"}


# ---- flushes -------------------------------------------------------------------------------------------


def pair(batches: int) -> StagingProblem:
    """Two layers of 4 s, on two devices: a stage each, or one for both; copies need their weights synchronised."""
    way = Configuration("only", 4.0, weight_bytes=100.0)
    layers = (Layer("a", {1: (way,)}), Layer("b", {1: (way,)}))
    return StagingProblem(layers, (Edge("a", "b", 0.0),), 2, 10.0, batches, name="pair")


@pytest.mark.parametrize(("batches", "stages", "value"), [(2, 2, 6.0), (4, 2, 5.0), (1, 1, 8.0)])
def test_a_flush_by_hand(batches: int, stages: int, value: float) -> None:
    """Two stages take (N + 1) x 4 s for a batch of N, one takes N x 8 s: with one micro-batch both take 8 s."""
    result = pipeplan.solve(pair(batches), options=FLUSH)
    assert isinstance(result.plan, StagedPlan)
    assert (result.objective, result.bound) == (value, value)
    assert result.stop == pipeplan.Stop.PROVEN
    assert len(result.plan.stages) >= stages
    costs = evaluate_stages(pair(batches), result.plan)
    assert (costs.flushed_time_per_micro_batch, costs.to_json()["slots"]) == (value, costs.slots)


# ---- what is refused -----------------------------------------------------------------------------------


FOUR_TYPES = tuple(DeviceType(f"type {i}", 1) for i in range(4))


@pytest.mark.parametrize(("problem", "planner", "options", "words"), [
    (pair(4).replace(devices=4, device_types=FOUR_TYPES), *("dp-piper", {}, "device_types are 4; give at most 3")),
    (pair(4), "dp-piper", {**FLUSH, "knapsack": "greedy"}, "option knapsack is greedy, but flushes and types"),
    (pair(4).replace(device_types=FOUR_TYPES[:2]),
     *("piper-no-dp", {}, "cannot plan several types .* choose one of mip-piper, dp-piper, equi, ")),
    *((pair(4), planner, FLUSH, "has no option 'objective'") for planner in ("equi", "piper-no-dp")),
])  # fmt: skip
def test_what_is_refused(problem: StagingProblem, planner: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, UsageError), match=words):
        pipeplan.solve(problem, planner=planner, options=options)
