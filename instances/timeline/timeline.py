"""What a simulation tells: when every pass ran, what was alive at most, and how long the iteration took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..base.fields import plain_fields

# `weights`: the second part of a divided backward pass, of which `backward` is the first.
TaskKind = Literal["forward", "backward", "weights", "synchronisation"]


@dataclass(frozen=True, slots=True)
class Task:
    """One pass of one micro-batch on one replica (all devices of which are busy with it)."""

    kind: TaskKind
    micro_batch: int
    """Number of the micro-batch, from 1; 0 stands for the synchronisation of the weights."""
    replica: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class StageRun:
    """What one stage did. `tasks` are those of one replica after the other, each in the order that they ran."""

    name: str
    devices: int
    replicas: int
    tasks: tuple[Task, ...]
    busy: float
    """Time for which an average replica computed."""
    peak_in_flight: int
    """The most samples that one replica had begun to run forward and not yet finished backward."""
    memory_bytes: float
    """Bytes of one device with that many samples in flight."""
    warm_up: int
    """Forward passes of the first replica before its first backward pass."""
    fixed_bytes: float = 0.0
    """Bytes of one device, whatever is in flight."""
    micro_batch_bytes: float = 0.0
    """Bytes of one device for each micro-batch in flight on its replica."""
    limit_bytes: float | None = None
    """Memory that one device has; None: as much as it takes."""

    @property
    def is_over_memory(self) -> bool:
        return self.limit_bytes is not None and self.memory_bytes > self.limit_bytes

    def memory_over_time(self, replica: int = 0) -> tuple[tuple[float, float], ...]:
        """When the memory of a device changes, and to how many bytes.

        A micro-batch counts from the start of its forward pass to the end of its last pass.
        """
        passes = [task for task in self.tasks if task.replica == replica and task.kind != "synchronisation"]
        changes = [(task.start, 1) for task in passes if task.kind == "forward"]
        ends: dict[int, float] = {}
        for task in passes:
            ends[task.micro_batch] = max(task.end, ends.get(task.micro_batch, task.end))
        changes += [(end, -1) for end in ends.values()]
        live, points = 0, [(0.0, self.fixed_bytes)]
        for time, change in sorted(changes):  # what ends makes room for what starts at that moment
            live += change
            points.append((time, self.fixed_bytes + live * self.micro_batch_bytes))
        return tuple(points)


@dataclass(frozen=True, slots=True)
class Simulation:
    """One iteration: a mini-batch through all stages, the weights synchronised at the end."""

    stages: tuple[StageRun, ...]
    iteration: float
    """Time from the first forward pass to the end of the last synchronisation, in the problem's time unit."""
    mini_batch: int
    depth: int
    """Number of stages on the longest path."""
    time_unit: str | None = "s"
    shared_devices: int | None = None
    """Number of devices that stages share; None: each stage has its own."""

    @property
    def time_per_sample(self) -> float:
        return self.iteration / self.mini_batch

    @property
    def bubble(self) -> float:
        """The share of all devices' time in which they computed nothing."""
        if not self.iteration:
            return 0.0
        devices = self.shared_devices or sum(stage.devices for stage in self.stages)
        return 1 - sum(stage.busy * stage.devices for stage in self.stages) / (devices * self.iteration)

    @property
    def peak_memory_bytes(self) -> float:
        return max(stage.memory_bytes for stage in self.stages)

    def to_json(self, tasks: bool = True) -> dict[str, Any]:
        """The simulation as JSON data; `tasks` false leaves the timeline out."""
        derived = ("time_per_sample", "bubble", "peak_memory_bytes")
        data = plain_fields(self) | {name: getattr(self, name) for name in derived}
        del data["shared_devices"]
        if not tasks:
            for stage in data["stages"]:
                del stage["tasks"]
        return data
