"""Every chain of stages of a tiny staging problem, from the definitions, on all degrees and types of devices.

Costs are those of the specification; whether a stage fits the memory is decided exactly. Nothing is shared with the
planners, models and referee that are measured against this.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pipeplan import Configuration, DeviceType, PlannedStage, StagedPlan, StagingProblem
from pipeplan.instances.base.amounts import as_written, fits

Stage = tuple[tuple[int, ...], int, int, DeviceType]
"""Layers, data-parallel and tensor-parallel degree, devices."""
Choice = tuple[float, tuple[Configuration, ...]]
"""Load of a stage and the configurations that give it."""


def best_stages(
    problem: StagingProblem, semantics: str = "paper", flush: bool = False
) -> tuple[float, StagedPlan] | None:
    """The least time per micro-batch and a plan that takes it; None where no plan obeys all rules.

    `flush`: filling and draining the pipeline is part of the time.
    """
    return _Enumeration(problem, semantics, flush).best()


class _Enumeration:
    """From the last stage to the first: what a stage holds depends on the degrees from it on."""

    def __init__(self, problem: StagingProblem, semantics: str, flush: bool) -> None:
        self.problem, self.semantics, self.flush = problem, semantics, flush
        self.choices: dict[tuple[Stage, int], Choice | None] = {}
        self.value = math.inf
        self.stages: list[tuple[Stage, Choice]] = []

    def best(self) -> tuple[float, StagedPlan] | None:
        room = {kind.name: kind.devices for kind in self.problem.types}
        self._extend(frozenset(range(len(self.problem.layers))), room, 0, [], 0.0)
        return None if math.isinf(self.value) else (self.value, self._plan())

    def _extend(
        self,
        left: frozenset[int],
        room: dict[str, int],
        degrees: int,
        after: list[tuple[Stage, Choice]],
        load: float,
    ) -> None:
        batches = self.problem.micro_batches
        if not left:
            copies = [shape[1] for shape, _ in after]
            # A micro-batch takes as many slots in a stage as the stage has copies; one stage is busy all the time.
            count = batches + sum(copies) - min(copies) if self.flush else batches
            value = load * count / batches
            if value < self.value:
                self.value, self.stages = value, after[::-1]
            return
        for nodes in self._last_parts(left):
            for kind, d, t in self._shapes(room, degrees):
                stage = (nodes, d, t, kind)
                choice = self._choice(stage, degrees + d)
                if choice is not None and choice[0] < self.value:
                    fewer = {**room, kind.name: room[kind.name] - d * t}
                    worst = max(load, choice[0])
                    self._extend(left - {*nodes}, fewer, degrees + d, [*after, (stage, choice)], worst)

    def _last_parts(self, left: frozenset[int]) -> Iterator[tuple[int, ...]]:
        """Layers that no other layer that is left reads from."""
        for size in range(1, len(left) + 1):
            for nodes in itertools.combinations(sorted(left), size):
                rest = left - {*nodes}
                if not any(w in rest for v in nodes for w in self.problem.successors[v]):
                    yield nodes

    def _shapes(self, room: dict[str, int], degrees: int) -> Iterator[tuple[DeviceType, int, int]]:
        for kind in self.problem.types:
            for t in range(1, room[kind.name] + 1):
                for d in range(1, min(room[kind.name] // t, self.problem.micro_batches - degrees) + 1):
                    divides = self.semantics == "paper" or self.problem.micro_batches % d == 0
                    if divides and (d == 1 or self.problem.replication):
                        yield kind, d, t

    def _choice(self, stage: Stage, suffix: int) -> Choice | None:
        """The fastest configurations that fit with ceil(s / d) micro-batches in flight; None where none do."""
        if (stage, suffix) not in self.choices:
            self.choices[stage, suffix] = min(
                self._fitting(stage, -(-suffix // stage[1])), key=lambda choice: choice[0], default=None
            )
        return self.choices[stage, suffix]

    def _fitting(self, stage: Stage, in_flight: int) -> Iterator[Choice]:
        nodes, d, t, kind = stage
        rows = [self.problem.layers[v].configurations.get(t, ()) for v in nodes]
        for ways in itertools.product(*rows):
            held = [bytes_held(way, in_flight, d) for way in ways]
            if fits((*held, gathered(self.problem, d, t)), kind.memory_bytes):
                samples = d if self.semantics == "paper" else self.problem.micro_batches
                yield stage_load(self.problem, nodes, ways, d, samples, self.problem.bandwidth, kind.speed), ways

    def _plan(self) -> StagedPlan:
        ids = [layer.id for layer in self.problem.layers]
        return StagedPlan(
            tuple(
                PlannedStage(
                    tuple(ids[v] for v in nodes),
                    d,
                    t,
                    {ids[v]: way.id for v, way in zip(nodes, ways, strict=True)},
                    kind.name if self.problem.device_types else None,
                )
                for (nodes, d, t, kind), (_, ways) in self.stages
            )
        )


def bytes_held(way: Configuration, in_flight: int, copies: int = 1) -> Fraction:
    """Of one layer on one device; a part of what copies divide is rounded up to a whole byte, if that is not more."""
    whole = in_flight * as_written(way.memory_per_batch) + as_written(way.memory_fixed)
    part = divided = as_written(way.memory_divided)
    if copies > 1:
        part = min(divided, Fraction(-((-divided) // copies)))
    return whole + part


def gathered(problem: StagingProblem, copies: int, t: int) -> Fraction:
    """With ZeRO 3, beside what layers hold: three times the weights of the largest layer of the model."""
    if problem.zero < 3 or copies == 1:
        return Fraction(0)
    return 3 * max(as_written(way.weight_bytes) for x in problem.layers for way in x.configurations.get(t, ()))


def stage_load(
    problem: StagingProblem,
    nodes: Sequence[int],
    ways: Sequence[Configuration],
    d: int,
    samples: int,
    bandwidth: float,
    speed: float = 1.0,
) -> float:
    """Time per micro-batch of d replicas that synchronise their weights once for each `samples` micro-batches."""
    chosen = dict(zip((problem.layers[v].id for v in nodes), ways, strict=True))
    moved = []
    for edge in problem.edges:
        if edge.target in chosen and edge.source not in chosen:
            moved += [edge.bytes, chosen[edge.target].gather_in.get(edge.source, 0.0)]
        if edge.source in chosen and edge.target not in chosen:
            moved += [edge.bytes, chosen[edge.source].gather_out.get(edge.target, 0.0)]
    work = math.fsum(way.time for way in ways) / speed / d
    weights = math.fsum(way.weight_bytes for way in ways)
    # Each scatter of gradients and each gather of weights moves 2 (d - 1) / d of them; a replica gets every d-th of the
    # micro-batches. ZeRO 0 and 1: one of both at each update; 2: the scatter in every pass; 3: two gathers as well.
    once = 2 * (d - 1) / d * weights / bandwidth
    per_update, per_pass = ((2, 0), (2, 0), (1, 1), (0, 3))[problem.zero]
    return work + 2 * math.fsum(moved) / d / bandwidth + once * per_update / samples + once * per_pass / d
