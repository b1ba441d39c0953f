"""Workload -> staging problem, with generated ways to run each block.

One layer of the problem per block of the workload (a transformer layer, a residual block), or per layer of the workload
with `merge=False`. Times are in seconds for one micro-batch of `workload.batch` samples, forward and backward, by the
roofline rule of `hardware`. A block offers for each tensor-parallel degree t

- `vanilla`: memory per micro-batch is what the block's layers read (a layer keeps its inputs for the backward pass, so
  that no tensor is counted by its producer and its reader);
- `activation recomp`, where that saves memory: only what the block reads from outside is kept, and the forward pass
  runs twice.

Tensor parallelism splits transformer layers as Megatron does (Shoeybi et al. 2019): attention by heads, the first
matrix of either part by columns, the second by rows, so that parameters, operations and inner activations are divided
by t and each transformer layer has two all-reduces forward and two backward, each of 2 (t-1)/t times its tensor per
device. Normalisations and sums run whole on every device. Token tables are split by words. Convolutions and other
weights outside transformer layers are split by outputs, with an all-gather of the output forward ((t-1)/t) and an
all-reduce of the input gradient backward. Recomputing repeats the forward collectives.

Memory that does not depend on the batches in flight: `weight_versions` copies of the parameters (two for
PipeDream-2BW), their gradients, and Adam's two moments in 4 bytes each, with a master copy in 4 bytes where numbers are
shorter.

A tensor between stages crosses once, from group to group; the t devices that receive it then share it, (t-1)/t of it
each: forward along edges into a stage, backward along edges out of it. The cost model counts what is gathered in both
directions, so half of it is given.

What is lost: bytes moved inside a device are divided as its operations are; a tensor that two blocks read is kept by
both; collectives take size / bandwidth without latency and overlap nothing; what a block holds for a moment while it
recomputes; outputs that nobody keeps; that t should divide heads and channels; fused kernels. One bandwidth joins all
devices: a faster link inside a server is told as `tensor_link`. Network inputs come from the host and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..base.errors import InputError, show
from ..networks.analytic import blocks as split
from ..networks.analytic.blocks import Block, blocks, split_of
from ..networks.analytic.model import Layer, Workload
from ..physics.hardware import Hardware, Link
from ..physics.kernels import SINGLE
from ..physics.optimizers import OPTIMIZERS, Bytes, check_zero
from .problem import Configuration, Edge, StagingProblem
from .problem import Layer as StagingLayer

VANILLA = "vanilla"
# The ids of the published inputs, by which baselines tell recomputation.
RECOMPUTE = "activation recomp"

# The name of transformer layers in the published inputs, by which even splits tell them.
TRANSFORMER = "ParallelTransformerLayer"

# Decimals of times in seconds, so down to picoseconds: files stay readable, and nothing that matters is rounded.
DIGITS = 12


@dataclass(frozen=True, slots=True)
class _Cost:
    """What one block costs on each of t devices, for one micro-batch."""

    forward: float
    backward: float
    parameters: float
    """Number of parameters on each device."""
    inner_bytes: float
    """Bytes that the block's layers read from each other."""


def to_staging(
    workload: Workload,
    device: Hardware,
    link: Link,
    *,
    devices: int,
    micro_batches: int,
    tensor_degrees: Sequence[int] = (1, 2, 4, 8),
    tensor_link: Link | None = None,
    memory_bytes: float | None = None,
    weight_versions: int = 2,
    recomputation: bool = True,
    merge: bool = True,
    zero: int = 0,
    name: str | None = None,
) -> StagingProblem:
    """The staging problem of training `workload` on `devices` such devices, all joined by `link`.

    `tensor_link` None: tensor-parallel devices are joined by `link` as well; `memory_bytes` None: the device's own.
    `zero`: the stage by which replicas divide the optimizer's states, from 2 on gradients, and in 3 weights.
    """
    _check(tensor_degrees, weight_versions)
    check_zero("zero", zero)
    parts = blocks(workload, merge)
    edges = _edges(workload, parts)
    factory = _Factory(workload, device, tensor_link or link, weight_versions, recomputation, zero)
    return StagingProblem(
        layers=factory.layers(parts, edges, [t for t in sorted(set(tensor_degrees)) if t <= devices]),
        edges=edges,
        devices=devices,
        bandwidth=link.bytes_per_s,
        micro_batches=micro_batches,
        memory_bytes=device.memory_bytes if memory_bytes is None else memory_bytes,
        name=name or workload.name,
        time_unit="s",
        zero=zero,
    )


def _check(degrees: Sequence[int], weight_versions: int) -> None:
    for t in degrees:
        if isinstance(t, bool) or not isinstance(t, int) or t < 1:
            raise InputError("tensor_degrees", f"has the entry {show(t)}", "give whole numbers >= 1")
    if 1 not in degrees:
        raise InputError(
            "tensor_degrees", "lacks 1", "give 1 as well: one device must be able to hold a layer alone"
        )
    if isinstance(weight_versions, bool) or not isinstance(weight_versions, int) or weight_versions < 1:
        raise InputError("weight_versions", f"is {show(weight_versions)}", "give a whole number >= 1")


