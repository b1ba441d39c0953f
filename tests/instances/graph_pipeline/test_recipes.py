"""Packaged graph pipelines: what their list shows, and the tiny one plan by plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pipeplan.instances.base.graph import heights_of, topological_order
from pipeplan.instances.catalogue import best_known, load_packaged, packaged_info
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.instances.graph_pipeline.referee import (
    StageGraphEvaluation,
    evaluate_stage_graph,
    forced_edges,
    required_in_flight,
    verify_stage_graph,
)


def test_the_list_shows_size_and_values() -> None:
    row = next(row for row in packaged_info("graph-pipeline") if row["name"] == "tiny-graph")
    assert (row["operators"], row["devices"], row["mini_batch"]) == (5, 4, 16)
    assert (row["time_per_sample"], row["iteration"]) == (3.75, 80.5)


# ---- the tiny one, plan by plan ----------------------------------------------------------------------------


def partitions(entries: list[str]) -> Iterator[list[list[str]]]:
    if not entries:
        yield []
        return
    for rest in partitions(entries[1:]):
        yield [[entries[0]], *rest]
        for i in range(len(rest)):
            yield [*rest[:i], [entries[0], *rest[i]], *rest[i + 1 :]]


def all_plans(problem: GraphPipelineProblem, uniform: bool) -> Iterator[StageGraphPlan]:
    """Every set of stages with every number of devices and micro-batch, each with the samples in flight it needs."""
    sizes = [b for b in range(1, problem.mini_batch + 1) if problem.mini_batch % b == 0]
    for sets in partitions([str(entry.id) for entry in problem.operators]):
        for cuts in itertools.combinations(range(1, problem.devices), len(sets) - 1):
            degrees = [b - a for a, b in itertools.pairwise((0, *cuts, problem.devices))]
            for chosen in (
                ([b] * len(sets) for b in sizes) if uniform else itertools.product(sizes, repeat=len(sets))
            ):
                if all(b % d == 0 for b, d in zip(chosen, degrees, strict=True)):
                    stages = tuple(
                        GraphStage(tuple(s), d, b) for s, d, b in zip(sets, degrees, chosen, strict=True)
                    )
                    yield from with_samples(problem, StageGraphPlan(stages, ()))


def with_samples(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[StageGraphPlan]:
    edges = tuple(sorted(forced_edges(problem, plan)))
    successors = [[y for x, y in edges if x == stage] for stage in range(len(plan.stages))]
    if topological_order(successors) is None:
        return
    plan = StageGraphPlan(plan.stages, edges)
    for _ in range(max(heights_of(successors) or ())):
        needed = required_in_flight(problem, plan)
        stages = (replace(stage, in_flight=i) for stage, i in zip(plan.stages, needed, strict=True))
        plan = StageGraphPlan(tuple(stages), edges)
    yield plan


def best_of(uniform: bool, objective: str) -> tuple[float, StageGraphEvaluation]:
    problem = load_packaged("tiny-graph")
    valid = (plan for plan in all_plans(problem, uniform) if not verify_stage_graph(problem, plan))
    found = (evaluate_stage_graph(problem, plan) for plan in valid)
    return min(((evaluation.objective(objective), evaluation) for evaluation in found), key=lambda entry: entry[0])


@pytest.mark.parametrize("objective", ["time-per-sample", "iteration"])
@pytest.mark.parametrize("uniform", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_tiny_graph_is_known_by_enumeration(uniform: bool, objective: str) -> None:
    value, evaluation = best_of(uniform, objective)
    known = best_known("tiny-graph", objective)
    assert known is not None
    assert evaluation.depth == 3
    if objective == "time-per-sample":
        assert value == known.value
    else:  # a plan that holds more samples than it has to is still better
        assert 0.98 * value < known.value <= value


def test_a_row_of_the_same_stages_needs_smaller_micro_batches() -> None:
    """Micro-batches of 4 hold 16 samples in the first of four stages, those of 2 hold 8."""
    problem = load_packaged("tiny-graph")
    sets = (("a1",), ("a2",), ("b1",), ("b2", "join"))
    edges = ((0, 1), (1, 2), (2, 3), (1, 3))

    def row(b: int) -> StageGraphPlan:
        return StageGraphPlan(tuple(GraphStage(s, 1, b, 1, (4 - i) * b) for i, s in enumerate(sets)), edges)

    assert [violation.rule for violation in verify_stage_graph(problem, row(4))] == ["memory"]
    assert verify_stage_graph(problem, row(2)) == ()
    assert evaluate_stage_graph(problem, row(2)).time_per_sample > 3.75
