"""What a period cannot fall below, and what it need not exceed, without any solver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from ...instances.chain import ChainProblem
from .decimals import decimal
from .given_allocation import load_bound


def lower_bound(problem: ChainProblem) -> float:
    """No pattern has a shorter period per batch: loads of GPUs, and Little's law over all of them together."""
    loads = sorted((decimal(f) + decimal(b) for f, b in zip(problem.forward, problem.backward, strict=True)))
    gpus = min(problem.gpus, problem.layers)
    bounds = [loads[-1], sum(loads, Fraction(0)) / gpus]
    if problem.layers > gpus:
        bounds.append(loads[-gpus] + loads[-gpus - 1])  # two of the largest P + 1 share a GPU
    area = _area_bound(problem, gpus)
    if area is not None:
        bounds.append(area)
    return _below(max(bounds))


def lower_bound_of(problem: ChainProblem, allocation: Sequence[int] | None) -> float:
    """The same for a given allocation, whose loads are known."""
    bound = lower_bound(problem)
    return bound if allocation is None else max(bound, _below(load_bound(problem, allocation)))


def _below(bound: Fraction) -> float:
    nearest = float(bound)
    return nearest if Fraction(nearest) <= bound else math.nextafter(nearest, 0.0)


def sequential_period(problem: ChainProblem) -> Fraction:
    """One batch at a time, with all transfers: if this needs too much memory, every pattern does."""
    times = (*problem.durations, *problem.edge_times)
    return sum((decimal(time) for time in times), Fraction(0))


def lives(problem: ChainProblem) -> list[Fraction]:
    """From the start of the forward to the end of the backward task of each layer, at least."""
    times = [decimal(time) for time in problem.durations]
    return [sum(times[layer : problem.tasks - layer], Fraction(0)) for layer in range(problem.layers)]


def areas(problem: ChainProblem) -> list[Fraction]:
    """Bytes times time that each layer occupies for one batch, beside weights and slots; at least."""
    if problem.memory_mode == "weights":
        return [Fraction(0)] * problem.layers
    sizes = [decimal(size) for size in problem.activations]
    found = []
    for layer, life in enumerate(lives(problem)):
        area = sizes[layer] * life
        if problem.memory_mode != "inputs":
            last = problem.tasks - 1 - layer
            area += sizes[layer + 1] * decimal(problem.forward[layer])
            area += (sizes[last] + sizes[last + 1]) * decimal(problem.backward[layer])
        found.append(area)
    return found


def _area_bound(problem: ChainProblem, gpus: int) -> Fraction | None:
    """Little's law: bytes that are held on average, over all GPUs, fit beside the weights."""
    if problem.memory_bytes is None or not math.isfinite(problem.memory_bytes):
        return None
    weights = decimal(problem.weight_copies) * sum((decimal(weight) for weight in problem.weights), Fraction(0))
    room = gpus * decimal(problem.memory_bytes) - weights
    return sum(areas(problem), Fraction(0)) / room if room > 0 else None
