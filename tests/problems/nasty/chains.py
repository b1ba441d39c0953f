"""Chains whose times are few, and whose memory is met exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

from pipeplan.instances.base.amounts import as_written, exact_sum
from pipeplan.instances.chain.problem import ChainProblem

from .amounts import SIZES, Numbers, limit_at


def chain(rng: random.Random) -> ChainProblem:
    """Two or three different times, so that few instants matter; times of a sentinel's size among them."""
    layers = rng.choice((1, 2, 2, 3))
    palette = rng.choice(
        ((1.0, 2.0), (1.0, 2.0, 3.0), (0.1, 0.2), (0.1, 0.2, 0.3), (1e-9, 1.0), (1.0, 1e9), (0.7,))
    )

    def times(count: int, zeros: float) -> tuple[float, ...]:
        return tuple(0.0 if rng.random() < zeros else rng.choice(palette) for _ in range(count))

    sizes = Numbers(rng, SIZES, 0.2)
    forward, backward = times(layers, 0.2), times(layers, 0.2)
    if not any((*forward, *backward)):
        backward = (*backward[:-1], palette[0])
    moved = rng.random()
    problem = ChainProblem(
        forward,
        backward,
        activations=tuple(sizes() for _ in range(2 * layers + 1)),
        weights=tuple(sizes() for _ in range(layers)),
        gpus=rng.choice((1, 2, 2, 2, 3)),
        transfer_times=times(2 * layers - 1, 0.5) if moved < 0.5 else None,
        duplex=rng.choice(("half", "full")),
        weight_copies=rng.choice((1.0, 3.0, 2.5, 0.1)),
        memory_mode=rng.choice(("reserved", "inputs", "weights")),
    )
    return problem.replace(memory_bytes=limit_at(rng, _chain_sums(rng, problem)))


def _chain_sums(rng: random.Random, problem: ChainProblem) -> Iterator[Fraction]:
    """Weights of some layers with one to three copies of some of their activations."""
    for _ in range(8):
        held = rng.sample(range(problem.layers), rng.randint(1, problem.layers))
        weights = as_written(problem.weight_copies) * exact_sum(problem.weights[layer] for layer in held)
        kept = exact_sum(rng.randint(1, 3) * as_written(problem.activations[layer]) for layer in held)
        extra = exact_sum(rng.sample(problem.activations, rng.randint(0, 2)))
        yield weights + kept + (extra if problem.memory_mode == "reserved" else 0)


def whole_chain(seed: int, batches: int = 1) -> ChainProblem:
    """In whole numbers: short times, many of them 0, empty tensors, mostly with so little memory that it decides.

    Small enough for the enumeration of all instants, `batches` of them in a period.
    """
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
        name=f"whole {seed}",
        time_unit=None,
    )
