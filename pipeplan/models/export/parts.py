"""Which nodes are a model's embedding, its layers and its head; and how many layers each stage holds.

Layers are the modules that are numbered: `model.layers.7`, and all that lies below. A model with several lists of them
has no single count of layers, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...instances.base.errors import UsageError, show
from ...instances.networks.profile.module_names import number_in
from ...instances.networks.profile.profile import Profile
from ..stages import order_of
from .contract import (
    CONTIGUOUS,
    ToExport,
    check_accelerators,
    check_neighbours,
    check_one_stage_per_rank,
    check_ordered,
    check_round_robin,
)
from .names import NodeNames

# The end of the name of a node in a further call of a module.
_REPEATED = re.compile(r"@\d+$")


@dataclass(frozen=True, slots=True)
class Parts:
    """Nodes in the order of the model."""

    before: tuple[str, ...]
    """The embedding: all that comes before the first layer."""
    layers: tuple[tuple[str, ...], ...]
    predictors: tuple[tuple[str, ...], ...]
    """Layers that predict several tokens at once (MTP), behind the others."""
    after: tuple[str, ...]
    """The head: all that comes after the last layer."""


@dataclass(frozen=True, slots=True)
class StageOfLayers:
    """How many layers a stage holds, and whether it holds the embedding and the head."""

    embedding: bool
    layers: int
    predictors: int
    head: bool


def parts_of(names: NodeNames, order: Sequence[str], profile: Profile | None, who: str) -> Parts:
    """The parts of a model; errors say that `who` needs them."""
    homes = {node: _home(names, node, who) for node in order}
    lists = list(dict.fromkeys(home[0] for home in homes.values() if home is not None))
    predicting = [name for name in lists if "mtp" in name.lower().split(".")]
    usual = [name for name in lists if name not in predicting]
    if not usual:
        raise UsageError(
            f"{who} counts layers, and no node has the name of a numbered module like 'layers.7', "
            f"such as {show(order[0])}; give the profile whose nodes name their modules."
        )
    if len(usual) > 1:
        node = next(node for node in order if (homes[node] or ("",))[0] == usual[1])
        raise UsageError(
            f"{who} counts the layers of one list, and the node {show(node)} is in the list {show(usual[1])}, others "
            f"in {show(usual[0])}; `plan run` and --to accelerate or deepspeed take models with several."
        )
    layers, predictors = _layers(homes, order, usual[0], who), []
    for name in predicting:
        predictors += _layers(homes, order, name, who)
    inside = {node for layer in (*layers, *predictors) for node in layer}
    before, after = _around([node for node in order if node not in inside], inside, order, profile, who)
    return Parts(before, tuple(layers), tuple(predictors), after)


def _home(names: NodeNames, node: str, who: str) -> tuple[str, int] | None:
    """The list and the number of the layer that a node is in; None: it is in no layer."""
    homes = {home for name in names.modules(node) or (node,) if (home := number_in(name)) is not None}
    if len(homes) > 1:
        raise UsageError(
            f"{who} moves whole layers, and the node {show(node)} is part of several; import the model with "
            "--granularity block."
        )
    return next(iter(homes), None)


def _layers(
    homes: dict[str, tuple[str, int] | None], order: Sequence[str], name: str, who: str
) -> list[tuple[str, ...]]:
    """The nodes of each layer of the list with this name."""
    by_layer: dict[int, list[str]] = {}
    for node in order:
        home = homes[node]
        if home is not None and home[0] == name:
            if _REPEATED.search(node):
                raise UsageError(f"{who} counts layers, and the layer of the node {show(node)} runs several times.")
            by_layer.setdefault(home[1], []).append(node)
    numbers = list(by_layer)
    for one, next_one in pairwise(numbers):
        if next_one < one:
            raise UsageError(
                f"{who} takes layers in the order of their numbers, and the node {show(by_layer[next_one][0])} runs "
                f"after {show(by_layer[one][0])}."
            )
    return [tuple(nodes) for nodes in by_layer.values()]


def _around(
    others: Sequence[str], inside: set[str], order: Sequence[str], profile: Profile | None, who: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nodes before the layers and those behind, by what reads from what; without a profile, by the order."""
    place = {node: number for number, node in enumerate(order)}
    first, last = min(place[node] for node in inside), max(place[node] for node in inside)
    reached = {node for node in order if place[node] > first}
    reaching = {node for node in order if place[node] < last}
    if profile is not None:
        reached = _linked(inside, profile, profile.topological_order, profile.predecessors)
        reaching = _linked(inside, profile, profile.topological_order[::-1], profile.successors)
    before: list[str] = []
    after: list[str] = []
    for node in others:
        if node in reached and node in reaching:
            raise UsageError(
                f"{who} knows nothing between the layers, and the node {show(node)} is there; import the model with "
                "--granularity block."
            )
        (after if node in reached else before).append(node)
    return tuple(before), tuple(after)


