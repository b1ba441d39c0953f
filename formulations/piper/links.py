"""Bytes that a stage sends, as the models count them: written from the definition, as are program and referee."""

from __future__ import annotations

import math

from ...instances.staging.problem import Layer, StagingProblem

# There and back: what a layer hands on, and the gradient of it.
TRIPS = 2.0

# By ZeRO stage: how many times the bytes of the weights move between two updates, and how many times for every
# micro-batch. Without ZeRO a copy sends and receives gradients, then sends and receives weights.
SYNC_TRIPS = {0: (4.0, 0.0), 1: (4.0, 0.0), 2: (2.0, 2.0), 3: (0.0, 6.0)}


def full_weight(layer: Layer) -> float:
    """Bytes of a layer's weights on all devices together, on the least degree that it offers."""
    degree, ways = min((t, ways) for t, ways in layer.configurations.items() if ways)
    return degree * max(way.weight_bytes for way in ways)


def upper_cost(problem: StagingProblem, members: list[int], copies: int, bandwidth: float) -> float:
    """What a stage of these layers takes of the links above level 1, per micro-batch that reaches its group."""
    layers = set(members)
    cut = [
        edge.bytes for (u, v), edge in zip(problem.arcs, problem.edges, strict=True) if len({u, v} & layers) == 1
    ]
    sent = TRIPS * math.fsum(cut)
    shared = (
        sum(SYNC_TRIPS[problem.zero])
        * (1 - 1 / copies)
        * math.fsum(full_weight(problem.layers[v]) for v in members)
    )
    return (sent + shared) / bandwidth / copies
