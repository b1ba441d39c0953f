"""Profile -> graph-pipeline problem: an operator for each node.

Cost model: times by the number of samples as the profile has them; a time that was measured for one number of samples
is in proportion to it. For each sample a node keeps what it saves for its backward pass and sends on one tensor, of as
many bytes as all that others read, or as all that the model puts out where nobody reads any. Memory holds copies (of
the optimizer) of the parameters.

A node without time and parameters that is read and reads nothing is the model's input: it comes from the host and is
left out. A table's micro-batch counts as one sample unless the profile says of how many it is. The mini-batch
(`--batch`, in samples) has one micro-batch of the profile for each device unless given.

Lost: one tensor per operator, sent to every stage that reads any of them; how a device loses efficiency with fewer
samples than were measured; buffers count as parameters, copies and all.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from ..base.amounts import as_written, exact_sum
from ..base.cluster import Cluster, per_unit
from ..base.curve import TimeCurve
from ..base.errors import UsageError
from ..base.kind import Lowered
from ..base.quantities import several
from ..networks.profile.options import ProfileOptions, about_copies, copies_of, require_cluster, without_limit
from ..networks.profile.profile import Profile, Time
from .problem import GraphPipelineProblem, Link, Operator


def lower(profile: Profile, cluster: Cluster, options: ProfileOptions) -> Lowered:
    """The graph-pipeline problem of a profile; the rules stand at the top of this module."""
    devices, bandwidth = require_cluster(cluster)
    if not profile.training:
        raise UsageError("A graph pipeline is a training step and nothing is trained here; give --kind placement.")
    inputs = {i for i in range(len(profile.nodes)) if _is_input(profile, i)}
    problem = GraphPipelineProblem(
        operators=tuple(_operators(profile, inputs)),
        edges=tuple((profile.nodes[u].id, profile.nodes[v].id) for u, v in profile.arcs if u not in inputs),
        mini_batch=devices * profile.micro_batch if cluster.batch is None else cluster.batch,
        devices=devices,
        memory_bytes=without_limit(cluster.memory_bytes),
        link=Link(without_limit(per_unit(bandwidth, profile.time_unit))),
        weight_copies=float(copies_of(profile, options)),
        name=profile.name,
        time_unit=profile.time_unit,
    )
    return Lowered(problem, tuple(_notes(profile, cluster, options, problem.mini_batch)))


def _is_input(profile: Profile, i: int) -> bool:
    node = profile.nodes[i]
    work = (node.forward, node.backward, node.buffer_bytes, *node.parameters.values())
    return not profile.predecessors[i] and bool(profile.successors[i]) and not any(work)


def _operators(profile: Profile, inputs: Container[int]) -> Iterator[Operator]:
    for i, node in enumerate(profile.nodes):
        if i in inputs:
            continue
        made = profile.made[i]
        sent = exact_sum(tensor.bytes for tensor in [t for t in made if t.readers] or made)
        yield Operator(
            node.id,
            _curve(profile, node.forward),
            _curve(profile, node.backward),
            weight_bytes=float(exact_sum((node.buffer_bytes, *node.parameters.values()))),
            stash_bytes=float(as_written(node.saved_bytes) / profile.micro_batch),
            output_bytes=float(sent / profile.micro_batch),
            name=node.label,
        )


def _curve(profile: Profile, time: Time) -> TimeCurve:
    return time if isinstance(time, TimeCurve) else TimeCurve((profile.micro_batch,), (time,))


def _notes(profile: Profile, cluster: Cluster, options: ProfileOptions, mini_batch: int) -> Iterator[str]:
    yield from about_copies(profile, options)
    if cluster.batch is None:
        yield f"a mini-batch has {several(mini_batch, 'sample')}, one micro-batch for each device; --batch gives more"
    if not profile.has_curves:
        yield "lost: times are taken to grow in proportion to the samples, so small micro-batches look as fast as large"
