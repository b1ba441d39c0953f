"""Schedules of pipelines as they are known by name: the order of passes on each device.

Every rule here is worked out from its published description, for `p` devices in a row with numbers from 0 and `m`
micro-batches. What a device holds at most follows from its order alone, so each rule says how many forward passes of
its stages are in flight at once, or how much memory it needs where passes change it by +2 (F), -1 (I), -1 (W).

To add a rule, add its order and its record to `_RULES`: configurations, bounds, readers of flags and exports read
it. To plan schedules with it, add it to `planners/schedule/named.py` and to the registry of planners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

# F (forward), B (the whole backward pass, in one piece or two), I (its part for inputs) or W (for weights); the stage
# of the device; the micro-batch.
Pass = tuple[str, int, int]

# (device, devices, stages on each, micro-batches) -> its passes in order.
PassRule = Callable[[int, int, int, int], Iterator[Pass]]


# ---- one stage on each device --------------------------------------------------------------------------


def gpipe(rank: int, p: int, virtual: int, m: int) -> Iterator[Pass]:
    """All forward passes, then all backward passes (Huang et al., GPipe, 2019). m are in flight on every device."""
    for kind in "FB":
        for n in range(m):
            yield kind, 0, n


def one_f_one_b(rank: int, p: int, virtual: int, m: int) -> Iterator[Pass]:
    """Forward passes until the first gradient can be there, then one backward and one forward pass in turn.

    Narayanan et al., PipeDream, 2019, with a flush at the end. Up to p - rank are in flight: memory
    2p on the first device. The bubble of equal stages is (p - 1)(F + B).
    """
    warm_up = min(m, p - rank)
    for n in range(warm_up):
        yield "F", 0, n
    for n in range(m):
        yield "B", 0, n
        if warm_up + n < m:
            yield "F", 0, warm_up + n


def _zero_bubble(warm_up: int, behind: int, m: int) -> Iterator[Pass]:
    """`warm_up` forward passes, then I and F in turn; each W follows its I `behind` micro-batches later."""
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
    """As many forward passes first as in 1F1B; device `rank` puts off `rank` passes for weights until the end.

    Qi et al., Zero Bubble Pipeline Parallelism, 2024, its schedule H1. Memory 2p - rank: at most what 1F1B needs on
    its first device. The bubble of equal stages is (p - 1)(F + I - W), where 1F1B's is (p - 1)(F + I + W).
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
    There are 2 (p - 1 - rank) + (virtual - 1) p + 1 passes of stages in flight.
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
    """The passes of a device of a V, in the order of `add`; each stage's are numbered by micro-batch."""

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
    """Forward passes down the V until its way back begins, then a pass of each sort in turn on both ways.

    Qi et al., Pipeline Parallelism with Controllable Memory, 2024, its schedule V-ZB. There are 2p passes of stages in
    flight on every device, where a stage is half a device's work: the memory that 1F1B needs on its first device.
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


# ---- what is known of each rule ------------------------------------------------------------------------

# How stages go through the devices: one stage on each; around in a loop; there and back again.
ROW, LOOP, V_SHAPE = "row", "loop", "v"


@dataclass(frozen=True, slots=True)
class ScheduleRule:
    """A schedule that is known by name."""

    name: str
    order: PassRule
    shape: str = ROW
    divided: bool = False
    """Do backward passes come in two parts, for inputs and for weights?"""
    in_groups: bool = False
    """Do as many micro-batches as there are devices go together, so that their number is a multiple of them?"""
    all_first: bool = False
    """Do all forward passes come before the first backward pass, so that all micro-batches are in flight?"""
    frameworks: Mapping[str, str] = field(default_factory=dict)
    """Training frameworks that run it, with their own names for it."""


# fmt: off
_RULES = (
    ScheduleRule("1f1b", one_f_one_b,
                 frameworks=dict.fromkeys(("megatron", "torchtitan", "deepspeed", "megatron-deepspeed", "fsdp",
                                           "nanotron", "pytorch", "scaling"), "1F1B")),
    ScheduleRule("interleaved-1f1b", interleaved, LOOP, in_groups=True,
                 frameworks={"megatron": "interleaved 1F1B", "torchtitan": "Interleaved1F1B"}),
    ScheduleRule("gpipe", gpipe, all_first=True, frameworks={"torchtitan": "GPipe", "nanotron": "AFAB"}),
    ScheduleRule("zb-h1", zb_h1, divided=True),
    ScheduleRule("zb-h2", zb_h2, divided=True),
    ScheduleRule("zb-v", zb_v, V_SHAPE, divided=True, frameworks={"torchtitan": "ZBVZeroBubble"}),
    ScheduleRule("dualpipe-v", dualpipe_v, V_SHAPE, divided=True,
                 frameworks={"torchtitan": "DualPipeV"}),
)
# fmt: on
SCHEDULES: Mapping[str, ScheduleRule] = {rule.name: rule for rule in _RULES}


def run_by(framework: str) -> dict[str, str]:
    """Schedules that a framework can run, with its own names for them; the first one is its usual one."""
    rules = (rule for rule in SCHEDULES.values() if framework in rule.frameworks)
    return {rule.name: rule.frameworks[framework] for rule in rules}
