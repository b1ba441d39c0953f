"""Memory of a GPU of a chain: what a pattern holds there."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ..base.amounts import as_written
from .plan import PatternPlan
from .problem import ChainProblem
from .referee.evaluate import evaluate_pattern


def held(problem: ChainProblem, plan: PatternPlan, options: Mapping[str, Any]) -> Fraction:
    """What the GPU with the highest peak holds, in bytes."""
    return as_written(evaluate_pattern(problem, plan).peak_bytes)
