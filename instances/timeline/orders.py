"""In which order a stage runs its passes: +j is the forward pass of micro-batch j, -j its backward pass."""

from __future__ import annotations

from functools import lru_cache

from ..base.errors import unknown_choice

Order = tuple[int, ...]

# As the plan says (1F1B where it says nothing); one forward, one backward; all forward, then all backward.
SCHEDULES = ("planned", "1f1b", "gpipe")


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
    """The schedule, where there is one of that name."""
    if schedule not in SCHEDULES:
        raise unknown_choice("The schedule", schedule, SCHEDULES)
    return schedule
