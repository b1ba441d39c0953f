"""What a device holds after each change, and when it holds most and least.

Blocks of one device do not overlap, and nothing else changes its memory. At one instant a device first ends its blocks
of positive time, then runs those of time 0 (by micro-batch, topological position and order in the file; each takes and
gives in turn), then starts blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ...base.amounts import as_written
from .unrolled import Unrolled

# The order of what happens on a device at one instant.
ENDS, AT_ONCE, STARTS = range(3)


@dataclass(frozen=True, slots=True)
class Held:
    """What the device holds from one change of its memory to the next."""

    time: int
    """The instant, in steps."""
    block: int
    """Position of the block that changes what is held; -1: the device runs none."""
    micro_batch: int
    changes: Fraction
    """Memory taken and not yet given back; negative where more was given back than taken."""
    workspace: Fraction
    """Workspace of the block that runs."""

    @property
    def amount(self) -> Fraction:
        return self.changes + self.workspace


def held_over_time(unrolled: Unrolled, device: int) -> Iterator[Held]:
    """What the device holds beside its standing memory, in the order of time."""
    problem = unrolled.problem
    name, none = problem.devices[device].name, Fraction(0)
    change, workspace = {}, {}
    for b in problem.on_device[device]:
        block = problem.blocks[b]
        change[b] = as_written(block.memory.get(name, 0))
        workspace[b] = as_written(block.workspace.get(name, 0))
    changes = none
    for time, phase, n, _, b in sorted(_events(unrolled, device)):
        takes, gives = max(change[b], none), min(change[b], none)
        if phase != ENDS:
            changes += takes
            yield Held(time, b, n, changes, workspace[b])
        if phase != STARTS:
            changes += gives
            yield Held(time, b, n, changes, none)


def _events(unrolled: Unrolled, device: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(time, phase, micro-batch, topological position, position in the file)."""
    depths = unrolled.problem.depths
    for b in unrolled.problem.on_device[device]:
        length = unrolled.times[b]
        for n, start in enumerate(unrolled.starts[b]):
            if length:
                yield start, STARTS, n, depths[b], b
                yield start + length, ENDS, n, depths[b], b
            else:
                yield start, AT_ONCE, n, depths[b], b


def fullest(unrolled: Unrolled, device: int) -> Held:
    """The first instant at which the device holds most; without blocks it holds nothing at time 0."""
    nothing = Held(0, -1, 0, Fraction(0), Fraction(0))
    return max(held_over_time(unrolled, device), key=lambda held: held.amount, default=nothing)


def emptiest(unrolled: Unrolled, device: int) -> Held:
    """The first instant at which the device holds least, workspaces left out."""
    nothing = Held(0, -1, 0, Fraction(0), Fraction(0))
    return min(held_over_time(unrolled, device), key=lambda held: held.changes, default=nothing)
