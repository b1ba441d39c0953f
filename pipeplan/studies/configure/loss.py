"""The time that one configuration loses against another, by part; the parts add up to the whole difference."""

from __future__ import annotations

from collections.abc import Mapping

from ...instances.training.referee import ConfigurationEvaluation

# Fields of a rank's time, in words.
PARTS: Mapping[str, str] = {
    "products": "products of matrices",
    "measured": "layers with measured times",
    "attention": "attention",
    "memory": "norms and activations",
    "recomputation": "recomputation",
    "tensor": "tensor communication",
    "context": "context communication",
    "expert": "expert communication",
    "host": "waiting for the host",
    "data": "data communication",
    "pipeline": "sending between stages",
    "optimizer": "the update",
}
IMBALANCE, BUBBLE = "imbalance of the stages", "the bubble"


def by_part(own: ConfigurationEvaluation) -> dict[str, float]:
    """Seconds of an iteration by part, as means over stages: idling behind the busiest is imbalance, else bubble."""
    ranks = own.timing.ranks
    parts = {words: sum(getattr(rank, name) for rank in ranks) / len(ranks) for name, words in PARTS.items()}
    idle = sum(rank.idle for rank in ranks) / len(ranks)
    imbalance = min(idle, max(rank.busy for rank in ranks) - sum(rank.busy for rank in ranks) / len(ranks))
    return {**parts, IMBALANCE: imbalance, BUBBLE: idle - imbalance}


def lost(own: ConfigurationEvaluation, best: ConfigurationEvaluation) -> dict[str, float]:
    """Seconds by which each part is longer than in the best configuration; negative where it is shorter."""
    ours, theirs = by_part(own), by_part(best)
    return {name: ours[name] - theirs[name] for name in ours if ours[name] != theirs[name]}
