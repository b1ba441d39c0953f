"""Contiguous stages at work, event by event: the eager 1F1B of PipeDream, and the synchronous schedules.

An idle GPU takes what is ready: `eager` alternates between forward and backward passes, oldest batch first;
`gpipe` does all forward passes before the first backward one; `flush` is 1F1B that drains after its batches.
Links serve transfers first come, first served. One simulator runs every policy, so their results are comparable.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

from ...instances.chain.problem import ChainProblem
from .contiguous import bounds_to_allocation


@dataclass(frozen=True)
class Trace:
    """What happened: absolute starts of every task and transfer of every batch."""

    problem: ChainProblem
    allocation: tuple[int, ...]
    starts: list[list[float]]
    transfers: list[dict[int, float]]

    @property
    def completed(self) -> list[float]:
        """When each batch has left the pipeline."""
        last = self.problem.durations[-1]
        return [row[-1] + last for row in self.starts]


@dataclass
class _Stage:
    first: int
    end: int
    ready: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    """Batches that wait for their forward and their backward pass, oldest first."""
    done: list[int] = field(default_factory=lambda: [0, 0])
    """Numbers of forward and of backward passes that have been started."""
    last: int = 1
    """1: the last pass was a backward one, so a forward one is next."""
    idle: bool = True


@dataclass
class _Link:
    queue: list[tuple[int, int]] = field(default_factory=list)
    """(edge, batch) in the order of arrival."""
    idle: bool = True


def simulate(problem: ChainProblem, borders: Sequence[int], batches: int, in_flight: int, policy: str) -> Trace:
    """Run this number of batches; at most `in_flight` of them are between injection and completion at any time."""
    return _Simulation(problem, borders, batches, in_flight, policy).run()


class _Simulation:
    def __init__(
        self, problem: ChainProblem, borders: Sequence[int], batches: int, in_flight: int, policy: str
    ) -> None:
        self.problem = problem
        self.batches = batches
        self.policy = policy
        self.stages = [_Stage(a, b) for a, b in pairwise(borders)]
        self.links: Mapping[tuple[int, int], _Link] = _links(problem, len(self.stages))
        self.injected = min(in_flight, batches)
        self.now = 0.0
        self.events: list[tuple[float, int, str, int, int, int]] = []
        self.numbers = count()
        self.trace = Trace(
            problem,
            bounds_to_allocation(borders),
            [[0.0] * problem.tasks for _ in range(batches)],
            [{} for _ in range(batches)],
        )

    def run(self) -> Trace:
        for batch in range(self.injected):
            heapq.heappush(self.stages[0].ready[0], batch)
        self._start_work()
        while self.events:
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                _, _, kind, place, way, batch = heapq.heappop(self.events)
                if kind == "pass":
                    self._passed(place, way, batch)
                else:
                    self._sent(place, way, batch)
            self._start_work()
        return self.trace

    def _later(self, duration: float, kind: str, place: int, way: int, batch: int) -> None:
        heapq.heappush(self.events, (self.now + duration, next(self.numbers), kind, place, way, batch))

    # ---- GPUs --------------------------------------------------------------------------------------------------

    def _start_work(self) -> None:
        for s, stage in enumerate(self.stages):
            if stage.idle:
                way = self._choose(s, stage)
                if way is not None:
                    self._start_pass(s, stage, way)

    def _choose(self, s: int, stage: _Stage) -> int | None:
        """The pass that a stage starts next: 0 a forward one, 1 a backward one, None: it waits."""
        forward, backward = bool(stage.ready[0]), bool(stage.ready[1])
        if self.policy == "gpipe":
            backward = backward and stage.done[0] == self.batches
        if self.policy == "flush":
            forward = forward and stage.done[0] - stage.done[1] < len(self.stages) - s
            return 1 if backward else (0 if forward else None)
        if forward and backward:
            return 1 - stage.last
        return 0 if forward else (1 if backward else None)

    def _start_pass(self, s: int, stage: _Stage, way: int) -> None:
        batch = heapq.heappop(stage.ready[way])
        stage.idle, stage.last = False, way
        stage.done[way] += 1
        last = self.problem.tasks
        tasks = range(last - stage.end, last - stage.first) if way else range(stage.first, stage.end)
        begun = self.now
        for task in tasks:
            self.trace.starts[batch][task] = begun
            begun += self.problem.durations[task]
        self._later(begun - self.now, "pass", s, way, batch)

    def _passed(self, s: int, way: int, batch: int) -> None:
        stage = self.stages[s]
        stage.idle = True
        if way == 0 and s == len(self.stages) - 1:
            heapq.heappush(stage.ready[1], batch)
        elif way == 1 and s == 0:  # the batch is completed
            if self.injected < self.batches:
                heapq.heappush(self.stages[0].ready[0], self.injected)
                self.injected += 1
        else:
            border = s if way else s + 1
            link = self.links[border, way]
            link.queue.append((way, batch))
            self._start_transfer(border, link)

    # ---- links: border b lies between stages b - 1 and b -------------------------------------------------------

    def _start_transfer(self, border: int, link: _Link) -> None:
        if not link.idle or not link.queue:
            return
        way, batch = link.queue.pop(0)
        link.idle = False
        layer = self.stages[border].first
        edge = self.problem.tasks - layer if way else layer
        self.trace.transfers[batch][edge] = self.now
        self._later(self.problem.edge_times[edge - 1], "transfer", border, way, batch)

    def _sent(self, border: int, way: int, batch: int) -> None:
        link = self.links[border, way]
        link.idle = True
        receiver = self.stages[border - 1 if way else border]
        heapq.heappush(receiver.ready[way], batch)
        self._start_transfer(border, link)


def _links(problem: ChainProblem, stages: int) -> dict[tuple[int, int], _Link]:
    """The links of each border: one for both directions, or one for each direction (duplex "full")."""
    links: dict[tuple[int, int], _Link] = {}
    for border in range(1, stages):
        links[border, 0] = _Link()
        links[border, 1] = _Link() if problem.duplex == "full" else links[border, 0]
    return links
