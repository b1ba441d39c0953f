"""A profile on GPUs that are named: the times of each kind of them, their memory, and their links.

Where nodes know their kernels, every time is that of the roofline rule on that GPU. Elsewhere the times are taken as
those of the GPU that is named first, and the others' follow from the peak rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ...base.amounts import as_written
from ...base.cluster import Cluster
from ...base.curve import TimeCurve
from ...base.errors import UsageError
from ...base.quantities import written_bytes
from ...physics.hardware import GPUS, KnownGpu
from .profile import Profile, Time
from .work import on_hardware

if TYPE_CHECKING:
    from ...base.kind import Kind

# The option of kinds whose problems may have several types of devices.
MIXED = "gpus"


def on_gpus(profile: Profile, cluster: Cluster, kind: Kind[Any, Any]) -> tuple[Profile, Cluster, tuple[str, ...]]:
    """The profile with the times of the GPU named first, the cluster with what was left open filled in, and notes."""
    assert cluster.gpus is not None, "asked where GPUs are named"
    gpus = [GPUS[name] for _, name in cluster.gpus]
    if len(gpus) > 1:
        _check_mixed(cluster, kind)
    timed = on_each(profile, cluster)[0]
    has_links = cluster.bandwidth is not None or bool(cluster.levels)
    inside = all(cluster.devices is not None and cluster.devices <= gpu.node for gpu in gpus)
    slowest = min(gpu.inside if inside else gpu.between for gpu in gpus)
    filled = replace(
        cluster,
        memory_bytes=gpus[0].memory_bytes if cluster.memory_bytes is None else cluster.memory_bytes,
        bandwidth=cluster.bandwidth if has_links else slowest,
        gpus=cluster.gpus if len(gpus) > 1 else None,
    )
    return timed, filled, tuple(_notes(profile, gpus, None if has_links else slowest, inside))


def _check_mixed(cluster: Cluster, kind: Kind[Any, Any]) -> None:
    if MIXED not in kind.profile_options:
        raise UsageError(
            f"A {kind.name} problem has devices of one type: name one GPU, or give --kind staging or --kind placement."
        )
    if cluster.memory_bytes not in (None, math.inf):
        raise UsageError("--memory is of devices of one type, and each of these GPUs has its own; drop --memory.")


def memory_of_each(cluster: Cluster) -> tuple[float | None, ...]:
    """Bytes of memory of each named GPU, in the order of the names; None for each where the caller wants no
    limit."""
    names = [name for _, name in cluster.gpus or ()]
    return tuple(None if cluster.memory_bytes == math.inf else GPUS[name].memory_bytes for name in names)


def on_each(profile: Profile, cluster: Cluster) -> tuple[Profile, ...]:
    """The profile with the times of each kind of GPU, in the order of their names."""
    names = [name for _, name in cluster.gpus or ()]
    if _has_kernels(profile):
        return tuple(on_hardware(profile, GPUS[name].roofline).replace(time_unit="s") for name in names)
    return tuple(_slower(profile, peak_ratio(GPUS[names[0]], GPUS[name])) for name in names)


def peak_ratio(first: KnownGpu, other: KnownGpu) -> Fraction:
    """The ratio of the other GPU's time to the first one's, by the most that each can calculate in a second."""
    return as_written(first.half_flops) / as_written(other.half_flops)


def _has_kernels(profile: Profile) -> bool:
    return all(node.work is not None for node in profile.nodes)


def _slower(profile: Profile, factor: Fraction) -> Profile:
    if factor == 1:
        return profile
    nodes = tuple(
        replace(node, forward=_times(node.forward, factor), backward=_times(node.backward, factor))
        for node in profile.nodes
    )
    return profile.replace(nodes=nodes)


def _times(time: Time, factor: Fraction) -> Time:
    if isinstance(time, TimeCurve):
        return TimeCurve(time.samples, tuple(float(as_written(value) * factor) for value in time.seconds))
    return float(as_written(time) * factor)


def _notes(profile: Profile, known: list[KnownGpu], bandwidth: float | None, inside: bool) -> Iterator[str]:
    names = [gpu.name for gpu in known]
    if _has_kernels(profile):
        yield f"times are those of each node's kernels on {' and '.join(names)}, by the roofline rule"
    else:
        others = (f"{gpu.name} takes {float(peak_ratio(known[0], gpu)):.3g} times as long" for gpu in known[1:])
        yield "; ".join((f"the profile's times are taken as those of {names[0]}", *others)) + (
            ", by their peak rates" if len(known) > 1 else ""
        )
    if bandwidth is not None:
        yield (
            f"links are taken as {written_bytes(bandwidth)}/s, the slowest of these GPUs' own "
            f"{'inside a node' if inside else 'between nodes'}; --bandwidth says otherwise"
        )
