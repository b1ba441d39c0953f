"""Local search as in the paper: random start, the best single reassignment until none gains, restarts.

Of a start that breaks memory or support, the search first lessens the violation. For contiguous plans the start is a
random order cut at random places, and every device keeps its place in the chain.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....instances.physics.tolerances import BETTER
from ...contract import Outcome, Request
from ...registry import RESTARTS
from ..groups import FAR, Groups, Incumbent, capped, groups_of, is_contiguous
from ..orders import random_order


class LocalSearch:
    def plan(self, request: Request) -> Outcome:
        incumbent = Incumbent(request, groups_of(request))
        return incumbent.tried(_climbed(incumbent), "no start could be mended to fit the memory")


PLANNER = LocalSearch()


def _climbed(incumbent: Incumbent) -> Iterator[list[int]]:
    """What the search reaches from each random start."""
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
    """For each group, a random device that can hold it by itself."""
    first = [0 if ok else groups.accelerators for ok in groups.supported]
    return [rng.randrange(low, groups.devices) if low < groups.devices else 0 for low in first]


def random_chain(groups: Groups, rng: random.Random) -> tuple[list[int], list[int]]:
    """Cut a random topological order at random places, and give the pieces to devices in random order: the
    device of each group, and the stage of each device."""
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


# ---- Single reassignments: what moving any group to any device would cost, for all at once -----------------


def mend(groups: Groups, device_of: Sequence[int]) -> list[int]:
    """Moves groups as long as each move lessens the violation of memory and support."""
    climb = Climb(Tables(groups), device_of, None)
    while climb.violation > BETTER and climb.step():
        pass
    return climb.assignment


class Tables:
    """The problem as arrays: pins are pairs (net, group), one row each."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.pin_net = np.array([e for e, (pins, _, _) in enumerate(groups.nets) for _ in pins], dtype=np.int64)
        self.pin_group = np.array([g for pins, _, _ in groups.nets for g in pins], dtype=np.int64)
        self.net_pins = np.array([len(pins) for pins, _, _ in groups.nets], dtype=np.int64)
        costs = np.zeros((groups.parts, len(groups.nets)))
        for e, (_, cost, part) in enumerate(groups.nets):
            costs[part, e] = cost
        self.pin_cost = costs[:, self.pin_net]
        self.times = np.array(groups.times)
        self.cpu_times = np.array(groups.cpu_times)
        self.sizes = np.array(groups.sizes)
        self.supported = np.array(groups.supported)
        arcs = np.array(groups.arcs, dtype=np.int64).reshape(-1, 2)
        self.tails, self.heads = arcs[:, 0], arcs[:, 1]

    def per_group(self, weights: Any) -> Any:
        """Sum of the pins' weights for each part and group."""
        return np.array([np.bincount(self.pin_group, row, self.groups.count) for row in weights])


