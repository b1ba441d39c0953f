"""Equal splits, on devices within devices and on several types: equal on each level, judged by the referee, never
better than the optimum; and that a plan is compared with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from oracles.leveled_staging import best_leveled
from problems.stagings import leveled_staging, random_staging

import pipeplan
from pipeplan import LeveledPlan, LeveledStage, StagedPlan, load_packaged
from pipeplan.instances.staging.problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.planners.staging.equal import equal_trees

NO_TREES = "no equal stages fit that divide the devices of each level alike"


def solved(problem: StagingProblem, planner: str = "equi") -> pipeplan.Result:
    return pipeplan.solve(problem, planner=planner)


def row(layers: int, devices: int, **more: Any) -> StagingProblem:
    """Layers of 6 s that each fill a device, in a row; no transfers."""
    way, names = Configuration("only", 6.0, memory_fixed=10.0), "abcdefg"[:layers]
    edges = tuple(Edge(u, v) for u, v in pairwise(names))
    facts = {"memory_bytes": 10.0, **more}
    return StagingProblem(tuple(Layer(name, {1: (way,)}) for name in names), edges, devices, 1.0, devices, **facts)


def of_servers(layers: int, each: int) -> StagingProblem:
    """On two servers."""
    return row(layers, 2 * each, levels=(StagingLevel(each, 1.0), StagingLevel(2, 1.0)))


def test_four_layers_take_a_device_each_and_five_have_no_equal_split_in_servers_of_three() -> None:
    """Layers fill a device each, and five stages do not divide into servers of three; the optimum is not equal."""
    result = solved(of_servers(4, 2))
    assert isinstance(result.plan, LeveledPlan)
    assert (result.objective, [stage.nodes for stage in result.plan.stages]) == (6.0, [("a", "b"), ("c", "d")])
    result = solved(of_servers(5, 3))
    assert (result.stop, result.plan) == (pipeplan.Stop.COMPLETED, None)
    assert result.messages[0].startswith(NO_TREES)
    assert pipeplan.solve(of_servers(5, 3)).objective == 6.0


@pytest.mark.parametrize("planner", ["equi", "equi-no-tp"])
@pytest.mark.parametrize("seed", range(20))
def test_one_level_is_the_flat_problem(seed: int, planner: str) -> None:
    flat = random_staging(seed)
    nested = flat.replace(levels=(StagingLevel(flat.devices, flat.bandwidth), StagingLevel(1, 1.0)))
    expected = pipeplan.solve(flat, planner=planner)
    found = solved(nested, planner=planner)
    assert found.objective == pytest.approx(expected.objective) if expected.plan else found.plan is None


@pytest.mark.parametrize("seed", range(20))
def test_equal_trees_are_equal_and_never_better_than_the_optimum(seed: int) -> None:
    problem = leveled_staging(seed, (2, 3))
    result = solved(problem)
    if result.plan is None:
        assert result.messages[0].startswith(NO_TREES)
        return
    assert isinstance(result.plan, LeveledPlan)
    assert result.verified
    best = best_leveled(problem)
    assert result.objective >= best[0] * (1 - 1e-9)
    for stages in by_level(result.plan.stages):
        assert len({(stage.data_parallel, stage.tensor_parallel, len(stage.children)) for stage in stages}) == 1
    sizes = [len(leaf.nodes) for leaf in result.plan.leaves()]
    assert max(sizes) - min(sizes) <= 1


def by_level(stages: tuple[LeveledStage, ...]) -> Iterator[tuple[LeveledStage, ...]]:
    """All stages of the highest level, then all of the next one."""
    while stages:
        yield stages
        stages = tuple(child for stage in stages for child in stage.children)


def test_equal_trees_divide_every_level_in_every_way() -> None:
    """Two groups and four devices: cut on top or inside, or not at all, with copies of whatever is left."""
    found = set()
    for plan in equal_trees(load_packaged("tiny-levels"), True):
        found.add(tuple((s.data_parallel, tuple(c.data_parallel for c in s.children)) for s in plan.stages))
    whole = {((above, (inside,)),) for above in (1, 2) for inside in (1, 2)}
    cut_inside = {((above, (1, 1)),) for above in (1, 2)}
    cut_above = {((1, (inside,)), (1, (inside,))) for inside in (1, 2)}
    assert found == whole | cut_inside | cut_above


def test_micro_batches_are_counted_as_the_referee_does() -> None:
    """Two micro-batches: the copies of all stages sum to two at most, so two stages without copies are left."""
    problem = load_packaged("tiny-levels").replace(micro_batches=2)
    result = solved(problem)
    assert (result.objective, result.verified) == (12.0, True)


Plan = Callable[..., Any]


def test_equal_stages_are_on_one_type_after_the_other_in_either_order() -> None:
    """A layer on each device takes 6 s, and two on each fast one 4 s; of less memory each layer needs its own."""
    for memory, value, types in ((20.0, 4.0, ["fast"] * 2), (10.0, 6.0, ["slow", "slow", "fast", "fast"])):
        kinds = (DeviceType("slow", 2, 1.0, memory), DeviceType("fast", 2, 3.0, memory))
        result = solved(row(4, 4, memory_bytes=None, device_types=kinds))
        assert isinstance(result.plan, StagedPlan)
        assert (result.objective, result.verified) == (value, True)
        assert [stage.device_type for stage in result.plan.stages] == types


def test_a_plan_for_mixed_gpus_is_compared_with_the_even_split(plan: Plan) -> None:
    """Half of Llama-3-8B fits each of these GPUs: that no even split fits is not so."""
    gpus = ("--devices", "2xa100-80gb,2xt4-16gb", "--bandwidth", "12GB/s")
    found = plan("solve", "llama-3-8b", "--inference", *gpus)
    words = " ".join(found.out.split())
    assert re.search(r"An even split \(.*?\) would be [\d.]+ % slower", words)
    assert "no even split" not in words


def test_a_placement_says_what_accelerators_without_a_type_are(plan: Plan) -> None:
    gpus = ("--kind", "placement", "--bandwidth", "12GB/s")
    mixed = plan("solve", "llama-3-8b", "--inference", "--devices", "2xa100-80gb,2xt4-16gb", *gpus)
    assert "type: shown for accelerators of other types than the first" in " ".join(mixed.out.split())
    alike = plan("solve", "llama-3-8b", "--inference", "--devices", "4xa100-80gb", *gpus)
    assert alike.code == 0
    assert "type:" not in alike.out
