"""The staging problem (Piper): a DAG of layers, each with several ways to run it on several tensor-parallel degrees.

The paper's letters in our names: K = `devices`, M = `memory_bytes`, B = `bandwidth`, N =
`micro_batches`, c = `Edge.bytes`; of a TMPC p = `time`, w = `weight_bytes`, a = `memory_per_batch`, b = `memory_fixed`,
cfw = `gather_in`, cbw = `gather_out`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from ..base.amounts import as_written, canonical_or_none, digest
from ..base.checks import (
    NodeId,
    check_amount,
    check_count,
    check_devices,
    check_distinct,
    check_flag,
    check_id,
    check_labels,
    check_limit,
    check_positive,
    check_size,
    check_text,
    check_whole,
)
from ..base.errors import InputError, show
from ..base.fields import check_members, check_numbers
from ..base.graph import Graph, check_acyclic, check_ends
from ..base.kind import AnyProblem
from ..base.quantities import several
from ..physics.optimizers import check_zero, share_of

MAX_LAYERS = 100_000
MAX_LAYER_EDGES = 1_000_000
MAX_DEGREE = 65_536
MAX_MICRO_BATCHES = 10_000_000


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to run a layer on each of t devices, for one micro-batch (a TMPC)."""

    id: str
    time: float
    """Forward and backward, traffic between the t devices included, in the problem's time unit."""
    weight_bytes: float = 0.0
    """Parameters per device, which data-parallel replicas synchronise."""
    memory_per_batch: float = 0.0
    """Bytes per device for each micro-batch in flight."""
    memory_fixed: float = 0.0
    """Bytes per device, whatever is in flight."""
    gather_in: Mapping[NodeId, float] = field(default_factory=dict)
    """Bytes to redistribute among the t devices for the tensor from each producer; 0 where it is not named."""
    gather_out: Mapping[NodeId, float] = field(default_factory=dict)
    """Bytes to redistribute for the tensor to each reader; 0 where it is not named."""
    forward_time: float | None = None
    """The part of `time` that is the forward pass; None: not known, and taken as a third where it matters."""
    memory_divided: float = 0.0
    """Bytes per device beside `memory_fixed` that all data-parallel copies of the stage divide among them (ZeRO)."""

    def memory_bytes(self, in_flight: int, copies: int = 1) -> Fraction:
        """Bytes per device with so many micro-batches in flight and copies of the stage, exact as decimals."""
        each = as_written(self.memory_per_batch) * in_flight + as_written(self.memory_fixed)
        return each + share_of(self.memory_divided, copies)


