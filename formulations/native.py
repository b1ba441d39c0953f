"""What native builders of CP-SAT models share: what they return, memory as whole numbers, and further rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .contract import ExtraRow, NativeModel


@dataclass(frozen=True)
class NativeBuilt:
    """What the cp-sat backend expects of a native builder; see `contract.NativeModel`."""

    model: Any
    variables: Mapping[str, Any]
    scale: float = 1.0
    offset: float = 0.0
    loss: float = 0.0


def integer_memory(sizes: Sequence[float], memory: float | None) -> tuple[list[int] | None, int]:
    """Sizes and memory, whole numbers in one unit, as CP-SAT takes them; None where nothing can overflow."""
    if memory is None or sum(sizes) <= memory:
        return None, 0
    return [int(size) for size in sizes], int(memory)


def with_rows(model: NativeModel, rows: Sequence[ExtraRow]) -> NativeModel:
    """The model with further rows of whole coefficients; its builder ends with `add_rows`."""
    plain = [[dict(row.coefficients), row.lower, row.upper] for row in rows]
    return replace(model, payload={**model.payload, "rows": [*model.payload.get("rows", ()), *plain]})


def add_rows(built: NativeBuilt, data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker."""
    for coefficients, lower, upper in data.get("rows", ()):
        total = sum(int(factor) * built.variables[name] for name, factor in coefficients.items())
        if math.isfinite(lower):
            built.model.add(total >= math.ceil(lower))
        if math.isfinite(upper):
            built.model.add(total <= math.floor(upper))
    return built
