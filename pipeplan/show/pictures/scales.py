"""Units that keep the numbers on an axis short."""

from __future__ import annotations


def byte_scale(largest: float) -> tuple[float, str]:
    """What to divide bytes by, and what the result is in."""
    for unit, factor in (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if largest >= factor:
            return factor, unit
    return 1.0, "bytes"
