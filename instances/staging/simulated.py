"""A staged plan (Piper) as the simulator's input: its stages in their order, replicas that take turns.

A configuration has one time for both passes: a third of it counts as forward, as for layers of matrix products.
Weights are synchronised once, at the end; a sample of the simulator is a micro-batch.
"""

from __future__ import annotations

import math
from collections import defaultdict

from ..simulation.model import Dependency, Pipeline, Stage
from ..simulation.orders import replica_orders
from .plan import StagedPlan
from .problem import Configuration, StagingProblem
from .referee.stages import SYNC_TRIPS, chosen, evaluate_stages

FORWARD_SHARE = 1 / 3


def staged_pipeline(
    problem: StagingProblem, plan: StagedPlan, micro_batches: int | None = None, schedule: str = "planned"
) -> Pipeline:
    """`planned` and `1f1b`: each replica holds as many micro-batches as the plan's memory was judged with."""
    count = problem.micro_batches if micro_batches is None else micro_batches
    held = [cost.in_flight if schedule != "gpipe" else count for cost in evaluate_stages(problem, plan).stages]
    ways = [
        {node_id: way for node_id in stage.nodes if (way := chosen(problem, stage, node_id)) is not None}
        for stage in plan.stages
    ]
    stages = []
    for number, (stage, own, warm_up) in enumerate(zip(plan.stages, ways, held, strict=True)):
        d, time = stage.data_parallel, math.fsum(way.time for way in own.values())
        weights = math.fsum(way.weight_bytes for way in own.values())
        stages.append(
            Stage(
                name=f"stage {number}",
                micro_batch=1,
                forward=FORWARD_SHARE * time,
                backward=(1 - FORWARD_SHARE) * time,
                orders=replica_orders(count, d, warm_up),
                devices=d * stage.tensor_parallel,
                synchronisation=SYNC_TRIPS * (d - 1) / d * weights / problem.bandwidth,
                fixed_bytes=math.fsum(way.memory_fixed for way in own.values()),
                sample_bytes=math.fsum(way.memory_per_batch for way in own.values()),
            )
        )
    return Pipeline(tuple(stages), _dependencies(problem, plan, ways), count, problem.name, problem.time_unit)


def _dependencies(
    problem: StagingProblem, plan: StagedPlan, ways: list[dict[int | str, Configuration]]
) -> tuple[Dependency, ...]:
    """Tensors between stages, redistribution included; and each stage follows the one before, data or not."""
    stage_of = {node_id: number for number, stage in enumerate(plan.stages) for node_id in stage.nodes}
    moved: defaultdict[tuple[int, int], float] = defaultdict(float)
    for number in range(len(plan.stages) - 1):
        moved[number, number + 1] += 0.0
    for edge in problem.edges:
        x, y = stage_of[edge.source], stage_of[edge.target]
        if x != y:
            gathered = ways[x][edge.source].gather_out.get(edge.target, 0.0)
            gathered += ways[y][edge.target].gather_in.get(edge.source, 0.0)
            moved[x, y] += edge.bytes + gathered
    delays = {pair: amount / problem.bandwidth for pair, amount in moved.items()}
    return tuple(Dependency(x, y, delay, delay) for (x, y), delay in delays.items())
