"""Families of schedule problems beyond what `plan generate` makes: shapes of pipelines, and random stages."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from pipeplan.instances.base.checks import MAX_DEVICES, check_whole
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.schedule.generators import StagePasses, divided_pipeline
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem

# ---- shapes ------------------------------------------------------------------------------------------
#
# Five shapes of pipelines; they differ in the order in which a micro-batch visits the devices.
#
# - V: a chain of stages, down and back up.
# - X: two chains at once, in opposite directions.
# - K: two branches, each on a half of the devices, into a trunk over all of them.
# - M: a first and a last block over all devices, and a chain between them.
# - NN: the same with two chains, one after the other, and a block over all devices between them.


class _Passes:
    """Forward passes in their order; the backward passes mirror them."""

    def __init__(self, devices: int, forward: float, backward: float) -> None:
        self.names = tuple(f"d{i}" for i in range(devices))
        self.forward, self.backward = forward, backward
        self.blocks: list[tuple[str, tuple[str, ...], int]] = []
        self.edges: list[tuple[str, str]] = []

    def add(self, name: str, devices: Sequence[int], takes: int, *after: str) -> str:
        self.blocks.append((name, tuple(self.names[d] for d in devices), takes))
        self.edges += [(before, name) for before in after]
        return name

    def chain(self, prefix: str, devices: Sequence[int], *after: str) -> str:
        """Add a stage on each device, one after the other; return the name of the last."""
        for d in devices:
            after = (self.add(f"{prefix}{d}", (d,), 1, *after),)
        return after[0]

    def everywhere(self, name: str, *after: str) -> str:
        """Add one block on all devices at once, whose activations are too small to count; return its name."""
        return self.add(name, range(len(self.names)), 0, *after)

    def problem(self, name: str, memory: float | None, micro_batches: int | None) -> ScheduleProblem:
        """The problem, where backward passes mirror forward passes and memory is held between the two."""
        blocks = [
            Block(f"F{part}", "F", on, self.forward, part, {d: takes for d in on if takes})
            for part, on, takes in self.blocks
        ]
        blocks += [
            Block(f"B{part}", "B", on, self.backward, part, {d: -takes for d in on if takes})
            for part, on, takes in reversed(self.blocks)
        ]
        ends = {part for part, _, _ in self.blocks} - {source for source, _ in self.edges}
        edges = [BlockEdge(f"F{a}", f"F{b}") for a, b in self.edges]
        edges += [BlockEdge(f"F{part}", f"B{part}") for part in sorted(ends)]
        edges += [BlockEdge(f"B{b}", f"B{a}") for a, b in reversed(self.edges)]
        devices = tuple(ScheduleDevice(device, memory) for device in self.names)
        return ScheduleProblem(devices, tuple(blocks), tuple(edges), micro_batches, False, name, None, "activation")


def _v(passes: _Passes, devices: range) -> None:
    passes.chain("s", devices)


def _x(passes: _Passes, devices: range) -> None:
    passes.chain("down", devices)
    passes.chain("up", devices[::-1])


def _k(passes: _Passes, devices: range) -> None:
    half = len(devices) // 2
    branches = passes.chain("a", devices[:half]), passes.chain("b", devices[half:])
    passes.everywhere("trunk", *branches)


def _m(passes: _Passes, devices: range) -> None:
    passes.everywhere("last", passes.chain("s", devices, passes.everywhere("first")))


def _nn(passes: _Passes, devices: range) -> None:
    between = passes.everywhere("between", passes.chain("a", devices, passes.everywhere("first")))
    passes.everywhere("last", passes.chain("b", devices, between))


SHAPES: Mapping[str, Callable[[_Passes, range], None]] = {"v": _v, "x": _x, "k": _k, "m": _m, "nn": _nn}


def shape(
    name: str,
    devices: int = 4,
    limit: float | None = None,
    forward: float = 1,
    backward: float = 2,
    micro_batches: int | None = None,
) -> ScheduleProblem:
    """One of `SHAPES`. `limit` counts the activations of a forward pass of a chain that a device holds; None: twice as
    many as devices."""
    if name not in SHAPES:
        raise InputError("shape", f"is {name!r}", f"give one of {', '.join(SHAPES)}")
    check_whole("devices", devices, 1_000)
    if devices < 2:
        raise InputError("devices", "is 1", "give at least two devices")
    passes = _Passes(devices, forward, backward)
    SHAPES[name](passes, range(devices))
    return passes.problem(f"{name}-shape-{devices}", 2 * devices if limit is None else limit, micro_batches)


def random_pipeline(
    stages: int = 4, micro_batches: int = 12, limit: float = 10, lag: float = 0, seed: int = 0
) -> ScheduleProblem:
    """Uneven stages: passes between 5 and 15 units each, activations of 2 units."""
    check_whole("stages", stages, MAX_DEVICES)
    chosen = random.Random(seed)
    rows = [StagePasses(*(chosen.randint(5, 15) for _ in range(3))) for _ in range(stages)]
    return divided_pipeline(rows, micro_batches, limit, lag, f"uneven-{stages}x{micro_batches}-{seed}")
