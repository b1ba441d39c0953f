"""What people see: blocks of facts about a run, and the split device by device."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..instances.placement import PlacementProblem
from ..instances.plan import PlacementPlan
from ..instances.referee import DeviceLoad, PlacementEvaluation, evaluate, stage_order
from ..instances.result import Found, Result, Stop
from .console import can_draw, out, styled
from .progress import number

if TYPE_CHECKING:
    from rich.table import Table

BAR_WIDTH = 10
MAX_DEVICES_DRAWN = 64


def draw_result(problem: PlacementProblem, result: Result) -> None:
    """Instance, model, run, devices; the last line is the referee's."""
    _block("instance", _instance_facts(problem))
    if result.model_size:
        _block("model", {name.replace("_", " "): size for name, size in result.model_size.items()})
    _block("run", _run_facts(result, problem))
    if result.plan is not None and result.verified:
        draw_split(problem, result.plan)
    say_verdict(problem, result.plan, result.violations, str(result.options.get("objective", "max-load")))


def _block(title: str, facts: Mapping[str, Any]) -> None:
    from rich.table import Table

    out().print(styled(title, "bold"))
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(styled(f"  {name}"), styled(value))
    out().print(table)


def _instance_facts(problem: PlacementProblem) -> dict[str, Any]:
    backward = sum(node.backward for node in problem.nodes)
    kinds = f" ({backward} backward)" if backward else ""
    memory = _limit(problem.memory_bytes)
    return {
        "name": problem.name,
        "graph": f"{len(problem.nodes)} nodes{kinds}, {len(problem.edges)} edges",
        "cluster": f"{problem.accelerators} accelerators with memory {memory}, {problem.cpus} CPUs",
        **_cluster_facts(problem),
    }


def _limit(memory_bytes: float | None) -> str:
    return "no limit" if memory_bytes is None else size(memory_bytes)


def _cluster_facts(problem: PlacementProblem) -> dict[str, str]:
    """Other types and levels, where there are any."""
    types = [f"{other.count} {other.name} with memory {_limit(other.memory_bytes)}" for other in problem.other_types]
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


def _run_facts(result: Result, problem: PlacementProblem) -> dict[str, Any]:
    method = " through ".join(filter(None, [result.formulation, result.planner]))
    if result.backend.get("name"):
        method += f" on {result.backend['name']} {result.backend.get('version') or ''}".rstrip()
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items())
    return {
        "method": method,
        "stop": str(result.stop),
        "found": _found(result),
        "objective": f"{number(result.objective, 'none')} {problem.time_unit or ''}".rstrip(),
        "bound": number(result.bound, "none"),
        "gap": "unknown" if result.gap is None else f"{100 * result.gap:.4f} %",
        "start": _start(result),
        **_cross_check(result),
        "seconds": seconds,
    }


def _cross_check(result: Result) -> dict[str, str]:
    facts = result.cross_check
    if facts is None:
        return {}
    method = facts.get("planner") or facts.get("formulation")
    word = "CONTRADICTS" if result.contradicted else "no contradiction"
    values = f"value {number(facts.get('objective'), 'none')}, bound {number(facts.get('bound'), 'none')}"
    return {"cross-check": f"{method}: {facts.get('stop')}, {values}: {word}"}


def _found(result: Result) -> str:
    """`optimal` never stands alone: it holds within the gap that was proven."""
    if result.found == Found.OPTIMAL and result.stop == Stop.PROVEN and result.gap is not None:
        return f"optimal (proven gap {result.gap:.2g})"
    return str(result.found)


def _start(result: Result) -> str:
    start = result.warm_start
    facts = [f"from {start.source}" if start.source else "", f"at {number(start.value)}" if start.value else ""]
    return " ".join(filter(None, [str(start.outcome), *facts]))


def say_verdict(
    problem: PlacementProblem, plan: PlacementPlan | None, violations: Sequence[str], objective: str
) -> None:
    """The referee's word, recomputed here and now."""
    console = out()
    if plan is None:
        console.print(styled("verified: there is no plan", "bold"))
    elif violations:
        for violation in violations:
            console.print(styled(f"  - {violation}"))
        console.print(styled(f"verified: no, {len(violations)} violations", "bold red"))
    else:
        value = number(evaluate(problem, plan).objective(objective))
        unit = f" {problem.time_unit}" if problem.time_unit else ""
        console.print(styled(f"verified: yes, recomputed {objective} {value}{unit}", "bold green"))


# ---- the split -----------------------------------------------------------------------------------------


def draw_split(problem: PlacementProblem, plan: PlacementPlan) -> None:
    """One line per device, in stage order where there is one; the bottleneck is marked in words."""
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


def _new_table() -> Table:
    from rich.box import ASCII2, SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD if can_draw("─") else ASCII2, show_edge=False, padding=0)


def _split_table(extras: Sequence[str]) -> Table:
    table = _new_table()
    table.add_column("device", overflow="ellipsis", no_wrap=True, max_width=12)
    for title in extras:
        table.add_column(title, overflow="ellipsis", no_wrap=True, max_width=8)
    titles = ["nodes", "share", "load", "compute", "in", "out", "memory", "full", ""]
    for title in titles if _has_room_for_bars(extras) else [title for title in titles if title != "share"]:
        table.add_column(title, justify="left" if title in ("share", "") else "right", no_wrap=True)
    return table


def _group_table(plan: PlacementPlan, evaluation: PlacementEvaluation) -> Table:
    """What crosses the boundary of each group; what is inside has its row above."""
    table = _new_table()
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


def bar(value: float, largest: float) -> str:
    """A bar that is full for the largest value."""
    filled = 0 if largest <= 0 else round(BAR_WIDTH * value / largest)
    full, empty = ("█", "░") if can_draw("█░") else ("#", ".")
    return full * filled + empty * (BAR_WIDTH - filled)


def size(count: float) -> str:
    """Bytes for eyes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"
