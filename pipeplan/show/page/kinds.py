"""What a report shows of a plan, by kind of problem: a table of devices or stages, bars, the graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree.ElementTree import Element

from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee.evaluate import evaluate_pattern, memory_profiles
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.referee.evaluate import evaluate_stage_graph
from ...instances.kind import Rules
from ...instances.kinds import Plan, Problem
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.evaluate import evaluate
from ...instances.staging.leveled_plan import LeveledPlan
from ...instances.staging.plan import StagedPlan, counted
from ...instances.staging.problem import StagingProblem
from ...instances.staging.referee.levels import evaluate_leveled
from ...instances.staging.referee.rows import LeveledRow, leveled_rows
from ...instances.staging.referee.stages import evaluate_stages
from .charts import Line, bars, line_chart, number
from .graph import Coloured, graph, numbered
from .page import section, table
from .timeline import memory_over_time

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class Size:
    """One unit for all sizes of a plan, so that they can be compared."""

    name: str
    bytes: float

    @classmethod
    def for_sizes(cls, sizes: Iterable[float | None]) -> Size:
        most = max((size for size in sizes if size is not None), default=0.0)
        power = min(len(UNITS) - 1, int(math.log(most, 1024)) if most >= 1 else 0)
        return cls(UNITS[power], 1024.0**power)

    def of(self, size: float) -> float:
        return size / self.bytes

    def of_or_none(self, size: float | None) -> float | None:
        return None if size is None else size / self.bytes


def sections(problem: Any, plan: Any, rules: Rules) -> list[Element]:
    """The sections about the plan itself, recomputed by the referee."""
    make = _SECTIONS.get(problem.kind)
    return [] if make is None else [part for part in make(problem, plan, rules) if part is not None]


def _placement(problem: PlacementProblem, plan: PlacementPlan, rules: Rules) -> list[Element | None]:
    evaluation, unit = evaluate(problem, plan), problem.time_unit or ""
    used = [device for device in evaluation.devices if device.load > 0 or device.size_bytes > 0]
    held = {device.name: len(device.nodes) for device in plan.devices}
    size = Size.for_sizes([*(d.size_bytes for d in used), problem.memory_bytes])
    head = ["device", "nodes", f"load {unit}", "work", "in", "out", "memory"]
    rows = [
        [
            d.name,
            str(held[d.name]),
            *map(number, (d.load, d.compute, d.transfer_in, d.transfer_out)),
            _bytes(size, d.size_bytes),
        ]
        for d in used
    ]
    loads = [
        (d.name, (("work", d.compute), ("transfers in", d.transfer_in), ("transfers out", d.transfer_out)))
        for d in used
    ]
    limit = size.of_or_none(problem.memory_bytes)
    memory = [(d.name, (("held", size.of(d.size_bytes)),)) for d in used if d.type == "accelerator"]
    return [
        section("Devices", table(head, rows, "Recomputed by the referee")),
        section("Loads", bars(loads, "Load of each device", unit)),
        section("Memory", bars(memory, "Memory of each accelerator", size.name, limit)) if memory else None,
        _placement_graph(problem, plan),
    ]


def _placement_graph(problem: PlacementProblem, plan: PlacementPlan) -> Element | None:
    device_of = {node: d for d, device in enumerate(plan.devices) for node in device.nodes}
    ids = [node.id for node in problem.nodes]
    labels = [str(node.name or node.id) for node in problem.nodes]
    groups = [device_of[node] for node in ids]
    names = [device.name for device in plan.devices]
    return _graph(Coloured(labels, numbered(ids, problem.edges), groups, names), "Nodes by device")


def _leveled(problem: StagingProblem, plan: LeveledPlan, rules: Rules) -> list[Element | None]:
    """The stages of all levels, each before what is inside of it."""
    evaluation, unit = evaluate_leveled(problem, plan, rules.to_options()["hierarchy"]), problem.time_unit or ""
    head = ["stage", "level", "layers", "data", "tensor", f"load {unit}", "memory", "in flight", "layers run", "binds"]
    size = Size.for_sizes([*(cost.memory_bytes for cost in evaluation.leaves), problem.memory_bytes])
    all_rows = list(leveled_rows(plan, evaluation))
    rows = [_leveled_cells(row, size) for row in all_rows]
    memory = [
        (f"stage {row.name}", (("memory", size.of(row.leaf.memory_bytes)),)) for row in all_rows if row.leaf is not None
    ]
    loads = [(f"stage {row.name}", (("load", row.load),)) for row in all_rows]
    note = "Recomputed by the referee, per micro-batch of the whole; the load of a stage is the largest over its levels"
    limit = size.of_or_none(problem.memory_bytes)
    return [
        section("Stages", table(head, rows, note)),
        section("Loads", bars(loads, "Load of each stage of each level", unit)),
        section("Memory", bars(memory, "Memory of a device of each stage", size.name, limit)),
    ]


def _leveled_cells(row: LeveledRow, size: Size) -> list[str]:
    stage, leaf = row.stage, row.leaf
    known = [f"stage {row.name}", str(row.cost.level), str(len(stage.nodes)), str(stage.data_parallel)]
    binds = ", ".join(row.cost.binds)
    if leaf is None:
        return [*known, "", number(row.load), "", "", "", binds]
    held = [_bytes(size, leaf.memory_bytes), str(leaf.in_flight)]
    return [*known, str(stage.tensor_parallel), number(row.load), *held, counted(stage.configurations), binds]


def _staging(problem: StagingProblem, plan: StagedPlan | LeveledPlan, rules: Rules) -> list[Element | None]:
    if isinstance(plan, LeveledPlan):
        return _leveled(problem, plan, rules)
    evaluation, unit = evaluate_stages(problem, plan, rules.to_options()["semantics"]), problem.time_unit or ""
    kind = ["type"] if problem.device_types else []
    head = ["stage", *kind, "layers", "data", "tensor", "devices", f"load {unit}", "memory", "in flight"]
    head += ["layers run", "binds"]
    names = [f"stage {i}" for i in range(len(plan.stages))]
    size = Size.for_sizes([*(cost.memory_bytes for cost in evaluation.stages), problem.memory_bytes])
    costs = list(zip(names, plan.stages, evaluation.stages, strict=True))
    rows = [
        [
            name,
            *([stage.device_type or ""] if kind else []),
            *map(str, (len(stage.nodes), stage.data_parallel, stage.tensor_parallel, cost.devices)),
            number(cost.load),
            _bytes(size, cost.memory_bytes),
            str(cost.in_flight),
            counted(stage.configurations),
            ", ".join(cost.binds),
        ]
        for name, stage, cost in costs
    ]
    loads = [
        (n, (("compute", c.compute), ("transfers", c.transfers), ("synchronisation", c.synchronisation)))
        for n, _, c in costs
    ]
    memory = [(name, (("memory", size.of(cost.memory_bytes)),)) for name, _, cost in costs]
    limit = size.of_or_none(problem.memory_bytes)
    return [
        section("Stages", table(head, rows, "Recomputed by the referee; data and tensor: degrees of parallelism")),
        section("Loads", bars(loads, "Load of each stage", unit)),
        section("Memory", bars(memory, "Memory of a device of each stage", size.name, limit)),
        _memory_over_time(problem, plan, size),
        _staging_graph(problem, plan, names),
    ]


def _memory_over_time(problem: Problem, plan: Plan, size: Size) -> Element | None:
    """What a device of each stage holds while micro-batches come and go."""
    curves = memory_over_time(problem, plan)
    lines = [Line(name, tuple((t, size.of(held)) for t, held in points), steps=True) for name, points in curves.items()]
    if not lines:
        return None
    label = "Memory of a device of each stage over one simulated iteration"
    return section("Memory over time", line_chart(lines, label, f"time {problem.time_unit or ''}".rstrip(), size.name))


def _staging_graph(problem: StagingProblem, plan: StagedPlan, names: list[str]) -> Element | None:
    stage_of = {node: i for i, stage in enumerate(plan.stages) for node in stage.nodes}
    ids = [layer.id for layer in problem.layers]
    edges = numbered(ids, [(edge.source, edge.target) for edge in problem.edges])
    return _graph(Coloured(list(map(str, ids)), edges, [stage_of[node] for node in ids], names), "Layers by stage")


def _stage_graph(problem: GraphPipelineProblem, plan: StageGraphPlan, rules: Rules) -> list[Element | None]:
    evaluation, unit = evaluate_stage_graph(problem, plan), problem.time_unit or ""
    names = [f"stage {i}" for i in range(len(plan.stages))]
    size = Size.for_sizes([evaluation.peak_memory_bytes, problem.memory_bytes])
    after: dict[int, list[str]] = {}
    for source, target in plan.edges:
        after.setdefault(target, []).append(str(source))
    head = ["stage", "operators", "devices", "micro-batch", "k", "in flight", f"{unit} per sample", "memory", "after"]
    costs = list(zip(names, plan.stages, evaluation.stages, strict=True))
    rows = [
        [
            name,
            *map(str, (len(stage.nodes), stage.devices, stage.micro_batch, stage.k, stage.in_flight)),
            number(cost.time_per_sample),
            _bytes(size, cost.memory_bytes),
            ", ".join(after.get(i, ())),
        ]
        for i, (name, stage, cost) in enumerate(costs)
    ]
    loads = [(n, (("forward", c.forward), ("backward", c.backward), ("transfers", c.transfers))) for n, _, c in costs]
    memory = [(name, (("memory", size.of(cost.memory_bytes)),)) for name, _, cost in costs]
    limit = size.of_or_none(problem.memory_bytes)
    ids = [operator.id for operator in problem.operators]
    stage_of = {node: i for i, stage in enumerate(plan.stages) for node in stage.nodes}
    picture = Coloured(list(map(str, ids)), numbered(ids, problem.edges), [stage_of[node] for node in ids], names)
    words = f"Recomputed by the referee; depth {evaluation.depth}: stages on the longest path"
    return [
        section("Stages", table(head, rows, words)),
        section("Loads", bars(loads, "Time of one micro-batch on each stage", unit)),
        section("Memory", bars(memory, "Memory of a device of each stage", size.name, limit)),
        _memory_over_time(problem, plan, size),
        _graph(picture, "Operators by stage"),
    ]


def _chain(problem: ChainProblem, plan: PatternPlan, rules: Rules) -> list[Element | None]:
    evaluation, unit = evaluate_pattern(problem, plan), problem.time_unit or ""
    size = Size.for_sizes([evaluation.peak_bytes, problem.memory_bytes])
    head = ["GPU", "layers", f"busy {unit}", "idle", "in flight", "peak", "at its peak"]
    rows = [
        [
            str(use.gpu),
            ", ".join(map(str, use.layers)),
            number(use.busy),
            number(use.idle),
            str(use.in_flight),
            _bytes(size, use.peak_bytes),
            use.peak_task or "",
        ]
        for use in evaluation.devices
    ]
    terms = [(f"gpu {use.gpu}", [(n, size.of(held)) for n, held in _terms(use.terms)]) for use in evaluation.devices]
    limit = size.of_or_none(problem.memory_bytes)
    lines = []
    for profile in memory_profiles(problem, plan):
        points = [(instant.time, size.of(instant.bytes)) for instant in profile.instants]
        lines.append(Line(f"gpu {profile.gpu}", (*points, (evaluation.period, points[0][1])), steps=True))
    return [
        section("GPUs", table(head, rows, "Recomputed by the referee")),
        section("Memory at the peak", bars(terms, "Memory of each GPU at its peak", size.name, limit)),
        section("Memory over time", line_chart(lines, "Memory of each GPU over one period", f"time {unit}", size.name)),
    ]


def _terms(terms: Any) -> list[tuple[str, float]]:
    return [(name.replace("_", " "), float(size)) for name, size in asdict(terms).items()]


def _graph(picture: Coloured, label: str) -> Element | None:
    drawn = graph(picture, label)
    return None if drawn is None else section("Graph", drawn)


def _bytes(size: Size, amount: float) -> str:
    return f"{number(size.of(amount))} {size.name}"


_SECTIONS: Mapping[str, Callable[[Any, Any, Rules], list[Element | None]]] = {
    "placement": _placement,
    "staging": _staging,
    "chain": _chain,
    "graph-pipeline": _stage_graph,
}
