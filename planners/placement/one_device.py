"""Everything on one device: the baseline without any pipeline, and without any transfer."""

from __future__ import annotations

from ..contract import Outcome, Request
from .groups import contract
from .incumbent import Incumbent
from .options import OPTIONS


class OneDevice:
    name = "one-device"
    title = "everything on one device"
    problem_kind = "placement"
    exact = False
    options = OPTIONS[name]

    def plan(self, request: Request) -> Outcome:
        """The better of one accelerator and one CPU. One device alone is contiguous in every sense."""
        groups = contract(request.problem, False, request.options.get("objective", "max-load"))
        incumbent = Incumbent(request, groups, self.name)
        for device in {0, groups.devices - 1}:
            incumbent.offer([device] * groups.count)
        return incumbent.completed("no single device has the memory and the support for everything")


PLANNER = OneDevice()
