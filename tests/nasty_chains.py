"""Small random chains at the edges: tasks and transfers that take no time, empty tensors, memory that just fits."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

from pipeplan.instances.amounts import as_written
from pipeplan.instances.chain import ChainProblem


def nasty_chain(seed: int, batches: int = 1) -> ChainProblem:
    """One to three layers with short whole times, many of them 0; mostly with so little memory that it decides."""
    draw = random.Random(seed)
    layers = draw.choice((1, 2, 2, 3)) if batches == 1 else draw.choice((1, 2))
    longest = 2 if layers < 3 else 1
    times: tuple[int, ...] = ()
    while not any(times):
        times = tuple(draw.choice((0, 0, 1, longest)) for _ in range(2 * layers))
    return ChainProblem(
        forward=times[:layers],
        backward=times[layers:],
        activations=tuple(draw.randint(0, 3) for _ in range(2 * layers + 1)),
        weights=tuple(draw.randint(0, 1) for _ in range(layers)),
        gpus=draw.choice((1, 2, 2)),
        memory_bytes=draw.randint(0, 9) if draw.random() < 0.95 else None,
        transfer_times=tuple(draw.choice((0, 0, 1)) for _ in range(2 * layers - 1)),
        duplex=draw.choice(("half", "full")),
        weight_copies=1,
        memory_mode=draw.choice(("reserved", "inputs", "reserved", "weights")),
        exclusive_buffers=batches == 1 and draw.random() < 0.25,
        name=f"nasty-{seed}",
        time_unit=None,
    )


def in_units(problem: ChainProblem, time: str, size: str) -> ChainProblem:
    """The same problem in other units: every time and every size multiplied, as decimals."""

    def times(values: tuple[float, ...], factor: str) -> tuple[float, ...]:
        return tuple(float(as_written(value) * Fraction(factor)) for value in values)

    changes: dict[str, Any] = {}
    if problem.memory_bytes is not None:
        changes["memory_bytes"] = float(as_written(problem.memory_bytes) * Fraction(size))
    return problem.replace(
        forward=times(problem.forward, time),
        backward=times(problem.backward, time),
        bandwidth=None,
        transfer_times=times(problem.edge_times, time),
        activations=times(problem.activations, size),
        weights=times(problem.weights, size),
        **changes,
    )
