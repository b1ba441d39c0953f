"""Why there is no plan, where it is memory that is missing: how much would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...formulations.contract import Problem
from ...instances.base.amounts import as_written
from ...instances.base.errors import PipeplanError
from ...instances.least_memory import SmallestMemory, option, said, sufficient
from ...instances.registry import kind_of
from ..kinds import planned_kind
from ..options import SolveOptions


def explain(problem: Problem, options: Mapping[str, Any], limits: SolveOptions, proven: bool) -> tuple[str, ...]:
    """Which memory would do for a problem that has no plan; nothing where it is not proven that there is none."""
    return would_do(problem, options, limits) if proven else ()


def would_do(problem: Problem, options: Mapping[str, Any], limits: SolveOptions) -> tuple[str, ...]:
    """A sentence on how much memory would be enough, as far as it is known; nothing where nobody can tell."""
    ask = planned_kind(problem).least_memory
    try:
        if ask is None or kind_of(problem).with_memory(problem, None) == problem:
            return ()
        memory = ask(problem, options, limits, None)
    except PipeplanError:  # plans that nobody can tell the least memory of
        return ()
    return (_sentence(problem, memory),)


def _sentence(problem: Problem, memory: SmallestMemory) -> str:
    if memory.memory_bytes is None:
        return said(memory)
    limit_bytes = problem.memory_bytes
    if limit_bytes is not None and as_written(memory.memory_bytes) <= as_written(limit_bytes):
        enough = sufficient(memory.memory_bytes, memory.counted)
        return f"plans exist with {enough} of memory per device, but none that this method makes"
    return f"{said(memory)}; give {option(memory.memory_bytes, memory.counted)}"
