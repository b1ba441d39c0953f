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
from fractions import Fraction

from ..base.amounts import as_written, exact_sum
from ..base.cluster import SECONDS, Cluster
from ..base.curve import TimeCurve
from ..base.errors import InputError, UsageError
from ..base.graph import by_depth, cut_into_groups
from ..base.kind import Lowered
from ..networks.profile.options import ProfileOptions, require_cluster
from ..networks.profile.profile import Profile
from ..physics.optimizers import PRECISIONS
from .model import MeasuredTime, Model, OwnLayer
from .problem import Gpu, Level, TrainingProblem

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
    layers = _layers(profile, samples)
    return Model(profile.name[:200], own=tuple(_own_layer(profile, layer, samples, size) for layer in layers))


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


# Groups of nodes between two single tensors, in their order, which become one layer.
Groups = list[tuple[int, ...]]


def _layers(profile: Profile, samples: Sequence[int]) -> list[Groups]:
    """Layers that take time: a group that takes none forward goes with the next one, at the end with the last one."""
    order = by_depth(profile.topological_order, profile.successors)
    layers: list[Groups] = []
    for group in cut_into_groups(order, profile.successors):
        if layers and not all(_times(profile, layers[-1], "forward", samples)):
            layers[-1].append(group.members)
        else:
            layers.append([group.members])
    if len(layers) > 1 and not all(_times(profile, layers[-1], "forward", samples)):
        layers[-2:] = [layers[-2] + layers[-1]]
    if not all(_times(profile, layers[-1], "forward", samples)):
        raise InputError("nodes", "take no time in forward passes", "give the time of at least one")
    return layers


def _times(profile: Profile, layer: Groups, way: str, samples: Sequence[int]) -> list[Fraction]:
    """What the passes of a layer take, in the order of the measured micro-batches."""
    times = [getattr(profile.nodes[i], way) for group in layer for i in group]
    return [exact_sum(t(count) if isinstance(t, TimeCurve) else t for t in times) for count in samples]


def _own_layer(profile: Profile, layer: Groups, samples: Sequence[int], size: Fraction) -> OwnLayer:
    """The layer, with parameters of `size` bytes each; the nodes of its last group send what later layers read."""
    nodes, unit = [profile.nodes[i] for group in layer for i in group], SECONDS[profile.time_unit]
    last = {profile.nodes[i].id for i in layer[-1]}
    sent = exact_sum(t.bytes for i in layer[-1] for t in profile.made[i] if not last.issuperset(t.readers))
    passes = zip(samples, *(_times(profile, layer, way, samples) for way in ("forward", "backward")), strict=True)
    return OwnLayer(
        name=(nodes[0].id if len(nodes) == 1 else f"{nodes[0].id} to {nodes[-1].id}")[:200],
        parameters=round(exact_sum(bytes for node in nodes for bytes in node.parameters.values()) / size),
        stash_bytes=float(exact_sum(node.saved_bytes for node in nodes) / profile.micro_batch),
        output_bytes=float(sent / profile.micro_batch),
        times=tuple(MeasuredTime(1, n, float(there * unit), float(back * unit)) for n, there, back in passes),
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
