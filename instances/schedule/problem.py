"""The schedule problem: the blocks of one micro-batch on devices with memory, and how many micro-batches there are.

All micro-batches are alike. A link is a device without memory. Tuples hold blocks and edges in the order of the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

from ..base.amounts import Amount, as_written, canonical, canonical_or_none, digest, exact_sum, in_digits
from ..base.checks import (
    MAX_AMOUNT,
    MAX_DEVICES,
    NodeId,
    check_amount,
    check_distinct,
    check_flag,
    check_id,
    check_labels,
    check_limit,
    check_size,
    check_text,
    check_whole,
)
from ..base.errors import InputError, nearest, show
from ..base.fields import check_members
from ..base.graph import adjacency, find_cycle, heights_of, topological_order
from ..base.kind import AnyProblem
from ..base.quantities import several

BlockKind = Literal["F", "B", "I", "W", "X"]
BLOCK_KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
KIND_NAMES: Mapping[str, str] = {
    "F": "forward",
    "B": "backward",
    "I": "backward for inputs",
    "W": "backward for weights",
    "X": "other",
}

MAX_BLOCKS = 100_000
MAX_MICRO_BATCHES = 100_000
# Most blocks of all micro-batches together.
MAX_STARTS = 5_000_000
MAX_OFFSET = 1_000


@dataclass(frozen=True, slots=True)
class ScheduleDevice:
    """A device or a link, which runs one block at a time."""

    name: str
    memory: float | None = None
    """Memory in the problem's memory unit; None: no limit, as for links."""
    standing: float = 0
    """Memory that is held all the time: weights and the optimiser's state, say."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of work of every micro-batch, which occupies all its devices at once.

    A change of memory is positive where the block takes it as it starts, and negative where it gives back as it ends.
    """

    id: str
    kind: BlockKind
    devices: tuple[str, ...]
    time: float
    stage: NodeId | None = None
    """The stage to which the block belongs: a label for pictures and exports."""
    memory: Mapping[str, float] = field(default_factory=dict)
    """Change of memory on each device."""
    workspace: Mapping[str, float] = field(default_factory=dict)
    """Memory on each device that the block holds while it runs, and only then."""


@dataclass(frozen=True, slots=True)
class BlockEdge:
    """`target` of micro-batch n + `offset` starts no earlier than `lag` after `source` of micro-batch n has ended."""

    source: str
    target: str
    lag: float = 0
    """A latency, which occupies no device."""
    offset: int = 0


