"""Memory of stages as the models count it: written amounts over their common denominator, which Python adds exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...instances.base.amounts import as_written
from ...instances.staging.problem import StagingProblem

# Bytes for each micro-batch in flight, and bytes whatever is in flight; in a unit of our own.
Bytes = tuple[int, int]

# Whole numbers of so many bits are exact as floats.
EXACT_BITS = 53


@dataclass(frozen=True, slots=True)
class Memory:
    """A stage fits where, summed over its layers, in flight x each + fixed is at most the limit."""

    ways: tuple[Mapping[int, tuple[Bytes, ...]], ...]
    """Bytes of each layer's configurations, in their order, by the layer's position and by degree."""
    limits: tuple[int | None, ...]
    """Memory of a device of each type; None: there is no limit."""

    def rounded_down(self, in_flight: int) -> Memory:
        """In a coarser unit, if need be, so that floats add up any stage: all that fits in truth still fits."""
        largest = max(max(held) for of in self.ways for row in of.values() for held in row)
        bits = (
            max(largest, *(limit or 0 for limit in self.limits)) * len(self.ways) * (in_flight + 1)
        ).bit_length()
        shift = max(0, bits - EXACT_BITS)
        ways = tuple(
            {t: tuple((each >> shift, fixed >> shift) for each, fixed in row) for t, row in of.items()}
            for of in self.ways
        )
        return Memory(ways, tuple(None if limit is None else limit >> shift for limit in self.limits))


def memory_of(problem: StagingProblem) -> Memory:
    """Exactly what is written; amounts above every limit, such as "forbidden" as a huge number, are cut above them."""
    limits = [kind.memory_bytes for kind in problem.types]
    finite = [as_written(limit) for limit in limits if limit is not None]
    if not finite:
        free = ({t: ((0, 0),) * len(ways) for t, ways in layer.configurations.items()} for layer in problem.layers)
        return Memory(tuple(free), (None,) * len(limits))
    ceiling = max(finite) + 1
    exact = [
        {
            t: [[min(as_written(x), ceiling) for x in (way.memory_per_batch, way.memory_fixed)] for way in ways]
            for t, ways in layer.configurations.items()
        }
        for layer in problem.layers
    ]
    amounts = [x for of in exact for row in of.values() for pair in row for x in pair]
    unit = math.lcm(*(x.denominator for x in (*amounts, *finite)))
    return Memory(
        tuple({t: tuple((int(a * unit), int(b * unit)) for a, b in row) for t, row in of.items()} for of in exact),
        tuple(None if limit is None else int(as_written(limit) * unit) for limit in limits),
    )
