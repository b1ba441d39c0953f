"""The simulation itself: every replica runs its passes in its order, each as soon as all that it reads is there.

A pass waits for the passes of its neighbours that hold the same samples. Replicas run their micro-batches in
order, so of the passes of one neighbour the last one of each replica is enough. Where a backward pass is divided, the
gradients of a stage's inputs take `INPUTS_SHARE` of its time, those of its weights the rest; a stage that reads from no
other has none of the first sort.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ..base.errors import PipeplanError
from ..base.graph import adjacency, heights_of
from .model import INPUTS, WEIGHTS, WHOLE, Pass, Pipeline, Simulation, Stage, StageRun, Task, TaskKind

# The backward pass of a linear layer is two products of matrices of the same size, one for each part.
INPUTS_SHARE = 0.5

# A `Pass` as a plain tuple, which is made faster: stage, signed number of a micro-batch, part of a backward pass.
OnePass = tuple[int, int, str]

# What runs one pass after the other: a replica of a stage, or a device that holds several stages.
Worker = int

# A stage's number of samples in a micro-batch, and its number of replicas.
Size = tuple[int, int]


class DeadlockError(PipeplanError):
    """Stages wait for each other in a circle: the order of their passes cannot be run."""


def run(pipeline: Pipeline) -> Simulation:
    """One iteration. Raises `DeadlockError` where the orders of the stages wait for each other in a circle."""
    _check(pipeline)
    one_run, passes = _Run(pipeline), _passes_of_replicas(pipeline)
    one_run.fill_spans()
    stages = tuple(one_run.stage_run(x, passes[x]) for x in range(len(pipeline.stages)))
    iteration = max(task.end for stage in stages for task in stage.tasks)
    devices = len(pipeline.shared) or None
    return Simulation(stages, iteration, pipeline.mini_batch, depth(pipeline), pipeline.time_unit, devices)


def iteration_time(pipeline: Pipeline) -> float:
    """The time of one iteration alone, the same to the last bit as `run` computes it, with the same errors."""
    _check(pipeline)
    one_run, ends = _Run(pipeline), dict[int, float]()
    one_run.fill_spans()
    for (x, _, _), (_, end) in one_run.span_of.items():
        ends[x] = max(end, ends.get(x, end))
    return max(end + pipeline.stages[x].synchronisation for x, end in ends.items())


def depth(pipeline: Pipeline) -> int:
    """Number of stages on the longest path."""
    successors = adjacency(len(pipeline.stages), ((d.source, d.target) for d in pipeline.dependencies))
    heights = heights_of(successors)
    assert heights is not None, "a circle of stages cannot have run"
    return max(heights)


def _check(pipeline: Pipeline) -> None:
    """Wrong pipelines are errors of the code that made them: plans are judged before they are simulated."""
    for x, stage in enumerate(pipeline.stages):
        if pipeline.mini_batch % stage.micro_batch:
            raise ValueError(f"{stage.name}: {pipeline.mini_batch} samples are no whole number of micro-batches")
        passes = sorted(j for order in stage.orders for j in order)
        forward = list(range(1, pipeline.passes(x) + 1))
        if passes not in (forward, [-j for j in reversed(forward)] + forward):
            raise ValueError(f"{stage.name}: the orders do not run every micro-batch once")
        if any(abs(j) % stage.replicas != (r + 1) % stage.replicas for r, o in enumerate(stage.orders) for j in o):
            raise ValueError(f"{stage.name}: replicas do not take turns")
    if pipeline.shared:
        _check_shared(pipeline)


def _check_shared(pipeline: Pipeline) -> None:
    """The orders of shared devices must be those of their stages."""
    passes: list[list[int]] = [[] for _ in pipeline.stages]
    for order in pipeline.shared:
        for x, j, part in order:
            if part != WEIGHTS:
                passes[x].append(j)
    for stage, order_on_device in zip(pipeline.stages, passes, strict=True):
        if stage.orders != (tuple(order_on_device),):
            raise ValueError(f"{stage.name}: its device runs its passes in another order")


class _Run:
    """The state of one simulation: how far each worker has come, and who waits for which pass."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.sizes = [(stage.micro_batch, stage.replicas) for stage in pipeline.stages]
        self.reads: list[list[tuple[int, Size, float]]] = [[] for _ in pipeline.stages]
        self.reads_back: list[list[tuple[int, Size, float]]] = [[] for _ in pipeline.stages]
        for arc in pipeline.dependencies:
            self.reads[arc.target].append((arc.source, self.sizes[arc.source], arc.forward_delay))
            self.reads_back[arc.source].append((arc.target, self.sizes[arc.target], arc.backward_delay))
        self.divided = {(x, j) for order in pipeline.shared for x, j, part in order if part == INPUTS}
        self.orders, self.worker_of = _workers(pipeline)
        self.position = [0] * len(self.orders)
        self.clock = [0.0] * len(self.orders)
        self.waiting: defaultdict[OnePass, list[Worker]] = defaultdict(list)
        self.span_of: dict[OnePass, tuple[float, float]] = {}
        self.times: dict[OnePass, float] = dict(pipeline.times.items())

    def fill_spans(self) -> None:
        """Find start and end of every pass; a DeadlockError where passes wait for each other in a circle."""
        ready = list(reversed(range(len(self.orders))))
        while ready:
            self._advance(ready.pop(), ready)
        if any(self.position[w] < len(order) for w, order in enumerate(self.orders)):
            raise DeadlockError(self._circle())

    def _advance(self, worker: Worker, ready: list[Worker]) -> None:
        """Run the worker until it is done or has to wait; wake those that waited for what it ran."""
        order, span_of, waiting = self.orders[worker], self.span_of, self.waiting
        position, clock = self.position[worker], self.clock[worker]
        while position < len(order):
            x, j, part = current = order[position]
            start = clock
            missing = None
            for needed, delay in self._needs(x, j, part):
                span = span_of.get(needed)
                if span is None:
                    missing = needed
                    break
                if span[1] + delay > start:
                    start = span[1] + delay
            if missing is not None:
                waiting[missing].append(worker)
                break
            clock = start + self._time(current)
            span_of[current] = (start, clock)
            position += 1
            if current in waiting:
                ready.extend(waiting.pop(current))
        self.position[worker], self.clock[worker] = position, clock

    def _time(self, one: OnePass) -> float:
        x, j, part = one
        stage = self.pipeline.stages[x]
        if self.times and one in self.times:
            return self.times[one]
        if j > 0:
            return stage.forward
        if part == WHOLE:
            return stage.backward
        inputs = INPUTS_SHARE * stage.backward if self.reads[x] else 0.0
        return inputs if part == INPUTS else stage.backward - inputs

    def _needs(self, x: int, j: int, part: str) -> list[tuple[OnePass, float]]:
        """The passes that a pass reads, with the delays of the transfers."""
        if j > 0:
            return [
                ((y, i, WHOLE), delay)
                for y, other, delay in self.reads[x]
                for i in _same_samples(self.sizes[x], j, other)
            ]
        if part == WEIGHTS:
            return [((x, j, INPUTS), 0.0)]
        needs: list[tuple[OnePass, float]] = [((x, -j, WHOLE), 0.0)]
        for y, other, delay in self.reads_back[x]:
            needs += [
                ((y, -i, INPUTS if (y, -i) in self.divided else WHOLE), delay)
                for i in _same_samples(self.sizes[x], -j, other)
            ]
        return needs

    def stage_run(self, x: int, replicas: list[list[OnePass]]) -> StageRun:
        """What the stage at position x did, by the passes of its replicas."""
        stage = self.pipeline.stages[x]
        tasks = [
            Task(_kind(one), abs(one[1]), r, *self.span_of[one])
            for r, passes in enumerate(replicas)
            for one in passes
        ]
        finished = max(task.end for task in tasks)
        if stage.synchronisation:
            ends = [(r, finished, finished + stage.synchronisation) for r in range(stage.replicas)]
            tasks += [Task("synchronisation", 0, *entry) for entry in ends]
        peak = max(map(_peak, replicas)) * stage.micro_batch
        return StageRun(
            stage.name,
            stage.devices,
            stage.replicas,
            tuple(tasks),
            math.fsum(self._time(one) for passes in replicas for one in passes) / stage.replicas,
            peak,
            stage.fixed_bytes + peak * stage.sample_bytes,
            next((i for i, (_, j, _) in enumerate(replicas[0]) if j < 0), len(replicas[0])),
            stage.fixed_bytes,
            stage.micro_batch * stage.sample_bytes,
            stage.limit_bytes,
        )

    def _circle(self) -> str:
        """Who waits for whom, from one stage around the circle back to it."""
        awaited: dict[Worker, tuple[OnePass, OnePass]] = {}
        for needed, workers in self.waiting.items():
            for worker in workers:
                awaited[worker] = (self.orders[worker][self.position[worker]], needed)
        worker = next(iter(awaited))
        path: list[Worker] = []
        while worker not in path:
            path.append(worker)
            y, i, _ = awaited[worker][1]
            worker = self.worker_of[y, (abs(i) - 1) % self.pipeline.stages[y].replicas]
        parts = [self._wait(*awaited[w]) for w in path[path.index(worker) :]]
        return "The schedule cannot be run: " + ", ".join(parts) + "."

    def _wait(self, own: OnePass, needed: OnePass) -> str:
        stages = self.pipeline.stages
        return f"{_words(stages[own[0]], own[1])} waits for {_words(stages[needed[0]], needed[1])}"


