"""Workload -> graph-pipeline problem: one operator for each layer (or block), with times as a function of samples.

Times are in seconds by the roofline rule of the workload's hardware at 1, 2, 4, ... samples; with `half_samples` the
rate of arithmetic falls for few samples, as e(q) = q / (q + half_samples). A layer keeps its output for the backward
pass; the weights stand beside their gradients, and `weight_copies` counts optimiser states as well.

What is lost: network inputs come from the host and cost nothing, and are not kept; the workload's own batch (the
mini-batch takes its place); a block that several later blocks read in different places has one tensor, the sum of them
all; a tensor that an operator gets from another stage is counted where it was made only; recomputation and tensor
parallelism, which this problem does not know; optimiser steps, loss, and what kernels need for a moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..checks import check_amount, check_whole
from ..workloads.blocks import Block, blocks
from ..workloads.hardware import Hardware, Link
from ..workloads.model import Layer, Workload
from .clusters import DIGITS, powers_of_two
from .problem import MAX_MINI_BATCH, GraphPipelineProblem, Operator, TimeCurve
from .problem import Link as GraphLink

PASSES = {"forward": 1, "backward": 2}
"""What a pass moves, in what the forward pass moves: backward the gradients besides."""


def to_graph_pipeline(
    workload: Workload,
    device: Hardware,
    link: Link,
    *,
    devices: int,
    mini_batch: int,
    node_link: Link | None = None,
    devices_per_node: int | None = None,
    memory_bytes: float | None = None,
    weight_copies: float = 4.0,
    half_samples: float = 0.0,
    merge: bool = False,
    name: str | None = None,
) -> GraphPipelineProblem:
    """The problem of training `workload` on `devices` such devices, joined by `link` (between nodes: `node_link`).

    `memory_bytes` None: the device's own. `merge`: whole blocks (a transformer layer, a residual block) as operators.
    The weight copies are parameters, gradients and two moments unless told otherwise.
    """
    check_whole("mini_batch", mini_batch, MAX_MINI_BATCH)
    check_amount("half_samples", half_samples)
    factory = _Factory(workload, device, powers_of_two(mini_batch), half_samples)
    parts = blocks(workload, merge)
    home = {layer.name: part.name for part in parts for layer in part.layers}
    read = {source for part in parts for source in part.inputs}
    edges = {(home[source], part.name): None for part in parts for source in part.inputs if source in home}
    return GraphPipelineProblem(
        operators=tuple(factory.operator(part, read) for part in parts),
        edges=tuple(edges),
        mini_batch=mini_batch,
        devices=devices,
        memory_bytes=device.memory_bytes if memory_bytes is None else memory_bytes,
        link=GraphLink(link.bytes_per_s),
        node_link=None if node_link is None else GraphLink(node_link.bytes_per_s),
        devices_per_node=devices_per_node,
        weight_copies=weight_copies,
        name=name or workload.name,
    )


class _Factory:
    """Makes operators of blocks."""

    def __init__(self, workload: Workload, device: Hardware, samples: tuple[int, ...], half_samples: float) -> None:
        self.workload, self.device, self.samples, self.half_samples = workload, device, samples, half_samples

    def operator(self, part: Block, read: set[str]) -> Operator:
        """`read`: layers whose output leaves their block."""
        size = self.workload.element_bytes
        leaving = [layer for layer in part.layers if layer.name in read] or part.layers[-1:]
        return Operator(
            part.name,
            self._curve(part.layers, "forward"),
            self._curve(part.layers, "backward"),
            weight_bytes=float(sum(layer.parameters for layer in part.layers) * size),
            stash_bytes=float(sum(layer.output_elements for layer in part.layers) * size),
            output_bytes=float(sum(layer.output_elements for layer in leaving) * size),
        )

    def _curve(self, layers: Iterable[Layer], side: str) -> TimeCurve:
        layers = tuple(layers)
        times = (math.fsum(self._seconds(layer, side, q) for layer in layers) for q in self.samples)
        return TimeCurve(self.samples, tuple(round(time, DIGITS) for time in times))

    def _seconds(self, layer: Layer, side: str, q: int) -> float:
        """Of one layer on q samples, whatever the workload's own batch is."""
        size = self.workload.element_bytes
        read = sum(self.workload.layer(source).output_elements for source in layer.inputs)
        moved = q * (read + layer.output_elements) * size + layer.parameters * size
        flops = q * layer.flops * (2 if side == "backward" and layer.parameters else 1)
        return self.device.seconds(flops * (q + self.half_samples) / q, PASSES[side] * moved, size)
