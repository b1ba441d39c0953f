"""What is wrong with a schedule, rule by rule, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ...base.amounts import as_written, in_digits
from ...base.errors import Violation, show
from ...base.quantities import BYTE_NAMES, of_limit
from ..plan import AnySchedule
from ..problem import ScheduleProblem
from .memory import emptiest, fullest
from .unrolled import MOST_TOLD, Unrolled, shape_faults, unroll


def verify_schedule(problem: ScheduleProblem, plan: AnySchedule) -> tuple[Violation, ...]:
    """Every broken rule (shape, precedence, exclusive, memory); an empty tuple is a valid plan.

    A periodic schedule is judged from its first micro-batch on until everything repeats, and as it drains.
    """
    faults = tuple(Violation("shape", fault) for fault in islice(shape_faults(problem, plan), MOST_TOLD))
    if faults:
        return faults
    unrolled = unroll(problem, plan)
    violations = [*islice(_precedence(unrolled), MOST_TOLD), *islice(_exclusive(unrolled), MOST_TOLD)]
    return (*violations, *_memory(unrolled))


def _precedence(unrolled: Unrolled) -> Iterator[Violation]:
    """Every broken edge once, by the first micro-batch that breaks it."""
    problem = unrolled.problem
    for edge, (i, j), lag in zip(problem.edges, problem.ends, unrolled.lags, strict=True):
        for n in range(unrolled.micro_batches - edge.offset):
            ready = unrolled.starts[i][n] + unrolled.times[i] + lag
            start = unrolled.starts[j][n + edge.offset]
            if start < ready:
                after = f" and a lag of {unrolled.text(lag)} has passed" if lag else ""
                yield Violation(
                    "precedence",
                    f"Block {_named(unrolled, j, n + edge.offset)} starts at {unrolled.text(start)}, "
                    f"{unrolled.text(ready - start)} before block {_named(unrolled, i, n)} has ended{after}.",
                )
                break
        if unrolled.period is not None and edge.offset >= unrolled.micro_batches:
            yield from _far_precedence(unrolled, edge.offset, i, j, lag)


def _far_precedence(unrolled: Unrolled, offset: int, i: int, j: int, lag: int) -> Iterator[Violation]:
    """A violation where a run of a periodic schedule waits for a micro-batch that is too far away to be laid out."""
    assert unrolled.period is not None
    ready = unrolled.starts[i][0] + unrolled.times[i] + lag
    start = unrolled.starts[j][0] + offset * unrolled.period
    if start < ready:
        names = _named(unrolled, j, offset), _named(unrolled, i, 0)
        yield Violation("precedence", f"Block {names[0]} starts before block {names[1]} has ended.")


def _named(unrolled: Unrolled, block: int, micro_batch: int) -> str:
    return f"{show(unrolled.problem.blocks[block].id)} of micro-batch {micro_batch}"


def _exclusive(unrolled: Unrolled) -> Iterator[Violation]:
    """Two blocks of one device do not overlap, and what takes no time does not happen inside of another block."""
    for device, blocks in enumerate(unrolled.problem.on_device):
        told: set[tuple[int, int]] = set()
        running: tuple[int, int, int] | None = None
        """(end, block, micro-batch) of what ends last so far."""
        for start, length, n, b in sorted(_runs(unrolled, blocks)):
            if (
                running is not None
                and start < running[0]
                and (length or start > unrolled.starts[running[1]][running[2]])
            ):
                pair = (running[1], b)
                if pair not in told:
                    told.add(pair)
                    yield _overlap(unrolled, device, running, (start, b, n))
            if length and (running is None or start + length > running[0]):
                running = (start + length, b, n)


def _runs(unrolled: Unrolled, blocks: tuple[int, ...]) -> Iterator[tuple[int, int, int, int]]:
    """(start, length, micro-batch, block); at one instant what takes no time comes first."""
    for b in blocks:
        for n, start in enumerate(unrolled.starts[b]):
            yield start, unrolled.times[b], n, b


def _overlap(
    unrolled: Unrolled, device: int, running: tuple[int, int, int], other: tuple[int, int, int]
) -> Violation:
    end, first, n = running
    start, second, k = other
    return Violation(
        "exclusive",
        f"On {show(unrolled.problem.devices[device].name)} block {_named(unrolled, second, k)} starts at "
        f"{unrolled.text(start)}, {unrolled.text(end - start)} before block {_named(unrolled, first, n)} ends.",
    )


def _memory(unrolled: Unrolled) -> Iterator[Violation]:
    """No device holds more than its memory, and none gives back more than it has."""
    problem = unrolled.problem
    for d, device in enumerate(problem.devices):
        standing, most, least = as_written(device.standing), fullest(unrolled, d), emptiest(unrolled, d)
        amount = standing + most.amount
        if device.memory is not None and amount > as_written(device.memory):
            in_bytes = problem.memory_unit in BYTE_NAMES
            multiples = of_limit(float(amount), float(device.memory)) if in_bytes else ""
            yield Violation(
                "memory",
                f"{show(device.name)} holds {problem.in_memory_unit(amount)} at {unrolled.text(most.time)}, when block "
                f"{_named(unrolled, most.block, most.micro_batch)} starts: "
                f"{in_digits(amount - as_written(device.memory))} more than its memory of "
                f"{problem.in_memory_unit(device.memory)}{multiples}.",
            )
        if standing + least.changes < 0:
            yield Violation(
                "memory",
                f"{show(device.name)} has given back {problem.in_memory_unit(-standing - least.changes)} more than it "
                f"ever held at {unrolled.text(least.time)}, when block "
                f"{_named(unrolled, least.block, least.micro_batch)} ends.",
            )