@dataclass(frozen=True, slots=True)
class Layer:
    """`configurations[t]`: the ways to run it on t devices; a degree that is missing cannot be chosen."""

    id: NodeId
    configurations: Mapping[int, tuple[Configuration, ...]]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor from one layer to another: bytes for each micro-batch. Several readers are several edges."""

    source: NodeId
    target: NodeId
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class StagingLevel:
    """`devices` devices of this level stand in each device of the next; `bandwidth` joins them."""

    devices: int
    bandwidth: float


@dataclass(frozen=True, slots=True)
class DeviceType:
    """Devices of one make. A stage is on devices of one type; links are the same for all."""

    name: str
    devices: int
    speed: float = 1.0
    """Speed of these devices: a configuration takes its time divided by it."""
    memory_bytes: float | None = None
    """Memory of one device; None: no limit."""


@dataclass(frozen=True, repr=False)
class StagingProblem(AnyProblem, Graph):
    """A staging problem, checked at construction; `replace()` makes variants."""

    layers: tuple[Layer, ...]
    edges: tuple[Edge, ...]
    devices: int
    bandwidth: float
    """Bytes per time unit between any two devices."""
    micro_batches: int
    """Number of micro-batches of a batch: the data-parallel degrees sum to at most this."""
    memory_bytes: float | None = None
    """Memory of one device; None: no limit."""
    replication: bool = True
    """May stages have replicas? Where not, every data-parallel degree is 1."""
    levels: tuple[StagingLevel, ...] = ()
    """Devices within devices, the innermost first; empty: a flat network."""
    device_types: tuple[DeviceType, ...] = ()
    """Makes of devices, each with its own count, speed and memory; empty: all devices are alike."""
    name: str = "staging"
    time_unit: str | None = "s"
    zero: int = 0
    """The ZeRO stage: what data-parallel copies divide among them, and what they send each other when."""

    kind = "staging"

    def __post_init__(self) -> None:
        check_members(self)
        _check(self)

    # ---- derived structure: positions instead of ids ---------------------------------------------------

    @property
    def extensions(self) -> frozenset[str]:
        """What a method must be able to plan beyond a flat network of devices that are alike, with replicas."""
        used = {
            "levels": self.levels,
            "types": self.device_types,
            "no replicas": not self.replication,
            "zero": self.zero,
        }
        return frozenset(name for name, is_used in used.items() if is_used)

    @cached_property
    def types(self) -> tuple[DeviceType, ...]:
        """The types of devices; where all are alike, a single type of all of them."""
        return self.device_types or (DeviceType("device", self.devices, 1.0, self.memory_bytes),)

    @property
    def ids(self) -> tuple[NodeId, ...]:
        return tuple(layer.id for layer in self.layers)

    @property
    def ends(self) -> Iterator[tuple[NodeId, NodeId]]:
        return ((edge.source, edge.target) for edge in self.edges)

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """Tensor-parallel degrees that some layer offers and the cluster has room for."""
        degrees = {t for layer in self.layers for t, ways in layer.configurations.items() if ways}
        return tuple(sorted(t for t in degrees if t <= self.devices))

    @cached_property
    def hash(self) -> str:
        """A digest of every field that can change a plan's value, and of the ids by which plans name things."""
        facts: list[Any] = [
            self.devices,
            float(self.bandwidth),
            self.micro_batches,
            canonical_or_none(self.memory_bytes),
            False,  # the place of a field that went, so that digests stay
            [_layer_facts(layer) for layer in self.layers],
            [[edge.source, edge.target, float(edge.bytes)] for edge in self.edges],
            [[level.devices, float(level.bandwidth)] for level in self.levels],
        ]
        if self.device_types:  # so that all other problems keep their digests
            facts.append(
                [[kind.name, kind.devices, float(kind.speed), kind.memory_bytes] for kind in self.device_types]
            )
        if not self.replication:
            facts.append("no replicas")
        if self.zero:
            divided = [
                [
                    [t, [float(way.memory_divided) for way in ways]]
                    for t, ways in sorted(layer.configurations.items())
                ]
                for layer in self.layers
            ]
            facts.append(["zero", self.zero, divided])
        return digest(facts)


def _layer_facts(layer: Layer) -> list[Any]:
    return [
        layer.id,
        [
            [
                t,
                [
                    [c.id, float(c.time), float(c.weight_bytes), float(c.memory_per_batch), float(c.memory_fixed)]
                    + [
                        sorted(([k, float(v)] for k, v in side.items()), key=str)
                        for side in (c.gather_in, c.gather_out)
                    ]
                    for c in ways
                ],
            ]
            for t, ways in sorted(layer.configurations.items())
        ],
    ]


# ---- the door ------------------------------------------------------------------------------------------


def _check(problem: StagingProblem) -> None:
    check_labels(problem.name, problem.time_unit)
    _check_cluster(problem)
    if not problem.layers:
        raise InputError("layers", "is empty", "give at least one layer")
    check_size("layers", problem.layers, MAX_LAYERS)
    check_size("edges", problem.edges, MAX_LAYER_EDGES)
    for i, layer in enumerate(problem.layers):
        _check_layer(f"layers[{i}]", layer, problem.zero)
    check_distinct("layers", "layer", problem.ids)
    _check_edges(problem)
    _check_gathers(problem)
    check_acyclic(problem)


def _check_cluster(problem: StagingProblem) -> None:
    check_devices("devices", problem.devices)
    check_positive("bandwidth", problem.bandwidth)
    check_whole("micro_batches", problem.micro_batches, MAX_MICRO_BATCHES)
    check_limit("memory_bytes", problem.memory_bytes)
    check_zero("zero", problem.zero)
    check_flag("replication", problem.replication)
    _check_levels(problem)
    _check_device_types(problem)


def _check_levels(problem: StagingProblem) -> None:
    total = 1
    for number, level in enumerate(problem.levels):
        check_count(f"levels[{number}].devices", level.devices)
        check_positive(f"levels[{number}].bandwidth", level.bandwidth)
        total *= level.devices
    if problem.levels and total != problem.devices:
        raise InputError(
            "levels",
            f"make {several(total, 'device')}, not {problem.devices}",
            "let the devices of all levels multiply to `devices`",
        )


