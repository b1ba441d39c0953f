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

from ...instances.base.amounts import as_written, common_unit
from ...instances.base.errors import show
from ...instances.base.quantities import BYTE_NAMES
from ...instances.least_memory import BYTES
from ...instances.schedule.kind_functions import held, holders, with_memory
from ...instances.schedule.plan import AnySchedule
from ...instances.schedule.problem import ScheduleProblem
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
        for b in problem.on_device[d]
        if (needed := _needs(problem, b, d)) > as_written(device.memory)
    )
    return (*islice(small, 1), *(would_do(problem, options, limits) if proven else ()))


def _needs(problem: ScheduleProblem, b: int, d: int) -> Fraction:
    """What a block takes and works with on a device, with what stands there unless blocks may give that back first."""
    device, block = problem.devices[d], problem.blocks[b]
    standing = as_written(device.standing) if takes_first(problem, d) else Fraction(0)
    taken = max(Fraction(0), as_written(block.memory.get(device.name, 0)))
    return standing + taken + as_written(block.workspace.get(device.name, 0))


def _amounts(problem: ScheduleProblem) -> Iterator[Fraction]:
    yield from (as_written(device.standing) for device in problem.devices)
    for block in problem.blocks:
        yield from (as_written(amount) for amount in (*block.memory.values(), *block.workspace.values()))


def _floor(problem: ScheduleProblem) -> Floor:
    """What stands on a device, and the block that takes most there; where something is given back before it is taken,
    the block alone."""
    best, holding = Floor(Fraction(0), "nothing is held"), holders(problem)
    for d, device in enumerate(problem.devices):
        for b in problem.on_device[d] if device.name in holding else ():
            needed = _needs(problem, b, d)
            if needed > best.amount:
                best = Floor(needed, f"block {show(problem.blocks[b].id)} on {show(device.name)} alone")
        if device.name in holding and device.standing > best.amount:
            best = Floor(as_written(device.standing), f"what stands on {show(device.name)}")
    return best


def takes_first(problem: ScheduleProblem, device: int) -> bool:
    """Is all that blocks give back on the device sure to have been taken by blocks that they wait for?

    What is given back is charged to blocks on the way to it, those first that the fewest others may be charged to. That
    may miss a way to charge all of it, but never finds one that there is not.
    """
    name = problem.devices[device].name
    changes = {b: as_written(problem.blocks[b].memory.get(name, 0)) for b in problem.on_device[device]}
    left = {b: change for b, change in changes.items() if change > 0}
    # For each block, the takers that it waits for within its micro-batch, itself included.
    before: dict[int, list[int]] = {b: [] for b in problem.order}
    for (i, j), edge in zip(problem.ends, problem.edges, strict=True):
        if not edge.offset:
            before[j].append(i)
    takers: dict[int, frozenset[int]] = {}
    for b in problem.order:
        takers[b] = frozenset({b} & left.keys()).union(*(takers[i] for i in before[b]))
    giving = [b for b in problem.order if changes.get(b, 0) < 0]
    claims = {taker: sum(taker in takers[b] for b in giving) for taker in left}
    for b in giving:
        owed = -changes[b]
        for taker in sorted(takers[b], key=lambda taker: (claims[taker], taker)):
            paid = min(owed, left[taker])
            left[taker] -= paid
            owed -= paid
        if owed:
            return False
    return True


def _ask(
    problem: ScheduleProblem, options: Mapping[str, Any], memory: float | None, limits: SolveOptions
) -> Answer:
    limited = with_memory(problem, memory)
    whole = in_whole_numbers(limited)
    order = order_alone(whole)
    if isinstance(order, bool):
        return Answer(none=not order and all(takes_first(problem, d) for d in range(len(problem.devices))))
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
