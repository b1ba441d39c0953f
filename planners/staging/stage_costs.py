"""What a stage between two downsets costs on devices of a type, by micro-batches in flight; found when asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ...instances.staging.problem import Configuration, StagingProblem
from .choose import Choice, choose
from .links import SYNC_TRIPS, TRIPS
from .memory import Bytes, StagingMemory


class Shape(NamedTuple):
    """Which layers (as bits), on which type of devices, with which tensor-parallel degree."""

    inside: int
    kind: int
    tensor_parallel: int


class _Row(NamedTuple):
    """Of one layer: its ways, with time and transfers, and what they hold."""

    ways: tuple[Configuration, ...]
    times: tuple[float, ...]
    held: tuple[Bytes, ...]


class _Span(NamedTuple):
    """Of a stage: how many micro-batches in flight its fastest ways, and any ways, leave room for."""

    free_until: int
    fits_until: int
    cost: float
    """Of the fastest ways, without what weights take."""
    weights: float


HAIR = 1e-9
"""Relative: what is as near as this to a limit is decided by the load itself."""


class StageCosts:
    """Loads of stages: knapsacks over their layers' configurations, each solved once."""

    def __init__(self, problem: StagingProblem, semantics: str, memory: StagingMemory) -> None:
        self.problem, self.semantics, self.memory = problem, semantics, memory
        self.most = min(problem.devices, problem.micro_batches)
        """The largest sum of degrees."""
        self._near: list[list[tuple[int, int]]] = [[] for _ in problem.layers]
        for number, (u, v) in enumerate(problem.arcs):
            self._near[u].append((number, v))
            self._near[v].append((number, u))
        self._of = cache(self._rows)
        self._solved = cache(self._solve)
        self.floor = cache(self._floor)
        self.load = cache(self._load)
        self._span_of = cache(self._span)
        weights = (
            {way.weight_bytes for way in ways} for layer in problem.layers for ways in layer.configurations.values()
        )
        self._uniform = all(len(known) < 2 for known in weights)
        """Do configurations of a layer and degree have the same weights? Then the choice is the same for every d."""

    def possible(self, shape: Shape) -> bool:
        """Is there a configuration of the degree for each layer?"""
        return self._of(shape) is not None

    def replicas(self, shape: Shape) -> Sequence[int]:
        """Data-parallel degrees that the devices of the type allow."""
        most = min(self.problem.types[shape.kind].devices // shape.tensor_parallel, self.problem.micro_batches)
        if not self.problem.replication:
            return range(1, min(most, 1) + 1)
        if self.semantics == "paper":
            return range(1, most + 1)
        return [d for d in range(1, most + 1) if not self.problem.micro_batches % d]

    def _floor(self, shape: Shape) -> float:
        """No load on d replicas is below a d-th of this: the fastest configurations, and no weights."""
        rows = self._of(shape)
        return math.inf if rows is None else sum(min(row.times) for row in rows)

    def _load(self, shape: Shape, d: int, in_flight: int) -> float | None:
        """Time per micro-batch; None where nothing fits into the memory."""
        choice = self._choice(shape, d, in_flight)
        rows = self._of(shape)
        if choice is None or rows is None:
            return None
        total = sum(row.times[x] for row, x in zip(rows, choice.ways, strict=True))
        weights = sum(row.ways[x].weight_bytes for row, x in zip(rows, choice.ways, strict=True))
        return (total + self._sync(d) * weights) / d

    def ways(self, shape: Shape, d: int, in_flight: int) -> dict[int | str, str]:
        """The configurations behind the load, by layer."""
        choice, rows = self._choice(shape, d, in_flight), self._of(shape)
        assert choice is not None, "a stage of a plan has a load"
        assert rows is not None, "a stage of a plan has ways"
        pairs = zip(self.ids(shape.inside), rows, choice.ways, strict=True)
        return {v: row.ways[x].id for v, row, x in pairs}

    def ids(self, inside: int) -> list[int | str]:
        """Of the layers, in topological order."""
        return [self.problem.layers[v].id for v in self._positions(inside)]

    def most_in_flight(self, shape: Shape, d: int, limit: float, most: int | None = None) -> int:
        """The most micro-batches in flight with which the load is within the limit; 0: there are none.

        Loads grow with them: more memory leaves less choice. `most`: more of them are no matter.
        """
        high = -(-self.most // d) if most is None else most
        if self.floor(shape) * (1 - HAIR) > limit * d:
            return 0
        span = self._span_of(shape, 1 if self._uniform else d)
        if span.free_until and (span.cost + self._sync(d) * span.weights) / d > limit * (1 + HAIR):
            return 0  # not even the fastest ways of all
        low, high = min(span.free_until, high), min(span.fits_until, high)
        if low and not self._within(shape, d, low, limit):
            return 0
        if high <= low or self._within(shape, d, high, limit):
            return high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._within(shape, d, middle, limit) else (low, middle)
        return low

    def _span(self, shape: Shape, d: int) -> _Span:
        """By what single ways hold, without a knapsack."""
        rows, limit = self._of(shape), self.memory.limits[shape.kind]
        if rows is None:
            return _Span(0, 0, math.inf, 0.0)
        sync = self._sync(d)
        free = [
            min(range(len(row.ways)), key=lambda x: (row.times[x] + sync * row.ways[x].weight_bytes, row.held[x]))
            for row in rows
        ]
        chosen = list(zip(rows, free, strict=True))
        cost, weights = sum(row.times[x] for row, x in chosen), sum(row.ways[x].weight_bytes for row, x in chosen)
        if limit is None:
            return _Span(self.most, self.most, cost, weights)
        each, fixed = (sum(row.held[x][part] for row, x in chosen) for part in (0, 1))
        until = (limit - fixed) // each if each else self.most * (fixed <= limit)
        low, high = 0, self.most + 1
        while high - low > 1:
            middle = (low + high) // 2
            held = sum(min(a * middle + b for a, b in row.held) for row in rows)
            low, high = (middle, high) if held <= limit else (low, middle)
        return _Span(max(0, min(until, self.most)), low, cost, weights)

    def _within(self, shape: Shape, d: int, in_flight: int, limit: float) -> bool:
        load = self.load(shape, d, in_flight)
        return load is not None and load <= limit

    def _sync(self, d: int) -> float:
        """Time per byte of weights, times d."""
        samples = d if self.semantics == "paper" else self.problem.micro_batches
        return SYNC_TRIPS * (d - 1) / samples / self.problem.bandwidth

    def _choice(self, shape: Shape, d: int, in_flight: int) -> Choice | None:
        return self._solved(shape, 1 if self._uniform else d, in_flight)

    def _solve(self, shape: Shape, d: int, in_flight: int) -> Choice | None:
        rows = self._of(shape)
        if rows is None:
            return None
        sync = self._sync(d)
        costs = [
            [time + sync * way.weight_bytes for way, time in zip(row.ways, row.times, strict=True)] for row in rows
        ]
        memories = [[each * in_flight + fixed for each, fixed in row.held] for row in rows]
        return choose(costs, memories, self.memory.limits[shape.kind])

    def _rows(self, shape: Shape) -> list[_Row] | None:
        speed = self.problem.types[shape.kind].speed
        rows = []
        for v in self._positions(shape.inside):
            ways = tuple(self.problem.layers[v].configurations.get(shape.tensor_parallel, ()))
            times = tuple(way.time / speed + self._crossing(way, v, shape.inside) for way in ways)
            rows.append(_Row(ways, times, self.memory.ways[v].get(shape.tensor_parallel, ())))
        return rows if all(row.ways for row in rows) else None

    def _crossing(self, way: Configuration, v: int, inside: int) -> float:
        """Time of the tensors between layer v and layers outside the stage."""
        moved = 0.0
        for number, u in self._near[v]:
            if not inside >> u & 1:
                edge = self.problem.edges[number]
                comes = self.problem.arcs[number][1] == v
                sides = (way.gather_in, edge.source) if comes else (way.gather_out, edge.target)
                moved += edge.bytes + sides[0].get(sides[1], 0.0)
        return TRIPS * moved / self.problem.bandwidth

    def _positions(self, inside: int) -> list[int]:
        return [v for v in self.problem.topological_order if inside >> v & 1]
