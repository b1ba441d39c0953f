"""A cluster beyond accelerators of one type side by side: further types, and devices within devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..base.checks import check_amount, check_count, check_distinct, check_limit, check_size, check_text
from ..base.errors import InputError, show

MAX_LEVELS = 6
MAX_OTHER_TYPES = 100

# Bandwidths are at least this, so that bytes divided by one stay finite.
LEAST_BANDWIDTH = 1e-100


@dataclass(frozen=True, slots=True)
class AcceleratorType:
    """Accelerators of one further type."""

    name: str
    count: int
    memory_bytes: float | None = None
    """Memory of one of them; None: no limit."""


@dataclass(frozen=True, slots=True)
class Level:
    """`devices` devices of this level stand in each device of the next one; those of the highest are the cluster's.

    The devices of the lowest level are the accelerators.
    """

    devices: int
    transfer_factor: float = 1.0
    """Factor of transfer times where a tensor crosses the boundary of a device of this level."""
    sync_bandwidth: float | None = None
    """Bytes per time unit between replicas on devices of this level; None: no replication."""


def is_flat(levels: Sequence[Level]) -> bool:
    """Do the levels say no more than the number of accelerators?"""
    plain = all(level.transfer_factor == 1 and level.sync_bandwidth is None for level in levels)
    return not levels or (len(levels) == 1 and plain)


def check_types(other_types: Sequence[AcceleratorType]) -> None:
    """Names of their own, counts and memories in order."""
    check_size("other_types", other_types, MAX_OTHER_TYPES)
    for t, other in enumerate(other_types):
        where = f"other_types[{t}]"
        if not isinstance(other, AcceleratorType):
            raise InputError(where, f"is {show(other)}, not an accelerator type", "give an AcceleratorType")
        check_text(f"{where}.name", other.name)
        if not other.name:
            raise InputError(f"{where}.name", "is empty", "give the type a name")
        check_count(f"{where}.count", other.count)
        check_limit(f"{where}.memory_bytes", other.memory_bytes)
    check_distinct("other_types", "type", [other.name for other in other_types], "name")


def check_levels(levels: Sequence[Level], accelerators: int) -> None:
    """Amounts in order, and as many accelerators in the levels as in the problem."""
    check_size("levels", levels, MAX_LEVELS)
    for number, level in enumerate(levels):
        _check_level(f"levels[{number}]", level)
    total = math.prod(level.devices for level in levels)
    if levels and total != accelerators:
        counts = " x ".join(str(level.devices) for level in reversed(levels))
        what = f"make {counts} = {total} accelerators" if len(levels) > 1 else f"have room for {total} accelerators"
        raise InputError(
            "levels", f"{what}, not {accelerators}", "let the devices of all levels multiply to the accelerators"
        )


def _check_level(where: str, level: object) -> None:
    if not isinstance(level, Level):
        raise InputError(where, f"is {show(level)}, not a level", "give a Level")
    check_count(f"{where}.devices", level.devices)
    check_amount(f"{where}.transfer_factor", level.transfer_factor)
    if level.sync_bandwidth is None:
        return
    check_amount(f"{where}.sync_bandwidth", level.sync_bandwidth)
    if level.sync_bandwidth < LEAST_BANDWIDTH:
        raise InputError(
            f"{where}.sync_bandwidth",
            f"is {show(level.sync_bandwidth)}",
            f"give at least {LEAST_BANDWIDTH:g}, or none at all where there is no replication",
        )
