"""The chain problem (Beaumont et al.): layers in a row, each with a forward and a backward task, on P GPUs.

Tasks are numbered 1..2L in the order of one mini-batch: F_1..F_L, B_L..B_1. Edge e leads from task e to task
e + 1 and carries the activation a_e; edge L (from F_L to B_L) never leaves a GPU, because F_l and B_l share one.
Tuples hold task t at position t - 1 and edge e at position e - 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

from ..base.amounts import as_written, canonical, canonical_or_none, digest
from ..base.checks import (
    MAX_DEVICES,
    check_amount,
    check_flag,
    check_labels,
    check_limit,
    check_positive,
    check_size,
    check_whole,
)
from ..base.errors import InputError, show
from ..base.fields import check_members
from ..base.kind import AnyProblem
from ..base.quantities import several

MemoryMode = Literal["reserved", "inputs", "weights", "strict"]
Duplex = Literal["half", "full"]

MEMORY_MODES: tuple[MemoryMode, ...] = get_args(MemoryMode)
DUPLEXES: tuple[Duplex, ...] = get_args(Duplex)

MAX_LAYERS = 10_000


@dataclass(frozen=True, repr=False)
class ChainProblem(AnyProblem):
    """A chain of layers and a cluster of equal GPUs, checked at construction; `replace()` makes variants.

    Numbers are the decimals that they print as, and sums of them are exact. A task that takes no time needs no GPU and
    holds nothing, so it may happen while another one runs.

    Memory modes: `reserved` counts weights, kept activations, what the running task reads and writes, tensors on
    their way between tasks of one GPU, and one slot for every tensor that crosses a GPU's border; `inputs` counts
    weights and kept activations only; `weights` weights only; `strict` is `reserved` with the true lifetimes of
    crossing tensors in place of slots.
    """

    forward: tuple[float, ...]
    """Time of the forward task of layers 1..L, in `time_unit`."""
    backward: tuple[float, ...]
    activations: tuple[float, ...]
    """a_0..a_2L in bytes: the network's input and the output of each task. Where only a_0..a_L are given, the others
    mirror them."""
    weights: tuple[float, ...]
    """One copy of each layer's weights, in bytes."""
    gpus: int
    memory_bytes: float | None = None
    """Memory of one GPU; None: no limit."""
    bandwidth: float | None = None
    """Bytes per time unit between any two GPUs; None (and no `transfer_times`): transfers take no time."""
    transfer_times: tuple[float, ...] | None = None
    """Times of edges 1..2L-1 in place of a bandwidth; that of edge L does not matter."""
    duplex: Duplex = "half"
    """`half`: both directions between two GPUs share one link; `full`: a link for each direction."""
    weight_copies: float = 3.0
    """Bytes that a GPU holds for each byte of weights: versions, gradients, optimiser state."""
    memory_mode: MemoryMode = "reserved"
    exclusive_buffers: bool = False
    """Refuse plans in which a crossing tensor still needs its slot when the next one claims it."""
    name: str = "chain"
    time_unit: str | None = "s"
    """The unit of all times; None where the source does not say."""

    kind = "chain"

    def __post_init__(self) -> None:
        check_members(self)  # lists are welcome at the door; inside there are only tuples
        object.__setattr__(self, "activations", _mirrored(self.activations, len(self.forward)))
        _check(self)

    # ---- derived, computed once ------------------------------------------------------------------------

    @property
    def layers(self) -> int:
        return len(self.forward)

    @property
    def tasks(self) -> int:
        return 2 * len(self.forward)

    @cached_property
    def durations(self) -> tuple[float, ...]:
        """Times of F_1..F_L, B_L..B_1."""
        return (*self.forward, *reversed(self.backward))

    @cached_property
    def held_weights(self) -> tuple[Fraction, ...]:
        """All copies of each layer's weights, in bytes, exactly."""
        copies = as_written(self.weight_copies)
        return tuple(copies * as_written(size) for size in self.weights)

    @cached_property
    def held_activations(self) -> tuple[Fraction, ...]:
        """a_0..a_2L in bytes, exactly: none where only weights count."""
        return tuple(
            Fraction(0) if self.memory_mode == "weights" else as_written(size) for size in self.activations
        )

    @cached_property
    def layer_of(self) -> tuple[int, ...]:
        """The layer (from 0) of each task."""
        return (*range(self.layers), *reversed(range(self.layers)))

    @cached_property
    def edge_times(self) -> tuple[float, ...]:
        """Time of each edge's transfer where its two tasks are on different GPUs; 0 for edge L."""
        edges = range(1, self.tasks)
        if self.transfer_times is not None:
            return tuple(0 if e == self.layers else self.transfer_times[e - 1] for e in edges)
        if self.bandwidth is None:
            return (0,) * len(edges)
        return tuple(0 if e == self.layers else self.activations[e] / self.bandwidth for e in edges)

    @cached_property
    def remote_edges(self) -> tuple[int, ...]:
        """Numbers (from 1) of the edges whose two tasks may be on different GPUs."""
        return tuple(e for e in range(1, self.tasks) if e != self.layers)

    @property
    def has_transfers(self) -> bool:
        """Does any transfer take time?"""
        return any(self.edge_times)

    @cached_property
    def hash(self) -> str:
        """A digest of every field that can change a plan's value (so not of names)."""
        facts = [
            [canonical(time) for time in self.durations],
            [canonical(time) for time in self.edge_times],
            [canonical(size) for size in self.activations],
            [canonical(size) for size in self.weights],
            self.gpus,
            canonical_or_none(self.memory_bytes),
            self.duplex,
            canonical(self.weight_copies),
            self.memory_mode,
            self.exclusive_buffers,
        ]
        return digest(facts)


