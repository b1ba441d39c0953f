"""What links carry, as the dynamic programs count it: written from the definition, as are models and referee."""

from __future__ import annotations

from ...instances.staging.problem import Layer, StagingProblem

# Each edge is crossed twice: by its activation, and later by the gradient.
TRIPS = 2.0

# Weights are scattered and gathered; each time they leave one device and enter another.
SYNC_TRIPS = 4.0


def upper_load(problem: StagingProblem, inside: int, copies: int, bandwidth: float) -> float:
    """Time per micro-batch on the links above level 1, for a stage of these layers (as bits) in so many copies."""
    crossing = sum(
        edge.bytes
        for (u, v), edge in zip(problem.arcs, problem.edges, strict=True)
        if (inside >> u & 1) != (inside >> v & 1)
    )
    if copies == 1:
        return TRIPS * crossing / bandwidth
    weights = sum(_whole(layer) for v, layer in enumerate(problem.layers) if inside >> v & 1)
    return (TRIPS * crossing + SYNC_TRIPS * weights * (copies - 1) / copies) / (copies * bandwidth)


def _whole(layer: Layer) -> float:
    """Weights of the layer without tensor parallelism: the most on the fewest devices, times these devices."""
    fewest = min(t for t, ways in layer.configurations.items() if ways)
    return fewest * max(way.weight_bytes for way in layer.configurations[fewest])
