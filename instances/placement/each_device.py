"""A placement problem with another memory, the same on each accelerator."""

from __future__ import annotations

from dataclasses import replace

from .problem import PlacementProblem


def with_memory(problem: PlacementProblem, memory_bytes: float | None) -> PlacementProblem:
    """So much on accelerators of every type."""
    others = tuple(replace(other, memory_bytes=memory_bytes) for other in problem.other_types)
    return problem.replace(memory_bytes=memory_bytes, other_types=others)
