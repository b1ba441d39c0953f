"""Bounds on the period that need no solver: what it cannot fall below, and what it need not exceed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from ...instances.base.amounts import as_written, exact_sum
from ...instances.chain.problem import ChainProblem
from ..least_periods import float_below
from .draft import edge_is_cut, link_of


def lower_bound(problem: ChainProblem) -> float:
    """No pattern has a shorter period per batch: loads of GPUs, and Little's law over all of them together."""
    loads = sorted((as_written(f) + as_written(b) for f, b in zip(problem.forward, problem.backward, strict=True)))
    gpus = min(problem.gpus, problem.layers)
    bounds = [loads[-1], sum(loads, Fraction(0)) / gpus]
    if problem.layers > gpus:
        bounds.append(loads[-gpus] + loads[-gpus - 1])  # two of the largest P + 1 share a GPU
    area = _area_bound(problem, gpus)
    if area is not None:
        bounds.append(area)
    return float_below(max(bounds))


def lower_bound_of(problem: ChainProblem, allocation: Sequence[int] | None) -> float:
    """A lower bound on the period of an allocation that is given, so that its loads are known."""
    bound = lower_bound(problem)
    return bound if allocation is None else max(bound, float_below(load_bound(problem, allocation)))


def sequential_period(problem: ChainProblem) -> Fraction:
    """One batch at a time, with all transfers: if this needs too much memory, every pattern does."""
    return exact_sum((*problem.durations, *problem.edge_times))


def lives(problem: ChainProblem) -> list[Fraction]:
    """Least time from the start of the forward task to the end of the backward task of each layer."""
    times = [as_written(time) for time in problem.durations]
    return [sum(times[layer : problem.tasks - layer], Fraction(0)) for layer in range(problem.layers)]


def areas(problem: ChainProblem, sizes: Sequence[Fraction]) -> list[Fraction]:
    """Lower bounds on the product of memory and time that each layer occupies for one batch, beside weights and
    slots.

    `sizes`: a_0..a_2L as they count in the memory mode, in whatever unit.
    """
    areas = []
    for layer, life in enumerate(lives(problem)):
        area = sizes[layer] * life
        if problem.memory_mode != "inputs":
            last = problem.tasks - 1 - layer
            area += sizes[layer + 1] * as_written(problem.forward[layer])
            area += (sizes[last] + sizes[last + 1]) * as_written(problem.backward[layer])
        areas.append(area)
    return areas


def _area_bound(problem: ChainProblem, gpus: int) -> Fraction | None:
    """Lower bound by Little's law: bytes that are held on average, over all GPUs, fit beside the weights."""
    if problem.memory_bytes is None or not math.isfinite(problem.memory_bytes):
        return None
    room = gpus * as_written(problem.memory_bytes) - sum(problem.held_weights)
    return sum(areas(problem, problem.held_activations), Fraction(0)) / room if room > 0 else None


def load_bound(problem: ChainProblem, allocation: Sequence[int]) -> Fraction:
    """The largest load of a GPU or link: no schedule of this allocation has a shorter period per batch."""
    loads: dict[tuple[int, ...], Fraction] = {}
    for task, time in enumerate(problem.durations):
        here = (allocation[problem.layer_of[task]],)
        loads[here] = loads.get(here, Fraction(0)) + as_written(time)
    for edge in problem.remote_edges:
        if edge_is_cut(problem, allocation, edge):
            link = link_of(problem, allocation, edge)
            loads[link] = loads.get(link, Fraction(0)) + as_written(problem.edge_times[edge - 1])
    return max(loads.values())
