"""What native builders of CP-SAT models share: what they return, and memory as whole numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MEMORY_UNITS = 2**40
"""Of the memory, where sizes are not whole numbers."""


@dataclass(frozen=True)
class NativeBuilt:
    """What the cp-sat backend expects of a native builder; see `contract.NativeModel`."""

    model: Any
    variables: Mapping[str, Any]
    scale: float = 1.0
    offset: float = 0.0
    loss: float = 0.0


def integer_memory(sizes: Sequence[float], memory: float | None) -> tuple[list[int] | None, int]:
    """Sizes and memory as integers; None where nothing can overflow. What exceeds the memory alone is capped."""
    if memory is None or math.fsum(sizes) <= memory:
        return None, 0
    if all(float(size).is_integer() for size in sizes):
        limit = math.floor(memory)
        return [min(int(size), limit + 1) for size in sizes], limit
    unit = MEMORY_UNITS / memory if memory else 1.0
    limit = MEMORY_UNITS if memory else 0
    return [min(math.floor(size * unit), limit + 1) for size in sizes], limit
