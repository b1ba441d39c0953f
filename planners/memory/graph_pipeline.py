"""How a graph pipeline is asked for its least memory: stages of any convex sets, quick plans first, then proofs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from ...instances.base.amounts import as_written, common_unit
from ...instances.base.errors import show
from ...instances.base.result import Stop
from ...instances.graph_pipeline.kind_functions import held
from ...instances.graph_pipeline.problem import GraphPipelineProblem, Link, Operator, TimeCurve, micro_batch_sizes
from ..graph_pipeline.bounds import lower_bound
from ..options import SolveOptions
from .smallest import Answer, Floor, Questions, accepted, outcome_of, would_do

DP, CP = "graphpipe", "cp-graphpipe"
# Options that say which plans there are; longer groups of passes never need less memory.
ASKED = ("micro_batch", "mixed_micro_batches", "degrees")
STEADY = {"objective": "time-per-sample"}
# No time, whatever the size of a micro-batch.
AT_ONCE = TimeCurve((1.0,), (0.0,))


def questions(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> Questions:
    """The least memory of all plans with the micro-batches and degrees that the options allow."""
    question = {name: options[name] for name in ASKED if name in options} | STEADY
    return Questions(
        unit=_unit(problem),
        floor=_floor(problem, question),
        held=partial(held, problem, options=question),
        first=partial(_quick, problem, question),
        # What needs no search may refute an amount as well.
        rounds=(
            partial(_quick, problem, question),
            lambda memory, limits: Answer(none=lower_bound(problem.replace(memory_bytes=memory), question) is None),
            partial(_exact, problem, question),
        ),
    )


def explain(
    problem: GraphPipelineProblem, options: Mapping[str, Any], limits: SolveOptions, proven: bool
) -> tuple[str, ...]:
    """How much memory would be enough, whether or not it is proven that there is no plan."""
    return would_do(problem, options, limits)


def _unit(problem: GraphPipelineProblem) -> Fraction:
    """The unit of memory: each device of a stage holds its share of the stashes, and all of the weights."""
    copies = as_written(problem.weight_copies)
    amounts = [copies * as_written(operator.weight_bytes) for operator in problem.operators]
    amounts += [
        as_written(stash) / d
        for stash in {operator.stash_bytes for operator in problem.operators}
        for d in range(1, min(problem.devices, problem.mini_batch) + 1)
        if problem.mini_batch % d == 0
    ]
    return common_unit([*amounts, as_written(problem.workspace_bytes)]) or Fraction(1)


def _floor(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> Floor:
    """The largest operator, alone and with one micro-batch on as many devices as share it."""
    sizes = micro_batch_sizes(problem, options.get("micro_batch"), bool(options.get("mixed_micro_batches")))
    share = min(Fraction(b, min(b, problem.devices)) for b in sizes)

    def need(operator: Operator) -> Fraction:
        weights = as_written(problem.weight_copies) * as_written(operator.weight_bytes)
        return weights + as_written(problem.workspace_bytes) + as_written(operator.stash_bytes) * share

    largest = max(problem.operators, key=need)
    return Floor(need(largest), f"operator {show(largest.id)} alone, with one micro-batch")


def _timeless(problem: GraphPipelineProblem, memory_bytes: float | None) -> GraphPipelineProblem:
    """The problem with so much memory in which nothing takes any time, so that a search ends with its first plan."""
    return problem.replace(
        operators=tuple(replace(x, forward=AT_ONCE, backward=AT_ONCE, output_bytes=0.0) for x in problem.operators),
        link=Link(),
        node_link=None,
        devices_per_node=None,
        memory_bytes=memory_bytes,
    )


def _quick(
    problem: GraphPipelineProblem, options: Mapping[str, Any], memory_bytes: float | None, limits: SolveOptions
) -> Answer:
    """The answer of the planner, which searches all of some plans: without one it says nothing of others."""
    asked = _timeless(problem, memory_bytes)
    outcome = outcome_of(asked, DP, options, limits)
    plan = accepted(asked, outcome.plan, STEADY)
    return Answer(plan, none_of_mine=plan is None and outcome.stop == Stop.COMPLETED)


def _exact(
    problem: GraphPipelineProblem, options: Mapping[str, Any], memory_bytes: float | None, limits: SolveOptions
) -> Answer:
    asked = _timeless(problem, memory_bytes)
    outcome = outcome_of(asked, CP, {**options, "family": "convex"}, limits)
    plan = accepted(asked, outcome.plan, STEADY)
    return Answer(plan, none=plan is None and outcome.stop == Stop.INFEASIBLE)
