"""A stage graph as the simulator's input: the plan's own schedule, or 1F1B or GPipe on the same stages."""

from __future__ import annotations

from ..timeline.model import Dependency, Order, Pipeline, Stage, gpipe_order, kfkb_order
from .plan import GraphStage, StageGraphPlan
from .problem import GraphPipelineProblem
from .referee.costs import GraphStageCost, forced_edges, stage_costs, stage_of_operators


def stage_graph_pipeline(
    problem: GraphPipelineProblem, plan: StageGraphPlan, schedule: str = "planned"
) -> Pipeline:
    """The pipeline by a schedule: `planned`: kFkB with the plan's k and in-flight samples; `1f1b`: the same with k = 1;
    `gpipe`: all forward passes first.

    Every micro-batch size divides the mini-batch, and every operator is in one stage.
    """
    costs = stage_costs(problem, plan)
    stages = tuple(
        _stage(problem, number, stage, cost, schedule)
        for number, (stage, cost) in enumerate(zip(plan.stages, costs, strict=True))
    )
    return Pipeline(stages, _dependencies(problem, plan), problem.mini_batch, problem.name, problem.time_unit)


def _stage(
    problem: GraphPipelineProblem, number: int, stage: GraphStage, cost: GraphStageCost, schedule: str
) -> Stage:
    return Stage(
        name=f"stage {number}",
        micro_batch=stage.micro_batch,
        forward=cost.forward,
        backward=cost.backward,
        orders=(_order(stage, problem.mini_batch // stage.micro_batch, schedule),),
        devices=stage.devices,
        synchronisation=cost.synchronisation,
        fixed_bytes=problem.weight_copies * cost.weight_bytes + problem.workspace_bytes,
        sample_bytes=cost.sample_bytes,
        limit_bytes=problem.memory_bytes,
    )


def _order(stage: GraphStage, count: int, schedule: str) -> Order:
    batches = range(1, count + 1)
    if schedule == "gpipe":
        return gpipe_order(batches)
    return kfkb_order(batches, stage.in_flight // stage.micro_batch, stage.k if schedule == "planned" else 1)


def _dependencies(problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[Dependency, ...]:
    """Edges that operators force, with the time of the tensors that cross them; other edges only order stages.

    The tensors of one micro-batch between two stages travel as one message, over as many links as the smaller
    stage has devices.
    """
    producers: dict[tuple[int, int], set[int]] = {
        edge: set() for edge in (*plan.edges, *forced_edges(problem, plan))
    }
    owner = stage_of_operators(plan)
    for (source, target), (u, _) in zip(problem.edges, problem.arcs, strict=True):
        if owner[source] != owner[target]:
            producers[owner[source], owner[target]].add(u)
    dependencies = []
    for (x, y), tensors in producers.items():
        sender, receiver = plan.stages[x], plan.stages[y]
        sample_bytes = sum(problem.operators[u].output_bytes for u in sorted(tensors))
        share = sample_bytes / min(sender.devices, receiver.devices)
        delays = [
            problem.boundary_link.seconds(share * s.micro_batch) if tensors else 0.0 for s in (sender, receiver)
        ]
        dependencies.append(Dependency(x, y, *delays))
    return tuple(dependencies)
