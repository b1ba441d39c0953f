"""What a stage costs: least load for given degrees and micro-batches in flight, by the exact knapsack."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ...instances.staging.memory import Bytes, whole_memory
from ...instances.staging.problem import Configuration, Edge, StagingProblem
from ...instances.staging.referee.stages import SYNC_TRIPS, TRIPS
from ..contract import FLOAT_ROOM
from .knapsack import TOLERANCE, Option, Selection, enclosure, select
from .lattice import Lattice, TooManyStagesError, build_lattice, suffix_sets

if TYPE_CHECKING:
    from .near import NearStages

ANY_NUMBER = 2**1000
"""Python's whole numbers have no end, so memory is always exact; this much a float can still be divided by."""


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
        self.memory = whole_memory(problem, min(problem.devices, problem.micro_batches), ANY_NUMBER)
        self.limit = self.memory.limits[0]
        """Of a device, in whole units as all memory here; None: no limit."""
        self.least_work, self.least_time = _least(problem)
        self._stages: dict[tuple[int, int], Stage] = {}
        self._degrees = [
            sum(1 << t for t, ways in layer.configurations.items() if ways and t <= problem.devices)
            for layer in problem.layers
        ]

    @cached_property
    def sets(self) -> tuple[int, ...]:
        return suffix_sets(self.problem)

    @cached_property
    def all_stages(self) -> Lattice | None:
        """None where there are too many to list."""
        try:
            return build_lattice(self.problem, self.sets, self.may_be_stage)
        except TooManyStagesError:
            return None

    @cached_property
    def near_stages(self) -> NearStages:
        """What finds the few of them that a limit leaves."""
        from .near import NearStages

        degrees = {d: self.sync_time(d) for d in self.replicas(1)}
        return NearStages(self.problem, self.sets, degrees, (self.least_work, self.least_time))

    def lattice(self, limit: float | None) -> Lattice:
        """All stages, or where these are too many those of plans with all loads within the limit."""
        if self.all_stages is not None:
            return self.all_stages
        return self.near_stages.within(self.worst_load if limit is None else limit)

    @cached_property
    def worst_load(self) -> float:
        """No stage costs more than every layer at its slowest with all transfers, in one stage without replicas; with
        room for float solvers."""
        total = 0.0
        for v, layer in enumerate(self.problem.layers):
            moved = math.fsum(edge.bytes for _, edge, _ in self.near[v])
            total += max(
                way.time
                + (
                    TRIPS * (moved + sum(way.gather_in.values()) + sum(way.gather_out.values()))
                    + SYNC_TRIPS * way.weight_bytes
                )
                / self.problem.bandwidth
                for ways in layer.configurations.values()
                for way in ways
            )
        return total * (1 + FLOAT_ROOM) or 1.0

    def may_be_stage(self, members: int) -> bool:
        """Do its layers share a degree in which they fit into the memory, with one micro-batch in flight?"""
        return any(self.stage(members, t).fits_until for t in self.degrees(members))

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
        most = min(self.problem.devices // t, batches if self.problem.replication else 1)
        return [d for d in range(1, most + 1) if self.semantics == "paper" or batches % d == 0]

    def sync_time(self, d: int) -> float:
        """Time per byte of weights, times d: d times the load grows by so much."""
        samples = d if self.semantics == "paper" else self.problem.micro_batches
        return SYNC_TRIPS * (d - 1) / samples / self.problem.bandwidth


def last_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to `high` for which it holds, where it holds for `low` and once false stays so."""
    if holds(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True, slots=True)
class _Way:
    """A configuration in its stage: `work` is its time with its share of the transfers, for one replica."""

    work: float
    configuration: Configuration
    held: Bytes

    def memory(self, in_flight: int) -> int:
        """In whole units."""
        return self.held[0] * in_flight + self.held[1]


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
        most = min(book.problem.devices, book.problem.micro_batches)
        self.fits_until = self._largest(most, self.least_memory)
        """The most micro-batches in flight with which the stage fits into the memory at all."""
        fast = [min(row, key=lambda way: way.work) for row in self.ways]
        self.free_until = self._largest(self.fits_until, lambda y: sum(way.memory(y) for way in fast))
        """... with which its fastest configurations fit."""
        self._priced: dict[tuple[float, int], _Priced] = {}

    def least_load(self, d: int) -> float:
        """A lower bound whatever is in flight."""
        return (self.least_work + self.book.sync_time(d) * self.least_weight) / d

    def least_memory(self, in_flight: int) -> int:
        return sum(min(way.memory(in_flight) for way in row) for row in self.ways)

    def load(self, d: int, in_flight: int) -> float | None:
        """The least load with so many micro-batches in flight per replica; None where none fits."""
        priced = self._price(d, in_flight)
        selection = None if priced is None else priced.best()
        return None if selection is None else (selection.cost + self._common(d)) / d

    def keeps_to(self, load: float | None, d: int, in_flight: int) -> bool:
        """Is the least load at most this (None: is there any)? Asks for the exact one only where it has to."""
        priced = self._price(d, in_flight)
        most = math.inf if load is None else load * d * (1 + TOLERANCE) - self._common(d)
        return priced is not None and priced.is_at_most(most)

    def configurations(self, d: int, in_flight: int) -> dict[int, str]:
        """By layer, those of the least load; there is one."""
        priced = self._price(d, in_flight)
        selection = None if priced is None else priced.best()
        assert selection is not None, "the stage was priced before"
        return {
            v: row[number].configuration.id
            for v, row, number in zip(self.layers, self.ways, selection.numbers, strict=True)
        }

    def most_in_flight(self, d: int, low: int, high: int, at_most: float | None) -> int | None:
        """The largest number between `low` and `high` for which the load is `at_most`; loads grow with it."""
        if not self.keeps_to(at_most, d, low):
            return None
        return last_true(low, high, lambda in_flight: self.keeps_to(at_most, d, in_flight))

    def _common(self, d: int) -> float:
        """What every choice adds to d times the load."""
        return 0.0 if self.uniform_weight is None else self.book.sync_time(d) * self.uniform_weight

    def _largest(self, most: int, memory: Callable[[int], int]) -> int:
        """The largest number in flight, up to `most`, for which the memory is enough; 0 where one is too many."""
        limit = self.book.limit
        return most if limit is None else last_true(0, most, lambda in_flight: memory(in_flight) <= limit)

    def _price(self, d: int, in_flight: int) -> _Priced | None:
        """Loads times d, without what is common to all choices; where weights are equal one table serves all d."""
        if in_flight > self.fits_until:
            return None
        rate = 0.0 if self.uniform_weight is not None else self.book.sync_time(d)
        if not rate:
            in_flight = max(in_flight, self.free_until)  # up to there nothing changes
        priced = self._priced.get((rate, in_flight))
        if priced is None:
            priced = self._priced[rate, in_flight] = _Priced(self, rate, in_flight)
        return priced

    def knapsack(self, rate: float, in_flight: int) -> tuple[list[list[Option]], int | None]:
        """Options of each layer, a byte of weights costing `rate`, and the memory where it limits anything."""
        rows = [
            [
                Option(way.work + rate * way.configuration.weight_bytes, way.memory(in_flight), number)
                for number, way in enumerate(row)
            ]
            for row in self.ways
        ]
        free = not rate and in_flight <= self.free_until
        return rows, None if free else self.book.limit


class _Priced:
    """One knapsack: enclosed at once, solved when the enclosure is too wide for a question, and once."""

    def __init__(self, stage: Stage, rate: float, in_flight: int) -> None:
        self._of: tuple[Stage, float, int] | None = (stage, rate, in_flight)  # its options would fill the memory
        self._enclosure = enclosure(*stage.knapsack(rate, in_flight))
        self._best: Selection | None = None

    def is_at_most(self, cost: float) -> bool:
        if self._enclosure is None or self._enclosure[0] > cost:
            return False
        if self._enclosure[1] <= cost:
            return True
        best = self.best()
        return best is not None and best.cost <= cost

    def best(self) -> Selection | None:
        if self._of is not None:
            stage, rate, in_flight = self._of
            self._best, self._of = select(*stage.knapsack(rate, in_flight)), None
        return self._best


def _least(problem: StagingProblem) -> tuple[list[float], list[float]]:
    """Of each layer, the least device time and the least time that it takes; infinite where it cannot run at all."""
    work, time = [], []
    for layer in problem.layers:
        ways = [
            (t, way.time)
            for t, of_degree in layer.configurations.items()
            for way in of_degree
            if t <= problem.devices
        ]
        work.append(min((t * p for t, p in ways), default=math.inf))
        time.append(min((p for _, p in ways), default=math.inf))
    return work, time


def _ways(book: StageBook, v: int, members: int, t: int) -> list[_Way]:
    """Every configuration of a layer, with the transfers that it pays in this stage."""
    cut = [(edge, incoming) for other, edge, incoming in book.near[v] if not members >> other & 1]
    ways = []
    for way, held in zip(book.problem.layers[v].configurations[t], book.memory.ways[v][t], strict=True):
        moved = 0.0
        for edge, incoming in cut:
            gathered = way.gather_in.get(edge.source, 0.0) if incoming else way.gather_out.get(edge.target, 0.0)
            moved += edge.bytes + gathered
        ways.append(_Way(way.time + TRIPS * moved / book.problem.bandwidth, way, held))
    return ways


def positions(members: int) -> list[int]:
    """The bits that are set."""
    return [v for v in range(members.bit_length()) if members >> v & 1]
