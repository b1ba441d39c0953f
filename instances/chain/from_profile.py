"""Profile -> chain: a layer for each node of a row; of a graph, for each run of nodes between two single tensors.

Cost model, for one mini-batch, which is the profile's micro-batch. A chain keeps one tensor for each layer from its
forward to its backward task: the layer's input. A profile fits that in one of two ways:

- with `--recompute`, exactly: layers keep their inputs alone and compute the rest again, so the backward time is
  backward + forward. Memory counts all that the chain knows (mode `reserved`): kept inputs, what a task reads and
  writes, slots for tensors between GPUs;
- without it, a layer's kept tensor has the size of what it saves for its backward pass, and memory counts that and the
  weights alone (mode `inputs`): what a GPU keeps is right, what it holds for a moment is left out. Transfers take as
  long as the tensors that pass.

Weights are counted in copies by the optimizer, buffers with them. With `--zero 1 --replicas 8` as many such pipelines
stand side by side and divide the optimizer's copies, from stage 2 on gradients and in stage 3 weights. What they send
for every micro-batch takes time of the passes, over the links and hidden by nothing: in stage 2 the gradients of a
layer are scattered in its backward pass, in stage 3 its weights are gathered in both passes as well; a collective takes
(replicas - 1) / replicas times its bytes. In stage 3 the limit on memory is less by three times the weights of the
largest layer, for what is gathered there. What is sent once for many micro-batches is no part of the period.

Lost: nodes between two cuts stay together; the model's input takes no memory with `--recompute`; what the last layer
puts out has no reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..base.amounts import as_written, exact_sum
from ..base.cluster import SECONDS, Cluster
from ..base.errors import InputError, UsageError
from ..base.graph import Group, by_depth, cut_into_groups
from ..base.kind import Lowered
from ..base.quantities import written_bytes
from ..networks.profile.options import ProfileOptions, about_copies, divided_copies, require_cluster, without_limit
from ..networks.profile.profile import Profile
from ..physics.optimizers import GATHERED_UNITS
from .problem import ChainProblem


def lower(profile: Profile, cluster: Cluster, options: ProfileOptions) -> Lowered:
    """The chain of a profile; the rules stand at the top of this module."""
    devices, bandwidth = require_cluster(cluster)
    if not profile.training:
        raise UsageError("A chain is a training schedule and nothing is trained here; give --kind placement.")
    order = by_depth(profile.topological_order, profile.successors)
    rows = [_row(profile, group) for group in cut_into_groups(order, profile.successors)]
    again = options.recompute
    shared = _shared(profile, options, rows, bandwidth)
    problem = ChainProblem(
        forward=tuple(float(row.forward + more) for row, more in zip(rows, shared.forward, strict=True)),
        backward=tuple(
            float(row.backward + (row.forward if again else 0) + more)
            for row, more in zip(rows, shared.backward, strict=True)
        ),
        activations=_activations(rows, again),
        weights=tuple(float(row.weights) for row in rows),
        gpus=devices,
        memory_bytes=_left(without_limit(cluster.memory_bytes), shared.gathered_bytes),
        transfer_times=_transfer_times(rows, bandwidth, profile.time_unit),
        weight_copies=shared.copies,
        memory_mode="reserved" if again else "inputs",
        name=profile.name,
        time_unit=profile.time_unit,
    )
    return Lowered(problem, (*_notes(profile, options, len(rows)), *shared.notes(options)))


@dataclass(frozen=True, slots=True)
class _Row:
    """Sums over the nodes of a layer: times in the profile's unit, sizes in bytes."""

    forward: Fraction
    backward: Fraction
    saved: Fraction
    weights: Fraction
    """Bytes of the layer's parameters and buffers together."""
    parameters: Fraction
    output: Fraction
    gradient: Fraction
    """Bytes of the gradients that come back for the outputs."""


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
        parameters=exact_sum(size for node in nodes for size in node.parameters.values()),
        output=exact_sum(tensor.bytes for tensor in sent),
        gradient=exact_sum(tensor.bytes for tensor in sent if tensor.gradient and tensor.readers),
    )


@dataclass(frozen=True, slots=True)
class _Shared:
    """What replicas of the pipeline divide among them, and what they send each other for it."""

    copies: float
    """Copies of the weights on each replica; of copies that are divided, its share."""
    forward: tuple[Fraction, ...]
    """Time by which each layer's forward pass is longer."""
    backward: tuple[Fraction, ...]
    gathered_bytes: Fraction
    """Memory that is kept free for gathered weights."""

    def notes(self, options: ProfileOptions) -> Iterator[str]:
        if options.zero is None:
            return
        if options.zero < 2:
            yield "what replicas send each other at an update is no part of the period, which is of one micro-batch"
        if self.gathered_bytes:
            yield f"{written_bytes(float(self.gathered_bytes))} of the memory are kept free for gathered weights"


def _shared(profile: Profile, options: ProfileOptions, rows: Sequence[_Row], bandwidth: float) -> _Shared:
    replicas = options.replicas or 1
    copies = divided_copies(profile, options, replicas=replicas > 1)
    if options.replicas is not None and options.zero is None:
        raise UsageError("--replicas divides memory only together with --zero; add --zero 1, or drop --replicas.")
    zero, none = options.zero or 0, (Fraction(0),) * len(rows)
    rate = None if bandwidth == float("inf") else as_written(bandwidth) * SECONDS[profile.time_unit]
    once = none if rate is None else tuple(row.parameters * (replicas - 1) / replicas / rate for row in rows)
    in_backward = {2: 1, 3: 2}.get(zero, 0)
    return _Shared(
        copies.on(replicas),
        once if zero == 3 else none,
        tuple(in_backward * time for time in once),
        GATHERED_UNITS * max(row.parameters for row in rows) if zero == 3 else Fraction(0),
    )


def _left(memory_bytes: float | None, gathered: Fraction) -> float | None:
    """The memory that gathered weights leave; None: there is no limit."""
    if memory_bytes is None or not gathered:
        return memory_bytes
    left = as_written(memory_bytes) - gathered
    if left <= 0:
        needs = written_bytes(float(gathered))
        raise InputError(
            "--memory", f"has no room for gathered weights, which are {needs}", "give more, or --zero 2"
        )
    return float(left)


def _activations(rows: Sequence[_Row], recompute: bool) -> tuple[float, ...]:
    """a_0..a_2L: what each layer keeps, the model's output, and the gradients back to the first layer's input."""
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
