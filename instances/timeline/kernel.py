"""The event simulation as arrays, in plain Python that numba understands: ends of passes alone, for long iterations."""

from __future__ import annotations

from typing import Any


def run_passes(
    home: Any,
    begin: Any,
    order: Any,
    size: Any,
    replicas: Any,
    durations: Any,
    first_pass: Any,
    reads: tuple[Any, Any, Any],
    reads_back: tuple[Any, Any, Any],
    ends: Any,
) -> bool:
    """Fill `ends[0]` (forward) and `ends[1]` (backward), where -1 says not yet; False: the workers wait for each other.

    Worker w runs order[begin[w] : begin[w + 1]] for stage home[w]. The end of micro-batch j of stage x stands at
    first_pass[x] + j - 1. `reads`: for each stage, where its entries begin, the stages that it reads, and the delays.
    """
    workers = len(home)
    position = begin[:-1].copy()
    clock = ends[0, :1].repeat(workers) * 0.0
    left = len(order)
    while left:
        before = left
        # Down the pipeline and up again: forward passes follow one another in one direction, backward in the other.
        for step in range(2 * workers):
            w = step if step < workers else 2 * workers - 1 - step
            x = home[w]
            while position[w] < begin[w + 1]:
                j = order[position[w]]
                start = _start(x, j, clock[w], size, replicas, first_pass, reads, reads_back, ends)
                if start < 0:
                    break
                side = 0 if j > 0 else 1
                clock[w] = start + durations[side, x]
                ends[side, first_pass[x] + abs(j) - 1] = clock[w]
                position[w] += 1
                left -= 1
        if left == before:
            return False
    return True


def _start(
    x: int,
    signed: int,
    clock: float,
    size: Any,
    replicas: Any,
    first_pass: Any,
    reads: tuple[Any, Any, Any],
    reads_back: tuple[Any, Any, Any],
    ends: Any,
) -> float:
    """When a pass can start; -1: something that it reads has not run."""
    start = clock
    j, side, table = signed, 0, reads
    if signed < 0:
        j, side, table = -signed, 1, reads_back
        own = ends[0, first_pass[x] + j - 1]
        if own < 0:
            return -1.0
        start = max(start, own)
    offsets, others, delays = table
    for e in range(offsets[x], offsets[x + 1]):
        y = others[e]
        last = -(-j * size[x] // size[y])
        first = max((j - 1) * size[x] // size[y] + 1, last - replicas[y] + 1)
        for i in range(first, last + 1):
            end = ends[side, first_pass[y] + i - 1]
            if end < 0:
                return -1.0
            start = max(start, end + delays[e])
    return start
