"""Memory of a device of a graph pipeline: what a plan holds there."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from .plan import StageGraphPlan
from .problem import GraphPipelineProblem
from .referee.costs import held_bytes


def held(problem: GraphPipelineProblem, plan: StageGraphPlan, options: Mapping[str, Any]) -> Fraction:
    """What a device of the fullest stage holds, in bytes."""
    return max(held_bytes(problem, stage) for stage in plan.stages)
