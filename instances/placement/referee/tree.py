"""Devices within devices: where each device of a plan stands, and what is wrong with types, replicas and groups."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ...base.checks import MAX_DEVICES
from ...base.errors import show
from ...base.quantities import several
from ..plan import Device, DeviceGroup, PlacementPlan
from ..problem import Level, PlacementProblem


@dataclass(frozen=True, slots=True)
class Tree:
    """Which unit stands in which. Units are numbered: the plan's devices first, then its groups.

    A parent that does not exist, or not on the next level, is left out: whatever the plan says, this is a forest.
    """

    units: tuple[Device | DeviceGroup, ...]
    parents: tuple[int | None, ...]

    def path(self, unit: int) -> tuple[int, ...]:
        """The unit and all that it stands in, outwards."""
        path = [unit]
        while (parent := self.parents[path[-1]]) is not None:
            path.append(parent)
        return tuple(path)

    def samples_shared(self, unit: int) -> int:
        """The number of replicas that share the samples: its own, times those of all that it stands in."""
        return math.prod(self.units[place].replicas for place in self.path(unit))


def tree_of(plan: PlacementPlan) -> Tree:
    """The tree of a plan's devices and groups."""
    number: dict[str | None, int] = {}
    for g, group in enumerate(plan.groups, start=len(plan.devices)):
        number.setdefault(group.name, g)
    parents, units = [], units_of(plan)
    for unit in units:
        parent = number.get(parent_name(unit))
        fits = parent is not None and plan.groups[parent - len(plan.devices)].level == level_of(unit) + 1
        parents.append(parent if fits else None)
    return Tree(units, tuple(parents))


def units_of(plan: PlacementPlan) -> tuple[Device | DeviceGroup, ...]:
    return (*plan.devices, *plan.groups)


def level_of(unit: Device | DeviceGroup) -> int:
    return 1 if isinstance(unit, Device) else unit.level


def parent_name(unit: Device | DeviceGroup) -> str | None:
    return unit.group if isinstance(unit, Device) else unit.parent


def level_facts(problem: PlacementProblem, level: int) -> Level:
    """What the problem says of a level; where it says nothing, all accelerators stand side by side."""
    return problem.levels[level - 1] if 1 <= level <= len(problem.levels) else Level(problem.accelerators)


def top_level(problem: PlacementProblem) -> int:
    return max(1, len(problem.levels))


def in_words(unit: Device | DeviceGroup) -> str:
    return f"{'Device' if isinstance(unit, Device) else 'Group'} {show(unit.name)}"


# ---- what is wrong ---------------------------------------------------------------------------------------


def type_faults(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A sentence for each device whose accelerator type does not exist, and for each CPU that has one."""
    for device in plan.devices:
        if device.accelerator_type is None:
            continue
        name = show(device.accelerator_type)
        if device.type == "cpu":
            yield f"Device {show(device.name)} is a CPU and has the accelerator type {name}."
        elif device.accelerator_type not in problem.type_index:
            yield f"Device {show(device.name)} has the unknown accelerator type {name}."


def replication_faults(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A sentence for each unit with replicas where there can be none."""
    for unit in units_of(plan):
        if not 1 <= unit.replicas <= MAX_DEVICES:
            yield f"{in_words(unit)} has {show(unit.replicas)} replicas; there are from 1 to {MAX_DEVICES}."
        elif unit.replicas > 1 and isinstance(unit, Device) and unit.type == "cpu":
            yield f"{in_words(unit)} has {several(unit.replicas, 'replica')}; a CPU has only one."
        elif unit.replicas > 1 and level_facts(problem, level_of(unit)).sync_bandwidth is None:
            yield (
                f"{in_words(unit)} has {unit.replicas} replicas, but the problem has no bandwidth to synchronise them "
                f"on level {level_of(unit)}."
            )


def structure_faults(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A sentence for each name and place by which groups do not form a tree of the problem's levels."""
    devices = {device.name for device in plan.devices}
    level_of_group = {group.name: group.level for group in plan.groups}
    for name, count in Counter(group.name for group in plan.groups).items():
        if count > 1 or name in devices:
            yield f"The group name {show(name)} is used {count + (name in devices)} times."
    top = top_level(problem)
    for group in plan.groups:
        if not 2 <= group.level <= top:
            levels = "only one level" if top == 1 else f"levels from 1 to {top}"
            yield f"{in_words(group)} is of level {show(group.level)}, but the problem has {levels}."
    for unit in units_of(plan):
        fault = _parent_fault(unit, level_of_group, top)
        if fault is not None:
            yield fault


def _parent_fault(unit: Device | DeviceGroup, level_of_group: dict[str, int], top: int) -> str | None:
    """What is wrong with the group that a unit names as its parent, or with naming none; None: nothing is wrong."""
    level, parent = level_of(unit), parent_name(unit)
    on_top = level >= top or (isinstance(unit, Device) and unit.type == "cpu")
    if parent is None:
        return None if on_top else f"{in_words(unit)} stands in no group of level {level + 1}."
    if parent not in level_of_group:
        return f"{in_words(unit)} stands in the unknown group {show(parent)}."
    if on_top:
        reason = "is a CPU" if level == 1 and level < top else "is on the highest level"
        return f"{in_words(unit)} {reason} and stands in the group {show(parent)}."
    if level_of_group[parent] != level + 1:
        return (
            f"{in_words(unit)} is of level {level} and stands in the group {show(parent)} of level "
            f"{show(level_of_group[parent])}, not {level + 1}."
        )
    return None


def capacity_faults(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A sentence for each group, and for the cluster, that holds more units than it has room for."""
    if top_level(problem) == 1:
        return  # then they are counted by type
    tree = tree_of(plan)
    used: Counter[int | None] = Counter()
    for unit, above in zip(tree.units, tree.parents, strict=True):
        if above is not None or level_of(unit) == top_level(problem):
            used[above] += unit.replicas
    for parent, count in used.items():
        level = top_level(problem) if parent is None else level_of(tree.units[parent]) - 1
        limit = level_facts(problem, level).devices
        if count > limit:
            where = "The cluster" if parent is None else in_words(tree.units[parent])
            yield f"{where} holds {several(count, 'device')} of level {level}, but has room for {limit}."
