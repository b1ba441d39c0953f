"""What stands between groups and the annealing loop: arrays, one state, and the choice of compiled or plain code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....instances.base.compiled import compiled as machine_code
from ....instances.base.compiled import repays_loading
from ....instances.base.graph import adjacency
from ..groups import Groups
from . import annealing

# Groups from which on compiling pays: the first time it takes seconds, later a moment to load the machine code.
COMPILED_FROM = 40


class Kernel:
    """Anneals one assignment of one problem; not to be shared by threads."""

    def __init__(self, groups: Groups, seed: int, compiled: bool | None = None) -> None:
        self.groups = groups
        self.compiled = repays_loading(groups.count, COMPILED_FROM) if compiled is None else compiled
        self.sweep: Callable[..., float] = machine_code(annealing, "sweep") if self.compiled else annealing.sweep
        self.tables = _tables(groups)
        self.random = np.array([seed | 1], dtype=np.uint64) if self.compiled else [seed | 1]
        self.state: annealing.State | None = None
        self.reference = 1.0

    def start(self, device_of: Sequence[int], stages: Sequence[int] | None = None) -> None:
        """Begin with this assignment; `stages`: the place of each device in the chain that must be kept."""
        groups = self.groups
        held = np.zeros((len(groups.nets), groups.devices), dtype=np.int32)
        memory = np.zeros(groups.devices)
        for e, (pins, _, _) in enumerate(groups.nets):
            for g in pins:
                held[e, device_of[g]] += 1
        for g, d in enumerate(device_of):
            memory[d] += groups.sizes[g]
        load = np.array(groups.loads(device_of))
        device = np.array(device_of, dtype=np.int64)
        moved = np.zeros(annealing.MAX_BLOCK + 1, dtype=np.int64)
        change, term = np.zeros((groups.parts, 2)), np.zeros_like(load)
        self.state = annealing.State(self.random, device, held, load, memory, term, change, moved, device.copy())
        if stages is not None:
            self.tables = self.tables._replace(stage_of_device=np.array(stages, dtype=np.int64))
        self.reference = float(load.sum(axis=0).max()) or 1.0

    def run(self, steps: int, hot: float, cold: float, squarings: int, value: float) -> list[int] | None:
        """Anneal on; the best assignment met, if it is better than `value`."""
        assert self.state is not None
        # Rounding adds up over many moves: an improvement must be more than that.
        goal = value * (1 - 1e-12)
        reached = self.sweep(self.tables, self.state, steps, hot, cold, squarings, self.reference, goal)
        return [int(d) for d in self.state.best] if reached < goal else None


def _tables(groups: Groups) -> annealing.Tables:
    nets_of = adjacency(groups.count, ((g, e) for e, (pins, _, _) in enumerate(groups.nets) for g in pins))
    near = [dict.fromkeys(h for e in nets for h in groups.nets[e][0] if h != g) for g, nets in enumerate(nets_of)]
    return annealing.Tables(
        np.array(groups.times),
        np.array(groups.cpu_times),
        np.array(groups.sizes),
        np.array(groups.supported),
        groups.capacity,
        groups.accelerators,
        np.array([len(pins) for pins, _, _ in groups.nets], dtype=np.int32),
        np.array([cost for _, cost, _ in groups.nets], dtype=np.float64),
        np.array([part for _, _, part in groups.nets], dtype=np.int64),
        *ragged(nets_of),
        *ragged([list(row) for row in near]),
        *ragged(adjacency(groups.count, ((v, u) for u, v in groups.arcs))),
        *ragged(adjacency(groups.count, groups.arcs)),
        np.zeros(groups.devices, dtype=np.int64),
    )


def ragged(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Rows as (starts, entries)."""
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    starts[1:] = np.cumsum([len(row) for row in rows])
    return starts, np.array([entry for row in rows for entry in row], dtype=np.int64)
