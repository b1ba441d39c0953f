"""A split of a placement problem, device by device."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from ...cli.console import out, styled
from ...cli.progress import number
from ...instances.kind import Rules
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.evaluate import DeviceLoad, PlacementEvaluation, evaluate
from ...instances.placement.referee.stages import stage_order
from ...instances.placement.rules import LATENCY
from . import latency as drawing_latency
from .shapes import MAX_DEVICES_DRAWN, bar, limit, new_table, size

if TYPE_CHECKING:
    from rich.table import Table


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


def draw(problem: PlacementProblem, plan: PlacementPlan, rules: Rules) -> None:
    """One line per device, in stage order where there is one; the bottleneck is marked in words. Plans for latency
    are drawn as a schedule."""
    if rules.objective == LATENCY:
        drawing_latency.draw(problem, plan)
        return
    evaluation = evaluate(problem, plan)
    order = stage_order(problem, plan)
    loads = {load.name: load for load in evaluation.devices}
    names = list(order) if order is not None else list(loads)
    busy = [name for name in names if any(device.nodes for device in plan.devices if device.name == name)]
    extras = _extra_columns(plan, evaluation)
    table, with_bar = _split_table(list(extras)), _has_room_for_bars(extras)
    for name in busy[:MAX_DEVICES_DRAWN]:
        cells = [column[name] for column in extras.values()]
        table.add_row(*_device_row(problem, plan, loads[name], evaluation, cells, with_bar))
    console = out()
    console.print(table)
    if evaluation.groups:
        console.print(_group_table(plan, evaluation))
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    console.print(styled(f"bottleneck: {evaluation.bottleneck} with load {number(evaluation.max_load)}{unit}"))
    for text in _remarks(busy, len(names), order is not None):
        console.print(styled(text))


def _extra_columns(plan: PlacementPlan, evaluation: PlacementEvaluation) -> dict[str, dict[str, str]]:
    """Columns, each by device name, for what only some plans have: other types, replicas, groups."""
    columns = {
        "type": {device.name: device.accelerator_type or "" for device in plan.devices},
        "repl.": {device.name: f"x{device.replicas}" if device.replicas > 1 else "" for device in plan.devices},
        "group": {device.name: device.group or "" for device in plan.devices},
        "sync": {load.name: f"{load.sync:.3g}" if load.sync else "" for load in evaluation.devices},
    }
    return {title: column for title, column in columns.items() if any(column.values())}


def _has_room_for_bars(extras: Collection[str]) -> bool:
    """A terminal has 80 columns."""
    return len(extras) < 3


def _split_table(extras: Sequence[str]) -> Table:
    table = new_table()
    table.add_column("device", overflow="ellipsis", no_wrap=True, max_width=12)
    for title in extras:
        table.add_column(title, overflow="ellipsis", no_wrap=True, max_width=8)
    titles = ["nodes", "share", "load", "compute", "in", "out", "memory", "full", ""]
    for title in titles if _has_room_for_bars(extras) else [title for title in titles if title != "share"]:
        table.add_column(title, justify="left" if title in ("share", "") else "right", no_wrap=True)
    return table


def _group_table(plan: PlacementPlan, evaluation: PlacementEvaluation) -> Table:
    """What crosses the boundary of each group; what is inside has its row above."""
    table = new_table()
    table.add_column("group", overflow="ellipsis", no_wrap=True, max_width=12)
    for title in ("level", "repl.", "inside", "share", "load", "in", "out", "sync", ""):
        table.add_column(title, justify="left" if title in ("inside", "share", "") else "right", no_wrap=True)
    for group, load in list(zip(plan.groups, evaluation.groups, strict=True))[:MAX_DEVICES_DRAWN]:
        slowest = group.name == evaluation.bottleneck
        table.add_row(
            styled(group.name, "bold" if slowest else ""),
            str(group.level),
            f"x{group.replicas}",
            styled(group.parent or ""),
            styled(bar(load.load, evaluation.max_load), "red" if slowest else "cyan"),
            f"{load.load:.5g}",
            f"{load.transfer_in:.3g}",
            f"{load.transfer_out:.3g}",
            f"{load.sync:.3g}",
            styled("<--" if slowest else "", "bold red"),
        )
    return table


def _device_row(
    problem: PlacementProblem,
    plan: PlacementPlan,
    load: DeviceLoad,
    evaluation: PlacementEvaluation,
    extras: Sequence[str],
    with_bar: bool,
) -> list[Any]:
    count = sum(len(device.nodes) for device in plan.devices if device.name == load.name)
    slowest = load.name == evaluation.bottleneck
    return [
        styled(load.name, "bold" if slowest else ""),
        *map(styled, extras),
        str(count),
        *([styled(bar(load.load, evaluation.max_load), "red" if slowest else "cyan")] if with_bar else []),
        f"{load.load:.5g}",
        f"{load.compute:.4g}",
        f"{load.transfer_in:.3g}",
        f"{load.transfer_out:.3g}",
        size(load.size_bytes),
        _fullness(problem, plan, load),
        styled("<--" if slowest else "", "bold red"),
    ]


def _fullness(problem: PlacementProblem, plan: PlacementPlan, load: DeviceLoad) -> str:
    kind = next(device.accelerator_type for device in plan.devices if device.name == load.name)
    memory = problem.memory_bytes if kind is None else problem.other_types[problem.type_index[kind]].memory_bytes
    return f"{100 * load.size_bytes / memory:.0f}%" if load.type != "cpu" and memory else "-"


def _remarks(busy: Sequence[str], devices: int, is_chain: bool) -> list[str]:
    remarks = []
    if len(busy) > MAX_DEVICES_DRAWN:
        remarks.append(f"... and {len(busy) - MAX_DEVICES_DRAWN} more devices")
    if devices > len(busy):
        remarks.append(f"idle: {devices - len(busy)} of {devices} devices")
    if is_chain:
        shown = list(busy[:MAX_DEVICES_DRAWN]) + (["..."] if len(busy) > MAX_DEVICES_DRAWN else [])
        remarks.append("stages: " + " -> ".join(shown))
    else:
        remarks.append("stages: none, the devices depend on each other in a circle")
    return remarks