class Climb:
    """The search from one start: each step is the best single reassignment.

    Assignments are compared by (violation, objective). With `stages`, the place of each device in the chain, a
    group may move only as far as its neighbours in the stage order allow.
    """

    def __init__(self, tables: Tables, device_of: Sequence[int], stages: Sequence[int] | None) -> None:
        self.tables = tables
        self.device = np.array(device_of, dtype=np.int64)
        self.stages = None if stages is None else np.array(stages, dtype=np.int64)
        self.held = np.zeros((len(tables.net_pins), tables.groups.devices), dtype=np.int64)
        np.add.at(self.held, (tables.pin_net, self.device[tables.pin_group]), 1)

    @property
    def violation(self) -> float:
        """Excess memory in units of an accelerator's memory, and one for each group on one that does not support it."""
        return self._violations()[1]

    @property
    def assignment(self) -> list[int]:
        return [int(d) for d in self.device]

    def step(self) -> bool:
        """Carry out the best single reassignment; False where none gains."""
        load = np.array(self.tables.groups.loads(self.assignment))
        value = load.max(axis=1).sum()
        excess, violation = self._violations()
        values = np.where(self._allowed(), self._values(load), np.inf)
        values[np.arange(len(self.device)), self.device] = np.inf
        least = excess[np.isfinite(values)].min(initial=0.0)
        if least < -BETTER * (1.0 + violation):
            values[excess > least] = np.inf
        else:
            values[(excess > 0) | (values >= value * (1 - BETTER))] = np.inf
        g, d = np.unravel_index(values.argmin(), values.shape)
        if not np.isfinite(values[g, d]):
            return False
        self._move(int(g), int(d))
        return True

    def _move(self, g: int, d: int) -> None:
        nets = self.tables.pin_net[self.tables.pin_group == g]
        self.held[nets, self.device[g]] -= 1
        self.held[nets, d] += 1
        self.device[g] = d

    def _allowed(self) -> Any:
        """[g, d]: does the stage order let group g go to device d?"""
        if self.stages is None:
            return True
        count, stage = len(self.device), self.stages[self.device]
        low, high = np.zeros(count, dtype=np.int64), np.full(count, len(self.stages))
        np.maximum.at(low, self.tables.heads, stage[self.tables.tails])
        np.minimum.at(high, self.tables.tails, stage[self.tables.heads])
        return (low[:, None] <= self.stages) & (self.stages <= high[:, None])

    def _values(self, load: Any) -> Any:
        """[g, d]: the objective after moving group g to device d."""
        tables = self.tables
        groups, held = tables.groups, self.held
        home = self.device
        held_at_home = held[tables.pin_net, home[tables.pin_group]]
        paid_less = (held_at_home > 1).astype(float) - (held_at_home < tables.net_pins[tables.pin_net])
        on_accelerator = home < groups.accelerators
        leave = np.where(
            on_accelerator, tables.per_group(tables.pin_cost * paid_less) - tables.times, -tables.cpu_times
        )
        left = load[:, home] + leave
        total = np.zeros((groups.count, groups.devices))
        for d in range(groups.devices):
            join = tables.cpu_times
            if d < groups.accelerators:
                there = held[tables.pin_net, d]
                paid_more = (there + 1 < tables.net_pins[tables.pin_net]).astype(float) - (there > 0)
                join = tables.times + tables.per_group(tables.pin_cost * paid_more)
            for part in range(groups.parts):
                others = _largest_without(load[part], d)[home]
                total[:, d] += np.maximum(np.maximum(left[part], load[part, d] + join[part]), others)
        return total

    def _violations(self) -> tuple[Any, float]:
        """[g, d]: change of the violation by moving group g to device d; and the violation now."""
        tables, groups, home = self.tables, self.tables.groups, self.device
        on_accelerator = np.arange(groups.devices) < groups.accelerators
        wrong = np.where(tables.supported, 0.0, 1.0)
        change = wrong[:, None] * (on_accelerator[None, :].astype(float) - on_accelerator[home][:, None])
        violation = float((wrong * on_accelerator[home]).sum())
        unit = groups.capacity if 0 < groups.capacity < np.inf else 1.0
        used = np.bincount(home, tables.sizes, groups.devices)
        free = np.where(on_accelerator, groups.capacity - used, np.inf)
        over = np.maximum(-free, 0.0)
        less = np.maximum(-(free[home] + tables.sizes), 0.0) - over[home]
        more = np.maximum(tables.sizes[:, None] - free[None, :], 0.0) - over[None, :]
        return change + (less[:, None] + more) / unit, violation + float(over.sum()) / unit


def _largest_without(load: Any, d: int) -> Any:
    """[a]: the largest load of all devices but a and d (0 where there are no others)."""
    rest = load.copy()
    rest[d] = -np.inf
    first = int(rest.argmax())
    answer = np.full(len(load), rest[first])
    rest[first] = -np.inf
    answer[first] = rest.max()
    return np.maximum(answer, 0.0)
