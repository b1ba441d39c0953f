"""A profile whose nodes are whole layers, as servers move them: the embedding stays with the first layer, the head with
the last.

Layers are the numbered modules: `model.layers.7`, and all that lies below. Every stage of a plan of such a profile
holds a layer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from ...base.amounts import exact_sum
from ...base.curve import TimeCurve
from ...base.errors import InputError, show
from .profile import Profile, ProfileNode, ProfileTensor, Time
from .work import Work, merged

OPTION = "--option whole-layers"


@dataclass(frozen=True)
class WholeLayers:
    """The profile of whole layers, and the nodes that it was made of."""

    profile: Profile
    members: dict[str, tuple[str, ...]]
    """For each layer the nodes of the first profile, in their order."""
    joined: frozenset[str]
    """Nodes of the first profile that are in no layer themselves: the embedding, the head and what else is around."""


def whole_layers(profile: Profile) -> WholeLayers:
    """One node for each layer; a profile without layers in a row is refused."""
    order = [profile.nodes[i] for i in profile.model_order]
    layer_of = {node.id: _layer(node) for node in order}
    names = list(dict.fromkeys(name for name in layer_of.values() if name is not None))
    if not names:
        raise InputError(
            OPTION, f"finds no numbered layers, like 'layers.7', among nodes such as {show(order[0].id)}", "drop it"
        )
    group_of: dict[str, str] = {}
    current = names[0]
    for node in order:
        current = layer_of[node.id] or current
        group_of[node.id] = current
    members = {name: tuple(node.id for node in order if group_of[node.id] == name) for name in names}
    nodes = tuple(
        _joined(name, [profile.nodes[profile.index[i]] for i in members[name]], profile) for name in names
    )
    try:
        together = profile.replace(nodes=nodes, tensors=_tensors(profile, group_of), tied=_tied(profile, group_of))
    except InputError:
        raise InputError(
            OPTION, f"finds layers that wait for each other in {show(profile.name)}", "drop it"
        ) from None
    return WholeLayers(together, members, frozenset(i for i, name in layer_of.items() if name is None))


def _layer(node: ProfileNode) -> str | None:
    """The layer that a node is part of; None for an embedding, a head and the like."""
    layers = {part for name in node.modules or (node.id,) if (part := numbered_part(name)) is not None}
    if len(layers) > 1:
        raise InputError(OPTION, f"finds the node {show(node.id)} in several layers", "drop it")
    return next(iter(layers), None)


def _joined(name: str, nodes: Sequence[ProfileNode], profile: Profile) -> ProfileNode:
    """One node that runs all of these nodes in turn."""
    parameters: dict[str, float] = {}
    for node in nodes:
        parameters |= node.parameters
    doubled = {second for first, second in profile.tied if first in parameters and second in parameters}
    return ProfileNode(
        name,
        reduce(_added, (node.forward for node in nodes)),
        reduce(_added, (node.backward for node in nodes)),
        float(exact_sum(node.saved_bytes for node in nodes)),
        float(exact_sum(node.buffer_bytes for node in nodes)),
        {parameter: size for parameter, size in parameters.items() if parameter not in doubled},
        _sum_of([node.flops_forward for node in nodes]),
        _sum_of([node.flops_backward for node in nodes]),
        tuple(dict.fromkeys(module for node in nodes for module in node.modules or (node.id,))),
        _work([node.work for node in nodes]),
    )


def _added(one: Time, other: Time) -> Time:
    """The sum of two times; curves are added at all samples at which either was measured."""
    if not isinstance(one, TimeCurve) and not isinstance(other, TimeCurve):
        return float(exact_sum((one, other)))
    curves = [time for time in (one, other) if isinstance(time, TimeCurve)]
    samples = tuple(sorted({at for curve in curves for at in curve.samples}))
    return TimeCurve(samples, tuple(_at(one, q) + _at(other, q) for q in samples))


def _at(time: Time, samples: float) -> float:
    return time(samples) if isinstance(time, TimeCurve) else time


def _sum_of(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return float(exact_sum(known)) if len(known) == len(amounts) else None


def _work(works: Sequence[Work | None]) -> Work | None:
    known = [work for work in works if work is not None]
    if len(known) < len(works):
        return None
    sides = ([kernel for work in known for kernel in getattr(work, side)] for side in ("forward", "backward"))
    return Work(*map(merged, sides))


def _tensors(profile: Profile, group_of: dict[str, str]) -> tuple[ProfileTensor, ...]:
    """The tensors that leave a layer, and the outputs of the model."""
    tensors = []
    for tensor in profile.tensors:
        producer = group_of[tensor.producer]
        readers = tuple(dict.fromkeys(group_of[reader] for reader in tensor.readers))
        outside = tuple(reader for reader in readers if reader != producer)
        if outside or not tensor.readers:
            tensors.append(
                ProfileTensor(
                    tensor.id, producer, outside, tensor.bytes, tensor.gradient, tensor.shape, tensor.dtype
                )
            )
    return tuple(tensors)


def _tied(profile: Profile, group_of: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Pairs that stand in two layers; a pair within one layer is counted once there (`_joined`)."""
    homes: dict[str, str] = {}
    for node in profile.nodes:
        for name in node.parameters:
            homes.setdefault(name, group_of[node.id])
    return tuple((first, second) for first, second in profile.tied if homes[first] != homes[second])


# ---- module names ------------------------------------------------------------
# What the name of a module tells: the list of layers that it is in, and its number there.


_NUMBERED = re.compile(
    r"(?P<list>[^\[]+?)(?:\.(?P<dot>[0-9]{1,18})|\[(?P<bracket>[0-9]{1,18})\]| (?P<space>[0-9]{1,18}))(?=\.|$|@)"
)


def number_in(name: str) -> tuple[str, int] | None:
    """The list and the number, from the outermost number in the name: `h`, 7 of `h.7.mlp`, `h[7]` and `h 7`."""
    match = _NUMBERED.match(name)
    if match is None:
        return None
    return match["list"], int(match["dot"] or match["bracket"] or match["space"])


def numbered_part(name: str) -> str | None:
    """The name up to its outermost number: `h.7` of `h.7.mlp`."""
    match = _NUMBERED.match(name)
    return None if match is None else match[0]


def runs_backward(lists: Sequence[Sequence[str]]) -> bool:
    """Do the numbers fall along these lists of names more often than they rise?"""
    steps = 0
    for names in lists:
        homes = [home for name in names if (home := number_in(name)) is not None]
        steps += sum((b[1] > a[1]) - (b[1] < a[1]) for a, b in pairwise(homes) if a[0] == b[0])
    return steps < 0
