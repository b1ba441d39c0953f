"""The native model of a periodic pattern as plain data for a worker, and its builder there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ..native import NativeBuilt
from .cp_memory import add_memory
from .cp_pattern import PatternModel
from .integer_chain import IntegerChain

BUILDER = f"{__name__}:build"


def payload(
    chain: IntegerChain,
    *,
    batches: int,
    floor: int,
    ceiling: int,
    slack: int,
    scale: float,
    loss: float,
    allocation: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Plain data for `build`: periods from `floor` to `ceiling` steps; see there for the rest.

    `allocation`: the GPU of each layer where it is given, GPUs numbered by their first layers.
    """
    facts = {name: getattr(chain, name) for name in IntegerChain.__dataclass_fields__ if name != "steps"}
    return {
        "chain": facts,
        "batches": batches,
        "floor": floor,
        "ceiling": ceiling,
        "slack": slack,
        "scale": scale,
        "loss": loss,
        "allocation": None if allocation is None else list(allocation),
    }


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker. `slack`: steps beyond the period that an exclusive buffer may be held."""
    chain = IntegerChain(**data["chain"], steps=Fraction(1))
    builder = PatternModel(chain, data["batches"], data["floor"], data["ceiling"], data["slack"])
    builder.build()
    if chain.memory is not None:
        add_memory(builder)
    for layer, gpu in enumerate(data["allocation"] or ()):
        builder.model.add(builder.on[layer][gpu] == 1)
    offset = data["slack"] / data["scale"]  # what is held too long lengthens the period that a plan will have
    return NativeBuilt(builder.model, builder.variables, data["scale"], offset, data["loss"] + offset)