def _linked(
    start: set[str], profile: Profile, order: Sequence[int], neighbours: Sequence[Sequence[int]]
) -> set[str]:
    """The nodes of the start, and all that have one of them among their neighbours, directly or not."""
    linked = {profile.index[node] for node in start}
    for i in order:
        if any(u in linked for u in neighbours[i]):
            linked.add(i)
    return {profile.nodes[i].id for i in linked}


# ---- how many layers a stage holds ---------------------------------------------------------------------


def order_for(job: ToExport) -> list[str]:
    """All nodes in the order of the model; without a profile, in that of the stages."""
    if job.profile is None:
        return [node for stage in job.stages for node in stage.nodes]
    return [job.profile.nodes[i].id for i in order_of(job.profile)]


def layers_by_stage(job: ToExport, *, interleaved: bool = False) -> list[StageOfLayers]:
    """How many layers each stage holds; plans are refused that break the rules of targets that move whole layers."""
    check_accelerators(job)
    check_ordered(job)
    (check_round_robin if interleaved else check_one_stage_per_rank)(job)
    parts = parts_of(NodeNames(job), order_for(job), job.profile, job.target)
    _check_whole(job, (*parts.layers, *parts.predictors))
    _check_ends(job, parts)
    check_neighbours(job)
    stage_of = job.plan.stage_of
    counted = [0] * len(job.stages)
    predicting = [0] * len(job.stages)
    for counts, layers in ((counted, parts.layers), (predicting, parts.predictors)):
        at = 0
        for layer in layers:
            number = stage_of[layer[0]]
            if number < at:
                raise job.refusal(
                    f"the layer of the node {show(layer[0])} is on stage {number} and an earlier layer on stage {at}, "
                    "and layers follow each other along the stages",
                    CONTIGUOUS,
                )
            at = number
            counts[number] += 1
    head = stage_of[parts.after[-1]] if parts.after else len(job.stages) - 1
    return [
        StageOfLayers(number == 0, counted[number], predicting[number], number == head)
        for number in range(len(job.stages))
    ]


def _check_whole(job: ToExport, layers: Sequence[tuple[str, ...]]) -> None:
    for layer in layers:
        first = job.plan.stage_of[layer[0]]
        for node in layer[1:]:
            if job.plan.stage_of[node] != first:
                raise job.refusal(
                    f"the node {show(layer[0])} is on stage {first} and {show(node)}, a part of the same layer, on "
                    f"stage {job.plan.stage_of[node]}, and layers are moved whole",
                    "plan with --option whole-layers",
                )


def _check_ends(job: ToExport, parts: Parts) -> None:
    """The embedding on the first stage, the head on the last; what ends the last layer may stay with it."""
    stage_of, last = job.plan.stage_of, len(job.stages) - 1
    for node in parts.before:
        if stage_of[node]:
            raise job.refusal(
                f"the node {show(node)} comes before the layers and is on stage {stage_of[node]}, and the embedding "
                "must be on the first stage",
                RETRY,
            )
    final = stage_of[(parts.predictors or parts.layers)[-1][0]]
    for node in _misplaced(parts.after, stage_of, final, last):
        raise job.refusal(
            f"the node {show(node)} comes after the layers and is on stage {stage_of[node]} of {last + 1}, and the "
            "head must be on the last stage",
            RETRY,
        )


# The remedy for an embedding or a head on the wrong stage.
RETRY = "plan with --option whole-layers"


def _misplaced(after: Sequence[str], stage_of: dict[str, int], final: int, last: int) -> Iterator[str]:
    """Nodes of the head that are neither on the last stage nor, but for the last node, with the final layer."""
    for node in after[:-1]:
        if stage_of[node] not in (final, last):
            yield node
    if after and stage_of[after[-1]] != last:
        yield after[-1]