@dataclass(frozen=True, repr=False)
class ScheduleProblem(AnyProblem):
    """Blocks, edges and devices, checked at construction; `replace()` makes variants.

    Numbers are the decimals that they print as, and sums of them are exact.
    """

    devices: tuple[ScheduleDevice, ...]
    blocks: tuple[Block, ...]
    edges: tuple[BlockEdge, ...] = ()
    micro_batches: int | None = None
    """The number of micro-batches; None: the steady state alone."""
    leaks: bool = False
    """May a micro-batch take another amount of memory on a device than it gives back?"""
    name: str = "schedule"
    time_unit: str | None = None
    memory_unit: str | None = None
    """bytes, or whatever the source counts; None where it does not say."""

    kind = "schedule"

    def __post_init__(self) -> None:
        check_members(self)
        _check(self)

    def in_memory_unit(self, amount: Amount) -> str:
        """All digits of an amount of memory, with the unit where the problem has one."""
        return " ".join(filter(None, (in_digits(amount), self.memory_unit)))

    # ---- derived, computed once ------------------------------------------------------------------------

    @cached_property
    def device_index(self) -> Mapping[str, int]:
        return {device.name: i for i, device in enumerate(self.devices)}

    @cached_property
    def block_index(self) -> Mapping[str, int]:
        return {block.id: i for i, block in enumerate(self.blocks)}

    @cached_property
    def times(self) -> tuple[Fraction, ...]:
        """Times of the blocks, exactly."""
        return tuple(as_written(block.time) for block in self.blocks)

    @cached_property
    def lags(self) -> tuple[Fraction, ...]:
        """Lags of the edges, exactly."""
        return tuple(as_written(edge.lag) for edge in self.edges)

    @cached_property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """Sources and targets of the edges, as positions of blocks."""
        index = self.block_index
        return tuple((index[edge.source], index[edge.target]) for edge in self.edges)

    @cached_property
    def on_device(self) -> tuple[tuple[int, ...], ...]:
        """The blocks of each device, by their positions."""
        index = self.device_index
        blocks_of: list[list[int]] = [[] for _ in self.devices]
        for b, block in enumerate(self.blocks):
            for name in block.devices:
                blocks_of[index[name]].append(b)
        return tuple(map(tuple, blocks_of))

    @cached_property
    def loads(self) -> tuple[Fraction, ...]:
        """The work of one micro-batch on each device."""
        return tuple(sum((self.times[b] for b in blocks), Fraction(0)) for blocks in self.on_device)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The topological position of each block: the most edges without offset on a path that leads to it."""
        heights = heights_of(adjacency(len(self.blocks), ((v, u) for u, v in self._within_batch)))
        assert heights is not None, "checked at the door"
        return tuple(height - 1 for height in heights)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Positions of blocks such that every edge without offset leads forward."""
        return tuple(sorted(range(len(self.blocks)), key=lambda b: (self.depths[b], b)))

    @property
    def _within_batch(self) -> list[tuple[int, int]]:
        return [ends for ends, edge in zip(self.ends, self.edges, strict=True) if not edge.offset]

    @cached_property
    def computing(self) -> tuple[int, ...]:
        """Positions of the devices that run passes of the network; all where there are none."""
        running = {name for block in self.blocks if block.kind != "X" for name in block.devices}
        devices = tuple(i for i, device in enumerate(self.devices) if device.name in running)
        return devices or tuple(range(len(self.devices)))

    @property
    def memory_bytes(self) -> float | None:
        """The least limit of a device, in the problem's memory unit; None: there is no limit."""
        return min((device.memory for device in self.devices if device.memory is not None), default=None)

    @cached_property
    def hash(self) -> str:
        """A digest of every field that can change a plan's value, and of the ids by which plans name blocks."""
        at = self.device_index
        facts = [
            [[canonical_or_none(device.memory), canonical(device.standing)] for device in self.devices],
            [
                [
                    block.id,
                    [at[name] for name in block.devices],
                    canonical(block.time),
                    sorted([at[name], canonical(change)] for name, change in block.memory.items()),
                    sorted([at[name], canonical(held)] for name, held in block.workspace.items()),
                ]
                for block in self.blocks
            ],
            [[*ends, canonical(edge.lag), edge.offset] for ends, edge in zip(self.ends, self.edges, strict=True)],
            self.micro_batches,
        ]
        return digest(facts)


def check_repeats(problem: ScheduleProblem) -> None:
    """Refuse a problem that has no steady state to plan."""
    if problem.leaks:
        raise InputError("leaks", "is true, so no schedule repeats", "let blocks give back what they take")
    if not any(problem.times):
        raise InputError("blocks", "all have time 0", "give at least one block a time")


# ---- the door ------------------------------------------------------------------------------------------


def _check(problem: ScheduleProblem) -> None:
    """Every rule that a schedule problem obeys; the first broken one is raised as an `InputError`."""
    check_labels(problem.name, problem.time_unit)
    if problem.memory_unit is not None:
        check_text("memory_unit", problem.memory_unit, 40)
    check_flag("leaks", problem.leaks)
    _check_entries("devices", problem.devices, MAX_DEVICES, _check_device)
    check_distinct("devices", "device", [device.name for device in problem.devices], "name")
    _check_blocks(problem)
    _check_edges(problem)
    if problem.micro_batches is not None:
        check_whole("micro_batches", problem.micro_batches, MAX_MICRO_BATCHES)
        if problem.micro_batches * len(problem.blocks) > MAX_STARTS:
            raise InputError(
                "micro_batches",
                f"is {problem.micro_batches} for {several(len(problem.blocks), 'block')}",
                f"give at most {MAX_STARTS // len(problem.blocks)}",
            )
    if problem.leaks and problem.micro_batches is None:
        raise InputError("leaks", "is true without an end", "give micro_batches, or changes that sum to 0")
    _check_sums(problem)


def _check_entries(field: str, entries: tuple[Any, ...], most: int, check: Callable[..., None]) -> None:
    if not entries:
        raise InputError(field, "is empty", "give at least one")
    check_size(field, entries, most)
    for i, entry in enumerate(entries):
        check(f"{field}[{i}]", entry)


