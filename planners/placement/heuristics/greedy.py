"""Greedy filling: groups in topological order, device after device, each up to a target load that is bisected."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ....instances.base.graph import adjacency
from ...contract import Outcome, Request
from ..groups import FAR, Groups, Incumbent, capped, groups_of
from ..orders import depth_first

# Targets that are tried for each order of the devices, beside the first one.
BISECTIONS = 16


class Greedy:
    def plan(self, request: Request) -> Outcome:
        incumbent = Incumbent(request, groups_of(request, contiguous=True))
        return incumbent.tried(_filled(incumbent), "filling devices in order found no plan that fits the memory")


PLANNER = Greedy()


def _device_orders(groups: Groups) -> Iterator[list[int]]:
    """CPUs last, first, or between: their place matters, since what no accelerator can hold ends the turn of one."""
    fast, slow = list(range(groups.accelerators)), list(range(groups.accelerators, groups.devices))
    places = [len(fast), 0, *range(1, len(fast))] if slow else [len(fast)]
    for place in places[:8]:
        yield [*fast[:place], *slow, *fast[place:]]


def _filled(incumbent: Incumbent) -> Iterator[list[int] | None]:
    """The plans of all orders of the devices and all targets that are tried."""
    for devices in _device_orders(incumbent.groups):
        tame = capped(incumbent.groups, FAR * incumbent.value)
        yield from _bisected(_Filling(tame, devices), incumbent)


def _bisected(filling: _Filling, incumbent: Incumbent) -> Iterator[list[int] | None]:
    """Plans on the way to the least target that suffices; a larger one is not always easier, so every plan counts."""
    groups = incumbent.groups
    low = incumbent.bound or 0.0
    high = math.fsum(groups.work) + math.fsum(groups.cpu_work) + math.fsum(cost for _, cost, _ in groups.nets)
    target = high
    for _ in range(1 + BISECTIONS):
        device_of = filling.fill(target)
        yield device_of
        if device_of is not None:
            high = min(target, groups.value(device_of))
        elif target == high:
            return
        else:
            low = target
        target = (low + high) / 2


class _Filling:
    """Fills the devices in the given order along one topological order."""

    def __init__(self, groups: Groups, devices: Sequence[int]) -> None:
        self.groups = groups
        self.devices = devices
        self.order = depth_first(groups, range(groups.count))
        self.nets_of = adjacency(groups.count, ((g, e) for e, (pins, _, _) in enumerate(groups.nets) for g in pins))

    def fill(self, target: float) -> list[int] | None:
        """Every group's device, or None where the devices do not suffice."""
        device_of = [0] * self.groups.count
        start = 0
        for device in self.devices:
            end = self._end(device, start, target)
            for g in self.order[start:end]:
                device_of[g] = device
            start = end
        return device_of if start == self.groups.count else None

    def _end(self, device: int, start: int, target: float) -> int:
        """The place up to which the device is filled: transfers may fall again, so the last fitting end counts."""
        groups = self.groups
        on_cpu = device >= groups.accelerators
        memory = math.inf if on_cpu else groups.capacity
        work = cut = size = 0.0
        pins_on: dict[int, int] = {}
        end = start
        for place in range(start, groups.count):
            g = self.order[place]
            work += groups.cpu_work[g] if on_cpu else groups.work[g]
            size += groups.sizes[g]
            if work > target or size > memory or not (on_cpu or groups.supported[g]):
                break
            if not on_cpu:
                cut += self._join(g, pins_on)
            if work + cut <= target:
                end = place + 1
        return end

    def _join(self, g: int, pins_on: dict[int, int]) -> float:
        """How much more the device pays for transfers once it holds g as well; `pins_on`: its pins of each net."""
        change = 0.0
        for e in self.nets_of[g]:
            pins, cost, _ = self.groups.nets[e]
            pins_on[e] = pins_on.get(e, 0) + 1
            change += cost * ((pins_on[e] < len(pins)) - (pins_on[e] > 1))
        return change


# ---- Everything on one device: the baseline without any pipeline, and without any transfer -----------------


class OneDevice:
    def plan(self, request: Request) -> Outcome:
        """The better of one accelerator and one CPU. One device alone is contiguous in every sense."""
        groups = groups_of(request, contiguous=False)
        incumbent = Incumbent(request, groups)
        for device in {0, groups.devices - 1}:
            incumbent.offer([device] * groups.count)
        return incumbent.completed("no single device has the memory and the support for everything")


ONE_DEVICE = OneDevice()