def _mirrored(activations: tuple[float, ...], layers: int) -> tuple[float, ...]:
    """The gradient of an activation has its size: a_0..a_L stand for a_0..a_L..a_0."""
    if len(activations) == layers + 1:
        return (*activations, *reversed(activations[:-1]))
    return activations


# ---- the door ------------------------------------------------------------------------------------------


def _check(problem: ChainProblem) -> None:
    """Every rule that a chain problem obeys; the first broken one is raised as an `InputError`."""
    check_labels(problem.name, problem.time_unit)
    _check_lengths(problem)
    for field in ("forward", "backward", "activations", "weights"):
        for i, amount in enumerate(getattr(problem, field)):
            check_amount(f"{field}[{i}]", amount)
    check_whole("gpus", problem.gpus, MAX_DEVICES)
    check_limit("memory_bytes", problem.memory_bytes)
    check_amount("weight_copies", problem.weight_copies)
    _check_transfers(problem)
    for field, choices in (("duplex", DUPLEXES), ("memory_mode", MEMORY_MODES)):
        value = getattr(problem, field)
        if not isinstance(value, str) or value not in choices:
            listed = ", ".join(f'"{choice}"' for choice in choices)
            raise InputError(field, f"is {show(value)}", f"give one of {listed}")
    check_flag("exclusive_buffers", problem.exclusive_buffers)


def _check_lengths(problem: ChainProblem) -> None:
    layers = problem.layers
    if not layers:
        raise InputError("forward", "is empty", "give at least one layer")
    check_size("forward", problem.forward, MAX_LAYERS)
    for field in ("backward", "weights"):
        count = len(getattr(problem, field))
        if count != layers:
            raise InputError(
                field, f"has {several(count, 'entry')} for {several(layers, 'layer')}", f"give {layers}"
            )
    count = len(problem.activations)
    if count != 2 * layers + 1:
        raise InputError(
            "activations",
            f"has {several(count, 'entry')} for {several(layers, 'layer')}",
            f"give {2 * layers + 1} (a_0..a_{2 * layers}) or the first {layers + 1}, to be mirrored",
        )


def _check_transfers(problem: ChainProblem) -> None:
    if problem.bandwidth is not None:
        remedy = "give a positive number, or null where transfers take no time"
        check_positive("bandwidth", problem.bandwidth, remedy)
        if problem.transfer_times is not None:
            raise InputError("transfer_times", "is given besides a bandwidth", "give one of the two")
    if problem.transfer_times is not None and len(problem.transfer_times) != problem.tasks - 1:
        raise InputError(
            "transfer_times",
            f"has {len(problem.transfer_times)} entries for {several(problem.layers, 'layer')}",
            f"give {problem.tasks - 1}, one for each edge",
        )
    for i, time in enumerate(problem.transfer_times or problem.edge_times):
        check_amount(f"transfer_times[{i}]" if problem.transfer_times else "bandwidth", time)


# ---- names -------------------------------------------------------------------------------------------
#
# How reports name tasks of a chain, print its numbers and tell kinds of bytes apart. Computes no cost.


@dataclass(frozen=True, slots=True)
class Terms:
    """Bytes on a GPU at one instant, by kind."""

    weights: float = 0
    kept: float = 0
    current: float = 0
    direct: float = 0
    buffers: float = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def task_name(problem: ChainProblem, task: int) -> str:
    """F3, B3: the direction and the layer from 1."""
    return f"{'F' if task < problem.layers else 'B'}{problem.layer_of[task] + 1}"


def plain(value: Fraction) -> float:
    """A whole number as such, another one as the nearest floating-point number."""
    return value.numerator if value.denominator == 1 else float(value)
