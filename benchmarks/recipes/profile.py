"""Network -> profile: what the network's layers or blocks cost on a device, by the roofline rule.

A layer is one kernel forward and one backward. The backward kernel moves twice the bytes, because it also reads a
gradient and writes one. A layer keeps its output for the backward pass. Network inputs come from the host: they are no
nodes and cost nothing. Every layer whose output leaves its node sends a tensor.

What is lost: optimiser steps, the loss, and memory that kernels need only while they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeplan.instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor
from pipeplan.instances.networks.profile.work import Kernels, Work, merged, on_hardware
from pipeplan.instances.physics.hardware import Hardware

from .blocks import Block, blocks
from .network import Layer, Network

# Bytes that a pass moves, in multiples of those that the forward pass moves.
PASSES = {"forward": 1, "backward": 2}


def to_profile(network: Network, device: Hardware, name: str, source: Mapping[str, Any]) -> Profile:
    """The profile of training a network block by block, with micro-batches of its own batch."""
    parts = blocks(network)
    profile = Profile(
        nodes=tuple(_node(network, part) for part in parts),
        tensors=tuple(_tensors(network, parts)),
        name=name,
        micro_batch=network.batch,
        source=source,
    )
    return on_hardware(profile, device)


def _kernel(network: Network, layer: Layer, side: str) -> Kernels:
    flops = network.forward_flops(layer) if side == "forward" else network.backward_flops(layer)
    return Kernels(flops, float(PASSES[side] * network.moved_bytes(layer)), 1, network.element_bytes)


def _node(network: Network, part: Block) -> ProfileNode:
    work = Work(*(merged(_kernel(network, layer, side) for layer in part.layers) for side in PASSES))
    return ProfileNode(
        part.name,
        0.0,
        saved_bytes=float(sum(map(network.activation_bytes, part.layers))),
        parameters={layer.name: float(network.parameter_bytes(layer)) for layer in part.layers if layer.parameters},
        flops_forward=work.flops("forward"),
        flops_backward=work.flops("backward"),
        work=work,
    )


def _tensors(network: Network, parts: Sequence[Block]) -> Iterator[ProfileTensor]:
    """The tensors that other parts read, and the last one of a part of which no part reads anything."""
    readers: dict[str, list[str]] = {}
    for part in parts:
        for source in part.inputs:
            readers.setdefault(source, []).append(part.name)
    for part in parts:
        leaving = [layer for layer in part.layers if layer.name in readers] or part.layers[-1:]
        for layer in leaving:
            size = float(network.activation_bytes(layer))
            yield ProfileTensor(layer.name, part.name, tuple(readers.get(layer.name, ())), size)
