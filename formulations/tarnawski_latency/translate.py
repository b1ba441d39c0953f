"""Translations between plans and stages: which atom is in which stage, on which accelerator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...instances.placement.plan import Device, PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.registry import evaluation_of
from .atoms import Atoms


@dataclass(frozen=True, slots=True)
class Staged:
    """A plan in the words of the models."""

    stage_of: tuple[int | None, ...]
    """Atom -> its stage; None: on the CPUs."""
    device_of: tuple[int, ...]
    """Stage -> its accelerator, numbered in the order of first stages; one entry for every stage."""


def plan_of(problem: PlacementProblem, atoms: Atoms, staged: Staged) -> PlacementPlan:
    """The plan of these stages: all that is in none runs on the first CPU, which stands for the pool."""
    nodes_of_device: list[list[int]] = [[] for _ in staged.device_of]
    pool: list[int] = []
    for a, stage in enumerate(staged.stage_of):
        (pool if stage is None else nodes_of_device[stage]).extend(atoms.members[a])
    pieces: list[list[tuple[int, ...]]] = [[] for _ in range(problem.accelerators)]
    for stage, nodes in enumerate(nodes_of_device):
        if nodes:
            pieces[staged.device_of[stage]].append(tuple(sorted(nodes)))
    devices = [_accelerator(problem, f"acc{d}", mine) for d, mine in enumerate(pieces)]
    for c in range(problem.cpus):
        here = tuple(problem.nodes[i].id for i in sorted(pool)) if c == 0 else ()
        devices.append(Device(f"cpu{c}", "cpu", here))
    return PlacementPlan(tuple(devices))


def _accelerator(problem: PlacementProblem, name: str, pieces: Sequence[Sequence[int]]) -> Device:
    ids = tuple(tuple(problem.nodes[i].id for i in piece) for piece in pieces)
    return Device(name, "accelerator", tuple(node_id for piece in ids for node_id in piece), ids)


def staged_of(problem: PlacementProblem, atoms: Atoms, plan: PlacementPlan) -> Staged | None:
    """The plan's pieces in the order of their starts; None where it has no such form (too many, torn atoms)."""
    evaluation = evaluation_of(problem, plan, objective="latency")
    if evaluation.latency is None:
        return None
    place = {i: rank for rank, i in enumerate(problem.topological_order)}
    ordered = sorted(
        enumerate(evaluation.pieces),
        key=lambda entry: (entry[1].start, entry[1].finish, min(place[problem.index[i]] for i in entry[1].nodes)),
    )
    if len(ordered) > atoms.stages:
        return None
    number: dict[str, int] = {}
    stage_of_node: dict[int, int] = {}
    device_of = []
    for stage, (_, piece) in enumerate(ordered):
        device_of.append(number.setdefault(piece.device, len(number)))
        stage_of_node.update((problem.index[node_id], stage) for node_id in piece.nodes)
    if any(device_of.count(d) > atoms.pieces for d in range(len(number))):
        return None
    stages: list[int | None] = []
    for members in atoms.members:
        seen = {stage_of_node.get(i) for i in members}
        if len(seen) > 1:
            return None
        stages.append(seen.pop())
    return Staged(tuple(stages), fill_devices(atoms, device_of))


def fill_devices(atoms: Atoms, used: Sequence[int]) -> tuple[int, ...]:
    """The devices of all stages: those in use, and for stages that stay empty the next ones that have room."""
    devices = list(used)
    while len(devices) < atoms.stages:
        devices.append(next(d for d in range(atoms.accelerators) if devices.count(d) < atoms.pieces))
    return tuple(devices)


def read_staged(values: Mapping[str, float], atoms: Atoms) -> Staged:
    """Read a plan from the variables x[a,p] and, with several pieces per accelerator, d[p,i]."""
    stage_of = tuple(
        next((p for p in range(atoms.stages) if values.get(f"x[{a},{p}]", 0.0) > 0.5), None)
        for a in range(atoms.count)
    )
    if atoms.pieces == 1:
        return Staged(stage_of, tuple(range(atoms.stages)))
    device_of = tuple(
        max(range(atoms.accelerators), key=lambda i: values.get(f"d[{p},{i}]", 0.0)) for p in range(atoms.stages)
    )
    return Staged(stage_of, device_of)


def write_staged(staged: Staged, atoms: Atoms) -> dict[str, float]:
    """A plan as values of the variables that `read_staged` reads, and of cpu[a]; with several pieces also of h[a,i],
    which says which accelerator holds a."""
    values: dict[str, float] = {}
    for a, stage in enumerate(staged.stage_of):
        values[f"cpu[{a}]"] = float(stage is None)
        values |= {f"x[{a},{p}]": float(stage == p) for p in range(atoms.stages)}
    if atoms.pieces > 1:
        for p, device in enumerate(staged.device_of):
            values |= {f"d[{p},{i}]": float(device == i) for i in range(atoms.accelerators)}
        for a, stage in enumerate(staged.stage_of):
            home = None if stage is None else staged.device_of[stage]
            values |= {f"h[{a},{i}]": float(home == i) for i in range(atoms.accelerators)}
    return values


def held_columns(atoms: Atoms, a: int, i: int) -> list[str]:
    """The variables of which one is 1 where accelerator i holds atom a."""
    if atoms.pieces > 1:
        return [f"h[{a},{i}]"]
    return [f"x[{a},{i}]"] if i < atoms.stages else []
