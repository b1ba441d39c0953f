"""Workload -> profile: what the network's layers or blocks cost on a device, by the roofline rule.

A layer is one kernel forward and one backward. The backward kernel moves twice the bytes, because it also reads a
gradient and writes one. A layer keeps its output for the backward pass. Network inputs come from the host: they are no
nodes and cost nothing. Every layer whose output leaves its node sends a tensor.

What is lost: optimiser steps, the loss, and memory that kernels need only while they run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from ...base.checks import check_amount
from ...base.curve import TimeCurve
from ...physics.hardware import Hardware
from ..profile.profile import Profile, ProfileNode, ProfileTensor
from ..profile.work import Kernels, Work, calculated, merged, on_hardware
from .blocks import Block, blocks
from .model import Layer, Workload

# Bytes that a pass moves, in multiples of those that the forward pass moves.
PASSES = {"forward": 1, "backward": 2}
# Decimals of times in seconds, so down to picoseconds: files stay readable, and nothing that matters is rounded.
DIGITS = 12


def to_profile(workload: Workload, device: Hardware, *, merge: bool = True, name: str | None = None) -> Profile:
    """The profile of training a network with micro-batches of its own batch; `merge`: nodes are blocks, not layers."""
    parts = blocks(workload, merge)
    profile = Profile(
        nodes=tuple(_node(workload, part) for part in parts),
        tensors=tuple(_tensors(workload, parts)),
        name=name or workload.name,
        micro_batch=workload.batch,
        source={"how": "network", "network": workload.name, "element_bytes": workload.element_bytes},
    )
    return on_hardware(profile, device)


def to_curves(
    workload: Workload,
    device: Hardware,
    samples: Sequence[int],
    *,
    half_samples: float = 0.0,
    merge: bool = True,
    name: str | None = None,
) -> Profile:
    """The profile with times at several numbers of samples, and amounts of one sample.

    With `half_samples` the rate of arithmetic falls for few samples, as e(q) = q / (q + half_samples).
    """
    check_amount("half_samples", half_samples)
    single = Workload(workload.name, workload.layers, 1, workload.element_bytes)
    profile = to_profile(single, device, merge=merge, name=name)

    def curve(layers: Iterable[Layer], side: str) -> TimeCurve:
        times = (
            math.fsum(_seconds(workload, layer, side, q, device, half_samples) for layer in layers) for q in samples
        )
        return TimeCurve(tuple(samples), tuple(round(time, DIGITS) for time in times))

    nodes = tuple(
        ProfileNode(
            node.id,
            curve(part.layers, "forward"),
            curve(part.layers, "backward"),
            node.saved_bytes,
            parameters=node.parameters,
            flops_forward=node.flops_forward,
            flops_backward=node.flops_backward,
        )
        for node, part in zip(profile.nodes, blocks(single, merge), strict=True)
    )
    return profile.replace(nodes=nodes, source={**profile.source, "times": calculated(device)})


def _seconds(
    workload: Workload, layer: Layer, side: str, samples: int, device: Hardware, half_samples: float
) -> float:
    kernel = _kernel(Workload(workload.name, workload.layers, samples, workload.element_bytes), layer, side)
    flops = kernel.flops * (samples + half_samples) / samples
    return device.seconds(flops, kernel.moved_bytes, kernel.element_bytes)


def _kernel(workload: Workload, layer: Layer, side: str) -> Kernels:
    flops = workload.forward_flops(layer) if side == "forward" else workload.backward_flops(layer)
    return Kernels(flops, float(PASSES[side] * workload.moved_bytes(layer)), 1, workload.element_bytes)


def _node(workload: Workload, part: Block) -> ProfileNode:
    work = Work(*(merged(_kernel(workload, layer, side) for layer in part.layers) for side in PASSES))
    return ProfileNode(
        part.name,
        0.0,
        saved_bytes=float(sum(map(workload.activation_bytes, part.layers))),
        parameters={
            layer.name: float(workload.parameter_bytes(layer)) for layer in part.layers if layer.parameters
        },
        flops_forward=work.flops("forward"),
        flops_backward=work.flops("backward"),
        work=work,
    )


def _tensors(workload: Workload, parts: Sequence[Block]) -> Iterator[ProfileTensor]:
    """The tensors that other parts read, and the last one of a part of which no part reads anything."""
    readers: dict[str, list[str]] = {}
    for part in parts:
        for source in part.inputs:
            readers.setdefault(source, []).append(part.name)
    for part in parts:
        leaving = [layer for layer in part.layers if layer.name in readers] or part.layers[-1:]
        for layer in leaving:
            size = float(workload.activation_bytes(layer))
            yield ProfileTensor(layer.name, part.name, tuple(readers.get(layer.name, ())), size)
