"""Figures that hardware can have: one a million times off was meant in another unit, and is asked back.

Only amounts that are bytes and seconds for sure are checked: those of named GPUs, and of networks whose own sizes are
real. Small examples count in units of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .cluster import Cluster
from .errors import InputError

# Powers of ten by which people miss a unit, the likeliest first.
POWERS = (9, 12, 6, 3, -9, -12, -6, -3)


@dataclass(frozen=True, slots=True)
class Figure:
    """What one figure of hardware can be, and what is usual."""

    unit: str
    least: float
    most: float
    usual: tuple[float, float]
    written: tuple[str, float]
    """The unit in which people state it, and how many of `unit` that is."""
    readable: bool = True
    """Is it read with that unit? Otherwise as a number of `unit` alone."""

    def meant(self, value: float) -> float | None:
        """The usual figure of the same digits; None: there is none."""
        low, high = self.usual
        return next((value * 10.0**power for power in POWERS if low <= value * 10.0**power <= high), None)


MEMORY = Figure("bytes", 1e6, 1e15, (1e9, 1e12), ("GB", 1e9))
LINK = Figure("bytes a second", 1e6, 1e15, (1e9, 2e12), ("GB/s", 1e9))
MEMORY_RATE = Figure("bytes a second", 1e8, 1e16, (1e11, 5e13), (" GB/s", 1e9), readable=False)
FLOPS = Figure("operations a second", 1e9, 1e19, (1e13, 5e16), (" TFLOP/s", 1e12), readable=False)
LATENCY = Figure("seconds", 0.0, 1.0, (1e-7, 1e-4), (" us", 1e-6), readable=False)


def check_figure(field: str, value: float | None, figure: Figure) -> None:
    """Refuse a figure that no hardware has, with the one that may be meant; no limit (None, infinity) and 0 may be."""
    if value is None or value in (0, math.inf) or figure.least <= value <= figure.most:
        return
    meant = figure.meant(value)
    if meant is None:
        remedy = f"give a figure from {figure.least:g} to {figure.most:g} {figure.unit}"
    else:
        unit, factor = figure.written
        stated, number = f"{meant / factor:g}{unit}", f"{meant:g}"
        remedy = (
            f"write {stated} if you mean that, which is {number} {figure.unit}"
            if figure.readable
            else f"write {number} if you mean {stated}"
        )
    raise InputError(field, f"is {value:g} {figure.unit}, which no hardware has", remedy)


def check_cluster(cluster: Cluster) -> None:
    """Refuse memory and links that no hardware has; names are those of the command line."""
    check_figure("--memory", cluster.memory_bytes, MEMORY)
    check_figure("--bandwidth", cluster.bandwidth, LINK)
    check_links("--levels", (rate for _, rate in cluster.levels or ()))


def check_links(field: str, rates: Iterable[float]) -> None:
    for rate in rates:
        check_figure(field, rate, LINK)


def is_real(bytes_held: float | None) -> bool:
    """Is so much memory counted in bytes? Small examples count in units of their own."""
    return bytes_held is not None and MEMORY.least <= bytes_held < math.inf
