"""The order of all passes, rank by rank, for frameworks that are told it.

A rank with one stage works in the simulator's order, kFkB with the plan's micro-batches in flight. A rank with several
takes turns by a list schedule: whatever could start first, backward passes before forward passes, the later stage
before the earlier one; no stage holds more micro-batches than the plan says.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from ...instances.errors import show
from ...instances.simulation.orders import kfkb_order
from .contract import ToExport

Pass = tuple[int, int]
"""A stage, and the signed number of a micro-batch from 1: +j forward, -j backward."""


def passes_by_rank(job: ToExport, micro_batches: int) -> list[list[Pass]]:
    """By rank all passes of one iteration in their order."""
    if job.plan.ranks < len(job.stages):
        return _list_schedule(job, micro_batches)
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


def _list_schedule(job: ToExport, micro_batches: int) -> list[list[Pass]]:
    """Time stands for passes: a backward pass takes as long as two forward passes, weighed by the nodes of a stage."""
    count = len(job.stages)
    before: list[list[int]] = [[] for _ in range(count)]
    behind: list[list[int]] = [[] for _ in range(count)]
    for x, y in job.plan.edges:
        before[y].append(x)
        behind[x].append(y)
    times = _times(job)
    orders: list[list[Pass]] = [[] for _ in range(job.plan.ranks)]
    free = [0.0] * job.plan.ranks
    ended: dict[Pass, float] = {}
    next_forward, next_backward = [1] * count, [1] * count
    for _ in range(2 * count * micro_batches):
        chosen: tuple[float, bool, int, int] | None = None
        for s, stage in enumerate(job.stages):
            ready = []
            j = next_backward[s]
            if j < next_forward[s]:
                ready.append((True, j, [(s, j), *((y, -j) for y in behind[s])]))
            j = next_forward[s]
            if j <= micro_batches and j - next_backward[s] < stage.in_flight:
                ready.append((False, j, [(x, j) for x in before[s]]))
            for backward, j, needs in ready:
                if all(need in ended for need in needs):
                    start = max((free[stage.rank], *(ended[need] for need in needs)))
                    key = (start, not backward, -s, j)
                    chosen = key if chosen is None or key < chosen else chosen
        assert chosen is not None, "the micro-batch that is furthest behind can always move on"
        start, forward, s, j = chosen[0], chosen[1], -chosen[2], chosen[3]
        rank = job.stages[s].rank
        done = (s, j) if forward else (s, -j)
        orders[rank].append(done)
        free[rank] = ended[done] = start + times[s] * (1 if forward else 2)
        (next_forward if forward else next_backward)[s] += 1
    return orders


def _times(job: ToExport) -> Sequence[float]:
    """Of a forward pass of each stage: by the profile, else by its number of nodes."""
    if job.profile is None:
        return [float(len(stage.nodes)) for stage in job.stages]
    nodes = {node.id: node for node in job.profile.nodes}
    return [sum(job.profile.time(nodes[node].forward) for node in stage.nodes) for stage in job.stages]
