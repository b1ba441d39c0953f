"""How placements come in and go out, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..base.cluster import Cluster, changes
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
    from ..timeline.checks import check_tasks, given
    from .simulated import placement_pipeline

    check_tasks([given(micro_batches)] * len(plan.devices))
    return placement_pipeline(problem, plan, given(micro_batches), schedule)


def trains(problem: PlacementProblem) -> bool:
    """Does some node belong to the backward pass?"""
    return any(node.backward for node in problem.nodes)
