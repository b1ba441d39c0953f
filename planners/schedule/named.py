"""Schedules of pipelines as they are known by name: an order of passes for each device, at the earliest starts.

Every rule here is worked out from its published description, for `p` devices in a row with numbers from 0 and `m`
micro-batches. What a device holds at most follows from its order alone, so each rule says how many forward passes of
its stages are in flight at once, and what it needs of the memory with passes that take +2 (F), -1 (I), -1 (W).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...instances.base.amounts import in_digits
from ...instances.base.errors import UsageError, show
from ...instances.base.result import Stop
from ...instances.schedule.order import Deadlock, Run, earliest_starts
from ...instances.schedule.pipelines import LOOP, V_SHAPE
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import BlockEdge, ScheduleProblem
from ...instances.verdict import evaluation_of, violations_of
from ..contract import Outcome, Request
from .chain_shape import ChainShape, chain_shape

Pass = tuple[str, int, int]
"""F, B (the whole backward pass, in one piece or two), I or W; of which stage of the device; of which micro-batch."""

Rule = Callable[[int, int, int, int], Iterator[Pass]]
"""(device, devices, stages on each, micro-batches) -> its passes in order."""


# ---- one stage on each device --------------------------------------------------------------------------


def gpipe(rank: int, p: int, virtual: int, m: int) -> Iterator[Pass]:
    """All forward passes, then all backward passes (Huang et al., GPipe, 2019). m in flight on every device."""
    for kind in "FB":
        for n in range(m):
            yield kind, 0, n


def one_f_one_b(rank: int, p: int, virtual: int, m: int) -> Iterator[Pass]:
    """Forward passes until the first gradient can be there, then one backward and one forward pass in turn.

    Narayanan et al., PipeDream, 2019, with a flush at the end. p - rank in flight: 2p at most on the first device.
    The bubble of equal stages is (p - 1)(F + B).
    """
    warm_up = min(m, p - rank)
    for n in range(warm_up):
        yield "F", 0, n
    for n in range(m):
        yield "B", 0, n
        if warm_up + n < m:
            yield "F", 0, warm_up + n


def _zero_bubble(warm_up: int, behind: int, m: int) -> Iterator[Pass]:
    """Some forward passes, then I and F in turn; W follows its I at so many micro-batches' distance."""
    for n in range(min(warm_up, m)):
        yield "F", 0, n
    for n in range(m):
        yield "I", 0, n
        if n >= behind:
            yield "W", 0, n - behind
        if warm_up + n < m:
            yield "F", 0, warm_up + n
    for n in range(max(0, m - behind), m):
        yield "W", 0, n


def zb_h1(rank: int, p: int, virtual: int, m: int) -> Iterator[Pass]:
    """As many forward passes first as in 1F1B; device `rank` puts off that many passes for weights, for the end.

    Qi et al., Zero Bubble Pipeline Parallelism, 2024, its schedule H1. Memory 2p - rank: at most what 1F1B needs. The
    bubble of equal stages is (p - 1)(F + I - W), where 1F1B's is (p - 1)(F + I + W).
    """
    return _zero_bubble(p - rank, rank, m)


def zb_h2(rank: int, p: int, virtual: int, m: int) -> Iterator[Pass]:
    """Forward passes enough that no device ever waits, where all passes take equally long.

    Qi et al., Zero Bubble Pipeline Parallelism, 2024, its schedule H2. Memory 2(2p - 1) - 2 rank, about twice that of
    1F1B. Every device is busy from its first pass to its last; the last ones start and end later.
    """
    return _zero_bubble(2 * (p - rank) - 1, 2 * rank, m)


# ---- several stages on each device ---------------------------------------------------------------------


def interleaved(rank: int, p: int, virtual: int, m: int) -> Iterator[Pass]:
    """1F1B over groups of p micro-batches, which pass through one stage of the device after the other.

    Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, 2021.
    2 (p - 1 - rank) + (virtual - 1) p + 1 passes of stages in flight.
    """

    def stage(k: int) -> int:
        return k % (p * virtual) // p

    def batch(k: int) -> int:
        return k // (p * virtual) * p + k % p

    total = m * virtual
    warm_up = min(total, 2 * (p - 1 - rank) + (virtual - 1) * p)
    for k in range(warm_up):
        yield "F", stage(k), batch(k)
    for k in range(total):
        if warm_up + k < total:
            yield "F", stage(warm_up + k), batch(warm_up + k)
        yield "B", virtual - 1 - stage(k), batch(k)


