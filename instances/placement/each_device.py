"""Memory of each accelerator of a placement: problems with another limit, and what a plan holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..base.amounts import exact_sum
from .plan import PlacementPlan
from .problem import PlacementProblem


def with_memory(problem: PlacementProblem, memory_bytes: float | None) -> PlacementProblem:
    """The problem with so much memory on accelerators of every type."""
    others = tuple(replace(other, memory_bytes=memory_bytes) for other in problem.other_types)
    return problem.replace(memory_bytes=memory_bytes, other_types=others)


def held(problem: PlacementProblem, plan: PlacementPlan, options: Mapping[str, Any]) -> Fraction:
    """What the fullest accelerator holds, in bytes."""
    sizes = (
        exact_sum(problem.nodes[problem.index[node_id]].size_bytes for node_id in device.nodes)
        for device in plan.devices
        if device.type == "accelerator"
    )
    return max(sizes, default=Fraction(0))
