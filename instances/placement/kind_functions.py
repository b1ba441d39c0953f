"""How placements come in and go out, and what is said of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..base.checks import NodeId
from ..base.cluster import Cluster, changes
from ..base.errors import show
from ..base.fields import facts_of
from ..registry import PLACEMENT
from .files import placement_from_json
from .plan import PlacementPlan
from .problem import PlacementProblem

if TYPE_CHECKING:
    from ..timeline.model import Pipeline


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> PlacementProblem:
    """The caller's cluster may mend what the file lacks."""
    return placement_from_json({**data, **changes(PLACEMENT, cluster)})


def facts(problem: PlacementProblem) -> dict[str, Any]:
    told = ("accelerators", "cpus", "memory_bytes")
    return facts_of(problem, ("nodes", "edges"), told, ("other_types", "levels"))


def size(problem: PlacementProblem) -> str:
    return f"{len(problem.nodes)} nodes, {len(problem.edges)} edges"


def pipeline(problem: PlacementProblem, plan: PlacementPlan, micro_batches: int | None, schedule: str) -> Pipeline:
    """The pipeline of a contiguous split, a stage for each device."""
    from ..timeline.model import check_tasks, given
    from .simulated import placement_pipeline

    check_tasks([given(micro_batches)] * len(plan.devices))
    return placement_pipeline(problem, plan, given(micro_batches), schedule)


def with_colours(problem: PlacementProblem, plan: PlacementPlan) -> PlacementPlan:
    """Nodes that the plan does not name go to the device of those whose colour they have, if that is one device: a
    backward node to that of its forward node."""
    holders: dict[NodeId, int] = {node: number for number, own in enumerate(plan.devices) for node in own.nodes}
    more: dict[int, list[NodeId]] = {}
    for members in problem.color_classes:
        nodes = [problem.nodes[i].id for i in members]
        devices = {holders[node] for node in nodes if node in holders}
        if len(devices) == 1:
            more.setdefault(devices.pop(), []).extend(node for node in nodes if node not in holders)
    return replace(
        plan,
        devices=tuple(
            own if own.subgraphs else replace(own, nodes=(*own.nodes, *more.get(number, ())))
            for number, own in enumerate(plan.devices)
        ),
    )


def trains(problem: PlacementProblem) -> bool:
    """Does some node belong to the backward pass?"""
    return any(node.backward for node in problem.nodes)


# ---- what a reader should know about a problem as it was given, whatever the method ---------------------------

# A time of at least so much, and so many times all smaller ones together, looks like a word: forbidden.
SENTINEL = 1e6

REMEDIES = {
    "accelerator_time": 'if it means that no accelerator can run this, say "supported": false',
    "other_times": "if it means that this type cannot run this, say null",
    "cpu_time": "if it means that this must not be on a CPU: plans have it there only where nothing else is possible",
}


def remarks(problem: PlacementProblem) -> Iterator[str]:
    """Times that are far above all others together. They are taken as they stand, and cost no digit of the answer."""
    times = sorted(_times(problem))
    least = _far_above([time for time, _, _ in times])
    if least is None:
        return
    far = sorted((field, i, time) for time, field, i in times if time >= least)
    for field, group in groupby(far, key=lambda entry: entry[0]):
        found = list(group)
        others = f" and of {len(found) - 1} more" if len(found) > 1 else ""
        yield (
            f"the {field} {found[0][2]:g} of node {show(problem.nodes[found[0][1]].id)}{others} is more than a million "
            f"times all smaller times together; {REMEDIES[field]}"
        )


def _times(problem: PlacementProblem) -> Iterator[tuple[float, str, int]]:
    """Every time that some device may take, with the name of its field and its node."""
    for i, node in enumerate(problem.nodes):
        if problem.accelerators and node.supported:
            yield node.accelerator_time, "accelerator_time", i
        if problem.cpus:
            yield node.cpu_time, "cpu_time", i
        for time in node.other_times:
            if time is not None:
                yield time, "other_times", i


def _far_above(ascending: Iterable[float]) -> float | None:
    """The first that is far above all before it together."""
    total = 0.0
    for time in ascending:
        if time >= SENTINEL and 0 < SENTINEL * total <= time:
            return time
        total = math.fsum((total, time))
    return None