class _Counting:
    """Writes passes of a V, each stage's in the order of micro-batches."""

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self.done: dict[tuple[str, int], int] = {}

    def add(self, *passes: tuple[str, int]) -> None:
        for kind, stage in passes:
            for part in "IW" if kind == "B" else kind:
                n = self.done.get((part, stage), 0)
                self.passes.append((part, stage, n))
                self.done[part, stage] = n + 1

    def times(self, count: int, *passes: tuple[str, int]) -> None:
        for _ in range(count):
            self.add(*passes)

    def owed(self, stage: int) -> int:
        """Passes for weights that have been put off."""
        return self.done.get(("I", stage), 0) - self.done.get(("W", stage), 0)


F0, I0, W0, B0 = (("F", 0), ("I", 0), ("W", 0), ("B", 0))
F1, I1, W1, B1 = (("F", 1), ("I", 1), ("W", 1), ("B", 1))


def zb_v(rank: int, p: int, virtual: int, m: int) -> Iterator[Pass]:
    """Forward on the way there until the way back begins, then a pass of each sort in turn, both ways.

    Qi et al., Pipeline Parallelism with Controllable Memory, 2024, its schedule V-ZB. 2p passes of stages in flight on
    every device, where a stage is half a device's work: the memory that 1F1B needs on its first device.
    Fewer than 2p micro-batches pass as the first ones of 2p.
    """
    full, order = max(m, 2 * p), _Counting()
    order.times(2 * (p - rank) - 1, F0)
    order.times(rank, F1, F0)
    order.times(p - rank, F1, B1)
    for n in range(full):
        forward = [F0] if order.done["F", 0] < full else []
        if n >= full - p:
            break
        order.add(*forward, B0, F1, B1)
    left0, left1 = (full - order.done.get(("I", k), 0) for k in (0, 1))
    late = min(left1, left0)
    order.times(late, I0, I1)
    order.times(left0 - late, I0, W0)
    order.times(order.owed(1), W1)
    order.times(order.owed(0), W0)
    return (one for one in order.passes if one[2] < m)


def dualpipe_v(rank: int, p: int, virtual: int, m: int) -> Iterator[Pass]:
    """A forward pass of one way beside a backward pass of the other, as long as there are both.

    DeepSeek-V3 Technical Report, 2024 (DualPipe), cut in half so that each device has the two stages of a V. The passes
    that run beside each other there run one after the other here, since a device runs one block at a time. At most
    2p + 1 passes of stages in flight, where a stage is half a device's work. Fewer than 2p micro-batches pass as the
    first ones of 2p.
    """
    full, order = max(m, 2 * p), _Counting()
    rest = p - rank - 1
    order.times(2 * rest, F0)
    order.times(rank + 1, F0, F1)
    order.times(rest, B1, F1)
    order.times(full - 2 * p + rank + 1, F0, B1, F1, B0)
    order.times(rest, B1, F1, B0)
    whole = (rank + 1) // 2
    order.times(whole, B1, B0)
    for k in range(whole, rank + 1):
        # The second half puts its passes for weights off; where their number is odd the middle one does so halfway.
        order.add(*((B1, I0) if k == whole and (rank + 1) % 2 else (I1, I0)))
    for _ in range(rest):
        order.add(W1 if order.owed(1) else W0, I0)
    order.times(order.owed(1), W1)
    order.times(order.owed(0), W0)
    return (one for one in order.passes if one[2] < m)


# ---- the planners --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """A rule for pipelines of one shape."""

    name: str
    rule: Rule
    layout: str | None = None
    """Of several stages on each device; None: one on each."""
    divided: bool = False
    """Does it need backward passes in two parts?"""
    in_groups: bool = False
    """Do as many micro-batches as there are devices go together?"""

    def plan(self, request: Request) -> Outcome:
        plan = schedule_by(self, request.problem)
        evaluation = evaluation_of(request.problem, plan)
        value = evaluation.objective(str(request.options["objective"]))
        assert value is not None, "the micro-batches have an end"
        full = [use for use in evaluation.devices if use.limit is not None and use.peak > use.limit]
        if full:
            worst = max(full, key=lambda use: use.peak - (use.limit or 0))
            assert worst.limit is not None
            needs = f"{self.name} needs {in_digits(worst.peak)} on {show(worst.name)}"
            return Outcome(Stop.COMPLETED, messages=(f"{needs}, above its memory of {in_digits(worst.limit)}",))
        request.board.post(plan, float(value))
        return Outcome(Stop.COMPLETED, plan, float(value))


