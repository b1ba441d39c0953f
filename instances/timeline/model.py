"""What the simulator runs, stages that work through their micro-batches and wait for each other, and what it tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ..base.errors import InputError, UsageError, unknown_choice
from ..base.fields import plain_fields
from ..base.quantities import several
from . import SCHEDULES

# ---- what a simulation tells -------------------------------------------------------------------------
# When every pass ran, what was alive at most, and how long the iteration took.

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


# ---- what is run -------------------------------------------------------------------------------------

# The order in which a stage runs its passes: +j is the forward pass of micro-batch j, -j its backward pass.
Order = tuple[int, ...]


@lru_cache(maxsize=32)
def kfkb_order(batches: range, warm_up: int, k: int = 1) -> Order:
    """`warm_up` forward passes, then k backward and k forward passes in turn, the remaining backward passes last.

    A warm-up that is longer than there are micro-batches runs them all forward; one below 1 counts as 1.
    """
    count = len(batches)
    forward = min(max(warm_up, 1), count)
    order = list(batches[:forward])
    backward = 0
    while backward < count:
        group = min(max(k, 1), forward - backward)
        order += [-j for j in batches[backward : backward + group]]
        backward += group
        order += batches[forward : forward + group]
        forward = min(forward + group, count)
    return tuple(order)


def gpipe_order(batches: range) -> Order:
    """All forward passes, then all backward passes."""
    return kfkb_order(batches, len(batches))


def replica_orders(count: int, replicas: int, warm_up: int, k: int = 1) -> tuple[Order, ...]:
    """The orders of replicas that take turns at so many micro-batches, each with its own warm-up."""
    return tuple(kfkb_order(range(r + 1, count + 1, replicas), warm_up, k) for r in range(replicas))


def check_schedule(schedule: str) -> str:
    """The schedule, where there is one of that name; otherwise a UsageError that lists them."""
    if schedule not in SCHEDULES:
        raise unknown_choice("The schedule", schedule, SCHEDULES)
    return schedule


# Parts of a backward pass, by the letters of a schedule's file.
WHOLE, INPUTS, WEIGHTS = "", "I", "W"


class Pass(NamedTuple):
    """One pass of one stage."""

    stage: int
    micro_batch: int
    """Number of the micro-batch from 1, with a sign: + for its forward pass, - for its backward pass."""
    part: str = WHOLE
    """Part of a backward pass: the gradients of the stage's inputs alone, later those of its weights, or both at
    once."""

    @property
    def kind(self) -> str:
        """The letter of the pass in a schedule's file."""
        return "F" if self.micro_batch > 0 else self.part or "B"


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: all its devices run a micro-batch together, or `replicas` groups of them take turns.

    Replica r (from 0) runs the micro-batches r + 1, r + 1 + replicas, ... in the order that `orders[r]` says.
    """

    name: str
    micro_batch: int
    """Samples of one pass."""
    forward: float
    """Time of one forward pass."""
    backward: float
    orders: tuple[Order, ...]
    """For each replica, its passes: +j is the forward pass of micro-batch j, -j its backward pass."""
    devices: int = 1
    """Number of devices in all replicas together."""
    synchronisation: float = 0.0
    """Time to synchronise the weights after the last backward pass."""
    fixed_bytes: float = 0.0
    """Memory of one device, whatever is in flight."""
    sample_bytes: float = 0.0
    """Memory of one device for each sample in flight on its replica."""
    limit_bytes: float | None = None
    """Memory that one device has; None: as much as it takes."""

    @property
    def replicas(self) -> int:
        return len(self.orders)


@dataclass(frozen=True, slots=True)
class Dependency:
    """Stage `source` runs forward before `target`, and backward after it; transfers overlap with computation."""

    source: int
    target: int
    forward_delay: float = 0.0
    """Time from the end of a forward pass of the source to where its result can be read."""
    backward_delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages and their dependencies, for one mini-batch of so many samples."""

    stages: tuple[Stage, ...]
    dependencies: tuple[Dependency, ...]
    mini_batch: int
    name: str = "pipeline"
    time_unit: str | None = "s"
    shared: tuple[tuple[Pass, ...], ...] = ()
    """Where devices hold several stages, or backward passes are divided: the passes of each device in their order, for
    all devices. A stage has one replica then, and runs its own passes in the order of its device; its `orders` leave
    backward passes for the weights alone out."""
    times: Mapping[Pass, float] = field(default_factory=dict)
    """Times of passes that differ from their stage's time, as when passes were measured one by one."""

    def passes(self, stage: int) -> int:
        """Number of micro-batches of a stage."""
        return self.mini_batch // self.stages[stage].micro_batch


# ---- what must hold before a plan is turned into passes, whatever its kind -----------------------------------

# The most passes whose starts and ends are listed one by one.
MAX_TASKS = 2_000_000


def check_tasks(micro_batches: Iterable[int]) -> None:
    """Refuse too many passes before their orders are made; `micro_batches` are the numbers of each stage."""
    count = 2 * sum(micro_batches)
    if count > MAX_TASKS:
        raise UsageError(
            f"An iteration of this plan has {several(count, 'pass')}; at most {MAX_TASKS} can be listed one by one."
        )


def given(count: int | None) -> int:
    """The number of micro-batches, which the caller must give for kinds that do not say it themselves."""
    if count is None:
        raise InputError(
            "micro_batches", "is missing: this kind of problem does not say it", "give the number of micro-batches"
        )
    return count
