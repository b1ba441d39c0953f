"""How long an order from a file should take: the simulator of orders with divided backward passes.

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

# The backward pass of a linear layer is two products of matrices of the same size, one for each part.
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
    """Runs the orders of all ranks side by side; a rank waits where a pass that it reads has no time yet."""

    def __init__(self, pipeline: Pipeline, orders: Sequence[Order], times: Mapping[RunPass, float]) -> None:
        self.pipeline, self.orders, self.times = pipeline, orders, times
        self.reads: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        self.readers: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for arc in pipeline.dependencies:
            self.reads[arc.target].append((arc.source, arc.forward_delay))
            self.readers[arc.source].append((arc.target, arc.backward_delay))
        self.divided = {(p.stage, p.micro_batch) for order in orders for p in order if p.part == INPUTS}

    def spans(self) -> Spans:
        """Start and end of every pass."""
        spans: dict[RunPass, tuple[float, float]] = {}
        place, clock = [0] * len(self.orders), [0.0] * len(self.orders)
        waiting: defaultdict[RunPass, list[int]] = defaultdict(list)
        ready = list(range(len(self.orders)))
        while ready:
            rank = ready.pop()
            while place[rank] < len(self.orders[rank]):
                run_pass = self.orders[rank][place[rank]]
                needs = list(self._needs(run_pass))
                missing = next((needed for needed, _ in needs if needed not in spans), None)
                if missing is not None:
                    waiting[missing].append(rank)
                    break
                start = max([clock[rank], *(spans[needed][1] + delay for needed, delay in needs)])
                clock[rank] = start + self._time(run_pass)
                spans[run_pass] = start, clock[rank]
                place[rank] += 1
                ready += waiting.pop(run_pass, ())
        assert not waiting, "the order was checked where it was read"
        return spans

    def _needs(self, run_pass: RunPass) -> Iterator[tuple[RunPass, float]]:
        """The passes that a pass reads, with the delays of the transfers."""
        x, j, part = run_pass
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

    def _time(self, run_pass: RunPass) -> float:
        if run_pass in self.times:
            return self.times[run_pass]
        stage = self.pipeline.stages[run_pass.stage]
        if run_pass.micro_batch > 0:
            return stage.forward
        inputs = INPUTS_SHARE * stage.backward if self.reads[run_pass.stage] else 0.0
        return {WHOLE: stage.backward, INPUTS: inputs, WEIGHTS: stage.backward - inputs}[run_pass.part]


def _stage_run(pipeline: Pipeline, x: int, orders: Sequence[Order], spans: Spans) -> StageRun:
    stage = pipeline.stages[x]
    passes = [p for order in orders for p in order if p.stage == x]
    tasks = [Task(_kind(p), abs(p.micro_batch), 0, *spans[p]) for p in passes]
    finished = max(task.end for task in tasks)
    if stage.synchronisation:
        tasks.append(Task("synchronisation", 0, 0, finished, finished + stage.synchronisation))
    live = peak = 0
    for run_pass in passes:
        live += 1 if run_pass.micro_batch > 0 else -(run_pass.part != INPUTS)
        peak = max(peak, live)
    return StageRun(
        stage.name,
        stage.devices,
        1,
        tuple(tasks),
        sum(end - start for start, end in (spans[p] for p in passes)),
        peak,
        stage.fixed_bytes + peak * stage.sample_bytes,
        next((i for i, p in enumerate(passes) if p.micro_batch < 0), len(passes)),
        stage.fixed_bytes,
        stage.sample_bytes,
    )


def _kind(run_pass: RunPass) -> TaskKind:
    if run_pass.micro_batch > 0:
        return "forward"
    return "weights" if run_pass.part == WEIGHTS else "backward"
