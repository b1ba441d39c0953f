"""PipeDream profile -> graph-pipeline problem: one operator for each layer of the profile.

A profile is measured with one number of samples, so times are in proportion to the samples: how a device loses
efficiency with fewer is not known. What a layer puts out is kept for the backward pass. Layers without time and
parameters that read nothing are the network's input, which comes from the host and is left out.
"""

from __future__ import annotations

from ..checks import check_whole
from ..placement.pipedream import MS_PER_S, Profile, ProfileCluster, ProfileNode, lower_profile
from .problem import MAX_MINI_BATCH, GraphPipelineProblem, Link, Operator, TimeCurve


def profile_to_graph_pipeline(
    profile: Profile,
    *,
    samples: int,
    devices: int,
    mini_batch: int,
    bandwidth: float | None = None,
    memory_bytes: float | None = None,
    weight_copies: float = 2.0,
    name: str = "profile",
) -> GraphPipelineProblem:
    """The problem of a profile that was measured with so many samples; times in ms, bandwidth in bytes per second."""
    check_whole("samples", samples, MAX_MINI_BATCH)
    # Without a cluster's numbers, for the checks of ids and edges alone.
    graph = lower_profile(profile, ProfileCluster(1, None, 1.0), training=False, name=name)
    kept = [node for i, node in enumerate(profile.nodes) if graph.predecessors[i] or not _is_input(node)]
    known = {node.id for node in kept}
    return GraphPipelineProblem(
        operators=tuple(_operator(node, samples) for node in kept),
        edges=tuple((edge.source, edge.target) for edge in profile.edges if edge.source in known),
        mini_batch=mini_batch,
        devices=devices,
        memory_bytes=memory_bytes,
        link=Link(None if bandwidth is None else bandwidth / MS_PER_S),
        weight_copies=weight_copies,
        name=name,
        time_unit="ms",
    )


def _is_input(node: ProfileNode) -> bool:
    return not (node.forward_ms or node.backward_ms or node.parameter_bytes)


def _operator(node: ProfileNode, samples: int) -> Operator:
    return Operator(
        node.id,
        TimeCurve((samples,), (node.forward_ms,)),
        TimeCurve((samples,), (node.backward_ms,)),
        weight_bytes=node.parameter_bytes,
        stash_bytes=node.activation_bytes / samples,
        output_bytes=node.activation_bytes / samples,
        name=node.description,
    )
