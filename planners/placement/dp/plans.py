"""From stages between ideals to a plan that says which nodes are on which device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....instances.placement.plan import Device, DeviceGroup, DeviceType, PlacementPlan
from ....instances.placement.problem import NodeId, PlacementProblem
from .dense import Nested, Stage
from .lattice import Lattice
from .model import Model


def nested(stages: Iterable[Stage]) -> list[Nested]:
    """The stages of a problem of one level, with nothing inside them."""
    return [Nested(stage, ()) for stage in stages]


def as_plan(problem: PlacementProblem, model: Model, lattice: Lattice, stages: Sequence[Nested]) -> PlacementPlan:
    """The plan of `stages`, which stand from the last to the first, each with the stages inside it."""
    if not problem.extensions:
        return _plain(problem, model, lattice, stages)
    writer = _Writer(problem, model, lattice)
    for number, stage in enumerate(reversed(stages)):
        writer.write(stage, len(problem.levels) or 1, None, str(number))
    return PlacementPlan(tuple(writer.devices), groups=tuple(writer.groups))


def _plain(problem: PlacementProblem, model: Model, lattice: Lattice, stages: Sequence[Nested]) -> PlacementPlan:
    """Accelerators in stage order, then CPUs; idle devices stay listed."""
    assignment: dict[NodeId, int] = {}
    accelerator, cpu = 0, problem.accelerators
    for entry in reversed(stages):
        stage = entry.stage
        if model.kinds[stage.kind].pays:
            device, accelerator = accelerator, accelerator + 1
        else:
            device, cpu = cpu, cpu + 1
        assignment.update(dict.fromkeys(_nodes(problem, model, lattice, stage), device))
    return PlacementPlan.from_assignment(problem, assignment)


def _nodes(problem: PlacementProblem, model: Model, lattice: Lattice, stage: Stage) -> tuple[NodeId, ...]:
    positions = [i for g in lattice.groups_between(stage.smaller, stage.larger) for i in model.members[g]]
    return tuple(problem.nodes[i].id for i in sorted(positions))


class _Writer:
    def __init__(self, problem: PlacementProblem, model: Model, lattice: Lattice) -> None:
        self.problem, self.model, self.lattice = problem, model, lattice
        self.devices: list[Device] = []
        self.groups: list[DeviceGroup] = []

    def write(self, entry: Nested, level: int, parent: str | None, place: str) -> None:
        kind = self.model.kinds[entry.stage.kind]
        if not kind.pays:
            self._device(entry.stage, "cpu", None, None)
        elif level == 1:
            other = None if kind.type is None else self.problem.other_types[kind.type].name
            self._device(entry.stage, "accelerator", other, parent)
        else:
            name = f"group{place}"
            self.groups.append(DeviceGroup(name, level, entry.stage.devices, parent))
            for number, inner in enumerate(reversed(entry.inner)):
                self.write(inner, level - 1, name, f"{place}.{number}")

    def _device(self, stage: Stage, type_: DeviceType, other: str | None, group: str | None) -> None:
        number = sum(device.type == type_ for device in self.devices)
        nodes = _nodes(self.problem, self.model, self.lattice, stage)
        name = f"{'cpu' if type_ == 'cpu' else 'acc'}{number}"
        self.devices.append(Device(name, type_, nodes, accelerator_type=other, replicas=stage.devices, group=group))