def _workers(pipeline: Pipeline) -> tuple[list[tuple[OnePass, ...]], dict[tuple[int, int], Worker]]:
    """The passes of each worker in their order, and the worker that runs each replica of a stage."""
    if pipeline.shared:
        homes = {(x, 0): w for w, order in enumerate(pipeline.shared) for x, _, _ in order}
        return list(pipeline.shared), homes
    replicas = [(x, r) for x, stage in enumerate(pipeline.stages) for r in range(stage.replicas)]
    orders = [tuple((x, j, WHOLE) for j in pipeline.stages[x].orders[r]) for x, r in replicas]
    return orders, {replica: w for w, replica in enumerate(replicas)}


def _words(stage: Stage, j: int) -> str:
    return f"{stage.name} {'forward' if j > 0 else 'backward'} {abs(j)}"


def _same_samples(own: Size, j: int, other: Size) -> tuple[int, ...] | range:
    """Micro-batches of another stage that hold the samples of micro-batch j: the last of each of its replicas."""
    if own[0] == other[0]:
        return (j,)
    last = -(-j * own[0] // other[0])
    first = (j - 1) * own[0] // other[0] + 1
    return range(max(first, last - other[1] + 1), last + 1)


def _passes_of_replicas(pipeline: Pipeline) -> list[list[list[OnePass]]]:
    """The passes of each replica of each stage, in their order."""
    if not pipeline.shared:
        return [[[(x, j, WHOLE) for j in o] for o in stage.orders] for x, stage in enumerate(pipeline.stages)]
    passes: list[list[list[OnePass]]] = [[[]] for _ in pipeline.stages]
    for order in pipeline.shared:
        for one in order:
            passes[one.stage][0].append(one)
    return passes


def _kind(one: OnePass) -> TaskKind:
    return "forward" if one[1] > 0 else "weights" if one[2] == WEIGHTS else "backward"


def _peak(passes: list[OnePass]) -> int:
    """The most micro-batches in flight; at most 1 where nothing runs backward."""
    live = peak = 0
    for _, j, part in passes:
        live += 1 if j > 0 else -(part != INPUTS)
        peak = max(peak, live)
    return peak if any(j < 0 for _, j, _ in passes) else min(peak, 1)


# ---- devices that hold several stages ----------------------------------------------------------------
# An order for them, which no schedule of one stage alone can give.
#
# A list scheduler: whenever a device is free it begins the pass that can start first, a backward pass before a forward
# pass. How many micro-batches a stage may have in flight is limited, which bounds its memory as 1F1B does.


def share_devices(
    pipeline: Pipeline, device_of: Sequence[int], in_flight: Sequence[int], *, training: bool = True
) -> Pipeline:
    """The same stages on the devices `device_of`, numbered from 0, with new orders of their passes; orders that they
    have are dropped.

    `in_flight`: by stage, the micro-batches that it may have in flight, at least one.
    """
    return _Scheduler(pipeline, device_of, in_flight, training).scheduled()


class _Scheduler:
    """How far each stage has come; micro-batches pass every stage in their order, in both directions."""

    def __init__(
        self, pipeline: Pipeline, device_of: Sequence[int], in_flight: Sequence[int], training: bool
    ) -> None:
        count = len(pipeline.stages)
        heights = heights_of(adjacency(count, ((d.source, d.target) for d in pipeline.dependencies)))
        assert heights is not None, "stages without a circle"
        self.pipeline, self.device_of, self.training = pipeline, device_of, training
        self.heights, self.in_flight = heights, in_flight
        self.reads: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        self.reads_back: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        for arc in pipeline.dependencies:
            self.reads[arc.target].append((arc.source, arc.forward_delay))
            self.reads_back[arc.source].append((arc.target, arc.backward_delay))
        self.ends: dict[tuple[int, int], float] = {}
        self.forward, self.backward = [1] * count, [1] * count
        self.free = [0.0] * (1 + max(device_of))

    def scheduled(self) -> Pipeline:
        shared: list[list[Pass]] = [[] for _ in self.free]
        while (next_pass := self._next()) is not None:
            start, x, j = next_pass
            stage = self.pipeline.stages[x]
            end = start + (stage.forward if j > 0 else stage.backward)
            self.ends[x, j] = self.free[self.device_of[x]] = end
            if j > 0:
                self.forward[x] += 1
            else:
                self.backward[x] += 1
            shared[self.device_of[x]].append(Pass(x, j))
        stages = tuple(
            replace(stage, orders=(tuple(j for y, j, _ in shared[self.device_of[x]] if y == x),))
            for x, stage in enumerate(self.pipeline.stages)
        )
        return replace(self.pipeline, stages=stages, shared=tuple(map(tuple, shared)))

    def _next(self) -> tuple[float, int, int] | None:
        """The pass that can start first: among equals a backward pass, of the oldest micro-batch, or else a forward
        pass of the stage nearest the end."""
        best: tuple[tuple[float, int, int, int], int, int] | None = None
        for x, count in enumerate(map(self.pipeline.passes, range(len(self.pipeline.stages)))):
            for j in (-self.backward[x], self.forward[x]):
                if abs(j) > count or (j < 0 and not self.training):
                    continue
                ready = self._ready(x, j)
                if ready is None:
                    continue
                start = max(ready, self.free[self.device_of[x]])
                rank = (self.heights[x], j) if j > 0 else (-j, self.heights[x])
                key = (start, int(j > 0), *rank)
                if best is None or key < best[0]:
                    best = (key, x, j)
        return None if best is None else (best[0][0], best[1], best[2])

    def _ready(self, x: int, j: int) -> float | None:
        """When all that the pass reads is there; None: that is not known yet, or the stage has enough in flight."""
        if j > 0 and self.training and j - self.backward[x] >= self.in_flight[x]:
            return None
        needed = [((y, j), delay) for y, delay in (self.reads if j > 0 else self.reads_back)[x]]
        needed += [((x, -j), 0.0)] if j < 0 else []
        if any(needed_pass not in self.ends for needed_pass, _ in needed):
            return None
        return max((self.ends[needed_pass] + delay for needed_pass, delay in needed), default=0.0)
