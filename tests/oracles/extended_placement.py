"""Placement with types of accelerators, replicas and levels: every plan of a tiny problem, and its value by definition.

The enumeration and `value_by_definition` share no code with the referee and none with any planner.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from oracles.placement_definitions import chain_constraints

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.placement.plan import Device, DeviceGroup, PlacementPlan
from pipeplan.instances.placement.problem import AcceleratorType, Level, Node, NodeId, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.instances.placement.referee.verify import verify

Block = tuple[NodeId, ...]
"""Nodes that share a device or a group."""


@dataclass(frozen=True)
class Unit:
    """A stage on a device (level 0: a CPU, 1: accelerators), or a group of level 2 or higher with what is in it."""

    nodes: Block
    level: int
    replicas: int = 1
    type: str | None = None
    inner: tuple[Unit, ...] = ()


# ---- every plan ------------------------------------------------------------------------------------------


def all_plans(problem: PlacementProblem, contiguous: bool = True) -> Iterator[PlacementPlan]:
    """Every plan, up to the names of identical devices, that keeps colours together and counts devices right.

    With `contiguous` only chains of stages, on every level. Memory and support are left to the referee.
    """
    constraints = chain_constraints(problem) if contiguous else set()
    classes = [tuple(problem.nodes[i].id for i in members) for members in problem.color_classes]
    top = max(1, len(problem.levels))
    for blocks in _partitions(classes, constraints):
        for on_cpu in itertools.product((False, True), repeat=len(blocks)):
            if sum(on_cpu) > problem.cpus:
                continue
            cpus = [Unit(_flat(block), 0) for block, cpu in zip(blocks, on_cpu, strict=True) if cpu]
            rest = [block for block, cpu in zip(blocks, on_cpu, strict=True) if not cpu]
            fill = _on_types if problem.other_types else _on_level
            for units in fill(problem, top, rest, constraints):
                yield as_plan((*units, *cpus))


def _partitions(
    classes: Sequence[Block], constraints: set[tuple[NodeId, NodeId]]
) -> Iterator[tuple[tuple[Block, ...], ...]]:
    """Every partition of the classes whose parts can be put in a row against which no constraint points."""
    for partition in _set_partitions(list(classes)):
        if _can_stand_in_a_row([set(_flat(part)) for part in partition], constraints):
            yield tuple(map(tuple, partition))


def _set_partitions(items: list[Block]) -> Iterator[list[list[Block]]]:
    if not items:
        yield []
        return
    for rest in _set_partitions(items[1:]):
        yield [[items[0]], *rest]
        for n, part in enumerate(rest):
            yield [*rest[:n], [items[0], *part], *rest[n + 1 :]]


def _can_stand_in_a_row(parts: list[set[NodeId]], constraints: set[tuple[NodeId, NodeId]]) -> bool:
    """Take away parts that nothing else must precede until none is left."""
    while parts:
        free = [
            part
            for part in parts
            if not any(
                v in part and any(u in other for other in parts if other is not part) for u, v in constraints
            )
        ]
        if not free:
            return False
        parts = [part for part in parts if part not in free]
    return True


def _flat(block: Sequence[Block]) -> Block:
    return tuple(node_id for members in block for node_id in members)


def _on_level(
    problem: PlacementProblem,
    level: int,
    blocks: Sequence[Sequence[Block]],
    constraints: set[tuple[NodeId, NodeId]],
) -> Iterator[tuple[Unit, ...]]:
    """The blocks as stages (level 1) or groups of a level, side by side in one parent, with all numbers of replicas."""
    room = problem.levels[level - 1].devices if problem.levels else problem.accelerators
    replicated = bool(problem.levels) and problem.levels[level - 1].sync_bandwidth is not None
    for replicas in itertools.product(range(1, room + 1) if replicated else (1,), repeat=len(blocks)):
        if sum(replicas) > room:
            continue
        yield from itertools.product(
            *(
                list(_units(problem, level, block, r, constraints))
                for block, r in zip(blocks, replicas, strict=True)
            )
        )


def _units(
    problem: PlacementProblem,
    level: int,
    block: Sequence[Block],
    replicas: int,
    constraints: set[tuple[NodeId, NodeId]],
) -> Iterator[Unit]:
    """The block as one stage, or as one group with everything that can be in it."""
    if level == 1:
        yield Unit(_flat(block), 1, replicas)
        return
    for inside in _partitions(block, constraints):
        for units in _on_level(problem, level - 1, inside, constraints):
            yield Unit(_flat(block), level, replicas, inner=units)


def _on_types(
    problem: PlacementProblem, level: int, blocks: Sequence[Sequence[Block]], constraints: object
) -> Iterator[tuple[Unit, ...]]:
    """The blocks as stages on accelerators of all types, with all numbers of replicas."""
    room: dict[str | None, int] = {None: problem.accelerators, **{t.name: t.count for t in problem.other_types}}
    replicated = bool(problem.levels) and problem.levels[0].sync_bandwidth is not None
    choices = [(t, r) for t, count in room.items() for r in range(1, (count if replicated else min(1, count)) + 1)]
    for chosen in itertools.product(choices, repeat=len(blocks)):
        if all(sum(r for t, r in chosen if t == name) <= count for name, count in room.items()):
            yield tuple(Unit(_flat(block), 1, r, t) for block, (t, r) in zip(blocks, chosen, strict=True))


def as_plan(units: Sequence[Unit]) -> PlacementPlan:
    """Units of the highest level, and CPUs, as a plan."""
    devices: list[Device] = []
    groups: list[DeviceGroup] = []

    def write(unit: Unit, parent: str | None) -> None:
        if unit.level == 0:
            devices.append(Device(f"cpu{len(devices)}", "cpu", unit.nodes))
        elif unit.level == 1:
            name = f"acc{len(devices)}"
            devices.append(
                Device(
                    name,
                    "accelerator",
                    unit.nodes,
                    accelerator_type=unit.type,
                    replicas=unit.replicas,
                    group=parent,
                )
            )
        else:
            name = f"group{len(groups)}"
            groups.append(DeviceGroup(name, unit.level, unit.replicas, parent))
            for inner in unit.inner:
                write(inner, name)

    for unit in units:
        write(unit, None)
    return PlacementPlan(tuple(devices), tuple(groups))


# ---- values ----------------------------------------------------------------------------------------------


def best_value(problem: PlacementProblem, objective: str = "max-load", contiguous: bool = True) -> float | None:
    """The least referee value of all plans that the referee accepts; None: it accepts none."""
    rule = "chain" if contiguous else "none"
    accepted = (plan for plan in all_plans(problem, contiguous) if not verify(problem, plan, contiguity=rule))
    return min((evaluate(problem, plan).objective(objective) for plan in accepted), default=None)


def value_by_definition(problem: PlacementProblem, plan: PlacementPlan, objective: str = "max-load") -> float:
    """The objective in exact arithmetic, group by group from the outside inwards."""
    loads: list[tuple[Fraction, Fraction]] = []

    def visit(parent: str | None, shared: int) -> None:
        for group in plan.groups:
            if group.parent == parent:
                held = _held(plan, group)
                loads.append(_load(problem, held, group.level, group.replicas, shared, {}))
                visit(group.name, shared * group.replicas)
        for device in plan.devices:
            if device.group == parent:
                held = set(device.nodes)
                times = {i: _time(problem, device, i) for i in held}
                level = 0 if device.type == "cpu" else 1
                loads.append(_load(problem, held, level, device.replicas, shared, times))

    visit(None, 1)
    if objective == "gpipe":
        return float(max(forward for forward, _ in loads) + max(backward for _, backward in loads))
    return float(max(forward + backward for forward, backward in loads))


def _held(plan: PlacementPlan, group: DeviceGroup) -> set[NodeId]:
    inner = [_held(plan, other) for other in plan.groups if other.parent == group.name]
    return set().union(*inner, *(device.nodes for device in plan.devices if device.group == group.name))


def _time(problem: PlacementProblem, device: Device, node_id: NodeId) -> Fraction:
    node = next(node for node in problem.nodes if node.id == node_id)
    if device.type == "cpu":
        return Fraction(node.cpu_time)
    names = [other.name for other in problem.other_types]
    if device.accelerator_type is None or not node.other_times:
        return Fraction(node.accelerator_time)
    time = node.other_times[names.index(device.accelerator_type)]
    assert time is not None
    return Fraction(time)


def _load(
    problem: PlacementProblem,
    held: set[NodeId],
    level: int,
    replicas: int,
    shared: int,
    times: dict[NodeId, Fraction],
) -> tuple[Fraction, Fraction]:
    """Forward and backward: ((work + f c)/r, the same + sync), shared out among the replicas of all that is around."""
    nodes = {node.id: node for node in problem.nodes}
    facts = problem.levels[level - 1] if problem.levels and level else Level(1)
    factor = Fraction(facts.transfer_factor) if level else Fraction(0)
    crossing = {u for u, v in problem.edges if (u in held) != (v in held)}

    def side(backward: bool) -> Fraction:
        work = sum((time for i, time in times.items() if nodes[i].backward == backward), Fraction(0))
        cut = sum(
            (Fraction(nodes[u].transfer_time) for u in crossing if nodes[u].backward == backward), Fraction(0)
        )
        return (work + factor * cut) / replicas

    sync = Fraction(0)
    if replicas > 1:
        assert facts.sync_bandwidth is not None
        weight = sum((Fraction(nodes[i].weight_bytes) for i in held), Fraction(0))
        sync = Fraction(4 * (replicas - 1), replicas) * weight / (replicas * Fraction(facts.sync_bandwidth))
    return side(False) / shared, (side(True) + sync) / shared


# ---- tiny problems ---------------------------------------------------------------------------------------

SHAPES: tuple[tuple[int, ...], ...] = (
    (2,), (3,), (4,), (6,),
    (2, 2), (3, 2), (2, 3), (1, 3), (2, 1),
    (2, 1, 2), (1, 2, 2), (2, 2, 1), (1, 3, 2),
)  # fmt: skip
"""Devices of each level, the innermost first."""


def tiny_levels(seed: int) -> PlacementProblem:
    """One to three levels, with replication on some of them."""

    def cluster(rng: random.Random) -> dict[str, object]:
        levels = tuple(
            Level(devices, rng.choice((0.0, 0.5, 1.0, 2.0, 3.0)), rng.choice((None, 0.5, 2.0, 8.0)))
            for devices in rng.choice(SHAPES)
        )
        accelerators = 1
        for level in levels:
            accelerators *= level.devices
        return {"levels": levels, "accelerators": accelerators}

    return _tiny(f"levels {seed}", cluster)


def tiny_replicated(seed: int) -> PlacementProblem:
    """One level with replication."""

    def cluster(rng: random.Random) -> dict[str, object]:
        accelerators = rng.randint(2, 5)
        level = Level(accelerators, rng.choice((1.0, 1.0, 2.0)), rng.choice((0.5, 2.0, 8.0)))
        return {"levels": (level,), "accelerators": accelerators}

    return _tiny(f"replicated {seed}", cluster)


def tiny_types(seed: int) -> PlacementProblem:
    """One or two other types, sometimes with replication, sometimes without any accelerator of the base type."""

    def cluster(rng: random.Random) -> dict[str, object]:
        accelerators = rng.choice((0, 1, 1, 2))
        others = [
            AcceleratorType(f"type{t}", rng.randint(1, 2), rng.choice((None, 4.0, 8.0)))
            for t in range(rng.randint(1, 2))
        ]
        level = Level(accelerators, rng.choice((1.0, 2.0)), rng.choice((None, 2.0, 8.0)))
        levels = (level,) if rng.random() < 0.5 else ()
        return {"accelerators": accelerators, "other_types": tuple(others), "levels": levels}

    return _tiny(f"types {seed}", cluster)


MAKERS: tuple[Callable[[int], PlacementProblem], ...] = (tiny_levels, tiny_replicated, tiny_types)


def tiny_extended(seed: int) -> PlacementProblem:
    """Each maker in turn."""
    return MAKERS[seed % len(MAKERS)](seed)


def _tiny(name: str, cluster: Callable[[random.Random], dict[str, object]]) -> PlacementProblem:
    """Two to five nodes; what cannot be placed at all is drawn again."""
    rng = random.Random(name)
    while True:
        facts = cluster(rng)
        others = facts.get("other_types", ())
        assert isinstance(others, tuple)
        nodes, edges = _training(rng) if rng.random() < 0.5 else _inference(rng)
        cpus = rng.choice((0, 0, 1))
        drawn = _drawn(rng, nodes, edges, len(others), cpus)
        memory = rng.choice((None, None, 4.0, 8.0))
        try:
            return PlacementProblem(tuple(drawn), tuple(edges), cpus=cpus, memory_bytes=memory, name=name, **facts)  # type: ignore[arg-type]
        except InputError:
            continue


def _inference(rng: random.Random) -> tuple[dict[str, str | None], list[tuple[str, str]]]:
    """Colours of the nodes, and edges."""
    names = [f"f{i}" for i in range(rng.randint(2, 5))]
    colors = {name: "shared" if rng.random() < 0.15 else None for name in names}
    return colors, [(u, v) for u, v in itertools.combinations(names, 2) if rng.random() < 0.5]


def _training(rng: random.Random) -> tuple[dict[str, str | None], list[tuple[str, str]]]:
    """One to three forward nodes and their backward nodes, some of them without a partner (orphans)."""
    forward = [f"f{i}" for i in range(rng.randint(1, 3))]
    backward = [f"b{i}" for i in range(len(forward)) if rng.random() < 0.8][: 5 - len(forward)] or ["b0"]
    colors: dict[str, str | None] = dict.fromkeys((*forward, *backward))
    for b in backward:
        if rng.random() < 0.8:
            colors[b] = colors["f" + b[1:]] = "c" + b[1:]
    edges = [(u, v) for u, v in itertools.combinations(forward, 2) if rng.random() < 0.6]
    edges += [("b" + v[1:], "b" + u[1:]) for u, v in edges if {"b" + u[1:], "b" + v[1:]} <= set(backward)]
    edges += [(u, b) for u in forward for b in backward if rng.random() < 0.3]
    return colors, edges


def _drawn(
    rng: random.Random, colors: dict[str, str | None], edges: list[tuple[str, str]], types: int, cpus: int
) -> Iterator[Node]:
    senders = {u for u, _ in edges}
    for name, color in colors.items():
        work = float(rng.randrange(8))
        other_times = tuple(rng.choice((None, *(float(rng.randrange(8)) for _ in range(5)))) for _ in range(types))
        yield Node(
            name,
            accelerator_time=work,
            cpu_time=work * rng.choice((0.5, 2.0, 5.0)),
            size_bytes=float(rng.randrange(4)),
            transfer_time=rng.choice((0.0, 0.5, 1.0, 3.0)) if name in senders else 0.0,
            supported=not (cpus or types) or rng.random() < 0.85,
            backward=name.startswith("b"),
            color=color,
            weight_bytes=rng.choice((0.0, 1.0, 4.0)),
            other_times=other_times if rng.random() < 0.7 else (),
        )
