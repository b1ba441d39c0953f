"""The least memory of every kind against enumeration: the amount is enough, and the next number below it is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

import pytest
from oracles.extended_placement import best_value, tiny_types
from oracles.graph_pipeline import all_plans, convex_sets
from oracles.leveled_staging import best_leveled
from oracles.placement import best_placements
from oracles.staging import best_stages
from problems.nasty import nasty

import pipeplan
from pipeplan import InputError, SolveOptions, load_packaged, smallest_memory
from pipeplan.instances.graph_pipeline.problem import micro_batch_sizes
from pipeplan.instances.registry import kind_of
from pipeplan.planners.memory import training

LIMITS = SolveOptions(threads=1)
TOO_MANY_DIGITS = 1e-12
"""Relative: sums that differ by less, as 1e30 + 1 and 1e30, have more digits than the dynamic programs count."""


def placement(problem: Any, contiguity: str) -> Any:
    return best_placements(problem)["max-load", contiguity]


def stage_graph(problem: Any) -> Any:
    schedules = [(b, 1) for b in micro_batch_sizes(problem, None)]
    return next(iter(all_plans(problem, schedules, convex_sets(problem), mixed=False)), None)


EXISTS: Mapping[str, tuple[str, dict[str, Any], Callable[[Any], Any]]] = {
    "placement": ("placement", {}, partial(placement, contiguity="chain")),
    "any placement": ("placement", {"non_contiguous": True}, partial(placement, contiguity="none")),
    "staging": ("staging", {}, best_stages),
    "reference": ("staging", {"semantics": "reference"}, partial(best_stages, semantics="reference")),
    "types": ("types", {}, best_stages),
    "levels": ("levels", {}, best_leveled),
    "graph pipeline": ("graph-pipeline", {}, stage_graph),
}
"""By name: the problems, the options, and a plan by enumeration, if there is one."""


def exists(problem: Any, memory_bytes: float | None, decide: Callable[[Any], Any]) -> bool:
    """The door itself refuses what fits no device."""
    try:
        return decide(kind_of(problem).with_memory(problem, memory_bytes)) is not None
    except InputError:
        return False


def small(kind: str, seed: int) -> Any:
    limits = {"placement": {"most_nodes": 5, "most_accelerators": 3}, "staging": {"most_layers": 3}}
    return nasty(kind, seed, **{**limits, "graph-pipeline": {"most_operators": 4}}.get(kind, {}))


def check(problem: Any, options: Mapping[str, Any], decide: Callable[[Any], Any]) -> None:
    found = pipeplan.smallest_memory(problem, LIMITS, options=options)
    if found.memory_bytes is None:
        assert found.proven
        assert found.stop == "infeasible"
        assert not exists(problem, None, decide)
        return
    assert exists(problem, found.memory_bytes, decide)
    assert found.lower_bytes == 0 or not exists(problem, math.nextafter(found.lower_bytes, 0.0), decide)
    assert found.proven == (found.memory_bytes == found.lower_bytes)
    assert found.proven or found.memory_bytes - found.lower_bytes < TOO_MANY_DIGITS * found.memory_bytes


@pytest.mark.parametrize("name", EXISTS)
@pytest.mark.parametrize("seed", range(48))
def test_the_amount_is_enough_and_a_hair_less_is_not(name: str, seed: int) -> None:
    kind, options, decide = EXISTS[name]
    check(small(kind, seed), options, decide)


@pytest.mark.parametrize("seed", range(5))
def test_placements_on_several_types(seed: int) -> None:
    """The same memory on accelerators of every type."""
    check(tiny_types(seed), {}, partial(best_value, objective="max-load"))


@pytest.mark.sweeps
def test_more_options_never_cost_the_answer() -> None:
    """With replicas and all degrees the search for any plan takes minutes; few plans are asked first."""
    levels, degrees = ((8, 450e9), (8, 50e9)), {"data_parallel": True, "tensor_parallel": (1, 2, 4, 8)}
    facts: dict[str, Any] = {"devices": 64, "batch": 1024, "optimizer": "adam-mixed", "recompute": True, **degrees}
    problem = pipeplan.load_profile("llama-3-70b").to_staging(levels=levels, memory_bytes=math.inf, **facts)
    found = smallest_memory(problem, SolveOptions(time_limit_s=600))
    assert found.memory_bytes < 25 * 2**30


@pytest.mark.parametrize("name", ["tiny-training", "tiny-experts-training"])
def test_a_training_has_its_least_memory_to_the_byte(name: str) -> None:
    """The steps of its curve show no plan below it, and one byte less has none."""
    problem = load_packaged(name)
    found = smallest_memory(problem, LIMITS)
    assert found.proven
    assert found.lower_bytes == found.memory_bytes
    for less, there in ((0, True), (1, False)):
        asked = kind_of(problem).each_memory(problem, found.memory_bytes - less)
        assert (pipeplan.solve(asked, limits=LIMITS).plan is not None) == there


def test_a_question_about_a_training_hears_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the question goes on by ten seconds with each look."""
    looks = count(0, 10)
    monkeypatch.setattr(training, "now", lambda: float(next(looks)))
    ask = training.questions(load_packaged("tiny-training"), {}).first
    answer = ask(None, SolveOptions(time_limit_s=5.0))
    assert not answer.none
    assert next(looks) <= 60, "few looks, and then it ends"
