"""How placements come in and go out, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..cluster import Cluster, changes
from ..simulation.checks import check_tasks, given
from ..simulation.model import Pipeline
from .files import placement_from_json
from .kind import KIND
from .plan import PlacementPlan
from .problem import PlacementProblem
from .published import placement_from_published
from .simulated import placement_pipeline

PUBLISHED_NAMES = {"accelerators": "maxFPGAs", "cpus": "maxCPUs", "memory_bytes": "maxSizePerFPGA"}


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> PlacementProblem:
    """The caller's cluster may mend what the file lacks."""
    return placement_from_json({**data, **changes(KIND, cluster)})


def read_published(data: Mapping[str, Any], cluster: Cluster, name: str) -> PlacementProblem:
    renamed = {PUBLISHED_NAMES[key]: value for key, value in changes(KIND, cluster).items()}
    return placement_from_published({**data, **renamed}, name=name)


def facts(problem: PlacementProblem) -> dict[str, Any]:
    extended: dict[str, tuple[Any, ...]] = {"other_types": problem.other_types, "levels": problem.levels}
    return {
        "nodes": len(problem.nodes),
        "edges": len(problem.edges),
        "accelerators": problem.accelerators,
        "cpus": problem.cpus,
        "memory_bytes": problem.memory_bytes,
        **{name: [asdict(entry) for entry in entries] for name, entries in extended.items() if entries},
    }


def size(problem: PlacementProblem) -> str:
    return f"{len(problem.nodes)} nodes, {len(problem.edges)} edges"


def pipeline(problem: PlacementProblem, plan: PlacementPlan, micro_batches: int | None, schedule: str) -> Pipeline:
    """Of a contiguous split, device by device."""
    check_tasks([given(micro_batches)] * len(plan.devices))
    return placement_pipeline(problem, plan, given(micro_batches), schedule)
