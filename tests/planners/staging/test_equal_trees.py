"""Equal splits on devices within devices: equal on each level, judged by the referee, never better than the optimum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import pytest
from oracles.leveled_staging import best_leveled
from problems.stagings import random_staging

import pipeplan
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.staging.plan import LeveledPlan, LeveledStage
from pipeplan.instances.staging.problem import VARIANTS, Configuration, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.planners.staging.equal import equal_trees

SHAPES = ((2, 2), (1, 3), (3, 1), (2, 1, 2), (4,))
NO_TREES = "no equal stages fit that divide the devices of each level alike"


def solved(problem: StagingProblem, planner: str = "equi", variant: str = "precise") -> pipeplan.Result:
    return pipeplan.solve(problem, planner=planner, options={"hierarchy": variant})


def leveled(seed: int) -> StagingProblem:
    shape = SHAPES[seed % len(SHAPES)]
    flat = random_staging(seed, layers=(2, 3), exact_batches=False)
    levels = tuple(StagingLevel(devices, flat.bandwidth * 0.4**i) for i, devices in enumerate(shape))
    return flat.replace(devices=math.prod(shape), levels=levels)


def row(layers: int, levels: tuple[StagingLevel, ...], **more: object) -> StagingProblem:
    """Layers of 6 s that each fill a device, in a row; no transfers."""
    way = Configuration("only", 6.0, memory_fixed=10.0)
    names = [f"l{i}" for i in range(layers)]
    devices = math.prod(level.devices for level in levels)
    return StagingProblem(
        tuple(Layer(name, {1: (way,)}) for name in names),
        tuple(Edge(u, v) for u, v in pairwise(names)),
        devices, 1.0, devices, memory_bytes=10.0, levels=levels, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_tiny_levels_are_split_by_hand() -> None:
    """One layer on each device of a server, and the same on the other server: the optimum is an equal split."""
    result = solved(load_packaged("tiny-levels"))
    assert isinstance(result.plan, LeveledPlan)
    assert (result.stop, result.objective, result.verified) == (pipeplan.Stop.COMPLETED, 6.0, True)
    assert [(stage.data_parallel, len(stage.children)) for stage in result.plan.stages] == [(2, 2)]


def test_four_layers_take_a_device_each() -> None:
    result = solved(row(4, (StagingLevel(2, 1.0), StagingLevel(2, 1.0))))
    assert result.objective == 6.0
    assert result.plan is not None
    assert [stage.nodes for stage in result.plan.stages] == [("l0", "l1"), ("l2", "l3")]  # type: ignore[union-attr]


def test_five_layers_have_no_equal_split_in_servers_of_three() -> None:
    """Layers fill a device each, and five stages do not divide into servers of three; the optimum is not equal."""
    problem = row(5, (StagingLevel(3, 1.0), StagingLevel(2, 1.0)))
    result = solved(problem)
    assert (result.stop, result.plan) == (pipeplan.Stop.COMPLETED, None)
    assert result.messages[0].startswith(NO_TREES)
    assert pipeplan.solve(problem).objective == 6.0


@pytest.mark.parametrize("planner", ["equi", "equi-no-tp"])
@pytest.mark.parametrize("seed", range(20))
def test_one_level_is_the_flat_problem(seed: int, planner: str) -> None:
    flat = random_staging(seed, exact_batches=False)
    nested = flat.replace(levels=(StagingLevel(flat.devices, flat.bandwidth), StagingLevel(1, 1.0)))
    expected = pipeplan.solve(flat, planner=planner)
    found = solved(nested, planner)
    assert found.objective == pytest.approx(expected.objective) if expected.plan else found.plan is None


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(20))
def test_equal_trees_are_equal_and_never_better_than_the_optimum(seed: int, variant: str) -> None:
    problem = leveled(seed)
    result = solved(problem, variant=variant)
    if result.plan is None:
        assert result.messages[0].startswith(NO_TREES)
        return
    assert isinstance(result.plan, LeveledPlan)
    assert result.verified
    best = best_leveled(problem, variant)
    assert best is not None
    assert result.objective is not None
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
    for plan in equal_trees(load_packaged("tiny-levels"), "precise", True):
        found.add(tuple((s.data_parallel, tuple(c.data_parallel for c in s.children)) for s in plan.stages))
    whole = {((above, (inside,)),) for above in (1, 2) for inside in (1, 2)}
    cut_inside = {((above, (1, 1)),) for above in (1, 2)}
    cut_above = {((1, (inside,)), (1, (inside,))) for inside in (1, 2)}
    assert found == whole | cut_inside | cut_above


@pytest.mark.parametrize("exact", [False, True])
def test_micro_batches_are_counted_as_the_referee_does(exact: bool) -> None:
    """Two micro-batches: the copies of all stages sum to two at most, so two stages without copies are left."""
    problem = load_packaged("tiny-levels").replace(micro_batches=2, exact_batches=exact)
    result = solved(problem)
    assert (result.objective, result.verified) == (12.0, True)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="option semantics is reference and the problem has levels"):
        pipeplan.solve(load_packaged("tiny-levels"), planner="equi", options={"semantics": "reference"})
    with pytest.raises(InputError, match="option hierarchy is given and the problem has no levels"):
        pipeplan.solve(load_packaged("tiny-stages"), planner="equi", options={"hierarchy": "crude"})
    with pytest.raises(InputError, match="means nothing to the crude variant"):
        solved(load_packaged("tiny-levels").replace(exact_batches=True), variant="crude")


def test_no_time_is_no_plan() -> None:
    result = pipeplan.solve(
        load_packaged("tiny-levels"), planner="equi", limits=pipeplan.SolveOptions(time_limit_s=0.0)
    )
    assert (result.stop, result.plan) == (pipeplan.Stop.TIME, None)
