"""From sets that are taken in part to a plan: the set with the largest share gets an accelerator, and so on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .columns import Columns
from .master import Mixture
from .pricing import DeviceSet

PATIENCE = 40
"""Rounds for each accelerator of a dive."""
ALTERNATIVES = 3
"""Sets that are tried for one accelerator, before the dive goes back to the one before."""


@dataclass
class Dive:
    """All of one dive; what no set covers in the end is left to the CPUs."""

    columns: Columns
    limit: int
    tries: int
    """Sets that may still be tried."""

    def down(self, mixed: Mixture, taken: Any, devices: int) -> list[DeviceSet] | None:
        """Sets for so many accelerators, so that the CPUs can do the rest; None where the tries are used up."""
        if not devices:
            return []
        order = sorted(range(len(mixed.sets)), key=lambda i: -mixed.shares[i])
        for i in order[:ALTERNATIVES]:
            if mixed.shares[i] <= 0:
                break
            if self.tries <= 0:
                return None
            self.tries -= 1
            chosen = mixed.sets[i]
            also = taken.copy()
            also[chosen.members] = True
            rest = self.columns.mixture(self.limit, also, devices - 1, PATIENCE)
            if rest is None or not rest.is_whole:
                continue
            below = self.down(rest, also, devices - 1)
            if below is not None:
                return [chosen, *below]
        return None
