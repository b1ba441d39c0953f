"""What is known of a chain without a solver: bounds on the period, the grids of models in whole numbers, what models
ask of a problem, and for which patterns proofs hold.

Of whole times the periods that can be optimal are fractions with small denominators (`formulations/timetable.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...instances.base.amounts import as_written, exact_sum
from ...instances.base.errors import InputError
from ...instances.base.quantities import several
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ..contract import check_type
from ..family import Family, Outside
from ..timetable import float_below, largest_fraction, unit_of_times
from .draft import edge_is_cut, link_of


def lower_bound(problem: ChainProblem) -> float:
    """No pattern has a shorter period per batch: loads of GPUs, and Little's law over all of them together."""
    loads = sorted((as_written(f) + as_written(b) for f, b in zip(problem.forward, problem.backward, strict=True)))
    gpus = min(problem.gpus, problem.layers)
    bounds = [loads[-1], sum(loads, Fraction(0)) / gpus]
    if problem.layers > gpus:
        bounds.append(loads[-gpus] + loads[-gpus - 1])  # two of the largest P + 1 share a GPU
    if problem.memory_bytes is not None and math.isfinite(problem.memory_bytes):
        # By Little's law: bytes that are held on average, over all GPUs, fit beside the weights.
        room = gpus * as_written(problem.memory_bytes) - sum(problem.held_weights)
        if room > 0:
            bounds.append(sum(areas(problem, problem.held_activations), Fraction(0)) / room)
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


# Relative part of the period that a grid for arbitrary numbers may cost.
FINE = Fraction(1, 10**7)

# Upper bound on the periods by which one activity lags behind the previous one of its batch.
STAGES = 2


@dataclass(frozen=True, slots=True)
class Grid:
    """Steps per time unit, and the longest period in steps that a model needs to consider.

    `loss`: by how many steps the shortest period on the grid can exceed the true one.
    """

    steps: Fraction
    ceiling: int
    loss: Fraction
    exact: bool
    """Are all times whole numbers of steps?"""


def unit_of(problem: ChainProblem) -> Fraction | None:
    """The largest unit of which all times are whole multiples; None where there are too many units."""
    return unit_of_times(as_written(time) for time in (*problem.durations, *problem.edge_times))


def most_periods(problem: ChainProblem, batches: int = 1) -> int:
    """Upper bound on the number of periods that a simple cycle of waits spans."""
    return STAGES * batches * (problem.tasks + len(problem.remote_edges))


def grid_below(problem: ChainProblem, longest: Fraction, cutoff: Fraction | None, batches: int = 1) -> Grid:
    """The grid for periods up to a cut-off, or up to `longest` where there is none."""
    unit = unit_of(problem)
    most = most_periods(problem, batches)
    if unit is None:
        goal = longest if cutoff is None else min(longest, cutoff)
        steps = Fraction(most) / (goal * FINE)
        return Grid(steps, math.ceil(goal * steps), Fraction(1), exact=False)
    if cutoff is None or cutoff >= longest:
        return Grid(1 / unit, math.ceil(longest / unit), 1 - Fraction(1, most), exact=True)
    candidate = largest_fraction(cutoff / unit, most)
    denominator = candidate.denominator
    return Grid(denominator / unit, candidate.numerator, 1 - Fraction(1, most), exact=True)


def check_chain(problem: ChainProblem, name: str) -> None:
    """Raise where the problem is no chain, or counts memory in a way that no linear model follows."""
    check_type(name, problem, ChainProblem)
    if not any(problem.durations):
        raise InputError("forward", "and backward are all 0", "give at least one task a time")
    if problem.memory_mode == "strict":
        raise InputError(
            "memory_mode",
            f'is "strict", for which {name} has no model',
            'give "reserved"; the referee recomputes the memory of its plans in either mode',
        )


# The most batches per period that `cp-beaumont` takes.
MOST_BATCHES = 16

PRINTED = Family(
    "the paper's program as printed, whose plans are not those of the problem", "--option variant=corrected"
)


def family(problem: ChainProblem, options: Mapping[str, Any]) -> Family:
    """The patterns for which bounds hold. Without a memory limit no number of batches per period beats one batch."""
    if options.get("variant") == "printed":
        return PRINTED
    given = options.get("allocation") is not None
    of = " of the given allocation" if given else ""
    free = "no --option allocation" if given else None
    if loads_decide(problem):
        return Family(f"all periodic patterns{of}", free)
    batches = options.get("batches_per_period", 1)
    scope = f"patterns of {_counted(batches)} per period{of}"
    wider = [free, _asking(problem, 2 * batches)]

    def outside(plan: PatternPlan) -> Outside | None:
        """A pattern is in the family if it is one of `batches` per period when repeated; else it is outside."""
        own = plan.batches_per_period
        if batches % own == 0:
            return None
        return Outside(f"{_counted(own)} per period", _asking(problem, math.lcm(own, batches)))

    return Family(scope, " or ".join(filter(None, wider)) or None, outside)


def loads_decide(problem: ChainProblem) -> bool:
    """Does every allocation reach its largest load?"""
    return problem.memory_bytes is None and not problem.exclusive_buffers


def _counted(batches: int) -> str:
    return "one batch" if batches == 1 else several(batches, "batch")


def _asking(problem: ChainProblem, batches: int) -> str | None:
    if batches > MOST_BATCHES or problem.exclusive_buffers:
        return None
    return f"--formulation cp-beaumont --option batches-per-period={batches}"
