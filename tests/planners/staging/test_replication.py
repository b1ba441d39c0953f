"""Stages without replicas: every method that takes such problems finds the optimum of the enumeration."""

from __future__ import annotations

import re
from typing import Any

import pytest
from oracles.leveled_staging import best_leveled
from oracles.staging import best_stages
from problems.stagings import random_staging

import pipeplan
from pipeplan.instances.base.result import Found, Stop
from pipeplan.instances.staging.kind_functions import staging_from_json, staging_to_json
from pipeplan.instances.staging.problem import DeviceType, StagingLevel, StagingProblem


def without_replicas(seed: int, **changes: Any) -> StagingProblem:
    problem = random_staging(seed, layers=(2, 4), exact_batches=False)
    return problem.replace(replication=False, micro_batches=4, **changes)


def least(problem: StagingProblem, **method: Any) -> float | None:
    result = pipeplan.solve(problem, **method)
    assert result.stop in (Stop.PROVEN, Stop.INFEASIBLE), result
    return result.objective if result.found is Found.OPTIMAL else None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "method",
    [
        {"planner": "dp-piper"},
        {"formulation": "mip-piper"},
    ],
    ids=["dp-piper", "mip-piper"],
)
def test_on_a_flat_network(seed: int, method: dict[str, Any]) -> None:
    problem = without_replicas(seed)
    best = best_stages(problem)
    assert least(problem, **method) == (None if best is None else pytest.approx(best[0], rel=1e-6))


@pytest.mark.parametrize("seed", range(6))
def test_on_devices_of_two_types(seed: int) -> None:
    types = (DeviceType("fast", 1, 2.0, 20.0), DeviceType("slow", 2, 1.0, None))
    problem = without_replicas(seed, devices=3, device_types=types, memory_bytes=None)
    best = best_stages(problem)
    for method in ({"planner": "dp-piper"}, {"formulation": "mip-piper"}):
        assert least(problem, **method) == (None if best is None else pytest.approx(best[0], rel=1e-6))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("variant", ["precise", "crude", "basic"])
def test_on_levels(seed: int, variant: str) -> None:
    problem = without_replicas(seed, devices=4, levels=(StagingLevel(2, 400.0), StagingLevel(2, 50.0)))
    best = best_leveled(problem, variant)
    found = least(problem, planner="dp-piper", options={"hierarchy": variant})
    assert found == (None if best is None else pytest.approx(best[0], rel=1e-6))


def test_what_replicas_are_is_told_apart() -> None:
    free = random_staging(0)
    bound = free.replace(replication=False)
    assert (free.extensions, bound.extensions) == (frozenset(), {"no replicas"})
    assert free.hash != bound.hash
    assert staging_from_json(staging_to_json(bound)) == bound
    assert "replication" not in staging_to_json(free)
    with pytest.raises(pipeplan.InputError, match=r"^replication is 1; give true or false"):
        free.replace(replication=1)


def test_a_plan_with_replicas_breaks_a_rule() -> None:
    problem = without_replicas(1, memory_bytes=None)
    plan = pipeplan.StagedPlan(
        (pipeplan.PlannedStage(tuple(x.id for x in problem.layers), 2, 1, {x.id: "way 0" for x in problem.layers}),)
    )
    assert [fault.rule for fault in pipeplan.verify(problem, plan)] == ["replication"]


def test_it_is_said_how_much_memory_would_do() -> None:
    problem = random_staging(4, layers=(3, 3)).replace(replication=False, exact_batches=False)
    least = max(min(way.memory_bytes(1) for way in layer.configurations[1]) for layer in problem.layers)
    result = pipeplan.solve(problem.replace(memory_bytes=float(least)))
    assert result.found is Found.NOTHING
    enough = next(int(found[1]) for text in result.messages if (found := re.search(r"--memory (\d+)", text)))
    assert pipeplan.solve(problem.replace(memory_bytes=float(enough))).found is Found.OPTIMAL


def test_other_methods_refuse_it() -> None:
    with pytest.raises(pipeplan.UsageError, match="'piper-no-tp' cannot plan stages without replicas"):
        pipeplan.solve(without_replicas(0), planner="piper-no-tp")


@pytest.mark.parametrize("levels", [(), (StagingLevel(2, 400.0), StagingLevel(2, 50.0))])
def test_equal_stages_have_one_device_each(levels: tuple[StagingLevel, ...]) -> None:
    problem = without_replicas(1, devices=4, memory_bytes=None, levels=levels)
    even, best = pipeplan.solve(problem, planner="equi"), pipeplan.solve(problem)
    assert even.verified
    assert even.objective is not None
    assert best.objective is not None
    assert even.objective >= best.objective * (1 - 1e-9)
    plans = even.plan.stages if isinstance(even.plan, pipeplan.StagedPlan) else even.plan.leaves()  # type: ignore
    assert {stage.data_parallel for stage in plans} == {1}
