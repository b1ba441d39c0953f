"""The view of a split of a placement problem, device by device, in the order of the stages where there is one."""

from __future__ import annotations

from typing import Any

from ...instances.base.checks import NodeId
from ...instances.base.kind import Rules
from ...instances.placement.plan import Device, PlacementPlan, limit_of
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.contiguity import stage_order
from ...instances.placement.referee.evaluate import DeviceLoad, PlacementEvaluation
from ...instances.placement.rules import LATENCY
from ..even import placed_blocks, placements
from ..names import Order, order_of
from ..view import MOST_TOLD, Graph, PlanView, Row, Table
from ..words import amount, rate, several, with_memory

# Make plans that anyone would try first, for comparison, from a problem.
even_plans, block_plans = placements, placed_blocks
# The even plans in words.
EVEN = "as many nodes on each accelerator"


def facts(problem: PlacementProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    backward = sum(node.backward for node in problem.nodes)
    kinds = f" ({backward} backward)" if backward else ""
    return {
        "graph": f"{several(len(problem.nodes), 'node')}{kinds}, {several(len(problem.edges), 'edge')}",
        "cluster": f"{several(problem.accelerators, 'accelerator')} {with_memory(problem.memory_bytes)}, "
        f"{several(problem.cpus, 'CPU')}",
        **_cluster_facts(problem),
    }


def _cluster_facts(problem: PlacementProblem) -> dict[str, str]:
    """Other types and levels, where there are any."""
    types = [f"{other.count} {other.name} {with_memory(other.memory_bytes)}" for other in problem.other_types]
    levels = [
        f"{several(level.devices, 'device')}, transfers x {level.transfer_factor:g}, "
        + (
            "no replicas"
            if level.sync_bandwidth is None
            else f"replicas over {rate(level.sync_bandwidth, problem.time_unit)}"
        )
        for level in problem.levels
    ]
    facts = {"other types": "; ".join(types)} if types else {}
    return facts | {f"level {number}": level for number, level in enumerate(levels, start=1)}


def assumptions(problem: PlacementProblem, rules: Rules) -> tuple[str, ...]:
    if rules.objective == LATENCY:
        from .latency import ASSUMPTIONS

        return ASSUMPTIONS
    passes = "All forward passes come first, then all backward passes." if rules.objective == "gpipe" else ""
    return tuple(
        filter(
            None,
            [
                "Samples follow each other without end, and the slowest device sets the pace.",
                "A device computes and moves data in turn: its load is the sum of both.",
                passes,
            ],
        )
    )


def scope_in_words(problem: PlacementProblem, scope: str) -> str:
    """A scope as a part of a sentence."""
    return scope.replace(": a chain of stages", ", which form a chain of stages")


def value_name(rules: Rules) -> str:
    return rules.objective


def view(problem: PlacementProblem, plan: PlacementPlan, rules: Rules) -> PlanView:
    """Devices that hold something, then groups; plans for latency are shown as a schedule."""
    if rules.objective == LATENCY:
        from . import latency

        return latency.view(problem, plan, rules)
    evaluation: PlacementEvaluation = rules.evaluation(problem, plan)
    order, unit = stage_order(problem, plan), problem.time_unit
    loads = {load.name: load for load in evaluation.devices}
    devices = {device.name: device for device in plan.devices if device.nodes}
    nodes = order_of(problem, problem.nodes)
    busy = [
        name
        for name in order or sorted(loads, key=lambda name: _first(devices.get(name), nodes))
        if name in devices
    ]
    rows = tuple(_device_row(problem, devices[name], loads[name], evaluation, nodes) for name in busy)
    tables = [Table("device", rows, "node")]
    if evaluation.groups:
        tables.append(Table("group", _group_rows(plan, evaluation)))
    value = evaluation.objective(rules.objective)
    return PlanView(
        name=problem.name,
        value=f"{amount(value, unit)} per micro-batch",
        headline=f"{rules.objective} {amount(value, unit, 6)}, bottleneck {evaluation.bottleneck}",
        tables=tuple(tables),
        unit=unit,
        full_load=evaluation.max_load,
        sentences=(
            f"bottleneck: {evaluation.bottleneck} with load {amount(evaluation.max_load, unit)}",
            *_remarks(busy, len(plan.devices), order is not None),
        ),
        legend=_legend(problem, plan),
        time_unit=unit,
        graph=graph_of(problem, plan),
    )


def _legend(problem: PlacementProblem, plan: PlacementPlan) -> str:
    """A sentence on what the table leaves out, and on the column of types."""
    implied = any(_implied(problem, device) for device in plan.devices)
    typed = any(device.accelerator_type and device.nodes for device in plan.devices)
    return "; ".join(
        ["type: of accelerators that are not of the first type"] * typed
        + ["each backward node is on the device of its forward node"] * implied
    )


def graph_of(problem: PlacementProblem, plan: PlacementPlan) -> Graph:
    labels = {node.id: str(node.name or node.id) for node in problem.nodes}
    return Graph.of(
        "Nodes by device", labels, problem.edges, {device.name: device.nodes for device in plan.devices}
    )


def _first(device: Device | None, nodes: Order) -> int:
    return nodes.first(() if device is None else device.nodes)


def _device_row(
    problem: PlacementProblem, device: Device, load: DeviceLoad, evaluation: PlacementEvaluation, nodes: Order
) -> Row:
    parts = {
        "computation": load.compute / load.divisor,
        "transfers in": load.transfer_in / load.divisor,
        "transfers out": load.transfer_out / load.divisor,
    }
    cells = {
        "type": device.accelerator_type or "",
        "repl.": f"x{device.replicas}" if device.replicas > 1 else "",
        "group": device.group or "",
    }
    return Row(
        name=device.name,
        load=load.load,
        parts=parts | ({"synchronisation": load.sync} if any(other.sync for other in evaluation.devices) else {}),
        cells=cells,
        memory={"held": load.size_bytes},
        limit=limit_of(problem, device),
        slowest=load.name == evaluation.bottleneck,
        held=nodes.fold(device.nodes, _implied(problem, device)),
    )


def _implied(problem: PlacementProblem, device: Device) -> set[NodeId]:
    """Backward nodes that need no mention, because a forward node of their colour is on the same device."""
    nodes = [problem.nodes[problem.index[name]] for name in device.nodes]
    colours = {node.color for node in nodes if not node.backward and node.color is not None}
    return {node.id for node in nodes if node.backward and node.color in colours}


def _group_rows(plan: PlacementPlan, evaluation: PlacementEvaluation) -> tuple[Row, ...]:
    """A row for each group, with what crosses its boundary; the devices inside have rows of their own."""
    return tuple(
        Row(
            name=group.name,
            load=load.load,
            parts={
                "transfers in": load.transfer_in / load.divisor,
                "transfers out": load.transfer_out / load.divisor,
                "synchronisation": load.sync,
            },
            cells={"level": str(group.level), "repl.": f"x{group.replicas}", "inside": group.parent or ""},
            slowest=group.name == evaluation.bottleneck,
        )
        for group, load in zip(plan.groups, evaluation.groups, strict=True)
    )


def _remarks(busy: list[str], devices: int, is_chain: bool) -> list[str]:
    idle = [f"idle: {devices - len(busy)} of {several(devices, 'device')}"] if devices > len(busy) else []
    shown = [*busy[:MOST_TOLD], *(["..."] if len(busy) > MOST_TOLD else [])]
    stages = " -> ".join(shown) if is_chain else "none, the devices depend on each other in a circle"
    return [*idle, f"stages: {stages}"]
