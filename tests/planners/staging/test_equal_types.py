"""The even split on several types of devices, and that a plan for them is compared with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pipeplan
from pipeplan.instances.staging.plan import StagedPlan
from pipeplan.instances.staging.problem import Configuration, DeviceType, Edge, Layer, StagingProblem

Plan = Callable[..., Any]


def row_of_four(memory: float) -> StagingProblem:
    """Layers of 6 s and 10 bytes in a row, on two devices and two that are three times as fast; no transfers."""
    way = Configuration("only", 6.0, memory_fixed=10.0)
    names = ["a", "b", "c", "d"]
    return StagingProblem(
        tuple(Layer(name, {1: (way,)}) for name in names),
        tuple(Edge(u, v) for u, v in pairwise(names)),
        devices=4,
        bandwidth=1.0,
        micro_batches=4,
        device_types=(DeviceType("slow", 2, 1.0, memory), DeviceType("fast", 2, 3.0, memory)),
    )


def test_equal_stages_are_on_one_type_after_the_other_in_either_order() -> None:
    """A layer on each device takes 6 s, and two on each fast one 4 s; of less memory each layer needs its own."""
    for memory, value, types in ((20.0, 4.0, ["fast"] * 2), (10.0, 6.0, ["slow", "slow", "fast", "fast"])):
        result = pipeplan.solve(row_of_four(memory), planner="equi")
        assert isinstance(result.plan, StagedPlan)
        assert (result.objective, result.verified) == (value, True)
        assert [stage.device_type for stage in result.plan.stages] == types


def test_a_plan_for_mixed_gpus_is_compared_with_the_even_split(plan: Plan) -> None:
    """Half of Llama-3-8B fits each of these GPUs: that no even split fits is not so."""
    gpus = ("--devices", "2xa100-80gb,2xt4-16gb", "--bandwidth", "12GB/s")
    found = plan("solve", "llama-3-8b", "--inference", *gpus)
    words = " ".join(found.out.split())
    assert re.search(r"an even split \(.*?\) would be [\d.]+ % slower", words)
    assert "no even split" not in words


def test_what_an_even_split_lacks_on_the_smaller_gpus_is_told_in_their_units(plan: Plan) -> None:
    """A third of Llama-3-8B with the states of Adam fits an A100 and no T4."""
    gpus = ("--devices", "1xa100-80gb,2xt4-16gb", "--bandwidth", "12GB/s", "--optimizer", "adam")
    words = " ".join(plan("solve", "llama-3-8b", "--sequence", 8192, *gpus).out.split())
    assert re.search(r": the nearest holds [\d.]+ GiB on a device of stage \d, [\d.]+ GiB more than it has", words)


def test_a_placement_says_what_accelerators_without_a_type_are(plan: Plan) -> None:
    gpus = ("--kind", "placement", "--bandwidth", "12GB/s")
    mixed = plan("solve", "llama-3-8b", "--inference", "--devices", "2xa100-80gb,2xt4-16gb", *gpus)
    assert "type: of accelerators that are not of the first type" in " ".join(mixed.out.split())
    alike = plan("solve", "llama-3-8b", "--inference", "--devices", "4xa100-80gb", *gpus)
    assert alike.code == 0
    assert "type:" not in alike.out
