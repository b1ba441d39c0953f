"""A split of a placement problem, device by device, in the order of the stages where there is one."""

from __future__ import annotations

from typing import Any

from ...instances.kind import Rules
from ...instances.placement.plan import Device, PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.evaluate import DeviceLoad, PlacementEvaluation
from ...instances.placement.referee.stages import stage_order
from ...instances.placement.rules import LATENCY
from ..view import MOST_TOLD, PlanView, Row, Table
from ..words import amount, limit
from . import latency


def facts(problem: PlacementProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    backward = sum(node.backward for node in problem.nodes)
    kinds = f" ({backward} backward)" if backward else ""
    memory = limit(problem.memory_bytes)
    return {
        "graph": f"{len(problem.nodes)} nodes{kinds}, {len(problem.edges)} edges",
        "cluster": f"{problem.accelerators} accelerators with memory {memory}, {problem.cpus} CPUs",
        **_cluster_facts(problem),
    }


def _cluster_facts(problem: PlacementProblem) -> dict[str, str]:
    """Other types and levels, where there are any."""
    types = [f"{other.count} {other.name} with memory {limit(other.memory_bytes)}" for other in problem.other_types]
    levels = [
        f"{level.devices} devices, transfers x {level.transfer_factor:g}, "
        + (
            "no replicas"
            if level.sync_bandwidth is None
            else f"replicas over {level.sync_bandwidth:g} bytes per time unit"
        )
        for level in problem.levels
    ]
    facts = {"other types": "; ".join(types)} if types else {}
    return facts | {f"level {number}": level for number, level in enumerate(levels, start=1)}


def value_name(rules: Rules) -> str:
    return rules.objective


def view(problem: PlacementProblem, plan: PlacementPlan, rules: Rules) -> PlanView:
    """Devices that hold something, then groups; plans for latency are shown as a schedule."""
    if rules.objective == LATENCY:
        return latency.view(problem, plan, rules)
    evaluation: PlacementEvaluation = rules.evaluation(problem, plan)
    order, unit = stage_order(problem, plan), problem.time_unit
    loads = {load.name: load for load in evaluation.devices}
    held = {device.name: device for device in plan.devices if device.nodes}
    busy = [name for name in order or loads if name in held]
    tables = [Table("device", tuple(_device_row(problem, held[name], loads[name], evaluation) for name in busy))]
    if evaluation.groups:
        tables.append(Table("group", _group_rows(plan, evaluation)))
    value = evaluation.objective(rules.objective)
    return PlanView(
        name=problem.name,
        headline=f"{rules.objective} {amount(value, unit, 6)}, bottleneck {evaluation.bottleneck}",
        tables=tuple(tables),
        unit=unit,
        full_load=evaluation.max_load,
        sentences=(
            f"bottleneck: {evaluation.bottleneck} with load {amount(evaluation.max_load, unit)}",
            *_remarks(busy, len(plan.devices), order is not None),
        ),
        time_unit=unit,
        graph=latency.graph_of(problem, plan),
    )


def _device_row(
    problem: PlacementProblem, device: Device, load: DeviceLoad, evaluation: PlacementEvaluation
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
        "nodes": str(len(device.nodes)),
    }
    return Row(
        name=device.name,
        load=load.load,
        parts=parts | ({"synchronisation": load.sync} if any(other.sync for other in evaluation.devices) else {}),
        cells=cells,
        memory={"held": load.size_bytes},
        limit=latency.limit_of(problem, device),
        slowest=load.name == evaluation.bottleneck,
    )


def _group_rows(plan: PlacementPlan, evaluation: PlacementEvaluation) -> tuple[Row, ...]:
    """What crosses the boundary of each group; what is inside has its row above."""
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
    idle = [f"idle: {devices - len(busy)} of {devices} devices"] if devices > len(busy) else []
    shown = [*busy[:MOST_TOLD], *(["..."] if len(busy) > MOST_TOLD else [])]
    stages = " -> ".join(shown) if is_chain else "none, the devices depend on each other in a circle"
    return [*idle, f"stages: {stages}"]
