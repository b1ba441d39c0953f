"""An order for devices that hold several stages, which no schedule of one stage alone can give.

A list scheduler: whenever a device is free it begins the pass that can start first, a backward pass before a forward
pass. How many micro-batches a stage may have in flight is limited, which bounds its memory as 1F1B does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..base.graph import adjacency, heights_of
from .model import Pass, Pipeline


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