def schedule_by(named: Named, problem: ScheduleProblem) -> SchedulePlan:
    """The rule's schedule, whatever memory it takes.

    Raises
    ------
    UsageError
        The rule does not fit the problem.
    """
    shape = chain_shape(problem, named.name)
    _check_fit(named, shape)
    batches = problem.micro_batches or 0
    orders: dict[str, list[Run]] = {}
    for rank, device in enumerate(shape.devices):
        runs = orders[problem.devices[device].name] = []
        for kind, chunk, n in named.rule(rank, len(shape.devices), shape.virtual, batches):
            stage = shape.chunk(rank, chunk)
            of_kind: dict[str, list[int | None]] = {
                "F": [stage.forward],
                "I": [stage.backward],
                "W": [stage.weights],
            }
            blocks = of_kind.get(kind, [stage.backward, stage.weights])
            runs += [(block, n) for block in blocks if block is not None]
    found = earliest_starts(problem if named.divided else _undivided(shape), orders)
    assert not isinstance(found, Deadlock), "the rules' passes wait for earlier ones alone"
    return found


def _check_fit(named: Named, shape: ChainShape) -> None:
    def refused(why: str) -> UsageError:
        return UsageError(f"The rule {named.name} is for {why}; choose --planner list-schedule.")

    p = len(shape.devices)
    if named.layout is None and shape.virtual != 1:
        raise refused(f"one stage on each device, and here are {shape.virtual}")
    if named.layout is not None and shape.virtual == 1:
        raise refused("several stages on each device, and here is one")
    if named.layout == LOOP and shape.layout != LOOP and shape.virtual > 1:
        raise refused("stages that go through the devices in a loop, and these do not")
    if named.layout == V_SHAPE and (shape.layout != V_SHAPE or shape.virtual != 2) and p > 1:
        raise refused("two stages on each device in a V, there and back, and these are not")
    if named.divided and not shape.divided:
        raise refused("backward passes in two parts (I and W), and these are in one (B)")
    if named.in_groups and (shape.problem.micro_batches or 0) % p:
        raise refused(f"multiples of {p} micro-batches on {p} devices, and here are {shape.problem.micro_batches}")


def _undivided(shape: ChainShape) -> ScheduleProblem:
    """The problem in which nobody gets a gradient before the whole backward pass has ended, as these rules run it."""
    weights = {
        shape.problem.blocks[stage.backward].id: shape.problem.blocks[stage.weights].id
        for stage in shape.stages
        if stage.weights is not None
    }

    def later(edge: BlockEdge) -> BlockEdge:
        last = weights.get(edge.source)
        return edge if last in (None, edge.target) else replace(edge, source=str(last))

    return shape.problem.replace(edges=tuple(map(later, shape.problem.edges)))


GPIPE = Named("gpipe", gpipe)
ONE_F_ONE_B = Named("1f1b", one_f_one_b)
INTERLEAVED = Named("interleaved-1f1b", interleaved, LOOP, in_groups=True)
ZB_H1 = Named("zb-h1", zb_h1, divided=True)
ZB_H2 = Named("zb-h2", zb_h2, divided=True)
ZB_V = Named("zb-v", zb_v, V_SHAPE, divided=True)
DUALPIPE_V = Named("dualpipe-v", dualpipe_v, V_SHAPE, divided=True)

RULES = (ZB_V, DUALPIPE_V, INTERLEAVED, ZB_H2, ZB_H1, ONE_F_ONE_B, GPIPE)
"""Those that usually have the shortest schedules first."""


def rule_schedules(problem: ScheduleProblem) -> Iterator[tuple[str, SchedulePlan]]:
    """Of every rule that fits the problem's shape and memory, by its name."""
    for named in RULES:
        try:
            plan = schedule_by(named, problem)
        except UsageError:
            continue
        if not violations_of(problem, plan):
            yield named.name, plan
