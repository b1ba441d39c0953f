"""The kernels that a node runs, from which its times follow on any device by the roofline rule.

Kernels that do equally much arithmetic for each byte that they move take together as long as one kernel with all of
their work, but for the launches. That is true on every device, so only their sums are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

from ...base.checks import check_amount, check_whole
from ...base.errors import InputError, show
from ...base.fields import as_entries, as_list, each, read_record, to_record
from ...physics.hardware import PRODUCTS, Hardware, KernelShare

if TYPE_CHECKING:
    from .profile import Profile

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
    return f"analytic: {device.name}, efficiency {device.efficiency:g}, {device.launch_s * 1e6:g} us a kernel"


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
            [*(_short(getattr(entry, column)) for column in _COLUMNS), *_other(entry)]
            for entry in getattr(work, side)
        ]
        for side in ("forward", "backward")
    }
    return to_record(work, **rows)


def _other(entry: Kernels) -> tuple[str, ...]:
    return () if entry.share == PRODUCTS else (entry.share,)


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
