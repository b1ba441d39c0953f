"""What a device of a stage holds, exactly, and the words for too much of it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from ...base.amounts import as_written, in_digits
from ...base.errors import Violation
from ...base.quantities import of_limit, several
from ...physics.optimizers import GATHERED_UNITS
from ..problem import Configuration, StagingProblem


def held_bytes(
    problem: StagingProblem, ways: Iterable[Configuration], tensor_parallel: int, copies: int, in_flight: int
) -> Fraction:
    """What a device of a stage in so many copies holds, exactly."""
    held = sum((way.memory_bytes(in_flight, copies) for way in ways), Fraction(0))
    return held + gathered_bytes(problem, tensor_parallel, copies)


def gathered_bytes(problem: StagingProblem, tensor_parallel: int, copies: int) -> Fraction:
    """Room for weights that the copies divide and gather to run a layer: as much as the model's largest layer needs."""
    if problem.zero < 3 or copies == 1:
        return Fraction(0)
    ways = [way for layer in problem.layers for way in layer.configurations.get(tensor_parallel, ())]
    return GATHERED_UNITS * max((as_written(way.weight_bytes) for way in ways), default=Fraction(0))


def too_many_bytes(where: str, held: Fraction, in_flight: int, limit: float) -> Violation:
    """A violation that names the bytes in all digits: a byte too much is too much."""
    more = held - as_written(limit)
    return Violation(
        "memory",
        f"A device of {where} holds {in_digits(held)} bytes with {several(in_flight, 'micro-batch')} in flight, "
        f"{in_digits(more)} more than its memory of {in_digits(limit)} bytes{of_limit(float(held), limit)}.",
    )
