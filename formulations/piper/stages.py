"""What a stage costs: least load for given degrees and micro-batches in flight, by the exact knapsack."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...instances.referee.staged import SYNC_TRIPS, TRIPS
from ...instances.staging import Configuration, Edge, StagingProblem
from .knapsack import TOLERANCE, Option, Selection, select


class StageBook:
    """All stages of a problem, each priced once. A set of layers is a bit mask of positions."""

    def __init__(self, problem: StagingProblem, semantics: str) -> None:
        self.problem = problem
        self.semantics = semantics
        self.everything = (1 << len(problem.layers)) - 1
        self.near: list[list[tuple[int, Edge, bool]]] = [[] for _ in problem.layers]
        """Per layer: the one at the other end of an edge, the edge, does it come in?"""
        for (u, v), edge in zip(problem.arcs, problem.edges, strict=True):
            self.near[v].append((u, edge, True))
            self.near[u].append((v, edge, False))
        self.least_work, self.least_time = _least(problem)
        self._stages: dict[tuple[int, int], Stage] = {}
        self._degrees = [
            sum(1 << t for t, ways in layer.configurations.items() if ways and t <= problem.devices)
            for layer in problem.layers
        ]

    def degrees(self, members: int) -> list[int]:
        """Tensor-parallel degrees that all of these layers offer."""
        common = -1
        for v in positions(members):
            common &= self._degrees[v]
        return [t for t in self.problem.degrees if common >> t & 1]

    def stage(self, members: int, t: int) -> Stage:
        stage = self._stages.get((members, t))
        if stage is None:
            stage = self._stages[members, t] = Stage(self, members, t)
        return stage

    def replicas(self, t: int) -> list[int]:
        """Data-parallel degrees that a stage of tensor-parallel degree t may have."""
        batches = self.problem.micro_batches
        most = min(self.problem.devices // t, batches)
        return [d for d in range(1, most + 1) if self.semantics == "paper" or batches % d == 0]

    def sync_time(self, d: int) -> float:
        """Time per byte of weights, times d: d times the load grows by so much."""
        samples = d if self.semantics == "paper" else self.problem.micro_batches
        return SYNC_TRIPS * (d - 1) / samples / self.problem.bandwidth


@dataclass(frozen=True, slots=True)
class _Way:
    """A configuration in its stage: `work` is its time with its share of the transfers, for one replica."""

    work: float
    configuration: Configuration


class Stage:
    """Layers that run together with tensor-parallel degree t."""

    def __init__(self, book: StageBook, members: int, t: int) -> None:
        self.book = book
        self.t = t
        self.layers = positions(members)
        self.ways = [_ways(book, v, members, t) for v in self.layers]
        self.least_work = sum(min(way.work for way in row) for row in self.ways)
        self.least_weight = sum(min(way.configuration.weight_bytes for way in row) for row in self.ways)
        uniform = all(len({way.configuration.weight_bytes for way in row}) == 1 for row in self.ways)
        self.uniform_weight = self.least_weight if uniform else None
        self._selections: dict[tuple[float | None, int], tuple[float, Selection | None]] = {}

    def least_load(self, d: int) -> float:
        """A lower bound whatever is in flight."""
        return (self.least_work + self.book.sync_time(d) * self.least_weight) / d

    def least_memory(self, in_flight: int) -> float:
        return sum(min(way.configuration.memory_bytes(in_flight) for way in row) for row in self.ways)

    def load(self, d: int, in_flight: int, at_most: float | None = None) -> float | None:
        """The least load with so many micro-batches in flight per replica; None where none fits (below `at_most`)."""
        most = None if at_most is None else at_most * d - self._common(d)
        selection = self._select(d, in_flight, most)
        return None if selection is None else (selection.cost + self._common(d)) / d

    def configurations(self, d: int, in_flight: int) -> dict[int, str]:
        """By layer, those of the least load; there is one."""
        selection = self._select(d, in_flight, None)
        assert selection is not None, "the stage was priced before"
        return {
            v: row[number].configuration.id
            for v, row, number in zip(self.layers, self.ways, selection.numbers, strict=True)
        }

    def most_in_flight(self, d: int, low: int, high: int, at_most: float | None) -> int | None:
        """The largest number between `low` and `high` for which the load is `at_most`; loads grow with it."""
        if self.load(d, low, at_most) is None:
            return None
        if self.load(d, high, at_most) is not None:
            return high
        while high - low > 1:
            middle = (low + high) // 2
            if self.load(d, middle, at_most) is None:
                high = middle
            else:
                low = middle
        return low

    def _common(self, d: int) -> float:
        """What every choice adds to d times the load."""
        return 0.0 if self.uniform_weight is None else self.book.sync_time(d) * self.uniform_weight

    def _select(self, d: int, in_flight: int, at_most: float | None) -> Selection | None:
        """Loads times d, without what is common to all choices; where weights are equal one table serves all d."""
        rate = 0.0 if self.uniform_weight is not None else self.book.sync_time(d)
        key = (rate, in_flight)
        tried, known = self._selections.get(key, (-1.0, None))
        if known is not None:
            return known if at_most is None or known.cost <= at_most * (1 + TOLERANCE) else None
        if tried >= (float("inf") if at_most is None else at_most):
            return None
        rows = [
            [
                Option(
                    way.work + rate * way.configuration.weight_bytes,
                    way.configuration.memory_bytes(in_flight),
                    number,
                )
                for number, way in enumerate(row)
            ]
            for row in self.ways
        ]
        found = select(rows, self.book.problem.memory_bytes, at_most)
        self._selections[key] = (float("inf") if at_most is None else at_most, found)
        return found


def _least(problem: StagingProblem) -> tuple[list[float], list[float]]:
    """Of each layer, the least device time and the least time that it takes; infinite where it cannot run at all."""
    work, time = [], []
    for layer in problem.layers:
        ways = [
            (t, way.time) for t, of_degree in layer.configurations.items() for way in of_degree if t <= problem.devices
        ]
        work.append(min((t * p for t, p in ways), default=math.inf))
        time.append(min((p for _, p in ways), default=math.inf))
    return work, time


def _ways(book: StageBook, v: int, members: int, t: int) -> list[_Way]:
    """Every configuration of a layer, with the transfers that it pays in this stage."""
    cut = [(edge, incoming) for other, edge, incoming in book.near[v] if not members >> other & 1]
    ways = []
    for way in book.problem.layers[v].configurations[t]:
        moved = 0.0
        for edge, incoming in cut:
            gathered = way.gather_in.get(edge.source, 0.0) if incoming else way.gather_out.get(edge.target, 0.0)
            moved += edge.bytes + gathered
        ways.append(_Way(way.time + TRIPS * moved / book.problem.bandwidth, way))
    return ways


def positions(members: int) -> list[int]:
    """The bits that are set."""
    return [v for v in range(members.bit_length()) if members >> v & 1]
