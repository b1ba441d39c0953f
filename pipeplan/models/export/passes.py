"""The order of all passes, rank by rank, for frameworks that are told it.

A rank with one stage works in the simulator's order, kFkB with the plan's micro-batches in flight; where ranks hold
several, in that of its list scheduler.
"""

from __future__ import annotations

import csv
import io

from ...instances.base.errors import show
from ...instances.timeline.model import Dependency, Pass, Pipeline, Stage, kfkb_order
from ...instances.timeline.sharing import share_devices
from .contract import ToExport


def passes_by_rank(job: ToExport, micro_batches: int) -> list[list[Pass]]:
    """By rank all passes of one iteration in their order."""
    if job.plan.ranks < len(job.stages):
        return _shared(job, micro_batches)
    found: list[list[Pass]] = [[] for _ in job.stages]
    for number, stage in enumerate(job.stages):
        order = kfkb_order(range(1, micro_batches + 1), stage.in_flight, stage.k)
        found[stage.rank] = [(number, j) for j in order]
    return found


def schedule_csv(job: ToExport, micro_batches: int) -> str:
    """A row for each rank; the cells of torch's runtime: stage, F or B, micro-batch from 0."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in passes_by_rank(job, micro_batches):
        writer.writerow(f"{stage}{'F' if j > 0 else 'B'}{abs(j) - 1}" for stage, j in row)
    return text.getvalue()


def check_one_micro_batch(job: ToExport) -> None:
    """All stages run micro-batches of one size: those of torch are numbered alike on all stages."""
    first = job.stages[0].samples
    for number, stage in enumerate(job.stages):
        if stage.samples != first:
            raise job.refusal(
                f"stage {number}, with the node {show(stage.nodes[0])}, has micro-batches of {stage.samples} samples "
                f"and stage 0 of {first}, and all stages must have the same",
                "`plan run` runs it as it is",
            )


def _shared(job: ToExport, micro_batches: int) -> list[list[Pass]]:
    """By the times of the profile, else by the number of nodes, a backward pass twice as long as a forward pass."""
    stages = tuple(
        Stage(stage.device, 1, *times, orders=((),)) for stage, times in zip(job.stages, _times(job), strict=True)
    )
    pipeline = Pipeline(stages, tuple(Dependency(x, y) for x, y in job.plan.edges), micro_batches)
    ranks, in_flight = ([stage.rank for stage in job.stages], [stage.in_flight for stage in job.stages])
    return [list(order) for order in share_devices(pipeline, ranks, in_flight).shared]


def _times(job: ToExport) -> list[tuple[float, float]]:
    if job.profile is None:
        return [(float(len(stage.nodes)), 2.0 * len(stage.nodes)) for stage in job.stages]
    profile, nodes = job.profile, {node.id: node for node in job.profile.nodes}
    return [
        (
            sum(profile.time(nodes[node].forward) for node in stage.nodes),
            sum(profile.time(nodes[node].backward) for node in stage.nodes),
        )
        for stage in job.stages
    ]
