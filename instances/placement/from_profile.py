"""Profile -> placement problem: a forward and a backward node for each node, of one colour.

Cost model, for one micro-batch:

- times are those of the profile, and `--option cpu-slowdown` times as long on a CPU; where several GPUs are named,
  each type has its own times (`networks/profile/work.py`) and memory. The GPUs that are named first are the base
  type;
- memory of a node: copies of its parameters (`copies_by` of the optimizer), its buffers, and what it saves for its
  backward pass `--option in-flight` times; without that option as many times as there are devices, which is what the
  first stage of 1F1B holds. The forward and the backward node have half of it each: both share a device;
- transfer time: the bytes that others read, divided by the bandwidth; of a backward node the gradients of the tensors
  that its forward node makes. An edge between backward nodes points the way of its forward edge, because it stands
  for the gradient of that edge's tensor.

Lost: all tensors of a node travel together; memory does not depend on the place in the pipeline; tensors on their way
need no buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ..base.amounts import as_written, exact_sum
from ..base.checks import check_limit, check_positive
from ..base.cluster import SECONDS, Cluster
from ..base.errors import InputError
from ..base.kind import Lowered
from ..networks.profile.options import (
    ProfileOptions,
    about_copies,
    copies_of,
    held_bytes,
    require_cluster,
    without_limit,
)
from ..networks.profile.profile import Profile
from ..networks.profile.work import memory_of_each, on_each
from .problem import AcceleratorType, Node, NodeId, PlacementProblem

BACKWARD_SUFFIX = "/backward"


def lower(profile: Profile, cluster: Cluster, options: ProfileOptions) -> Lowered:
    """The placement problem of a profile; the rules stand at the top of this module."""
    devices, bandwidth = require_cluster(cluster)
    _check_cluster(cluster)
    in_flight = options.in_flight or devices
    (count, _), *others = cluster.gpus or ((devices, ""),)
    problem = PlacementProblem(
        nodes=tuple(_nodes(profile, cluster, bandwidth, in_flight, copies_of(profile, options))),
        edges=tuple(_edges(profile)),
        accelerators=count,
        other_types=tuple(
            AcceleratorType(name, more, memory)
            for (more, name), memory in zip(others, memory_of_each(cluster)[1:], strict=True)
        ),
        cpus=cluster.cpus or 0,
        memory_bytes=without_limit(cluster.memory_bytes),
        name=profile.name,
        time_unit=profile.time_unit,
    )
    return Lowered(problem, tuple(_notes(profile, options, in_flight)))


def _check_cluster(cluster: Cluster) -> None:
    check_limit("memory_bytes", without_limit(cluster.memory_bytes))
    if cluster.bandwidth != float("inf"):
        check_positive("bandwidth", cluster.bandwidth, "give bytes per second, such as --bandwidth 25GiB/s")
    if cluster.cpu_slowdown is not None:
        check_positive("cpu_slowdown", cluster.cpu_slowdown, "give a factor, such as --option cpu-slowdown=10")
    elif cluster.cpus:
        raise InputError(
            "cpu_slowdown",
            "is missing although there are CPUs: a profile holds no CPU times",
            "give --option cpu-slowdown, a factor on the accelerator times, or no CPU",
        )


def _nodes(profile: Profile, cluster: Cluster, bandwidth: float, in_flight: int, copies: float) -> Iterator[Node]:
    parts = 2 if profile.training else 1
    others = on_each(profile, cluster)[1:]
    for backward in (False, True) if profile.training else (False,):
        for i, node in enumerate(profile.nodes):
            time = profile.time(node.backward if backward else node.forward)
            bytes_held = held_bytes(node, copies) + as_written(node.saved_bytes) * in_flight
            _check_memory(i, bytes_held, cluster)
            yield Node(
                id=node.id + BACKWARD_SUFFIX if backward else node.id,
                accelerator_time=time,
                # Without a CPU the factor is of no consequence, and none has to be given.
                cpu_time=time * (cluster.cpu_slowdown or 1.0),
                size_bytes=float(bytes_held / parts),
                transfer_time=_transfer_time(profile, i, bandwidth, backward),
                backward=backward,
                color=node.id if profile.training else None,
                name=node.label,
                other_times=tuple(
                    other.time(other.nodes[i].backward if backward else other.nodes[i].forward) for other in others
                ),
            )


def _check_memory(i: int, held: Fraction, cluster: Cluster) -> None:
    """Refuse a layer whose two nodes together fit no accelerator; the problem would speak of their colour."""
    limits = memory_of_each(cluster) or (without_limit(cluster.memory_bytes),)
    limit = None if None in limits else max(filter(None, limits), default=None)
    if limit is not None and held > as_written(limit) and not cluster.cpus:
        raise InputError(
            f"nodes[{i}].size_bytes",
            f"is {float(held):.15g} bytes, more than an accelerator's {limit:.15g} bytes, and there is no CPU",
            "give more memory, a smaller node or a CPU",
        )


def _transfer_time(profile: Profile, i: int, bandwidth: float, backward: bool) -> float:
    """The transfer time of a node in the profile's unit; with infinite bandwidth there is none."""
    if bandwidth == float("inf"):
        return 0.0
    sent = exact_sum(
        tensor.bytes for tensor in profile.made[i] if tensor.readers and (tensor.gradient or not backward)
    )
    return float(sent / (as_written(bandwidth) * SECONDS[profile.time_unit]))


def _edges(profile: Profile) -> Iterator[tuple[NodeId, NodeId]]:
    ids = [node.id for node in profile.nodes]
    for suffix in ("", BACKWARD_SUFFIX) if profile.training else ("",):
        yield from ((ids[u] + suffix, ids[v] + suffix) for u, v in profile.arcs)


def _notes(profile: Profile, options: ProfileOptions, in_flight: int) -> Iterator[str]:
    yield from about_copies(profile, options)
    if profile.training and options.in_flight is None:
        yield (
            f"every device is taken to hold the activations of {in_flight} micro-batches, as the first stage of a "
            "pipeline does; use --option in-flight to change this"
        )
