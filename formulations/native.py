"""What native builders of CP-SAT models share: what they return, memory as whole numbers, and further rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the solver with which this model is known to be solved faster; the user's own parameters override
    them."""


class NativeBuilder:
    """A CP-SAT model that grows, with the variables that the answer is read from by name."""

    def __init__(self) -> None:
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        self.variables: dict[str, Any] = {}

    def flag(self, name: str = "") -> Any:
        """A new literal; with a name it is one of the variables of the answer."""
        literal = self.model.new_bool_var(name)
        if name:
            self.variables[name] = literal
        return literal

    def integer(self, name: str, low: int, high: int) -> Any:
        self.variables[name] = self.model.new_int_var(low, high, name)
        return self.variables[name]

    def require(self, constraint: Any, *conditions: Any) -> None:
        """The constraint must hold where all conditions do."""
        self.model.add(constraint).only_enforce_if(*conditions)


@dataclass(frozen=True, slots=True)
class Steps:
    """Costs as whole numbers, rounded down, and the cut-off with them: no plan within it is lost."""

    scale: float
    """Steps in one unit of cost."""
    cutoff: int

    @classmethod
    def below(cls, cutoff: float, precision: float) -> Steps:
        """`precision`: relative size of one step against the cut-off."""
        scale = 1.0 / (precision * cutoff) if cutoff > 0 else 1.0
        return cls(scale, math.floor(cutoff * scale * (1 + 1e-12)))

    def floor(self, values: Iterable[float]) -> list[int]:
        return [math.floor(value * self.scale) for value in values]


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
    """The model with the rows that `with_rows` put into its data; called in a worker."""
    for coefficients, lower, upper in data.get("rows", ()):
        total = sum(int(factor) * built.variables[name] for name, factor in coefficients.items())
        if math.isfinite(lower):
            built.model.add(total >= math.ceil(lower))
        if math.isfinite(upper):
            built.model.add(total <= math.floor(upper))
    return built
