"""What the simulator runs: stages that work through their micro-batches, and what they wait for in each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .orders import Order

Pass = tuple[int, int]
"""A stage and the signed number of a micro-batch: +j forward, -j backward."""


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
    """In all replicas together."""
    synchronisation: float = 0.0
    """Of the weights, after the last backward pass."""
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
    """From the end of a forward pass of the source to where its result can be read."""
    backward_delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages and what they wait for, for one mini-batch of so many samples."""

    stages: tuple[Stage, ...]
    dependencies: tuple[Dependency, ...]
    mini_batch: int
    name: str = "pipeline"
    time_unit: str | None = "s"
    shared: tuple[tuple[Pass, ...], ...] = ()
    """Where devices hold several stages: the passes of each device in their order, for all devices. A stage has one
    replica then, and runs its own passes in the order of its device."""
    times: Mapping[Pass, float] = field(default_factory=dict)
    """Of passes that take another time than their stage says, as when they were measured one by one."""

    def passes(self, stage: int) -> int:
        """Micro-batches of a stage."""
        return self.mini_batch // self.stages[stage].micro_batch
