"""The packaged placements; most are networks, of which this module makes placement problems.

One node per layer; for training one more per layer for its backward pass, mirrored, with a colour that keeps the two
together. Times are in ms for the whole batch: one batch is the sample that flows through the pipeline. A backward node
moves twice the bytes of its forward node: it reads the gradient besides, and writes one.

Memory on an accelerator. Inference: parameters and the output of the layer. Training: parameters, gradients and two
optimizer moments (4 x the parameters, Adam) with the forward node, and one stored output with each of the two nodes.

What is lost: how many batches are in flight (their activations multiply in a real pipeline: see the chain problem for
exact memory), overlap of transfers with work, and any time that depends on what runs before. A node has one transfer
time, so the gradients by all inputs of a layer are charged to each device that reads one of them; only an `add` hands
every input the same gradient and is charged for one. Network inputs get no gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import random_placements

from pipeplan.instances.base.quantities import GIB, MIB
from pipeplan.instances.physics.hardware import DEVICES, Hardware
from pipeplan.instances.physics.optimizers import copies_by
from pipeplan.instances.placement.problem import Node, PlacementProblem

from .catalogue import build
from .network import Layer, Network
from .recipe import LINKS, Link, Recipe, made_on

MS_PER_S = 1e3


def to_placement(
    network: Network,
    device: Hardware,
    link: Link,
    *,
    accelerators: int,
    cpus: int = 0,
    training: bool = False,
    host: Hardware = DEVICES["xeon-8380"],
    memory_bytes: float | None = None,
    name: str | None = None,
) -> PlacementProblem:
    """The placement problem of `network` on `accelerators` such devices, joined to the host by `link`.

    `memory_bytes` None: the device's own memory.
    """
    readers = {source for layer in network.layers for source in layer.inputs}
    nodes = [
        _forward(network, layer, device, host, link, training, layer.name in readers) for layer in network.layers
    ]
    edges: list[tuple[str, str]] = [(source, layer.name) for layer in network.layers for source in layer.inputs]
    if training:
        nodes += [_backward(network, layer, device, host, link) for layer in reversed(network.layers)]
        edges += [(_mirror(layer.name), _mirror(source)) for layer in network.layers for source in layer.inputs]
        edges += [(layer.name, _mirror(layer.name)) for layer in network.layers if layer.name not in readers]
    return PlacementProblem(
        nodes=tuple(nodes),
        edges=tuple(edges),
        accelerators=accelerators,
        cpus=cpus,
        memory_bytes=device.memory_bytes if memory_bytes is None else memory_bytes,
        name=name or network.name,
        time_unit="ms",
    )


def _mirror(name: str) -> str:
    return f"{name}/backward"


def _milliseconds(device: Hardware, flops: float, moved_bytes: float, element_bytes: int, layer: Layer) -> float:
    if layer.kind == "input":
        return 0.0
    return round(device.seconds(flops, moved_bytes, element_bytes) * MS_PER_S, 6)


def _forward(
    network: Network, layer: Layer, device: Hardware, host: Hardware, link: Link, training: bool, is_read: bool
) -> Node:
    flops, moved = network.forward_flops(layer), network.moved_bytes(layer)
    copies = copies_by(0, "adam").whole if training else 1
    output = network.activation_bytes(layer)
    return Node(
        id=layer.name,
        accelerator_time=_milliseconds(device, flops, moved, network.element_bytes, layer),
        cpu_time=_milliseconds(host, flops, moved, network.element_bytes, layer),
        size_bytes=float(copies * network.parameter_bytes(layer) + output),
        # In training a layer that nobody reads forward hands its output to its own backward node.
        transfer_time=_transfer(output, link) if is_read or training else 0.0,
        color=layer.name if training else None,
    )


def _backward(network: Network, layer: Layer, device: Hardware, host: Hardware, link: Link) -> Node:
    flops, moved = network.backward_flops(layer), 2 * network.moved_bytes(layer)
    # Gradients by the inputs: those of a sum are all the same, and nobody asks for those of a network input.
    sources = [source for source in map(network.layer, layer.inputs) if source.kind != "input"]
    if layer.kind == "add":
        sources = sources[:1]
    return Node(
        id=_mirror(layer.name),
        accelerator_time=_milliseconds(device, flops, moved, network.element_bytes, layer),
        cpu_time=_milliseconds(host, flops, moved, network.element_bytes, layer),
        size_bytes=float(network.activation_bytes(layer)),
        transfer_time=_transfer(sum(map(network.activation_bytes, sources)), link),
        backward=True,
        color=layer.name,
    )


def _transfer(size_bytes: int, link: Link) -> float:
    return round(size_bytes / link.bytes_per_s * MS_PER_S, 6)


# ---- the instances ---------------------------------------------------------------------------------------

V100, A100 = "v100-pcie-16gb", "a100-40gb"
# Memory as the names of the devices say it; drivers report less, but the stored instances have these amounts.
MEMORY = {V100: 16.0 * GIB, A100: 40.0 * GIB}
# Name, network, batch, device, link and cluster of the instances that are made of networks.
_NETWORKS: tuple[tuple[str, str, int, str, str, dict[str, Any]], ...] = (
    ("resnet50-inference", "resnet50", 64, V100, "pcie3-x16", {"accelerators": 6, "cpus": 1}),
    ("resnet50-training", "resnet50", 32, V100, "pcie3-x16", {"accelerators": 4, "training": True}),
    ("inception-inference", "inception_v3", 64, V100, "pcie3-x16", {"accelerators": 6, "cpus": 1}),
    ("densenet121-inference", "densenet121", 32, V100, "pcie3-x16", {"accelerators": 4}),
    ("vgg16-training", "vgg16", 32, V100, "pcie3-x16", {"accelerators": 4, "training": True}),
    ("bert-large-inference", "bert-large", 8, A100, "pcie4-x16", {"accelerators": 6, "cpus": 1}),
    ("bert-large-training", "bert-large", 8, V100, "pcie3-x16", {"accelerators": 6, "training": True}),
    ("bert-base-operators", "bert-base-operators", 8, V100, "pcie3-x16", {"accelerators": 3, "cpus": 1}),
    ("gpt2-xl-training", "gpt2-xl", 4, A100, "nvlink3", {"accelerators": 8, "training": True}),
    ("gpt3-6.7b-inference", "gpt3-6.7b", 1, A100, "nvlink3", {"accelerators": 4}),
    ("gnmt-training", "gnmt", 64, V100, "pcie3-x16", {"accelerators": 6, "training": True}),
)


def _lowered(
    name: str, network: str, batch: int, device: str, link: str, cluster: dict[str, Any]
) -> PlacementProblem:
    own = (made_on(device), LINKS[link])
    return to_placement(build(network, batch), *own, memory_bytes=MEMORY[device], name=name, **cluster)


def _tiny_chain() -> PlacementProblem:
    """Best split by hand: {a, b} {c, d} {e, f} with loads 5.5, 6, 5.5 (every transfer takes 0.5)."""
    works = {"a": 2.0, "b": 3.0, "c": 1.0, "d": 4.0, "e": 2.0, "f": 3.0}
    names = list(works)
    nodes = [
        Node(name, work, 10 * work, size_bytes=100.0, transfer_time=0.0 if name == "f" else 0.5)
        for name, work in works.items()
    ]
    edges = tuple(pairwise(names))
    return PlacementProblem(tuple(nodes), edges, 3, 0, 400.0, "tiny-chain", "ms")


def _cpu_offload() -> PlacementProblem:
    return random_placements.heterogeneous(nodes=60, accelerators=3, cpus=2, seed=3).replace(name="cpu-offload")


def _memory_tight() -> PlacementProblem:
    problem = random_placements.series_parallel(nodes=40, accelerators=5, cpus=0, seed=5)
    return problem.replace(name="memory-tight", memory_bytes=300.0 * MIB)


def _networks() -> Iterator[Recipe]:
    for name, network, batch, device, link, cluster in _NETWORKS:
        mode = "training" if cluster.get("training") else "inference"
        source = f"{network}, batch {batch}, {mode}, on {device} over {link} (analytic costs)"
        yield Recipe(name, source, partial(_lowered, name, network, batch, device, link, cluster))


RECIPES = (
    Recipe("tiny-chain", "six hand-written layers, for teaching", _tiny_chain),
    *_networks(),
    Recipe("cpu-offload", "generator heterogeneous, 60 nodes, seed 3", _cpu_offload),
    Recipe("memory-tight", "generator series-parallel, 40 nodes, seed 5, 300 MiB per accelerator", _memory_tight),
)
