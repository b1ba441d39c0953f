"""Profile -> training problem: a layer of its own for each run of nodes between two single tensors.

Cost model, for one sequence, which is one sample of the profile:

- time: forward and backward as the profile has them, at the micro-batches at which every time was measured, or at the
  profile's own micro-batch where there is none; updates of the optimizer take no time;
- memory: parameters are counted from their bytes, and the framework says what each of them takes; what the layers save
  for their backward passes is kept for each micro-batch in flight;
- between stages goes every tensor that a later layer reads.

A layer runs on one GPU: a profile does not say how tensor parallelism would divide it. Context and expert parallelism
need shapes, too.

Lost: buffers; weights that two layers share are counted in both; a tensor that is read beyond the next layer is sent
once. A cluster given in numbers alone has no GPU's peak, so that nothing is said of its share (MFU).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..base.amounts import as_written, exact_sum
from ..base.cluster import SECONDS, Cluster
from ..base.curve import TimeCurve
from ..base.errors import InputError, UsageError
from ..base.graph import by_depth, cut_into_groups
from ..base.kind import Lowered
from ..networks.profile.options import ProfileOptions, require_cluster
from ..networks.profile.profile import Profile
from .model import MeasuredTime, Model, OwnLayer
from .problem import PRECISIONS, Gpu, Level, TrainingProblem

# A GPU must have a peak, which layers with times of their own never ask for.
UNKNOWN_PEAK = 1.0
USUAL_BYTES = 4.0
_BYTES = {"float64": 8.0, "float32": 4.0, "bfloat16": 2.0, "float16": 2.0}


def lower(profile: Profile, cluster: Cluster, options: ProfileOptions) -> Lowered:
    """The training problem of a profile on a cluster in numbers; the rules stand at the top of this module."""
    devices, bandwidth = require_cluster(cluster)
    memory = cluster.memory_bytes
    assert memory is not None, "required as well"
    if bandwidth == math.inf:
        raise UsageError("--bandwidth is none, but links have a limit; give an amount.")
    levels = cluster.levels or ((devices, bandwidth),)
    problem = TrainingProblem(
        model=model_of_profile(profile, options.bytes_per_parameter),
        gpu=Gpu(
            "gpu", None if memory == math.inf else memory, dict.fromkeys(PRECISIONS, UNKNOWN_PEAK), UNKNOWN_PEAK
        ),
        devices=devices,
        levels=tuple(Level(count, rate) for count, rate in levels),
        batch=cluster.batch or devices * profile.micro_batch,
        sequence=1,
        sequence_parallel=False,
        name=profile.name,
    )
    return Lowered(problem, tuple(_notes(profile, cluster, options)))


def model_of_profile(profile: Profile, bytes_per_parameter: float | None = None) -> Model:
    """The layers of a profile as a model, for any cluster."""
    if not profile.training:
        raise UsageError("Nothing is trained in this profile; give one with backward passes.")
    size = as_written(bytes_per_parameter or parameter_bytes(profile))
    samples = measured_samples(profile)
    rows = _joined([_row(profile, members, samples) for members in _groups(profile)])
    unit = SECONDS[profile.time_unit]
    return Model(profile.name[:200], own=tuple(_own_layer(row, profile, samples, size, unit) for row in rows))


def parameter_bytes(profile: Profile) -> float:
    """Bytes of one parameter: those of the widest numbers that pass between layers, four where nothing says."""
    known = [_BYTES[tensor.dtype] for tensor in profile.tensors if tensor.dtype in _BYTES]
    return max(known, default=USUAL_BYTES)


def measured_samples(profile: Profile) -> tuple[int, ...]:
    """Micro-batches at which every node's time was measured; the profile's own where there is none."""
    times = [time for node in profile.nodes for time in (node.forward, node.backward) if time]
    curves = [set(time.samples) for time in times if isinstance(time, TimeCurve)]
    if not curves or len(curves) < len(times):
        return (profile.micro_batch,)
    shared = {int(count) for count in set.intersection(*curves) if count == int(count)}
    return tuple(sorted(shared)) or (profile.micro_batch,)


@dataclass(frozen=True, slots=True)
class _Row:
    """Nodes that become one layer; times are in the order of the measured micro-batches."""

    names: tuple[str, ...]
    forward: tuple[Fraction, ...]
    backward: tuple[Fraction, ...]
    saved: Fraction
    parameter_bytes: Fraction
    sent: Fraction


def _groups(profile: Profile) -> list[tuple[int, ...]]:
    order = by_depth(profile.topological_order, profile.successors)
    return [group.members for group in cut_into_groups(order, profile.successors)]


def _row(profile: Profile, members: Sequence[int], samples: Sequence[int]) -> _Row:
    nodes = [profile.nodes[i] for i in members]
    inside = {node.id for node in nodes}

    def total(way: str) -> tuple[Fraction, ...]:
        times = [getattr(node, way) for node in nodes]
        return tuple(exact_sum(t(count) if isinstance(t, TimeCurve) else t for t in times) for count in samples)

    return _Row(
        tuple(node.id for node in nodes),
        total("forward"),
        total("backward"),
        exact_sum(node.saved_bytes for node in nodes),
        exact_sum(size for node in nodes for size in node.parameters.values()),
        exact_sum(t.bytes for i in members for t in profile.made[i] if not inside.issuperset(t.readers)),
    )


def _joined(rows: Sequence[_Row]) -> list[_Row]:
    """Layers that take time: a row that takes none forward goes with the next one, and at the end with the last one."""
    joined: list[_Row] = []
    for row in rows:
        if joined and not all(joined[-1].forward):
            joined[-1] = _both(joined[-1], row)
        else:
            joined.append(row)
    if len(joined) > 1 and not all(joined[-1].forward):
        last = joined.pop()
        joined[-1] = _both(joined[-1], last)
    if not all(joined[-1].forward):
        raise InputError("nodes", "take no time in forward passes", "give the time of at least one")
    return joined


def _both(first: _Row, second: _Row) -> _Row:
    def sums(one: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        return tuple(a + b for a, b in zip(one, other, strict=True))

    return _Row(
        first.names + second.names,
        sums(first.forward, second.forward),
        sums(first.backward, second.backward),
        first.saved + second.saved,
        first.parameter_bytes + second.parameter_bytes,
        second.sent,
    )


def _own_layer(row: _Row, profile: Profile, samples: Sequence[int], size: Fraction, unit: Fraction) -> OwnLayer:
    names = row.names
    return OwnLayer(
        name=(names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}")[:200],
        parameters=round(row.parameter_bytes / size),
        stash_bytes=float(row.saved / profile.micro_batch),
        output_bytes=float(row.sent / profile.micro_batch),
        times=tuple(
            MeasuredTime(1, count, float(forward * unit), float(backward * unit))
            for count, forward, backward in zip(samples, row.forward, row.backward, strict=True)
        ),
    )


def _notes(profile: Profile, cluster: Cluster, options: ProfileOptions) -> Iterator[str]:
    yield "layers bring their own times: only tensor=1 is possible, and the share of the GPU's peak is not known"
    if options.bytes_per_parameter is None:
        size = parameter_bytes(profile)
        yield f"parameters are counted as {size:g} bytes each"
    if cluster.batch is None:
        yield "a batch is one micro-batch for each device; --batch says how many samples there are between two updates"
    if any(node.buffer_bytes for node in profile.nodes):
        yield "lost: buffers take no memory"
    if profile.tied:
        yield "lost: weights that two layers share are counted in both"
