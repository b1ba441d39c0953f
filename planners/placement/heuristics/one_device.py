"""Everything on one device: the baseline without any pipeline, and without any transfer."""

from __future__ import annotations

from ...contract import Outcome, Request
from ..incumbent import Incumbent, groups_of


class OneDevice:
    def plan(self, request: Request) -> Outcome:
        """The better of one accelerator and one CPU. One device alone is contiguous in every sense."""
        groups = groups_of(request, contiguous=False)
        incumbent = Incumbent(request, groups)
        for device in {0, groups.devices - 1}:
            incumbent.offer([device] * groups.count)
        return incumbent.completed("no single device has the memory and the support for everything")


PLANNER = OneDevice()
