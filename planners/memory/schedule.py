"""How a schedule problem is asked for its least memory: micro-batch after micro-batch needs as little as any schedule.

Whoever runs the blocks of a schedule by their starts, but each micro-batch to its end before the next one, breaks no
edge and holds at every start no more than the schedule did, as far as nothing is given back before it is taken: what
the other micro-batches hold is left out. So there is a schedule within a memory exactly where a single micro-batch
passes alone, and whether one does is decided by a search over orders of its blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any

from ...formulations.zero_bubble.period_bounds import stashes_of
from ...instances.base.amounts import as_written, common_unit
from ...instances.base.errors import show
from ...instances.base.quantities import BYTE_NAMES
from ...instances.least_memory import BYTES
from ...instances.schedule.kind_functions import held, holders, with_memory
from ...instances.schedule.plan import AnySchedule
from ...instances.schedule.problem import Block, ScheduleProblem
from ...instances.schedule.referee import PERIOD, rules_of
from ..options import SolveOptions
from ..schedule.list_schedule import least_period, periodic_plan
from ..schedule.listing import WholeProblem, as_plan, in_whole_numbers, order_alone
from .smallest import Answer, Floor, Questions, accepted, would_do


def questions(problem: ScheduleProblem, options: Mapping[str, Any]) -> Questions:
    """The least memory that is enough if every device but links has the same."""
    ask = partial(_ask, problem, options)
    return Questions(
        unit=common_unit(_amounts(problem)) or Fraction(1),
        floor=_floor(problem),
        held=partial(held, problem, options=options),
        first=ask,
        rounds=(ask,),
        counted=BYTES if problem.memory_unit in BYTE_NAMES else problem.memory_unit or "units",
    )


def explain(
    problem: ScheduleProblem, options: Mapping[str, Any], limits: SolveOptions, proven: bool
) -> tuple[str, ...]:
    """A block that fits its device not even alone, and how much memory would do."""
    small = (
        f"block {show(problem.blocks[b].id)} alone needs {problem.in_memory_unit(needed)} of {show(device.name)}, "
        f"whose memory is {problem.in_memory_unit(device.memory)}"
        for d, device in enumerate(problem.devices)
        if device.memory is not None
        for b, needed in _needs(problem, d).items()
        if needed > as_written(device.memory)
    )
    return (*islice(small, 1), *(would_do(problem, options, limits) if proven else ()))


def _needs(problem: ScheduleProblem, d: int) -> dict[int, Fraction]:
    """What each block of a device takes and works with there, with what stands there unless blocks may give that back
    first."""
    device = problem.devices[d]
    standing = Fraction(0) if stashes_of(problem, d) is None else as_written(device.standing)

    def need(block: Block) -> Fraction:
        taken = max(Fraction(0), as_written(block.memory.get(device.name, 0)))
        return standing + taken + as_written(block.workspace.get(device.name, 0))

    return {b: need(problem.blocks[b]) for b in problem.on_device[d]}


def _amounts(problem: ScheduleProblem) -> Iterator[Fraction]:
    yield from (as_written(device.standing) for device in problem.devices)
    for block in problem.blocks:
        yield from (as_written(amount) for amount in (*block.memory.values(), *block.workspace.values()))


def _floor(problem: ScheduleProblem) -> Floor:
    """What stands on a device, and the block that takes most there; where something is given back before it is taken,
    the block alone."""
    best, holding = Floor(Fraction(0), "nothing is held"), holders(problem)
    for d, device in enumerate(problem.devices):
        for b, needed in _needs(problem, d).items() if device.name in holding else ():
            if needed > best.amount:
                best = Floor(needed, f"block {show(problem.blocks[b].id)} on {show(device.name)} alone")
        if device.name in holding and device.standing > best.amount:
            best = Floor(as_written(device.standing), f"what stands on {show(device.name)}")
    return best


def _ask(
    problem: ScheduleProblem, options: Mapping[str, Any], memory: float | None, limits: SolveOptions
) -> Answer:
    limited = with_memory(problem, memory)
    whole = in_whole_numbers(limited)
    order = order_alone(whole)
    if isinstance(order, bool):
        return Answer(none=not order and None not in (stashes_of(problem, d) for d in range(len(problem.devices))))
    return Answer(accepted(limited, one_after_another(whole, order, options), options))


def one_after_another(whole: WholeProblem, order: tuple[int, ...], options: Mapping[str, Any]) -> AnySchedule:
    """Blocks in this order, one at a time, and the next micro-batch when one has ended.

    A block without time keeps the next one waiting all the same: at one instant they would come in another order.
    """
    starts: list[list[int]] = [[] for _ in whole.times]
    now = ended = 0
    for n in range(whole.problem.micro_batches or 1):
        for b in order:
            waits = (starts[i][n - k] + whole.times[i] + lag for i, k, lag in whole.before[b] if k <= n)
            now = max([now, *waits])
            starts[b].append(now)
            now += whole.times[b] or whole.steps
        ended = ended or now
    if rules_of(whole.problem, options).objective != PERIOD:
        return as_plan(whole, starts)
    first = [row[0] for row in starts]
    return periodic_plan(whole, max(ended, least_period(whole, first)), first)
