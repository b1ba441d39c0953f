"""Beyond the paper: flushes behind every batch and devices of several types, through `pipeplan.solve`."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from oracles.staging import best_stages
from problems.stagings import random_staging

import pipeplan
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.staging.plan import StagedPlan
from pipeplan.instances.staging.problem import Configuration, DeviceType, Edge, Layer, StagingProblem
from pipeplan.instances.staging.referee import evaluate_stages

FLUSH = {"objective": "flush"}
SEMANTICS = ("paper", "reference")


def with_types(seed: int, count: int = 2, layers: tuple[int, int] = (2, 4)) -> StagingProblem:
    """A random problem on devices of types, of which one may be faster and another have more memory."""
    rng = random.Random(500 + seed)
    flat = random_staging(seed, layers=layers, exact_batches=False)
    memory = flat.memory_bytes
    kinds = []
    for i in range(count):
        devices, speed, share = rng.choice((1, 2)), rng.choice((0.5, 1.0, 2.0)), None
        share = None if memory is None else round(memory * rng.choice((0.6, 1.0, 1.5)))
        kinds.append(DeviceType(f"type {i}", devices, speed, share))
    return flat.replace(devices=sum(kind.devices for kind in kinds), memory_bytes=None, device_types=tuple(kinds))


def check(problem: StagingProblem, semantics: str, flush: bool) -> pipeplan.Result:
    """The result, after comparison with all plans."""
    options: dict[str, Any] = {"semantics": semantics, **(FLUSH if flush else {})}
    result = pipeplan.solve(problem, planner="dp-piper", options=options)
    expected = best_stages(problem, semantics, flush)
    if expected is None:
        assert (result.stop, result.plan) == (pipeplan.Stop.INFEASIBLE, None)
    else:
        assert result.stop == pipeplan.Stop.PROVEN
        assert (result.objective, result.bound) == (pytest.approx(expected[0], rel=1e-9),) * 2
    return result


# ---- flushes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("seed", range(30))
def test_no_flushed_pipeline_is_better(seed: int, semantics: str) -> None:
    check(random_staging(seed, layers=(2, 4), exact_batches=False), semantics, True)


def test_flushes_change_plans_in_some_examples_and_not_in_others() -> None:
    """Else the comparison with all plans would show little."""
    changed = 0
    for seed in range(30):
        problem = random_staging(seed, layers=(2, 4), exact_batches=False)
        flushed, plain = pipeplan.solve(problem, options=FLUSH).plan, pipeplan.solve(problem).plan
        if isinstance(flushed, StagedPlan) and isinstance(plain, StagedPlan):
            changed += len(flushed.stages) < len(plain.stages)
    assert 3 <= changed <= 20


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


@pytest.mark.parametrize("name", ["tiny-stages", "resnet50-stages"])
def test_many_micro_batches_hide_the_flush(name: str) -> None:
    """The more of them, the nearer to the least load."""
    problem = load_packaged(name)
    least = pipeplan.solve(problem).objective
    assert least is not None
    times = [pipeplan.solve(problem.replace(micro_batches=n), options=FLUSH).objective for n in (32, 128, 100_000)]
    assert all(a is not None and b is not None and a >= b for a, b in itertools.pairwise(times))
    assert times[0] is not None
    assert times[0] > 1.001 * least
    assert times[-1] == pytest.approx(least, rel=1e-4)


# ---- device types --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_no_choice_of_types_is_better(seed: int, flush: bool) -> None:
    """Of two types, and of three."""
    check(with_types(seed), SEMANTICS[seed % 2], flush)
    if seed < 8 and not flush:
        check(with_types(seed, 3, (2, 3)), "paper", flush)


def test_types_are_mixed_in_some_examples_and_missing_in_others() -> None:
    plans = [pipeplan.solve(with_types(seed)).plan for seed in range(30)]
    used = [{stage.device_type for stage in plan.stages} for plan in plans if isinstance(plan, StagedPlan)]
    assert None in plans
    assert {len(kinds) for kinds in used} == {1, 2}


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("seed", range(20))
def test_one_type_is_the_flat_problem(seed: int, semantics: str) -> None:
    """Of speed 1, by the faster program for devices that are alike."""
    flat = random_staging(seed, layers=(3, 6), exact_batches=False)
    kind = DeviceType("only", flat.devices, 1.0, flat.memory_bytes)
    typed = flat.replace(memory_bytes=None, device_types=(kind,))
    options = {"semantics": semantics}
    found, expected = pipeplan.solve(typed, options=options), pipeplan.solve(flat, options=options)
    assert found.stop == expected.stop
    assert found.objective == (None if expected.objective is None else pytest.approx(expected.objective, rel=1e-9))


# ---- what is refused -----------------------------------------------------------------------------------


FOUR_TYPES = tuple(DeviceType(f"type {i}", 1) for i in range(4))


@pytest.mark.parametrize(
    ("problem", "planner", "options", "words"),
    [
        (
            pair(2).replace(exact_batches=True),
            *("dp-piper", FLUSH, "exact_batches is not planned where copies or types are counted"),
        ),
        (
            pair(4).replace(devices=4, device_types=FOUR_TYPES),
            *("dp-piper", {}, "device_types are 4; give at most 3"),
        ),
        (pair(4), "dp-piper", {**FLUSH, "knapsack": "greedy"}, "option knapsack is greedy, but flushes and types"),
        (
            with_types(0),
            *("piper-no-dp", {}, "cannot plan several types .* choose one of mip-piper, dp-piper, equi, "),
        ),
        *((pair(4), planner, FLUSH, "has no option 'objective'") for planner in ("equi", "piper-no-dp")),
    ],
)
def test_what_is_refused(problem: StagingProblem, planner: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, UsageError), match=words):
        pipeplan.solve(problem, planner=planner, options=options)
