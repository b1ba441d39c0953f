"""Workload -> placement problem.

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

from ..networks.analytic.model import Layer, Workload
from ..physics.hardware import DEVICES, Hardware, Link
from ..physics.optimizers import copies_by
from .problem import Node, PlacementProblem

MS_PER_S = 1e3


def to_placement(
    workload: Workload,
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
    """The placement problem of `workload` on `accelerators` such devices, joined to the host by `link`.

    `memory_bytes` None: the device's own memory.
    """
    readers = {source for layer in workload.layers for source in layer.inputs}
    nodes = [
        _forward(workload, layer, device, host, link, training, layer.name in readers) for layer in workload.layers
    ]
    edges: list[tuple[str, str]] = [(source, layer.name) for layer in workload.layers for source in layer.inputs]
    if training:
        nodes += [_backward(workload, layer, device, host, link) for layer in reversed(workload.layers)]
        edges += [(_mirror(layer.name), _mirror(source)) for layer in workload.layers for source in layer.inputs]
        edges += [(layer.name, _mirror(layer.name)) for layer in workload.layers if layer.name not in readers]
    return PlacementProblem(
        nodes=tuple(nodes),
        edges=tuple(edges),
        accelerators=accelerators,
        cpus=cpus,
        memory_bytes=device.memory_bytes if memory_bytes is None else memory_bytes,
        name=name or workload.name,
        time_unit="ms",
    )


def _mirror(name: str) -> str:
    return f"{name}/backward"


def _milliseconds(device: Hardware, flops: float, moved_bytes: float, element_bytes: int, layer: Layer) -> float:
    if layer.kind == "input":
        return 0.0
    return round(device.seconds(flops, moved_bytes, element_bytes) * MS_PER_S, 6)


def _forward(
    workload: Workload, layer: Layer, device: Hardware, host: Hardware, link: Link, training: bool, is_read: bool
) -> Node:
    flops, moved = workload.forward_flops(layer), workload.moved_bytes(layer)
    copies = copies_by(0, "adam").whole if training else 1
    output = workload.activation_bytes(layer)
    return Node(
        id=layer.name,
        accelerator_time=_milliseconds(device, flops, moved, workload.element_bytes, layer),
        cpu_time=_milliseconds(host, flops, moved, workload.element_bytes, layer),
        size_bytes=float(copies * workload.parameter_bytes(layer) + output),
        # In training a layer that nobody reads forward hands its output to its own backward node.
        transfer_time=_transfer(output, link) if is_read or training else 0.0,
        color=layer.name if training else None,
    )


def _backward(workload: Workload, layer: Layer, device: Hardware, host: Hardware, link: Link) -> Node:
    flops, moved = workload.backward_flops(layer), 2 * workload.moved_bytes(layer)
    # Gradients by the inputs: those of a sum are all the same, and nobody asks for those of a network input.
    sources = [source for source in map(workload.layer, layer.inputs) if source.kind != "input"]
    if layer.kind == "add":
        sources = sources[:1]
    return Node(
        id=_mirror(layer.name),
        accelerator_time=_milliseconds(device, flops, moved, workload.element_bytes, layer),
        cpu_time=_milliseconds(host, flops, moved, workload.element_bytes, layer),
        size_bytes=float(workload.activation_bytes(layer)),
        transfer_time=_transfer(sum(map(workload.activation_bytes, sources)), link),
        backward=True,
        color=layer.name,
    )


def _transfer(size_bytes: int, link: Link) -> float:
    return round(size_bytes / link.bytes_per_s * MS_PER_S, 6)
