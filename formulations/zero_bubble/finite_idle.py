"""A bound on the span from how long a device idles while the pipeline fills, and again while it drains."""

from __future__ import annotations

from dataclasses import dataclass

from .finite_problem import FiniteProblem
from .finite_warm_up import MOST_BLOCKS, counts_before, only_first, work_of


@dataclass(frozen=True, slots=True)
class Wait:
    """Of a device, from its first start to the first run of one of its blocks."""

    idle: int
    """At least."""
    ended: tuple[int, ...]
    """Runs of each block of the device that may have ended then, at most."""


def idle_bound(finite: FiniteProblem) -> int:
    """Work, and idle time at both ends of it, fit into no shorter span.

    A path leads from the device's first start to the first run of block b, say from the first forward pass through all
    later stages to the first gradient. Whatever the device runs meanwhile it must have memory for, so that it idles for
    the rest of that time. The same is true in reversed time, from the last run of block c to the device's last end:
    what is left to do then is what the memory held. Where not all runs of c can have ended before b runs for the
    first time, the two waits do not overlap, and the device's span is at least its work and both idle times.
    """
    if len(finite.times) > MOST_BLOCKS:
        return 0
    best = 0
    for d, blocks in enumerate(finite.on_device):
        filling, draining = _waits(finite, d), _waits(finite.backwards, d)
        idle = max((wait.idle for wait in (*filling.values(), *draining.values())), default=0)
        for wait in filling.values():
            for c, rest in draining.items():
                if wait.ended[blocks.index(c)] < finite.batches:
                    idle = max(idle, wait.idle + rest.idle)
        best = max(best, finite.batches * finite.loads[d] + idle)
    return best


def _waits(finite: FiniteProblem, d: int) -> dict[int, Wait]:
    """By block, where anything is known."""
    blocks = finite.on_device[d]
    first = only_first(finite, blocks)
    found = {}
    for b in blocks if first is not None else ():
        counts = counts_before(finite, d, b) if b != first else []
        if first is not None and counts:
            most = max(work_of(finite, d, chosen) for chosen in counts)
            ended = tuple(map(max, zip(*counts, strict=True)))
            found[b] = Wait(max(0, finite.distances(first)[b] - most), ended)
    return found