def _check_device(where: str, device: ScheduleDevice) -> None:
    check_text(f"{where}.name", device.name)
    check_limit(f"{where}.memory", device.memory)
    check_amount(f"{where}.standing", device.standing)
    if device.memory is not None and as_written(device.standing) > as_written(device.memory):
        raise InputError(
            f"{where}.standing",
            f"is {in_digits(device.standing)}, above the memory of {in_digits(device.memory)}",
            f"give {show(device.name)} more memory or less to hold",
        )


def _check_blocks(problem: ScheduleProblem) -> None:
    known = problem.device_index

    def check(where: str, block: Block) -> None:
        check_text(f"{where}.id", block.id)
        if block.kind not in BLOCK_KINDS:
            listed = ", ".join(f'"{kind}" ({KIND_NAMES[kind]})' for kind in BLOCK_KINDS)
            raise InputError(f"{where}.kind", f"is {show(block.kind)}", f"give one of {listed}")
        check_amount(f"{where}.time", block.time)
        if block.stage is not None:
            check_id(f"{where}.stage", block.stage)
        _check_places(where, block, known)

    _check_entries("blocks", problem.blocks, MAX_BLOCKS, check)
    check_distinct("blocks", "block", [block.id for block in problem.blocks])


def _check_places(where: str, block: Block, known: Mapping[str, int]) -> None:
    if not block.devices:
        raise InputError(f"{where}.devices", "is empty", "name at least one device")
    for i, name in enumerate(block.devices):
        _check_known(f"{where}.devices[{i}]", name, known, "device", "name one of the devices")
    check_distinct(f"{where}.devices", "device", block.devices, "name")
    for field_name, amounts in (("memory", block.memory), ("workspace", block.workspace)):
        for name, amount in amounts.items():
            place = f"{where}.{field_name}.{name}"
            if name not in block.devices:
                raise InputError(place, "is of a device that the block does not run on", "name one of its devices")
            if field_name == "workspace":
                check_amount(place, amount)
            else:
                _check_change(place, amount)


def _check_known(where: str, name: object, known: Mapping[str, int], thing: str, otherwise: str) -> None:
    """Refuse a name that is not known; where a known one is near, the remedy names it."""
    if not isinstance(name, str) or name not in known:
        guess = nearest(name, known) if isinstance(name, str) else None
        remedy = f"write {show(guess)}" if guess else otherwise
        raise InputError(where, f"is {show(name)}, and no {thing} is called so", remedy)


def _check_change(where: str, value: object) -> None:
    """Refuse a change of memory that is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -MAX_AMOUNT <= value <= MAX_AMOUNT:
        raise InputError(where, f"is {show(value)}", "give a finite number: positive takes, negative gives back")


def _check_edges(problem: ScheduleProblem) -> None:
    known = problem.block_index
    check_size("edges", problem.edges, 10 * MAX_BLOCKS)
    for i, edge in enumerate(problem.edges):
        where = f"edges[{i}]"
        for key, name in (("from", edge.source), ("to", edge.target)):
            _check_known(f"{where}.{key}", name, known, "block", "give the id of a block")
        check_amount(f"{where}.lag", edge.lag)
        check_whole(f"{where}.offset", edge.offset, MAX_OFFSET, 0)
    successors = adjacency(len(problem.blocks), problem._within_batch)
    if topological_order(successors) is None:
        names = [problem.blocks[i].id for i in find_cycle(successors)]
        shown = " -> ".join(names if len(names) < 9 else [*names[:4], "...", *names[-4:]])
        raise InputError("edges", f"form a cycle: {shown}", "give one of its edges an offset, or drop it")


def _check_sums(problem: ScheduleProblem) -> None:
    """Refuse a device on which one micro-batch does not give back what it took, unless the problem leaks."""
    for device in problem.devices:
        changes = [block.memory[device.name] for block in problem.blocks if device.name in block.memory]
        total = exact_sum(changes)
        if total and not problem.leaks:
            raise InputError(
                "blocks",
                f"change the memory of {show(device.name)} by {in_digits(total)} in one micro-batch, not by 0",
                'let them give back what they take, or write "leaks": true where that is meant',
            )


def whole_times(problem: ScheduleProblem) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Steps per time unit such that all times and lags are whole, and the times and lags in such steps."""
    steps = math.lcm(*(number.denominator for number in (*problem.times, *problem.lags)))
    return (
        steps,
        tuple(int(time * steps) for time in problem.times),
        tuple(int(lag * steps) for lag in problem.lags),
    )
