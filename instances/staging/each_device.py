"""A staging problem with another memory, the same on each device."""

from __future__ import annotations

from dataclasses import replace

from .problem import StagingProblem


def with_memory(problem: StagingProblem, memory_bytes: float | None) -> StagingProblem:
    """So much on devices of every type."""
    if not problem.device_types:
        return problem.replace(memory_bytes=memory_bytes)
    return problem.replace(
        device_types=tuple(replace(kind, memory_bytes=memory_bytes) for kind in problem.device_types)
    )
