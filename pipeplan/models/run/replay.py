"""How long a listed order should take: the simulator of orders with divided backward passes.

A rank runs its passes in its order, each as soon as what it reads is there. The gradients of a stage's inputs are
`INPUTS_SHARE` of its backward pass, those of its weights the rest; a stage that reads from no other has none of the
first sort.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ...instances.timeline.engine import depth
from ...instances.timeline.model import Pipeline
from ...instances.timeline.timeline import Simulation, StageRun, Task, TaskKind
from .passes import INPUTS, WEIGHTS, WHOLE, RunPass

# Two products of matrices of the same size, one for each part, where layers are linear.
INPUTS_SHARE = 0.5

Order = Sequence[RunPass]
Spans = Mapping[RunPass, tuple[float, float]]


def simulate(
    pipeline: Pipeline, orders: Sequence[Order], times: Mapping[RunPass, float] | None = None
) -> Simulation:
    """One iteration in orders that can be run; `times` of passes that take another time than their stage says."""
    spans = _Replay(pipeline, orders, times or {}).spans()
    stages = tuple(_stage_run(pipeline, x, orders, spans) for x in range(len(pipeline.stages)))
    iteration = max(task.end for stage in stages for task in stage.tasks)
    return Simulation(stages, iteration, pipeline.mini_batch, depth(pipeline), pipeline.time_unit, len(orders))


class _Replay:
    """How far each rank has come, and who waits for which pass."""

    def __init__(self, pipeline: Pipeline, orders: Sequence[Order], times: Mapping[RunPass, float]) -> None:
        self.pipeline, self.orders, self.times = pipeline, orders, times
        self.reads: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        self.readers: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for arc in pipeline.dependencies:
            self.reads[arc.target].append((arc.source, arc.forward_delay))
            self.readers[arc.source].append((arc.target, arc.backward_delay))
        self.divided = {(own.stage, own.micro_batch) for order in orders for own in order if own.part == INPUTS}

    def spans(self) -> Spans:
        """Start and end of every pass."""
        spans: dict[RunPass, tuple[float, float]] = {}
        place, clock = [0] * len(self.orders), [0.0] * len(self.orders)
        waiting: defaultdict[RunPass, list[int]] = defaultdict(list)
        ready = list(range(len(self.orders)))
        while ready:
            rank = ready.pop()
            while place[rank] < len(self.orders[rank]):
                own = self.orders[rank][place[rank]]
                needs = list(self._needs(own))
                missing = next((needed for needed, _ in needs if needed not in spans), None)
                if missing is not None:
                    waiting[missing].append(rank)
                    break
                start = max([clock[rank], *(spans[needed][1] + delay for needed, delay in needs)])
                clock[rank] = start + self._time(own)
                spans[own] = start, clock[rank]
                place[rank] += 1
                ready += waiting.pop(own, ())
        assert not waiting, "the order was checked where it was read"
        return spans

    def _needs(self, own: RunPass) -> Iterator[tuple[RunPass, float]]:
        """The passes that a pass reads, with the delays of the transfers."""
        x, j, part = own
        if j > 0:
            yield from ((RunPass(y, j), delay) for y, delay in self.reads[x])
        elif part == WEIGHTS:
            yield RunPass(x, j, INPUTS), 0.0
        else:
            yield RunPass(x, -j), 0.0
            yield from ((RunPass(y, j, self._part(y, j)), delay) for y, delay in self.readers[x])

    def _part(self, x: int, j: int) -> str:
        """The part of a backward pass that makes the gradients which others read."""
        return INPUTS if (x, j) in self.divided else WHOLE

    def _time(self, own: RunPass) -> float:
        if own in self.times:
            return self.times[own]
        stage = self.pipeline.stages[own.stage]
        if own.micro_batch > 0:
            return stage.forward
        inputs = INPUTS_SHARE * stage.backward if self.reads[own.stage] else 0.0
        return {WHOLE: stage.backward, INPUTS: inputs, WEIGHTS: stage.backward - inputs}[own.part]


def _stage_run(pipeline: Pipeline, x: int, orders: Sequence[Order], spans: Spans) -> StageRun:
    stage = pipeline.stages[x]
    passes = [own for order in orders for own in order if own.stage == x]
    tasks = [Task(_kind(own), abs(own.micro_batch), 0, *spans[own]) for own in passes]
    finished = max(task.end for task in tasks)
    if stage.synchronisation:
        tasks.append(Task("synchronisation", 0, 0, finished, finished + stage.synchronisation))
    live = peak = 0
    for own in passes:
        live += 1 if own.micro_batch > 0 else -(own.part != INPUTS)
        peak = max(peak, live)
    return StageRun(
        stage.name,
        stage.devices,
        1,
        tuple(tasks),
        sum(end - start for start, end in (spans[own] for own in passes)),
        peak,
        stage.fixed_bytes + peak * stage.sample_bytes,
        next((i for i, own in enumerate(passes) if own.micro_batch < 0), len(passes)),
        stage.fixed_bytes,
        stage.sample_bytes,
    )


def _kind(own: RunPass) -> TaskKind:
    if own.micro_batch > 0:
        return "forward"
    return "weights" if own.part == WEIGHTS else "backward"
