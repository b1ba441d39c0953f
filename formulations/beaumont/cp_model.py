"""The native model of a periodic pattern as plain data for a worker, and its builder there."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ..native import NativeBuilt
from .cp_memory import add_memory
from .cp_pattern import PatternModel
from .integer_chain import IntegerChain

BUILDER = f"{__name__}:build"


def plain_chain(chain: IntegerChain) -> dict[str, Any]:
    """The chain as the payload of `build` holds it: a worker needs no fractions."""
    return {name: getattr(chain, name) for name in IntegerChain.__dataclass_fields__ if name != "steps"}


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker: periods from `floor` to `ceiling` steps, for so many `batches` together.

    `slack`: steps beyond the period that an exclusive buffer may be held. `allocation`: the GPU of each layer where it
    is given, GPUs numbered by their first layers.
    """
    chain = IntegerChain(**data["chain"], steps=Fraction(1))
    builder = PatternModel(chain, data["batches"], data["floor"], data["ceiling"], data["slack"])
    builder.build()
    if chain.memory is not None:
        add_memory(builder)
    for layer, gpu in enumerate(data["allocation"] or ()):
        builder.model.add(builder.on[layer][gpu] == 1)
    offset = data["slack"] / data["scale"]  # what is held too long lengthens the period that a plan will have
    return NativeBuilt(builder.model, builder.variables, data["scale"], offset, data["loss"] + offset)
