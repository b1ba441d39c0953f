"""Profiles and plans for tests of exports: transformers in a row, on stages that a test says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from pipeplan import Device, GraphStage, PlacementPlan, PlannedStage, StagedPlan, StageGraphPlan
from pipeplan.instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor
from pipeplan.instances.placement.from_profile import BACKWARD_SUFFIX

FIRST, LAST = ("model.embed_tokens",), ("model.norm", "lm_head")


def row(names: Sequence[str], *, tied: Sequence[tuple[str, str]] = (), name: str = "row") -> Profile:
    """Each node is a module with one parameter, and reads from the one before."""
    nodes = tuple(
        ProfileNode(n, 1.0, 2.0, 10.0, parameters={f"{n}.weight": 4.0}, modules=(n.partition("@")[0],))
        for n in names
    )
    behind = dict(pairwise(names))
    tensors = tuple(ProfileTensor(n, n, (behind[n],) if n in behind else (), 6.0) for n in names)
    return Profile(nodes, tensors, name=name, tied=tuple(tied))


def llama(layers: int, *, tied: bool = False) -> Profile:
    """The modules of a Llama of Hugging Face."""
    pairs = [("model.embed_tokens.weight", "lm_head.weight")] if tied else []
    return row([*FIRST, *(f"model.layers.{i}" for i in range(layers)), *LAST], tied=pairs, name="llama")


def cut(items: Sequence[str], counts: Sequence[int]) -> list[tuple[str, ...]]:
    """Runs of so many items."""
    return [tuple(items[end - count : end]) for count, end in zip(counts, accumulate(counts), strict=True)]


def on_stages(profile: Profile, layers: Sequence[int]) -> list[tuple[str, ...]]:
    """Nodes by stage: the embedding with the first layers, the head with the last."""
    counts = list(layers)
    counts[0] += len(FIRST)
    counts[-1] += len(LAST)
    return cut(profile.ids, counts)


def staged(held: Sequence[Sequence[str]], replicas: int = 1, tensor: int = 1) -> StagedPlan:
    return StagedPlan(
        tuple(PlannedStage(tuple(nodes), replicas, tensor, dict.fromkeys(nodes, "vanilla")) for nodes in held)
    )


def placed(held: Sequence[Sequence[str]], *, training: bool = True, cpus: Sequence[int] = ()) -> PlacementPlan:
    """The devices acc0, acc1, ... (those in `cpus` are CPUs) with these nodes and their backward nodes."""
    suffixes = ("", BACKWARD_SUFFIX) if training else ("",)
    return PlacementPlan(
        tuple(
            Device(f"acc{d}", "cpu" if d in cpus else "accelerator", tuple(n + s for n in nodes for s in suffixes))
            for d, nodes in enumerate(held)
        )
    )


def stage_graph(held: Sequence[Sequence[str]], edges: Sequence[tuple[int, int]] | None = None) -> StageGraphPlan:
    count = len(held)
    edges = [(i, i + 1) for i in range(count - 1)] if edges is None else edges
    return StageGraphPlan(
        tuple(GraphStage(tuple(nodes), 1, 1, 1, count - i) for i, nodes in enumerate(held)), tuple(edges)
    )
