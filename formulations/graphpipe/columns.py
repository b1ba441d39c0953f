"""Columns of the exact model: a set of operators on a number of devices with a schedule, and its time.

A schedule: micro-batches of b samples, k passes of a kind in a row, and what must be in flight. Written from the
definition of the problem; shares no arithmetic with the planner that it checks, and must not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...instances.base.amounts import as_written
from ...instances.base.errors import InputError, TooLargeError
from ...instances.graph_pipeline.problem import GraphPipelineProblem, micro_batch_sizes
from ...instances.physics.tolerances import SUM_ROUNDING

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
    """Samples that a stage holds beyond what a stage after it holds.

    The rows of `cp_model` and `held` ask for it between each two neighbouring stages, so that both change together.
    """
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


# Largest number of columns, each of which is a literal of the model.
MOST_COLUMNS = 400_000


@dataclass(frozen=True, slots=True)
class Column:
    """A possible stage: its operators, devices, micro-batch and k."""

    members: int
    """Bit set of operators."""
    devices: int
    micro_batch: int
    time: float
    """Time of one more sample on this stage."""
    most: int
    """Samples in flight, in whole micro-batches, for which the memory suffices; the mini-batch at most."""
    k: int = 1

    def highest(self, problem: GraphPipelineProblem) -> int:
        """The greatest height that the memory allows where all stages run 1F1B with micro-batches of this size.

        The height is the number of stages on the longest way to the end of the pipeline; a stage of height h holds h
        micro-batches in flight, the mini-batch at most.
        """
        return (
            problem.devices
            if self.most >= problem.mini_batch
            else min(problem.devices, self.most // self.micro_batch)
        )


def find_columns(
    problem: GraphPipelineProblem,
    sets: Iterable[int],
    sizes: Iterable[int],
    cutoff: float | None,
    which_degrees: str = "divisors",
    groups: Mapping[int, tuple[int, ...]] | None = None,
) -> list[Column]:
    """All columns that fit the memory and are no slower than the cut-off; `groups`: the k of each size, None for 1."""
    shares = [(b, d) for b in sizes for d in degrees(problem, b, which_degrees)]
    room, fixed, stashes = _memory(problem)
    facts_of_sets = [_Facts.of(problem, fixed, stashes, members) for members in sets]
    columns, batch = list[Column](), problem.mini_batch
    for b, d in shares:
        ks = (1,) if groups is None else groups[b]
        times = [x.forward(b / d) + x.backward(b / d) for x in problem.operators]
        for facts in facts_of_sets:
            most = _most(batch, facts, room, b, d)
            time = _time(problem, math.fsum(times[v] for v in facts.inside), facts, b, d)
            if cutoff is None or time <= cutoff * (1 + SUM_ROUNDING):
                columns += [Column(facts.members, d, b, time, most, k) for k in ks if min(b * k, batch) <= most]
        if len(columns) > MOST_COLUMNS:
            raise TooLargeError(
                "operators",
                f"form more than {MOST_COLUMNS} stages with devices and schedules",
                "give --micro-batch, --option degrees=none or a smaller --option k, or choose --planner graphpipe",
            )
    return columns


def _memory(problem: GraphPipelineProblem) -> tuple[int | None, list[int], list[int]]:
    """Memory of a device without its workspace (None: no limit), and by operator the bytes of weights on each device
    and those that all devices together hold for a sample: written amounts over their common denominator, which Python
    adds exactly."""
    if problem.memory_bytes is None:
        return None, [0] * len(problem.operators), [0] * len(problem.operators)
    fixed = [as_written(problem.weight_copies) * as_written(x.weight_bytes) for x in problem.operators]
    stashes = [as_written(x.stash_bytes) for x in problem.operators]
    room = as_written(problem.memory_bytes) - as_written(problem.workspace_bytes)
    unit = math.lcm(*(x.denominator for x in (*fixed, *stashes, room)))
    return int(room * unit), [int(x * unit) for x in fixed], [int(x * unit) for x in stashes]


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is true of a set of operators under every schedule."""

    members: int
    inside: list[int]
    weight: float
    crossing: list[float]
    """Bytes per sample of the tensors that enter or leave."""
    fixed: int
    """Whole units of memory that each device holds of weights."""
    stash: int
    """Whole units of memory that all devices together hold for a sample."""

    @classmethod
    def of(cls, problem: GraphPipelineProblem, fixed: list[int], stashes: list[int], members: int) -> _Facts:
        inside = [v for v in range(len(problem.operators)) if members >> v & 1]
        crossing = {u for u, v in problem.arcs if (members >> u & 1) != (members >> v & 1)}
        return cls(
            members,
            inside,
            math.fsum(problem.operators[v].weight_bytes for v in inside),
            [problem.operators[u].output_bytes for u in sorted(crossing)],
            sum(fixed[v] for v in inside),
            sum(stashes[v] for v in inside),
        )


def _time(problem: GraphPipelineProblem, work: float, facts: _Facts, b: int, d: int) -> float:
    """Time of one more sample: passes (`work`), transfers and synchronisation."""
    link = problem.boundary_link
    transfers = 2 * math.fsum(link.seconds(amount * b / d) for amount in facts.crossing)
    synchronised = 0.0 if d == 1 else problem.inner_link(d).seconds(2 * (d - 1) / d * facts.weight)
    return (work + transfers) / b + synchronised / problem.mini_batch


def _most(batch: int, facts: _Facts, memory: int | None, b: int, d: int) -> int:
    """Samples in flight for which the memory of all devices suffices."""
    if memory is None:
        return batch
    room = d * (memory - facts.fixed)
    if room < 0:
        return 0
    return batch if batch * facts.stash <= room else b * (room // (facts.stash * b))
