"""Local search as in the paper: random start, the best single reassignment until none gains, restarts.

A start that breaks memory or support is first mended. For contiguous plans the start is a random order cut at
random places, and every device keeps its place in the chain.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from ...contract import Outcome, Request
from ..groups import FAR, Groups, capped
from ..incumbent import Incumbent, groups_of, is_contiguous
from ..options import RESTARTS
from ..orders import random_order
from .reassignment import Climb, Tables


class LocalSearch:
    def plan(self, request: Request) -> Outcome:
        incumbent = Incumbent(request, groups_of(request))
        return incumbent.tried(_climbed(incumbent), "no start could be mended to fit the memory")


PLANNER = LocalSearch()


def _climbed(incumbent: Incumbent) -> Iterator[list[int]]:
    request, groups = incumbent.request, incumbent.groups
    rng = random.Random(request.limits.seed)
    tables = Tables(groups)
    for _ in range(request.options.get("restarts", RESTARTS.default)):
        tame = capped(groups, FAR * incumbent.value)
        tables = tables if tame is groups else Tables(tame)
        contiguous = is_contiguous(request)
        device_of, stages = random_chain(groups, rng) if contiguous else (_random_devices(groups, rng), None)
        climb = Climb(tables, device_of, stages)
        while not request.out_of_time() and climb.step():
            pass
        yield climb.assignment


def _random_devices(groups: Groups, rng: random.Random) -> list[int]:
    """Any device that can hold the group by itself."""
    first = [0 if ok else groups.accelerators for ok in groups.supported]
    return [rng.randrange(low, groups.devices) if low < groups.devices else 0 for low in first]


def random_chain(groups: Groups, rng: random.Random) -> tuple[list[int], list[int]]:
    """A random topological order, cut at random places, for devices in random order; with the stage of each device."""
    order = random_order(groups, rng)
    devices = rng.sample(range(groups.devices), groups.devices)
    cuts = sorted(rng.randrange(groups.count + 1) for _ in range(groups.devices - 1))
    device_of = [0] * groups.count
    for device, start, end in zip(devices, [0, *cuts], [*cuts, groups.count], strict=True):
        for g in order[start:end]:
            device_of[g] = device
    stages = [0] * groups.devices
    for stage, device in enumerate(devices):
        stages[device] = stage
    return device_of, stages
