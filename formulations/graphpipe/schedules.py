"""Schedules of stages: micro-batches of b samples, k passes of a kind in a row, and what must be in flight.

Written from the definition of the problem; shares no arithmetic with the planner that it checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...instances.base.errors import InputError
from ...instances.graph_pipeline.problem import GraphPipelineProblem, micro_batch_sizes

# (b, k): samples of a micro-batch, and passes of a kind in a row.
Schedule = tuple[int, int]


def sizes(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> tuple[int, ...]:
    """The micro-batch sizes to choose from: the given one, or the powers of two that divide the mini-batch."""
    return micro_batch_sizes(problem, options.get("micro_batch"), bool(options.get("mixed_micro_batches")))


def degrees(problem: GraphPipelineProblem, size: int, which: str = "divisors") -> tuple[int, ...]:
    """Numbers of devices over which a micro-batch is split."""
    most = 1 if which == "none" else min(size, problem.devices)
    divisors = (d for d in range(1, most + 1) if size % d == 0)
    return tuple(d for d in divisors if which != "pow2" or d.bit_count() == 1)


def useful_groups(chosen: Iterable[int], largest_k: int) -> dict[int, tuple[int, ...]]:
    """The k worth trying for each size: groups of more samples than the largest micro-batch M save no memory.

    Let every stage with k b > M take k = max(1, M / b) instead. In `extra` the difference of two groups does not grow
    when both are cut at M, nor does the need for a second buffer, and the last stages hold less; so by induction from
    the last stages no stage has to hold more. (Sizes are powers of two, or there is just one.) With one size for all
    stages k = 1 is therefore as good as any.
    """
    if largest_k < 1:
        raise InputError("option k", f"is {largest_k}", "give a whole number >= 1")
    chosen = tuple(chosen)
    ks = [1 << e for e in range(largest_k.bit_length())]
    return {b: tuple(k for k in ks if k == 1 or k * b <= max(chosen)) for b in chosen}


def extra(upper: Schedule, lower: Schedule) -> int:
    """Samples that a stage holds beyond what a stage after it holds."""
    (b, k), (next_b, next_k) = upper, lower
    wider, ahead = max(b, next_b), b * k - next_b * next_k
    second = wider < min(b * k, next_b * next_k)
    return wider * (1 + second) + max(0, ahead)


def held(own: Schedule, after: Iterable[tuple[Schedule, int]], mini_batch: int | None) -> int:
    """Samples that a stage holds before stages with these schedules and samples: whole micro-batches, at most
    `mini_batch`."""
    b, k = own
    need = max((samples + extra(own, schedule) for schedule, samples in after), default=b * k)
    whole = b * -(-need // b)
    return whole if mini_batch is None else min(mini_batch, whole)
