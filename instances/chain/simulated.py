"""The allocation of a pattern (Beaumont) as the simulator's input: one stage for each GPU's run of layers.

Only the allocation is used, not the pattern's own starts: here a number of batches runs through and the pipeline
drains. Memory is weights and the inputs that are kept for the backward passes; what passes by is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from ..base.errors import UsageError
from ..timeline.model import Dependency, Pipeline, Stage, replica_orders
from .plan import PatternPlan
from .problem import ChainProblem


def chain_pipeline(
    problem: ChainProblem, plan: PatternPlan, micro_batches: int, schedule: str = "planned"
) -> Pipeline:
    """The pipeline in 1F1B, where a stage holds as many batches as there are stages from it to the end; or in GPipe."""
    runs = runs_of(plan)
    gpus = [plan.allocation[run[0]] for run in runs]
    if len(set(gpus)) < len(gpus):
        raise UsageError("A GPU holds layers that do not follow each other, so it is no stage of a pipeline.")
    return pipeline_of_runs(problem, runs, gpus, micro_batches, schedule)


def runs_of(plan: PatternPlan) -> list[list[int]]:
    """The runs of layers (from 0) that stand on one GPU, in the order of the chain."""
    layers = range(len(plan.allocation))
    return [list(members) for _, members in groupby(layers, key=plan.allocation.__getitem__)]


def pipeline_of_runs(
    problem: ChainProblem, runs: Sequence[Sequence[int]], gpus: Sequence[int], micro_batches: int, schedule: str
) -> Pipeline:
    """The pipeline in which each run of layers is a stage of its own."""
    stages = []
    for number, (run, gpu) in enumerate(zip(runs, gpus, strict=True)):
        held = micro_batches if schedule == "gpipe" else len(runs) - number
        stages.append(
            Stage(
                name=f"gpu {gpu}",
                micro_batch=1,
                forward=math.fsum(problem.forward[i] for i in run),
                backward=math.fsum(problem.backward[i] for i in run),
                orders=replica_orders(micro_batches, 1, held),
                fixed_bytes=problem.weight_copies * math.fsum(problem.weights[i] for i in run),
                sample_bytes=math.fsum(problem.activations[i] for i in run),
                limit_bytes=problem.memory_bytes,
            )
        )
    return Pipeline(tuple(stages), _dependencies(problem, runs), micro_batches, problem.name, problem.time_unit)


def _dependencies(problem: ChainProblem, runs: Sequence[Sequence[int]]) -> tuple[Dependency, ...]:
    """Edge l leads forward out of layer l (from 1), edge 2L - l carries its gradient back."""
    dependencies = []
    for number in range(len(runs) - 1):
        last = runs[number][-1] + 1
        forward, backward = (problem.edge_times[edge - 1] for edge in (last, problem.tasks - last))
        dependencies.append(Dependency(number, number + 1, forward, backward))
    return tuple(dependencies)
