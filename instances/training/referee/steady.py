"""Iterations of many micro-batches: those in the middle are counted, not listed.

An order of passes repeats itself from the warm-up to the last micro-batches. There the ends of passes follow from those
of the last few micro-batches by sums and maxima alone: if all of them are a time t later, so are all later ones. Thus,
where all passes of a window as long as what is waited for end t later than those `lag` micro-batches before, every
`lag` micro-batches that are added take t. Where they differ by a share of at most `STEADY`, so does what is added.

Under GPipe nothing but the first backward pass waits for a later rank, and ranks have paces of their own. There a row
of passes takes its sum, and every further micro-batch the longest of them.
"""

from __future__ import annotations

from collections.abc import Callable

from ...timeline.engine import run
from ...timeline.model import Pipeline, Simulation, check_tasks

# Of more than LISTED micro-batches for each rank so many are listed, and the pace is that of LAG for each rank, in
# a window of WINDOW for each rank, which is as far from the last micro-batch. Every order looks back fewer.
LISTED, LAG, WINDOW = 60, 12, 8
# Relative; sums of doubles in another order differ by less.
STEADY = 1e-11


def listed_for_memory(schedule: str, ranks: int, micro_batches: int) -> tuple[int, int]:
    """Of how many micro-batches the passes show the fullest moment, and how many more are kept at that moment."""
    listed = min(micro_batches, LISTED * ranks)
    return listed, micro_batches - listed if schedule == "gpipe" else 0


def ends_of_ranks(pipeline_of: Callable[[int], Pipeline], ranks: int, micro_batches: int) -> list[float]:
    """When each rank has run its last pass. `pipeline_of` lists so many micro-batches: more of them, up to all, until
    those that are left out are in the steady state."""
    lag, least = LAG * ranks, LISTED * ranks
    while True:
        listed = micro_batches if least >= micro_batches else least + (micro_batches - least) % lag
        pipeline = pipeline_of(listed)
        if least > LISTED * ranks:
            check_tasks([listed] * len(pipeline.stages))
        simulation = run(pipeline)
        pace = 0.0 if listed == micro_batches else pace_of(simulation, ranks)
        if pace is not None:
            break
        least *= 4
    added = (micro_batches - listed) // lag * pace
    ends = [max(task.end for task in stage.tasks) for stage in simulation.stages]
    return [max(ends[x] for x in {x for x, _ in order}) + added for order in pipeline.shared]


def pace_of(simulation: Simulation, ranks: int) -> float | None:
    """Seconds of LAG micro-batches for each rank; None: the passes have not found their pace."""
    lag, window = LAG * ranks, WINDOW * ranks
    moved = []
    for stage in simulation.stages:
        for kind in ("forward", "backward"):
            ends = [task.end for task in stage.tasks if task.kind == kind]
            middle = range(len(ends) - 2 * window, len(ends) - window) if ends else ()
            moved += [ends[n] - ends[n - lag] for n in middle]
    return min(moved) if max(moved) - min(moved) <= STEADY * min(moved) else None


def ends_of_gpipe(times: list[tuple[float, float]], delays: tuple[float, ...], micro_batches: int) -> list[float]:
    """When each rank has run its last pass under GPipe; `times`: of a forward and a backward pass."""
    forward, backward = zip(*times, strict=True)
    more, ranks = micro_batches - 1, range(len(times))
    down = [sum(forward[: k + 1]) + sum(delays[:k]) + more * max(forward[: k + 1]) for k in ranks]
    return [
        max(
            down[last] + sum(backward[k : last + 1]) + sum(delays[k:last]) + more * max(backward[k : last + 1])
            for last in ranks[k:]
        )
        for k in ranks
    ]
