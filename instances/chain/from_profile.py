"""Profile -> chain: a layer for each node of a row; of a graph, for each run of nodes between two single tensors.

Cost model, for one mini-batch, which is the profile's micro-batch. A chain keeps one tensor for each layer from its
forward to its backward task, its input. What a profile says fits that in one of two ways:

- with `--recompute` exactly: layers keep their inputs alone and compute the rest again, so the backward time is
  backward + forward. Memory counts all that the chain knows (mode `reserved`): kept inputs, what a task reads and
  writes, slots for tensors between GPUs;
- without it, a layer's kept tensor has the size of what it saves for its backward pass, and memory counts that and the
  weights alone (mode `inputs`): what a GPU keeps is right, what it holds for a moment is left out. Transfers take as
  long as the tensors that pass.

Weights are counted in `COPIES` of the optimizer, buffers with them.

Lost: nodes between two cuts stay together; the model's input takes no memory with `--recompute`; what the last layer
puts out has no reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..base.amounts import as_written, exact_sum
from ..base.cluster import SECONDS, Cluster
from ..base.errors import UsageError
from ..base.kind import Lowered
from ..networks.profile.options import ProfileOptions, about_copies, copies_of, require_cluster, without_limit
from ..networks.profile.profile import Profile
from .linear import Group, by_depth, cut_into_groups
from .problem import ChainProblem


def lower(profile: Profile, cluster: Cluster, options: ProfileOptions) -> Lowered:
    """The chain of a profile; the rules stand at the top of this module."""
    devices, bandwidth = require_cluster(cluster)
    if not profile.training:
        raise UsageError("A chain is a training schedule and nothing is trained here; give --kind placement.")
    order = by_depth(profile.topological_order, profile.successors)
    rows = [_row(profile, group) for group in cut_into_groups(order, profile.successors)]
    again = options.recompute
    problem = ChainProblem(
        forward=tuple(float(row.forward) for row in rows),
        backward=tuple(float(row.backward + (row.forward if again else 0)) for row in rows),
        activations=_activations(rows, again),
        weights=tuple(float(row.weights) for row in rows),
        gpus=devices,
        memory_bytes=without_limit(cluster.memory_bytes),
        transfer_times=_transfer_times(rows, bandwidth, profile.time_unit),
        weight_copies=float(copies_of(profile, options)),
        memory_mode="reserved" if again else "inputs",
        name=profile.name,
        time_unit=profile.time_unit,
    )
    return Lowered(problem, tuple(_notes(profile, options, len(rows))))


@dataclass(frozen=True, slots=True)
class _Row:
    """What a layer of the chain stands for."""

    forward: Fraction
    backward: Fraction
    saved: Fraction
    weights: Fraction
    output: Fraction
    gradient: Fraction
    """Bytes that come back for what is put out."""


def _row(profile: Profile, group: Group) -> _Row:
    nodes = [profile.nodes[i] for i in group.members]
    inside = {node.id for node in nodes}
    sent = [
        tensor
        for i in group.members
        for tensor in profile.made[i]
        if not tensor.readers or not inside.issuperset(tensor.readers)
    ]
    return _Row(
        forward=exact_sum(profile.time(node.forward) for node in nodes),
        backward=exact_sum(profile.time(node.backward) for node in nodes),
        saved=exact_sum(node.saved_bytes for node in nodes),
        weights=exact_sum(size for node in nodes for size in (node.buffer_bytes, *node.parameters.values())),
        output=exact_sum(tensor.bytes for tensor in sent),
        gradient=exact_sum(tensor.bytes for tensor in sent if tensor.gradient and tensor.readers),
    )


def _activations(rows: Sequence[_Row], recompute: bool) -> tuple[float, ...]:
    """a_0..a_2L: what is kept for each layer, the model's output, gradients back to the first layer's input."""
    read = (Fraction(0), *(row.output for row in rows[:-1]))
    kept = read if recompute else tuple(row.saved for row in rows)
    back = (*(row.gradient for row in reversed(rows[:-1])), Fraction(0))
    return tuple(map(float, (*kept, rows[-1].output, *back)))


def _transfer_times(rows: Sequence[_Row], bandwidth: float, time_unit: str) -> tuple[float, ...]:
    """Times of edges 1..2L-1; that of edge L, from the last forward to the first backward task, does not matter."""
    if bandwidth == float("inf"):
        return (0.0,) * (2 * len(rows) - 1)
    rate = as_written(bandwidth) * SECONDS[time_unit]
    forth = [float(row.output / rate) for row in rows[:-1]]
    back = [float(row.gradient / rate) for row in reversed(rows[:-1])]
    return (*forth, 0.0, *back)


def _notes(profile: Profile, options: ProfileOptions, layers: int) -> Iterator[str]:
    yield from about_copies(profile, options)
    if not options.recompute:
        yield (
            "memory counts weights and what is saved for backward passes, not tensors on their way; --recompute keeps "
            "inputs alone and counts all"
        )
    if layers < len(profile.nodes):
        yield f"lost: branches cannot be divided, so {len(profile.nodes)} nodes make {layers} layers of the chain"
