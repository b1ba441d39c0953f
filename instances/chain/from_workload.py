"""Workload -> chain: a network cut at the places where one tensor passes, its runs of layers timed and summed.

Times are in ms for the whole batch, sizes in bytes. The input of the network is a_0; the outputs of groups are a_1 to
a_L, and gradients have the sizes of what they are gradients of. Backward tasks move twice the bytes of forward tasks.

What is lost: branches inside a group cannot be divided between GPUs; the loss takes neither time nor memory besides
the network's output; tensors inside a group are not counted, as if they were computed again for the backward pass
without taking time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..networks.analytic.model import Layer, Workload
from ..physics.hardware import Hardware, Link
from .linear import Group, cut_into_groups
from .problem import ChainProblem

MS_PER_S = 1e3

# A run of nothing but these is no block of its own.
LIGHT_KINDS = frozenset({"add", "batch-norm", "concat", "dropout", "gelu", "layer-norm", "pool", "relu", "softmax"})


def workload_to_chain(
    workload: Workload, device: Hardware, link: Link, *, gpus: int, memory_bytes: float | None = None
) -> ChainProblem:
    """The training of a workload on `gpus` such devices; `memory_bytes` None: the device's own memory.

    Memory infinity: no limit.
    """
    groups = workload_groups(workload)
    layers = [[workload.layers[i] for i in group.members] for group in groups]
    passing = [_input_bytes(workload), *(_output_bytes(workload, group) for group in groups)]
    limit = device.memory_bytes if memory_bytes is None else memory_bytes
    return ChainProblem(
        forward=tuple(_milliseconds(workload, device, run, backward=False) for run in layers),
        backward=tuple(_milliseconds(workload, device, run, backward=True) for run in layers),
        activations=(*passing[:-1], *reversed(passing)),
        weights=tuple(sum(map(workload.parameter_bytes, run)) for run in layers),
        gpus=gpus,
        memory_bytes=None if limit == math.inf else limit,
        bandwidth=link.bytes_per_s / MS_PER_S,
        name=workload.name,
        time_unit="ms",
    )


def workload_groups(workload: Workload) -> list[Group]:
    """The layers of the network, by position and without its inputs, that make up each layer of the chain: a block."""
    positions = {layer.name: i for i, layer in enumerate(workload.layers)}
    readers: list[list[int]] = [[] for _ in workload.layers]
    for i, layer in enumerate(workload.layers):
        for source in layer.inputs:
            readers[positions[source]].append(i)
    order = [i for i, layer in enumerate(workload.layers) if layer.kind != "input"]
    blocks: list[Group] = []
    for group in cut_into_groups(order, readers):
        if blocks and all(workload.layers[i].kind in LIGHT_KINDS for i in group.members):
            blocks[-1] = Group((*blocks[-1].members, *group.members), group.sends)
        else:
            blocks.append(group)
    return blocks


def _input_bytes(workload: Workload) -> int:
    return sum(workload.activation_bytes(layer) for layer in workload.layers if layer.kind == "input")


def _output_bytes(workload: Workload, group: Group) -> int:
    """Bytes that pass to the next group; for the last group, those of the outputs that nobody reads."""
    if group.sends:
        return sum(workload.activation_bytes(workload.layers[i]) for i in group.sends)
    read = {source for layer in workload.layers for source in layer.inputs}
    outputs = (workload.layers[i] for i in group.members)
    return sum(workload.activation_bytes(layer) for layer in outputs if layer.name not in read)


def _milliseconds(workload: Workload, device: Hardware, layers: Sequence[Layer], backward: bool) -> float:
    """The sum of the layers' times by the roofline rule, to a nanosecond."""
    seconds = (
        device.seconds(workload.backward_flops(layer), 2 * workload.moved_bytes(layer), workload.element_bytes)
        if backward
        else device.seconds(workload.forward_flops(layer), workload.moved_bytes(layer), workload.element_bytes)
        for layer in layers
    )
    return round(math.fsum(seconds) * MS_PER_S, 6)
