"""Workload -> chain: a network cut at the places where one tensor passes, its runs of layers timed and summed.

Times are in ms for the whole batch, sizes in bytes. The input of the network is a_0; the outputs of groups are a_1 to
a_L, and gradients have the sizes of what they are gradients of. Backward tasks move twice the bytes of forward tasks.

What is lost: branches inside a group cannot be divided between GPUs; the loss takes neither time nor memory besides
the network's output; tensors inside a group are not counted, as if they were computed again for the backward pass
without taking time (`inner` counts them with the group's input instead: right for what a GPU keeps, too much for
what waits between tasks, and a slot then reserves them too, but transfers take only as long as what passes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from ..errors import unknown_choice
from ..workloads.hardware import Hardware, Link
from ..workloads.model import Layer, Workload
from .linear import Group, cut_into_groups, with_runs_joined
from .problem import ChainProblem

MS_PER_S = 1e3

Grain = Literal["blocks", "cuts"]
GRAINS: tuple[Grain, ...] = get_args(Grain)
"""`cuts`: a layer of the chain for every cut; `blocks`: layers without large weights join the block before them."""

LIGHT_KINDS = frozenset({"add", "batch-norm", "concat", "dropout", "gelu", "layer-norm", "pool", "relu", "softmax"})
"""A run of nothing but these is no block of its own."""


def workload_to_chain(
    workload: Workload,
    device: Hardware,
    link: Link,
    *,
    gpus: int,
    memory_bytes: float | None = None,
    grain: Grain = "blocks",
    inner: bool = False,
    name: str | None = None,
) -> ChainProblem:
    """The training of a workload on `gpus` such devices; `memory_bytes` None: the device's own memory.

    Memory infinity: no limit.
    """
    if grain not in GRAINS:
        raise unknown_choice("The grain", grain, GRAINS)
    groups = workload_groups(workload, grain)
    layers = [[workload.layers[i] for i in group.members] for group in groups]
    passing = [_input_bytes(workload), *(_output_bytes(workload, group) for group in groups)]
    kept = [
        size + (_inner_bytes(workload, group) if inner else 0) for size, group in zip(passing, groups, strict=False)
    ]
    limit = device.memory_bytes if memory_bytes is None else memory_bytes
    return ChainProblem(
        forward=tuple(_milliseconds(workload, device, run, backward=False) for run in layers),
        backward=tuple(_milliseconds(workload, device, run, backward=True) for run in layers),
        activations=(*kept, *reversed(passing)),
        weights=tuple(sum(map(workload.parameter_bytes, run)) for run in layers),
        gpus=gpus,
        memory_bytes=None if limit == math.inf else limit,
        transfer_times=_transfer_times(passing, link) if inner else None,
        bandwidth=None if inner else link.bytes_per_s / MS_PER_S,
        name=name or workload.name,
        time_unit="ms",
    )


def workload_groups(workload: Workload, grain: Grain = "blocks") -> list[Group]:
    """Positions of layers, inputs left out, that make up each layer of the chain."""
    positions = {layer.name: i for i, layer in enumerate(workload.layers)}
    readers: list[list[int]] = [[] for _ in workload.layers]
    for i, layer in enumerate(workload.layers):
        for source in layer.inputs:
            readers[positions[source]].append(i)
    order = [i for i, layer in enumerate(workload.layers) if layer.kind != "input"]
    groups = cut_into_groups(order, readers)
    return _blocks(workload, groups) if grain == "blocks" else groups


def _blocks(workload: Workload, groups: Sequence[Group]) -> list[Group]:
    light = [all(workload.layers[i].kind in LIGHT_KINDS for i in group.members) for group in groups]
    return with_runs_joined(groups, [(g - 1, g) for g in range(1, len(groups)) if light[g]])


def _input_bytes(workload: Workload) -> int:
    return sum(workload.activation_bytes(layer) for layer in workload.layers if layer.kind == "input")


def _output_bytes(workload: Workload, group: Group) -> int:
    """What passes to the next group; for the last group, the outputs that nobody reads."""
    if group.sends:
        return sum(workload.activation_bytes(workload.layers[i]) for i in group.sends)
    read = {source for layer in workload.layers for source in layer.inputs}
    outputs = (workload.layers[i] for i in group.members)
    return sum(workload.activation_bytes(layer) for layer in outputs if layer.name not in read)


def _inner_bytes(workload: Workload, group: Group) -> int:
    """The outputs of the group that are read inside it."""
    names = {workload.layers[i].name for i in group.members}
    read = {source for i in group.members for source in workload.layers[i].inputs}
    return sum(workload.activation_bytes(workload.layer(name)) for name in names & read)


def _milliseconds(workload: Workload, device: Hardware, layers: Sequence[Layer], backward: bool) -> float:
    """The sum of the layers' times by the roofline rule, to a nanosecond."""
    seconds = (
        device.seconds(workload.backward_flops(layer), 2 * workload.moved_bytes(layer), workload.element_bytes)
        if backward
        else device.seconds(workload.forward_flops(layer), workload.moved_bytes(layer), workload.element_bytes)
        for layer in layers
    )
    return round(math.fsum(seconds) * MS_PER_S, 6)


def _transfer_times(passing: Sequence[int], link: Link) -> tuple[float, ...]:
    """Of edges 1..2L-1."""
    times = [size / link.bytes_per_s * MS_PER_S for size in passing[1:]]
    return (*times, *reversed(times[:-1]))
