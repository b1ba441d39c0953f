"""The shape that the named rules know: stages in a row, one or several of them on each device, in a loop or in a V."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...instances.base.errors import UsageError, show
from ...instances.physics.schedules import LOOP, V_SHAPE
from ...instances.schedule.pipelines import device_of
from ...instances.schedule.problem import ScheduleProblem


@dataclass(frozen=True, slots=True)
class Stage:
    """The device of a stage, and the positions of its blocks."""

    device: int
    forward: int
    backward: int
    """Position of the backward pass, or of that for inputs where it is divided."""
    weights: int | None
    """Position of the backward pass for weights; None: the backward pass is not divided."""


@dataclass(frozen=True, slots=True)
class ChainShape:
    """A pipeline of stages in the order of the network."""

    problem: ScheduleProblem
    stages: tuple[Stage, ...]
    devices: tuple[int, ...]
    """In the order in which the first stages visit them; links are not among them."""
    layout: str | None
    """How several stages lie on each device: `loop` or `v`; None: neither."""
    divided: bool
    """Has every stage a backward pass for weights?"""

    @property
    def virtual(self) -> int:
        """Stages on each device."""
        return len(self.stages) // len(self.devices)

    def chunk(self, rank: int, chunk: int) -> Stage:
        """A stage of a device by its number there, in the order of the network."""
        return [stage for stage in self.stages if stage.device == self.devices[rank]][chunk]


def chain_shape(problem: ScheduleProblem, rule: str) -> ChainShape:
    """The shape of a problem; errors name `rule`, which is for such a shape alone.

    Raises
    ------
    UsageError
        The problem is no pipeline of stages in a row.
    """

    def refused(why: str) -> UsageError:
        return UsageError(f"The rule {rule} is for stages in a row, and {why}; choose --planner list-schedule.")

    if problem.micro_batches is None:
        raise UsageError(f"The rule {rule} needs a number of micro-batches; give --micro-batches.")
    follow = _passes_after(problem)
    forward = _in_a_row([b for b, block in enumerate(problem.blocks) if block.kind == "F"], follow)
    if not forward:
        raise refused("the forward passes of this problem are not one chain")
    back = _in_a_row([b for b, block in enumerate(problem.blocks) if block.kind in "BI"], follow)
    if len(back) != len(forward):
        raise refused("this problem has not one backward pass for each forward pass, in the opposite order")
    stages = []
    weights = {b for b, block in enumerate(problem.blocks) if block.kind == "W"}
    index = problem.device_index
    for f, b in zip(forward, reversed(back), strict=True):
        weight_passes = sorted(follow[b] & weights)
        devices = {problem.blocks[i].devices for i in (f, b, *weight_passes)}
        name = show(problem.blocks[f].id)
        if len(devices) != 1 or len(problem.blocks[f].devices) != 1:
            raise refused(f"the passes of the stage of block {name} are not all on one device")
        if len(weight_passes) > 1:
            raise refused(f"the stage of block {name} has {len(weight_passes)} backward passes for weights")
        if b not in follow[f] and not _leads(f, b, follow):
            raise refused(f"no backward pass waits for block {name}")
        weight_pass = weight_passes[0] if weight_passes else None
        stages.append(Stage(index[problem.blocks[f].devices[0]], f, b, weight_pass))
    if sum(stage.weights is not None for stage in stages) != len(weights):
        raise refused("a backward pass for weights belongs to no stage")
    devices_in_order = tuple(dict.fromkeys(stage.device for stage in stages))
    if len(stages) % len(devices_in_order) or any(
        sum(stage.device == d for stage in stages) != len(stages) // len(devices_in_order) for d in devices_in_order
    ):
        raise refused("its devices have different numbers of stages")
    divided = {stage.weights is not None for stage in stages}
    if len(divided) > 1:
        raise refused("only some of its backward passes are divided")
    if any(edge.offset for edge in problem.edges):
        raise refused("micro-batches of this problem wait for each other")
    for block in problem.blocks:
        if block.kind == "X" and any(index[name] in devices_in_order for name in block.devices):
            raise refused(f"block {show(block.id)} of the kind X runs on a device of the stages")
    return ChainShape(problem, tuple(stages), devices_in_order, _layout(stages, devices_in_order), divided.pop())


def _layout(stages: Sequence[Stage], devices: Sequence[int]) -> str | None:
    for layout in (LOOP, V_SHAPE):
        if all(stage.device == devices[device_of(i, len(devices), layout)] for i, stage in enumerate(stages)):
            return layout
    return None


def _passes_after(problem: ScheduleProblem) -> list[set[int]]:
    """The passes that wait for each block, directly or through blocks of kind X (transfers over links, say)."""
    direct: list[set[int]] = [set() for _ in problem.blocks]
    for (i, j), edge in zip(problem.ends, problem.edges, strict=True):
        if not edge.offset:
            direct[i].add(j)
    passes: list[set[int]] = [set() for _ in problem.blocks]
    for b in reversed(problem.order):
        for j in direct[b]:
            passes[b] |= passes[j] if problem.blocks[j].kind == "X" else {j}
    return passes


def _in_a_row(blocks: Sequence[int], follow: Sequence[set[int]]) -> list[int]:
    """The blocks as a chain, each waiting for the one before; empty: they are none."""
    among = set(blocks)
    after = {b: follow[b] & among for b in blocks}
    firsts = among.difference(*after.values())
    if len(firsts) != 1:
        return []
    row = [firsts.pop()]
    while following := after[row[-1]]:
        # An edge past the next stage says nothing more where the chain is whole.
        nearest = [b for b in following if not any(b in after[other] for other in following)]
        if len(nearest) != 1:
            return []
        row.append(nearest[0])
    return row if len(row) == len(blocks) else []


def _leads(source: int, target: int, follow: Sequence[set[int]]) -> bool:
    """Does the target wait for the source, directly or not?"""
    waiting, seen = [source], {source}
    while waiting:
        for b in follow[waiting.pop()]:
            if b == target:
                return True
            if b not in seen:
                seen.add(b)
                waiting.append(b)
    return False
