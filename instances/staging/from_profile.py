"""Profile -> staging problem: a layer for each node, run by one device unless more is asked for.

Cost model, for one micro-batch:

- time: forward and backward; a tensor crosses a border between stages forward, its gradient backward (half as many
  bytes are given where no gradient comes back, because the problem counts every edge both ways);
- memory: copies of parameters (`copies_by` of the optimizer) and buffers whatever is in flight; for each micro-batch
  in flight what the layer saves for its backward pass; with `--zero` the replicas of a stage divide the optimizer's
  copies, from stage 2 on gradients, in stage 3 weights; then the model's largest layer is there three times, gathered;
- `--recompute` adds a configuration that computes the activations again: twice the forward time, and only what the
  layer reads is kept;
- `--data-parallel` allows replicas, which synchronise one copy of the parameters;
- `--tensor-parallel 1,2,4` adds configurations on t devices: time / t, parameters and saved bytes / t, and what the
  devices exchange: in each pass `REDUCTIONS` all-reduces of what the layer sends on, as a transformer layer has, over
  the innermost links. `--option efficiency` takes the place of all that: time / (t x efficiency), one number for all
  t > 1 or one for each; tensors between stages stay whole.

Where several GPUs are named (`--devices 2xa100-80gb,2xt4-16gb`), each is a type of devices with its memory and one
speed, the ratio of the times that the whole model takes; a stage is on devices of one type.

A batch has as many micro-batches as there are devices, the least number that forbids no plan, unless `--batch` gives
another one.

Lost: a tensor with several readers is sent to each of them; the model's input comes from the host and costs nothing;
the size of a micro-batch is the profile's, not a choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from ..base.amounts import as_written, exact_sum
from ..base.cluster import Cluster, per_unit
from ..base.errors import UsageError
from ..base.kind import Lowered
from ..networks.profile.options import ProfileOptions, about_copies, divided_copies, require_cluster
from ..networks.profile.profile import Profile
from ..networks.profile.work import memory_of_each, on_each
from .kind_functions import adjusted
from .problem import Configuration, DeviceType, Edge, Layer, StagingProblem

VANILLA = "vanilla"
RECOMPUTE = "activation recomp"
# All-reduces of a transformer layer in one pass: behind its attention and behind its products.
REDUCTIONS = 2


def lower(profile: Profile, cluster: Cluster, options: ProfileOptions) -> Lowered:
    """The staging problem of a profile; the rules stand at the top of this module."""
    devices, bandwidth = require_cluster(cluster)
    if options.recompute and not profile.training:
        raise UsageError("--recompute is for training, and nothing is trained here; drop --recompute.")
    if options.efficiency is not None and max(options.tensor_parallel, default=1) == 1:
        raise UsageError(
            "--option efficiency is of layers that devices share; give --tensor-parallel 1,2, or drop it."
        )
    problem = StagingProblem(
        layers=_layers(profile, options, per_unit(bandwidth, profile.time_unit)),
        edges=_edges(profile),
        devices=devices,
        bandwidth=per_unit(bandwidth, profile.time_unit),
        micro_batches=devices if cluster.batch is None else cluster.batch,
        replication=options.data_parallel,
        name=profile.name,
        time_unit=profile.time_unit,
        zero=options.zero or 0,
        device_types=_types(profile, cluster),
    )
    rest = replace(cluster, batch=None, training=None, profile=None, gpus=None)
    problem = adjusted(problem, replace(rest, memory_bytes=None) if problem.device_types else rest)
    return Lowered(problem, (*_about_types(problem), *_notes(profile, options, bandwidth)))


def _types(profile: Profile, cluster: Cluster) -> tuple[DeviceType, ...]:
    """A type of devices for each named GPU, with the speed at which it runs the whole model."""
    if cluster.gpus is None:
        return ()
    whole = [
        exact_sum(timed.time(time) for node in timed.nodes for time in (node.forward, node.backward))
        for timed in on_each(profile, cluster)
    ]
    return tuple(
        DeviceType(name, count, float(whole[0] / time) if time else 1.0, memory)
        for (count, name), time, memory in zip(cluster.gpus, whole, memory_of_each(cluster), strict=True)
    )


def _about_types(problem: StagingProblem) -> Iterator[str]:
    if problem.device_types:
        first, *others = problem.device_types
        told = " and ".join(f"{kind.name} {1 / kind.speed:.3g} times as long as {first.name}" for kind in others)
        yield (
            f"a stage takes on {told}, whichever layers it has: that is what the whole model takes; --kind placement "
            "counts each layer's own time"
        )


def _layers(profile: Profile, options: ProfileOptions, bandwidth: float) -> tuple[Layer, ...]:
    degrees = options.tensor_parallel or (1,)
    return tuple(
        Layer(node.id, {t: tuple(_ways(profile, options, bandwidth, i, t)) for t in degrees})
        for i, node in enumerate(profile.nodes)
    )


def _ways(profile: Profile, options: ProfileOptions, bandwidth: float, i: int, t: int) -> Iterator[Configuration]:
    """The ways to run node i on t devices; of the passes of each way, forward ones come first."""
    node = profile.nodes[i]
    copies = divided_copies(profile, options, replicas=options.data_parallel)
    buffers = as_written(node.buffer_bytes)
    forward, backward = profile.time(node.forward), profile.time(node.backward)
    plans = [(VANILLA, [forward, backward], as_written(node.saved_bytes))]
    if options.recompute:
        read = exact_sum(tensor.bytes for tensor in profile.tensors if node.id in tensor.readers)
        plans.append((RECOMPUTE, [forward, forward, backward], read))
    efficiency = options.efficiency_at(t)
    speed = t * as_written(efficiency or 1) if t > 1 else Fraction(1)
    exchanged = Fraction(0)
    if t > 1 and efficiency is None and bandwidth < math.inf:
        # The largest tensor of the node that others read.
        sent = max((as_written(tensor.bytes) for tensor in profile.made[i] if tensor.readers), default=Fraction(0))
        exchanged = REDUCTIONS * Fraction(2 * (t - 1), t) * sent / as_written(bandwidth)
    for name, times, kept in plans:
        passes = [time / speed + exchanged for time in map(as_written, times)]
        yield Configuration(
            name,
            float(sum(passes if profile.training else passes[:1], Fraction(0))),
            forward_time=float(passes[0]),
            weight_bytes=float(exact_sum(node.parameters.values()) / t),
            memory_per_batch=float(kept / t),
            memory_fixed=float((exact_sum(node.parameters.values()) * as_written(copies.whole) + buffers) / t),
            memory_divided=float(exact_sum(node.parameters.values()) * as_written(copies.shared) / t),
        )


def _edges(profile: Profile) -> tuple[Edge, ...]:
    """One edge between two nodes, with all tensors that pass from one to the other."""
    amounts: dict[tuple[str, str], Fraction] = {}
    for made in profile.made:
        for tensor in made:
            trips = 1 if profile.training and tensor.gradient else Fraction(1, 2)
            for reader in tensor.readers:
                key = (tensor.producer, reader)
                amounts[key] = amounts.get(key, Fraction(0)) + as_written(tensor.bytes) * trips
    return tuple(Edge(source, target, float(amount)) for (source, target), amount in amounts.items())


def _notes(profile: Profile, options: ProfileOptions, bandwidth: float) -> Iterator[str]:
    shared = [t for t in options.tensor_parallel if t > 1]
    missing = [t for t in shared if options.efficiency_at(t) is None]
    if missing and bandwidth == math.inf:
        free = "devices that share a layer divide its time without any cost, because links are free"
        yield f"{free}; use --option efficiency to set a cost"
    elif missing:
        yield (
            f"devices that share a layer exchange its output {REDUCTIONS} times in each pass, over their links; to set "
            "a share of the ideal speed instead, use --option efficiency=2:0.97,4:0.93"
        )
    if shared and profile.training:
        yield (
            "activations are divided among the devices that share a layer, as with Megatron's --sequence-parallel; "
            "without that option they need more memory"
        )
    yield from about_copies(profile, options)
    if not options.data_parallel and not options.tensor_parallel:
        yield "each stage uses one device; --data-parallel and --tensor-parallel 1,2,4 allow more"
    if any(len(tensor.readers) > 1 for tensor in profile.tensors):
        yield "lost: a tensor with several readers is sent to each of them"
