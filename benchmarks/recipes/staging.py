"""The packaged stagings; most are networks, of which this module makes staging problems with ways to run each block.

One layer of the problem per block of the network (a transformer layer, a residual block), or per layer of the network
with `merge=False`. Times are in seconds for one micro-batch of `network.batch` samples, forward and backward, by the
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

Memory that does not depend on the batches in flight: two copies of the parameters (as in PipeDream-2BW), their
gradients, and Adam's two moments in 4 bytes each, with a master copy in 4 bytes where numbers are shorter.

A tensor between stages crosses once, from group to group; the t devices that receive it then share it, (t-1)/t of it
each: forward along edges into a stage, backward along edges out of it. The cost model counts what is gathered in both
directions, so half of it is given.

What is lost: bytes moved inside a device are divided as its operations are; a tensor that two blocks read is kept by
both; collectives take size / bandwidth without latency and overlap nothing; what a block holds for a moment while it
recomputes; outputs that nobody keeps; that t should divide heads and channels; fused kernels. One bandwidth joins all
devices. Network inputs come from the host and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from pipeplan.instances.base.quantities import GIB
from pipeplan.instances.physics.efficiencies import SINGLE
from pipeplan.instances.physics.hardware import Hardware
from pipeplan.instances.physics.optimizers import OPTIMIZERS
from pipeplan.instances.staging.problem import Configuration, Edge, StagingLevel, StagingProblem
from pipeplan.instances.staging.problem import Layer as StagingLayer

from . import blocks as split
from .blocks import Block, blocks, split_of
from .catalogue import build
from .network import Layer, Network
from .recipe import LINKS, Link, Recipe, made_on

VANILLA = "vanilla"
# The ids of the published inputs, by which baselines tell recomputation.
RECOMPUTE = "activation recomp"

# The name of transformer layers in the published inputs, by which even splits tell them.
TRANSFORMER = "ParallelTransformerLayer"

# Copies of the weights that a device keeps, as in PipeDream-2BW.
WEIGHT_VERSIONS = 2
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
    network: Network,
    device: Hardware,
    link: Link,
    *,
    devices: int,
    micro_batches: int,
    tensor_degrees: Sequence[int] = (1, 2, 4, 8),
    memory_bytes: float | None = None,
    merge: bool = True,
    name: str | None = None,
) -> StagingProblem:
    """The staging problem of training `network` on `devices` such devices, all joined by `link`.

    `memory_bytes` None: the device's own; `merge`: blocks are the layers of the problem, not layers of the network.
    """
    parts = blocks(network, merge)
    edges = _edges(network, parts)
    factory = _Factory(network, device, link)
    return StagingProblem(
        layers=factory.layers(parts, edges, [t for t in sorted(set(tensor_degrees)) if t <= devices]),
        edges=edges,
        devices=devices,
        bandwidth=link.bytes_per_s,
        micro_batches=micro_batches,
        memory_bytes=device.memory_bytes if memory_bytes is None else memory_bytes,
        name=name or network.name,
        time_unit="s",
    )


def _edges(network: Network, parts: Sequence[Block]) -> tuple[Edge, ...]:
    """One edge between two blocks, with every tensor that crosses it once."""
    home = {layer.name: part.name for part in parts for layer in part.layers}
    crossing: dict[tuple[str, str], float] = {}
    for part in parts:
        for source in part.inputs:
            if source in home:
                key = (home[source], part.name)
                crossing[key] = crossing.get(key, 0.0) + network.activation_bytes(network.layer(source))
    return tuple(Edge(source, target, amount) for (source, target), amount in crossing.items())


@dataclass(frozen=True, slots=True)
class _Factory:
    """Makes the layers of the problem with all ways to run them."""

    network: Network
    device: Hardware
    link: Link

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
        kept = float(sum(self.network.activation_bytes(self.network.layer(source)) for source in block.inputs))
        plans = [(VANILLA, cost.forward + cost.backward, kept + cost.inner_bytes)]
        if cost.inner_bytes:
            plans.append((RECOMPUTE, 2 * cost.forward + cost.backward, kept))
        held = cost.parameters * self._bytes_per_parameter()
        for name, time, per_batch in plans:
            yield Configuration(
                name,
                round(time, DIGITS),
                weight_bytes=cost.parameters * self.network.element_bytes,
                memory_per_batch=per_batch,
                memory_fixed=held,
                gather_in=gather_in,
                gather_out=gather_out,
            )

    def _bytes_per_parameter(self) -> float:
        """Bytes of the weight versions, the gradient, the moments and the master copy of one parameter."""
        size = self.network.element_bytes
        master = SINGLE if size < SINGLE else 0
        return WEIGHT_VERSIONS * size + size + OPTIMIZERS["adam-mixed"].states + master

    def _cost(self, block: Block, t: int) -> _Cost:
        forward = backward = parameters = inner = 0.0
        read_inside = {source for layer in block.layers for source in layer.inputs} - set(block.inputs)
        for layer in block.layers:
            how = split_of(block, layer) if t > 1 else None
            share = 1 if how is None else t
            collectives = self._collectives(layer, how, t)
            forward += self._seconds(layer, share, self.network.forward_flops(layer), 1) + collectives[0]
            backward += self._seconds(layer, share, self.network.backward_flops(layer), 2) + collectives[1]
            parameters += layer.parameters / share
            if layer.name in read_inside:
                stays_split = how in (split.SPLIT_COLUMNS, split.SPLIT_INSIDE)
                inner += self.network.activation_bytes(layer) / (t if stays_split else 1)
        return _Cost(forward, backward, parameters, inner)

    def _seconds(self, layer: Layer, share: int, flops: float, passes: int) -> float:
        moved = passes * self.network.moved_bytes(layer)
        return self.device.seconds(flops / share, moved / share, self.network.element_bytes)

    def _collectives(self, layer: Layer, how: str | None, t: int) -> tuple[float, float]:
        """Seconds that the t devices spend on collectives: forward, backward."""
        if how is None or how == split.SPLIT_INSIDE:
            return 0.0, 0.0
        piece = (t - 1) / t / self.link.bytes_per_s
        output = piece * self.network.activation_bytes(layer)
        # Query, key and value are one matrix in practice: their input gradients are summed once, a third each.
        shared = 3 if split.last_part(layer) in ("query", "key", "value") else 1
        read = piece * sum(
            self.network.activation_bytes(source)
            for source in map(self.network.layer, layer.inputs)
            if source.kind != "input"
        )
        forward = {split.SPLIT_ROWS: 2 * output, split.SPLIT_BOTH: 2 * output, split.SPLIT_GATHERED: output}
        backward = {
            split.SPLIT_COLUMNS: 2 * read / shared,
            split.SPLIT_BOTH: 2 * read,
            split.SPLIT_GATHERED: 2 * read,
        }
        return forward.get(how, 0.0), backward.get(how, 0.0)


# ---- the instances ---------------------------------------------------------------------------------------


def _tiny() -> StagingProblem:
    """Best plan by hand: one device for each layer, the first two recompute; the second takes 5 + 2 x 2 x 1 / 4 = 6.

    Without recomputation the first two stages do not fit (four and three micro-batches in flight). Two layers on one
    device take 8 at least, on two tensor-parallel devices 6 and a transfer of 0.5. On two replicas two layers take 1.5
    for weights, and at least one of them must recompute: (9 + 0.5) / 2 + 1.5 = 6.25. Three layers on one device do not
    fit, and on two take 9.
    """
    ways = {
        1: (
            Configuration("vanilla", 4.0, weight_bytes=3.0, memory_per_batch=10.0, memory_fixed=10.0),
            Configuration("activation recomp", 5.0, weight_bytes=3.0, memory_per_batch=2.0, memory_fixed=10.0),
        ),
        2: (Configuration("vanilla", 3.0, weight_bytes=1.5, memory_per_batch=5.0, memory_fixed=5.0),),
    }
    return StagingProblem(
        layers=tuple(StagingLayer(name, ways) for name in "abcd"),
        edges=tuple(Edge(u, v, 1.0) for u, v in pairwise("abcd")),
        devices=4,
        bandwidth=4.0,
        micro_batches=8,
        memory_bytes=35.0,
        name="tiny-stages",
    )


def _tiny_levels() -> StagingProblem:
    """Two servers of two devices, slow links between them. Best plan by hand: a copy of everything on each server.

    A device holds one layer, so both devices of a server are full. A cut between the servers takes 2 x 20 / 1 = 40; two
    copies, each cut inside its server, take (8 + 2 x 20 / 10) / 2 = 6. Without copies a stage takes 8 + 4 = 12.
    """
    way = Configuration("vanilla", 8.0, memory_per_batch=1.0, memory_fixed=10.0)
    return StagingProblem(
        layers=(StagingLayer("a", {1: (way,)}), StagingLayer("b", {1: (way,)})),
        edges=(Edge("a", "b", 20.0),),
        devices=4,
        bandwidth=10.0,
        micro_batches=4,
        memory_bytes=15.0,
        levels=(StagingLevel(2, 10.0), StagingLevel(2, 1.0)),
        name="tiny-levels",
    )


def _lowered(
    name: str, network: str, batch: int, device: str, link: str, options: dict[str, Any]
) -> StagingProblem:
    return to_staging(build(network, batch), made_on(device), LINKS[link], name=name, **options)


def _network(name: str, network: str, batch: int, device: str, link: str, **options: Any) -> Recipe:
    memory = options["memory_bytes"] / GIB
    source = f"{network}, micro-batches of {batch}, on {device} with {memory:g} GiB over {link} (analytic costs)"
    return Recipe(name, source, partial(_lowered, name, network, batch, device, link, options))


RECIPES = (
    Recipe("tiny-stages", "four hand-written layers, for teaching", _tiny),
    Recipe("tiny-levels", "two hand-written layers on two servers of two devices, for teaching", _tiny_levels),
    _network(
        "gpt2-medium-stages", "gpt2-medium-operators", 2, "a100-40gb", "nvlink3",
        devices=16, micro_batches=64, memory_bytes=0.75 * GIB,
    ),
    _network(
        "bert-large-stages", "bert-large-operators", 8, "v100-pcie-16gb", "pcie3-x16",
        devices=6, micro_batches=32, memory_bytes=4.0 * GIB, tensor_degrees=(1, 2, 4),
    ),
    _network(
        "resnet50-stages", "resnet50", 32, "v100-pcie-16gb", "pcie3-x16",
        devices=8, micro_batches=64, memory_bytes=2.0 * GIB, tensor_degrees=(1, 2),
    ),
)  # fmt: skip