def _edges(workload: Workload, parts: Sequence[Block]) -> tuple[Edge, ...]:
    """One edge between two blocks, with every tensor that crosses it once."""
    home = {layer.name: part.name for part in parts for layer in part.layers}
    crossing: dict[tuple[str, str], float] = {}
    for part in parts:
        for source in part.inputs:
            if source in home:
                key = (home[source], part.name)
                crossing[key] = crossing.get(key, 0.0) + workload.activation_bytes(workload.layer(source))
    return tuple(Edge(source, target, amount) for (source, target), amount in crossing.items())


@dataclass(frozen=True, slots=True)
class _Factory:
    """Makes the layers of the problem with all ways to run them."""

    workload: Workload
    device: Hardware
    link: Link
    weight_versions: int
    recomputation: bool
    zero: int

    def layers(
        self, parts: Sequence[Block], edges: Sequence[Edge], degrees: Sequence[int]
    ) -> tuple[StagingLayer, ...]:
        near: dict[str, tuple[list[Edge], list[Edge]]] = {part.name: ([], []) for part in parts}
        for edge in edges:
            near[str(edge.target)][0].append(edge)
            near[str(edge.source)][1].append(edge)
        return tuple(
            StagingLayer(
                part.name,
                {t: tuple(self.ways(part, t, *near[part.name])) for t in degrees},
                TRANSFORMER if part.is_transformer else None,
            )
            for part in parts
        )

    def ways(
        self, block: Block, t: int, entering: Sequence[Edge], leaving: Sequence[Edge]
    ) -> Iterator[Configuration]:
        """The ways to run a block on t devices: as it is and, where that saves memory, with recomputation."""
        cost = self._cost(block, t)
        gathered = (t - 1) / t / 2
        gather_in = {edge.source: gathered * edge.bytes for edge in entering if gathered}
        gather_out = {edge.target: gathered * edge.bytes for edge in leaving if gathered}
        kept = float(sum(self.workload.activation_bytes(self.workload.layer(source)) for source in block.inputs))
        plans = [(VANILLA, cost.forward + cost.backward, kept + cost.inner_bytes)]
        if self.recomputation and cost.inner_bytes:
            plans.append((RECOMPUTE, 2 * cost.forward + cost.backward, kept))
        each = self._bytes_per_parameter()
        for name, time, per_batch in plans:
            yield Configuration(
                name,
                round(time, DIGITS),
                weight_bytes=cost.parameters * self.workload.element_bytes,
                memory_per_batch=per_batch,
                memory_fixed=cost.parameters * each.whole,
                memory_divided=cost.parameters * each.shared,
                gather_in=gather_in,
                gather_out=gather_out,
            )

    def _bytes_per_parameter(self) -> Bytes:
        """Bytes of weight versions, gradient, moments and master copy: on every replica, and divided among them."""
        size = self.workload.element_bytes
        optimizer = OPTIMIZERS["adam-mixed"].states + (SINGLE if size < SINGLE else 0)
        states = (optimizer, size, self.weight_versions * size)
        return Bytes(sum(states[self.zero :]), sum(states[: self.zero]))

    def _cost(self, block: Block, t: int) -> _Cost:
        forward = backward = parameters = inner = 0.0
        read_inside = {source for layer in block.layers for source in layer.inputs} - set(block.inputs)
        for layer in block.layers:
            how = split_of(block, layer) if t > 1 else None
            share = 1 if how is None else t
            collectives = self._collectives(layer, how, t)
            forward += self._seconds(layer, share, self.workload.forward_flops(layer), 1) + collectives[0]
            backward += self._seconds(layer, share, self.workload.backward_flops(layer), 2) + collectives[1]
            parameters += layer.parameters / share
            if layer.name in read_inside:
                stays_split = how in (split.SPLIT_COLUMNS, split.SPLIT_INSIDE)
                inner += self.workload.activation_bytes(layer) / (t if stays_split else 1)
        return _Cost(forward, backward, parameters, inner)

    def _seconds(self, layer: Layer, share: int, flops: float, passes: int) -> float:
        moved = passes * self.workload.moved_bytes(layer)
        return self.device.seconds(flops / share, moved / share, self.workload.element_bytes)

    def _collectives(self, layer: Layer, how: str | None, t: int) -> tuple[float, float]:
        """Seconds that the t devices spend on collectives: forward, backward."""
        if how is None or how == split.SPLIT_INSIDE:
            return 0.0, 0.0
        piece = (t - 1) / t / self.link.bytes_per_s
        output = piece * self.workload.activation_bytes(layer)
        # Query, key and value are one matrix in practice: their input gradients are summed once, a third each.
        shared = 3 if split.last_part(layer) in ("query", "key", "value") else 1
        read = piece * sum(
            self.workload.activation_bytes(source)
            for source in map(self.workload.layer, layer.inputs)
            if source.kind != "input"
        )
        forward = {split.SPLIT_ROWS: 2 * output, split.SPLIT_BOTH: 2 * output, split.SPLIT_GATHERED: output}
        backward = {
            split.SPLIT_COLUMNS: 2 * read / shared,
            split.SPLIT_BOTH: 2 * read,
            split.SPLIT_GATHERED: 2 * read,
        }
        return forward.get(how, 0.0), backward.get(how, 0.0)
