"""What links carry, as the dynamic programs count it: written from the definition, as are models and referee."""

from __future__ import annotations

from ...instances.staging.problem import Layer, StagingProblem

# Each edge is crossed twice: by its activation, and later by the gradient.
TRIPS = 2.0

# A scatter or a gather counts each byte twice: it leaves one device and enters another.
ROUND = 2.0


def sync_seconds(problem: StagingProblem, replicas: int, samples: int, bandwidth: float) -> float:
    """Time to synchronize a byte of weights, per micro-batch and times the replicas.

    Once in `samples` micro-batches gradients are scattered and then weights gathered. With ZeRO 2 gradients are
    scattered in every micro-batch; with ZeRO 3 weights are also gathered twice in each, and not in the end.
    """
    at_updates = {2: 1, 3: 0}.get(problem.zero, 2)
    in_passes = {2: 1, 3: 3}.get(problem.zero, 0)
    sent = ROUND * at_updates * (replicas - 1) / samples / bandwidth
    return sent + ROUND * in_passes * (replicas - 1) / replicas / bandwidth if in_passes else sent


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
    rounds = 3 if problem.zero == 3 else 2
    return (TRIPS * crossing + ROUND * rounds * weights * (copies - 1) / copies) / (copies * bandwidth)


def _whole(layer: Layer) -> float:
    """Bytes of the layer's weights: the most of a configuration on the fewest devices, times these devices."""
    fewest = min(t for t, ways in layer.configurations.items() if ways)
    return fewest * max(way.weight_bytes for way in layer.configurations[fewest])
