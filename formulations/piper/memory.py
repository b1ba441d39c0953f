"""What the models count of a stage: memory, as written amounts over their common denominator, which Python adds
exactly, and bytes on links. Written from the definition, as are program and referee, which it must not share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ...instances.base.amounts import as_written
from ...instances.staging.problem import Layer, StagingProblem

# Bytes for each micro-batch in flight, and bytes whatever is in flight; in a unit of our own.
Bytes = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Memory:
    """A stage fits where, summed over its layers, in flight x each + fixed is at most the limit."""

    ways: tuple[Mapping[int, tuple[Bytes, ...]], ...]
    """Bytes of each layer's configurations, in their order, by the layer's position and by degree."""
    limits: tuple[int | None, ...]
    """Memory of a device of each type; None: there is no limit."""
    divided: tuple[Mapping[int, tuple[int, ...]], ...] = ()
    """Fixed bytes that copies of a stage divide among them, like `ways`; empty: none."""
    gathered: Mapping[int, int] = field(default_factory=dict)
    """By degree, what a device needs besides its layers where copies divide weights among them."""
    byte: int = 1
    """Units of one byte: parts are filled up to whole bytes."""

    def held(self, v: int, t: int, copies: int) -> tuple[Bytes, ...]:
        """Bytes of each configuration of layer `v` with degree `t`, in a stage with so many copies."""
        if not self.divided:
            return self.ways[v][t]
        parts = [
            amount if copies == 1 else min(amount, -(-amount // (copies * self.byte)) * self.byte)
            for amount in self.divided[v][t]
        ]
        return tuple((each, fixed + part) for (each, fixed), part in zip(self.ways[v][t], parts, strict=True))

    def limit(self, kind: int, t: int, copies: int) -> int | None:
        """What layers may take of a device; None: there is no limit."""
        limit = self.limits[kind]
        return limit if limit is None or copies == 1 else limit - self.gathered.get(t, 0)


def memory_of(problem: StagingProblem) -> Memory:
    """The memory exactly as written; amounts above all limits, as a huge number for "forbidden", are cut above them."""
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
    divided = [
        {t: [as_written(way.memory_divided) for way in ways] for t, ways in layer.configurations.items()}
        for layer in problem.layers
        if problem.zero
    ]
    amounts = [x for of in exact for row in of.values() for pair in row for x in pair]
    amounts += [x for of in divided for row in of.values() for x in row]
    gathered = _gathered(problem)
    unit = math.lcm(*(x.denominator for x in (*amounts, *finite, *gathered.values())))
    return Memory(
        tuple({t: tuple((int(a * unit), int(b * unit)) for a, b in row) for t, row in of.items()} for of in exact),
        tuple(None if limit is None else int(as_written(limit) * unit) for limit in limits),
        tuple({t: tuple(int(x * unit) for x in row) for t, row in of.items()} for of in divided),
        {t: int(x * unit) for t, x in gathered.items()},
        unit,
    )


def _gathered(problem: StagingProblem) -> dict[int, Fraction]:
    """Three times the largest layer's weights, by degree, where weights are divided."""
    if problem.zero < 3:
        return {}
    return {
        t: 3
        * max(as_written(way.weight_bytes) for layer in problem.layers for way in layer.configurations.get(t, ()))
        for t in problem.degrees
    }


# There and back: what a layer hands on, and the gradient of it.
TRIPS = 2.0

# By ZeRO stage: how many times the bytes of the weights move between two updates, and how many times for every
# micro-batch. Without ZeRO a copy sends and receives gradients, then sends and receives weights.
SYNC_TRIPS = {0: (4.0, 0.0), 1: (4.0, 0.0), 2: (2.0, 2.0), 3: (0.0, 6.0)}


def full_weight(layer: Layer) -> float:
    """Bytes of a layer's weights on all devices together, on the least degree that it offers."""
    degree, ways = min((t, ways) for t, ways in layer.configurations.items() if ways)
    return degree * max(way.weight_bytes for way in ways)


def upper_cost(problem: StagingProblem, members: list[int], copies: int, bandwidth: float) -> float:
    """What a stage of these layers takes of the links above level 1, per micro-batch that reaches its group."""
    layers = set(members)
    cut = [
        edge.bytes for (u, v), edge in zip(problem.arcs, problem.edges, strict=True) if len({u, v} & layers) == 1
    ]
    sent = TRIPS * math.fsum(cut)
    shared = (
        sum(SYNC_TRIPS[problem.zero])
        * (1 - 1 / copies)
        * math.fsum(full_weight(problem.layers[v]) for v in members)
    )
    return (sent + shared) / bandwidth / copies