def _check_device_types(problem: StagingProblem) -> None:
    if not problem.device_types:
        return
    for number, kind in enumerate(problem.device_types):
        where = f"device_types[{number}]"
        check_text(f"{where}.name", kind.name)
        check_count(f"{where}.devices", kind.devices)
        check_positive(f"{where}.speed", kind.speed)
        check_limit(f"{where}.memory_bytes", kind.memory_bytes)
    check_distinct("device_types", "type", [kind.name for kind in problem.device_types])
    total = sum(kind.devices for kind in problem.device_types)
    if total != problem.devices:
        raise InputError(
            "device_types",
            f"make {several(total, 'device')}, not {problem.devices}",
            "let the devices of all types sum to `devices`",
        )
    if problem.memory_bytes is not None:
        raise InputError("memory_bytes", "is given beside types with memories of their own", "leave it out")
    if problem.levels:
        raise InputError("device_types", "are given beside levels", "leave out one of them")


def _check_layer(where: str, layer: Layer, zero: int) -> None:
    check_id(f"{where}.id", layer.id)
    if layer.name is not None:
        check_text(f"{where}.name", layer.name)
    for t, ways in layer.configurations.items():
        place = f"{where}.configurations[{show(t)}]"
        if isinstance(t, bool) or not isinstance(t, int) or not 1 <= t <= MAX_DEGREE:
            raise InputError(place, "is not a degree", f"give whole numbers from 1 to {MAX_DEGREE} as keys")
        names: set[str] = set()
        for j, way in enumerate(ways):
            _check_configuration(f"{place}[{j}]", way, names)
            if way.memory_divided and not zero:
                remedy = "add zero: 1, or write it as memory_fixed"
                raise InputError(f"{place}[{j}].memory_divided", "is given, and zero is 0", remedy)
    if not any(layer.configurations.values()):
        raise InputError(f"{where}.configurations", "offers no way to run the layer", "give at least one")


def _check_configuration(where: str, way: Configuration, names: set[str]) -> None:
    check_text(f"{where}.id", way.id)
    if way.id in names:
        raise InputError(f"{where}.id", f"repeats {show(way.id)}", "give the ways of one degree ids of their own")
    names.add(way.id)
    check_numbers(way, where, 0)
    if way.forward_time is not None and way.forward_time > way.time:
        remedy = "give at most the time of both passes"
        raise InputError(f"{where}.forward_time", f"is {show(way.forward_time)} of {show(way.time)}", remedy)
    for side in ("gather_in", "gather_out"):
        for key, value in getattr(way, side).items():
            check_amount(f"{where}.{side}[{show(key)}]", value)


def _check_edges(problem: StagingProblem) -> None:
    seen: set[tuple[NodeId, NodeId]] = set()
    for i, edge in enumerate(problem.edges):
        check_ends(f"edges[{i}]", (edge.source, edge.target), problem.index, "layer", "name a layer")
        check_amount(f"edges[{i}].bytes", edge.bytes)
        if (edge.source, edge.target) in seen:
            raise InputError(f"edges[{i}]", "repeats an edge", "add the bytes of parallel edges up in one")
        seen.add((edge.source, edge.target))


def _check_gathers(problem: StagingProblem) -> None:
    """Refuse bytes to redistribute for a neighbour to or from which no edge leads."""
    for i, layer in enumerate(problem.layers):
        ends: dict[str, Sequence[int]] = {"gather_in": problem.predecessors[i], "gather_out": problem.successors[i]}
        known = {side: {problem.layers[j].id for j in near} for side, near in ends.items()}
        for t, ways in layer.configurations.items():
            for j, way in enumerate(ways):
                for side in ends:
                    for key in getattr(way, side):
                        if key not in known[side]:
                            raise InputError(
                                f"layers[{i}].configurations[{t}][{j}].{side}",
                                f"names {show(key)}, which no edge of layer {show(layer.id)} leads "
                                + ("from" if side == "gather_in" else "to"),
                                "name a neighbour or remove the entry",
                            )


# ---- which options make sense for a problem -----------------------------------------------------------


# The objective that counts how the pipeline fills and drains once per batch.
FLUSH = "flush"

# The only values of these options for which the recursion over levels is defined.
_NEEDED = {"semantics": "paper", "knapsack": "exact"}


def check_question(problem: StagingProblem, options: Mapping[str, Any]) -> None:
    """Refuse options that a problem with levels, or one without them, gives no meaning."""
    for name, needed in _NEEDED.items():
        if problem.levels and options.get(name, needed) != needed:
            problem_is = f"is {options[name]} and the problem has levels"
            raise InputError(f"option {name}", problem_is, f"give {needed}, or remove the levels")


def check_levels(problem: StagingProblem) -> None:
    """Refuse a problem without levels, where they are needed."""
    if not problem.levels:
        raise InputError("levels", "is empty", "give the devices and the bandwidth of each level")
