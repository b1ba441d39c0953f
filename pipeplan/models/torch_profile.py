"""A captured model with its costs as a profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..instances.base.curve import TimeCurve
from ..instances.base.errors import InputError
from ..instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor, Time
from ..instances.networks.profile.work import Work, calculated, merged
from ..instances.physics.hardware import Hardware
from .analytic import NodeCost, costs
from .capture import Build, Captured, capture, outputs_of
from .grouping import Grouped, group
from .kernels import Trace, trace
from .measure import clock_for, measure


@dataclass(frozen=True, slots=True)
class Costing:
    """How a model becomes a profile; with hardware its times are calculated, else measured."""

    hardware: Hardware | None = None
    repeats: int = 10
    training: bool = True
    granularity: str = "block"
    attention: str = "fused"
    loss: str | None = None
    allow_uncounted: bool = False


@dataclass(frozen=True)
class Costed:
    """A model with the costs of one micro-batch."""

    captured: Captured
    grouped: Grouped
    seen: Trace
    costs: Mapping[str, NodeCost]
    times: str
    """How times were calculated or measured, in words."""


def costed(build: Build, how: Costing) -> Costed:
    """Capture the model and find what its nodes cost."""
    analytic = how.hardware is not None
    captured = capture(build, training=how.training, fake=analytic, loss=how.loss)
    # Where passes are measured, what they keep is what this machine's kernels keep.
    as_here = not analytic and clock_for(captured).words.startswith("cpu") and how.attention == "fused"
    seen = trace(captured, attention=None if as_here else how.attention, allow_uncounted=how.allow_uncounted)
    grouped = group(captured, how.granularity, flops=seen.flops())
    costs_of = costs(seen, captured, grouped, how.hardware)
    if how.hardware is not None:
        return Costed(captured, grouped, seen, costs_of, calculated(how.hardware))
    measured = measure(captured, grouped, how.repeats)
    for name, cost in costs_of.items():
        cost.forward_s, cost.backward_s = measured.forward[name], measured.backward[name]
    return Costed(captured, grouped, seen, costs_of, measured.how)


def torch_profile(
    build_for: Callable[[int | None], Build],
    sizes: Sequence[int],
    how: Costing,
    *,
    name: str | None = None,
    source: Mapping[str, Any] | None = None,
) -> Profile:
    """The profile of a model; times are curves where there are several sizes of micro-batches.

    The first size is that of all other amounts; without sizes it is what the inputs say.
    """
    first = costed(build_for(sizes[0] if sizes else None), how)
    curves = {size: _times(costed(build_for(size), how), first, size) for size in sizes[1:]}
    if curves:
        curves[sizes[0]] = {node: (cost.forward_s, cost.backward_s) for node, cost in first.costs.items()}
    return Profile(
        nodes=tuple(_node(first, node, curves) for node in first.grouped.nodes),
        tensors=tuple(_tensors(first)),
        name=name or type(first.captured.model).__name__,
        training=how.training,
        micro_batch=sizes[0] if sizes else samples_of(first.captured),
        source=_source(first, how) | dict(source or {}),
        tied=first.grouped.tied,
    )


def samples_of(captured: Captured) -> int:
    """The first dimension of the first input that has one; 1 where none has."""
    sizes = (value.shape for value in captured.inputs.values() if isinstance(value, torch.Tensor))
    return next((int(shape[0]) for shape in sizes if len(shape) and shape[0] > 0), 1)


# Seconds of the forward and the backward pass of each node.
_Times = dict[str, tuple[float, float]]


def _times(other: Costed, first: Costed, size: int) -> _Times:
    if set(other.costs) != set(first.costs):
        raise InputError(
            "--micro-batch", f"{size} gives other nodes than the first size", "give sizes with one graph"
        )
    return {node: (cost.forward_s, cost.backward_s) for node, cost in other.costs.items()}


def _node(first: Costed, node: str, curves: Mapping[int, _Times]) -> ProfileNode:
    cost, training = first.costs[node], first.captured.training
    forward: Time = cost.forward_s
    backward: Time = cost.backward_s
    if curves:
        forward, backward = (
            TimeCurve(tuple(map(float, sorted(curves))), tuple(curves[size][node][i] for size in sorted(curves)))
            for i in (0, 1)
        )
    return ProfileNode(
        node,
        forward,
        backward if training else 0.0,
        saved_bytes=cost.saved_bytes,
        buffer_bytes=first.grouped.buffer_bytes[node],
        parameters=first.grouped.parameters[node],
        flops_forward=cost.flops_forward,
        flops_backward=cost.flops_backward if training else None,
        modules=first.grouped.modules[node],
        work=None if curves else Work(merged(cost.kernels_forward), merged(cost.kernels_backward)),
    )


def _tensors(first: Costed) -> list[ProfileTensor]:
    """The values that nodes read of each other, and those that the model returns."""
    readers = first.grouped.readers()
    final = [value for value in outputs_of(first.captured.graph) if value in first.grouped.owner]
    tensors = []
    for value in dict.fromkeys((*readers, *final)):
        tensor = value.meta.get("val")
        if isinstance(tensor, torch.Tensor):
            read = readers.get(value, ())
            tensors.append(
                ProfileTensor(
                    value.name,
                    first.grouped.owner[value],
                    read,
                    float(tensor.numel() * tensor.element_size()),
                    gradient=bool(read) and value.name in first.seen.gradients and first.captured.training,
                    shape=tuple(map(int, tensor.shape)),
                    dtype=str(tensor.dtype).removeprefix("torch."),
                )
            )
    return tensors


def _source(first: Costed, how: Costing) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "how": "torch-export",
        "torch": str(torch.__version__),
        "granularity": how.granularity,
        "graph_sha256": first.captured.sha256,
        "times": first.times,
        "attention": how.attention,
    }
    if how.loss is not None:
        facts["loss"] = how.loss
    if first.captured.warnings:
        facts["warnings"] = list(first.captured.warnings)
    return facts
