"""The kernels that a node runs, from which its times follow on any device by the roofline rule.

Kernels that do equally much arithmetic for each byte that they move take together as long as one kernel with all of
their work, but for the launches. That is true on every device, so only their sums are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

from ...base.amounts import as_written
from ...base.checks import check_amount, check_whole
from ...base.curve import TimeCurve
from ...base.errors import InputError, UsageError, show
from ...base.fields import as_entries, as_list, each, read_record, to_record
from ...base.quantities import written_bytes
from ...physics.hardware import GPUS, PRODUCTS, Hardware, KernelShare, KnownGpu

if TYPE_CHECKING:
    from ...base.cluster import Cluster
    from ...base.kind import Kind
    from .profile import Profile, Time


MAX_KERNELS = 10_000_000
MAX_ELEMENT_BYTES = 16
_COLUMNS = ("flops", "moved_bytes", "count", "element_bytes")
_SHARES = get_args(KernelShare)


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels of one arithmetic intensity: the sums of their work, and how many there are."""

    flops: float
    moved_bytes: float
    count: int = 1
    element_bytes: int = 4
    """Bytes of the numbers that they compute with, which decides a device's peak."""
    share: KernelShare = PRODUCTS
    """Which share of the peak they reach."""

    def seconds(self, device: Hardware) -> float:
        """The time of these kernels, one after the other."""
        together = device.seconds(self.flops, self.moved_bytes, self.element_bytes, self.share)
        return together + (self.count - 1) * device.launch_s


@dataclass(frozen=True, slots=True)
class Work:
    """What a node runs in its forward and in its backward pass."""

    forward: tuple[Kernels, ...] = ()
    backward: tuple[Kernels, ...] = ()

    def seconds(self, side: str, device: Hardware) -> float:
        """The time of a pass, "forward" or "backward"."""
        kernels: tuple[Kernels, ...] = getattr(self, side)
        return math.fsum(entry.seconds(device) for entry in kernels)

    def flops(self, side: str) -> float:
        """Floating-point operations of a pass."""
        kernels: tuple[Kernels, ...] = getattr(self, side)
        return math.fsum(entry.flops for entry in kernels)


def merged(kernels: Iterable[Kernels]) -> tuple[Kernels, ...]:
    """The kernels with all of the same intensity in one entry, in the order of the first ones."""
    groups: dict[tuple[int, KernelShare, Fraction | None], list[Kernels]] = {}
    for kernel in kernels:
        moved = Fraction(kernel.moved_bytes)
        ratio = Fraction(kernel.flops) / moved if moved else None
        groups.setdefault((kernel.element_bytes, kernel.share, ratio), []).append(kernel)
    return tuple(
        Kernels(
            math.fsum(kernel.flops for kernel in group),
            math.fsum(kernel.moved_bytes for kernel in group),
            sum(kernel.count for kernel in group),
            size,
            share,
        )
        for (size, share, _), group in groups.items()
    )


def on_hardware(profile: Profile, device: Hardware) -> Profile:
    """The profile with the times that its kernels take on a device, and a source that names the device."""
    without = next((node.id for node in profile.nodes if node.work is None), None)
    if without is not None:
        raise InputError(
            f"node {without!r}", "does not say which kernels it runs", "profile the model on that hardware instead"
        )
    nodes = tuple(
        replace(
            node,
            forward=node.work.seconds("forward", device),
            backward=node.work.seconds("backward", device) if profile.training else 0.0,
        )
        for node in profile.nodes
        if node.work is not None
    )
    return profile.replace(nodes=nodes, time_unit="s", source={**profile.source, "times": calculated(device)})


def calculated(device: Hardware) -> str:
    """Where times by the roofline rule come from, as profiles say it."""
    return f"analytic: {device.name}, efficiency {device.efficiency:g}, {device.launch_s * 1e6:g} us per kernel"


# ---- in files ------------------------------------------------------------------------------------------


def check_work(where: str, work: Work) -> None:
    """Refuse an entry with sums that are no amounts, or with no kernel."""
    for side in ("forward", "backward"):
        for i, entry in enumerate(getattr(work, side)):
            place = f"{where}.{side}[{i}]"
            check_amount(f"{place}.flops", entry.flops)
            check_amount(f"{place}.moved_bytes", entry.moved_bytes)
            check_whole(f"{place}.count", entry.count, MAX_KERNELS)
            check_whole(f"{place}.element_bytes", entry.element_bytes, MAX_ELEMENT_BYTES)
            if entry.share not in _SHARES:
                raise InputError(f"{place}.share", f"is {show(entry.share)}", f"give one of {', '.join(_SHARES)}")


def work_to_json(work: Work) -> dict[str, Any]:
    """Each entry as flops, bytes, number, bytes of an element, and its share of the peak where that is another one
    than of products; passes without kernels are left out."""
    rows: dict[str, Any] = {
        side: [
            [*(_short(getattr(entry, column)) for column in _COLUMNS), *[entry.share] * (entry.share != PRODUCTS)]
            for entry in getattr(work, side)
        ]
        for side in ("forward", "backward")
    }
    return to_record(work, **rows)


def _short(value: float) -> float:
    """The amount as an int where it is whole, so that files stay small."""
    return int(value) if value == int(value) else value


def work_from_json(where: str, value: object) -> Work:
    """The kernels in JSON data; whoever holds them checks them."""
    example = '{"forward": [[flops, bytes, kernels, bytes of an element], ...]}'
    return read_record(Work, where, value, example, forward=each(_kernels), backward=each(_kernels))


def _kernels(where: str, value: object) -> Kernels:
    count = len(_COLUMNS) + (len(as_list(where, value)) > len(_COLUMNS))
    return Kernels(*as_entries(where, value, count, "give flops, bytes, kernels, bytes of an element"))


# ---- on gpus ------------------------------------------------------------
# A profile on GPUs that are named: the times of each kind of them, their memory, and their links.
#
# Where nodes know their kernels, every time is that of the roofline rule on that GPU. Elsewhere the times are taken as
# those of the GPU that is named first, and the others' follow from the peak rates.


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
            f"{'inside a node' if inside else 'between nodes'}; use --bandwidth to change this"
        )
