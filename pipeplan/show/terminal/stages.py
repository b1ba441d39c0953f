"""A staged plan: degrees, recomputation, load and memory of each stage."""

from __future__ import annotations

from typing import Any

from ...cli.console import out, styled
from ...cli.progress import number
from ...instances.kind import Rules
from ...instances.staging.plan import PlannedStage, StagedPlan, counted
from ...instances.staging.problem import StagingProblem
from ...instances.staging.referee.stages import StageCost, evaluate_stages, type_of
from ...instances.staging.rules import FLUSH
from .shapes import BAR_WIDTH, MAX_DEVICES_DRAWN, bar, columns, limit, names, new_table, several, size

SHORT_BAR, SHORT_NAMES = 5, 50


def facts(problem: StagingProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    exactly = "exactly" if problem.exact_batches else "at most"
    unit = problem.time_unit or "time unit"
    degrees = ", ".join(map(str, problem.degrees))
    known = {
        "graph": f"{several(len(problem.layers), 'layer')}, {several(len(problem.edges), 'edge')}",
        "cluster": f"{several(problem.devices, 'device')} with memory {limit(problem.memory_bytes)}, "
        f"{size(problem.bandwidth)}/{unit} between them",
        "degrees": f"tensor-parallel {degrees}; data-parallel: {exactly} {problem.micro_batches} in sum",
    }
    if problem.levels:
        known["cluster"] = f"{several(problem.devices, 'device')} with memory {limit(problem.memory_bytes)}"
    if problem.device_types:
        known["cluster"] = f"{several(problem.devices, 'device')}, {size(problem.bandwidth)}/{unit} between them"
    for kind in problem.device_types:
        known[kind.name] = (
            f"{several(kind.devices, 'device')} of speed {kind.speed:g} with memory {limit(kind.memory_bytes)}"
        )
    levels = [f"{level.devices} devices, {size(level.bandwidth)}/{unit}" for level in problem.levels]
    return known | {f"level {number_}": text for number_, text in enumerate(levels, start=1)}


def objective(rules: Rules) -> str:
    """What the value of a plan is called."""
    return "time per micro-batch" + (", flushes included," if rules.objective == FLUSH else "")


def draw(problem: StagingProblem, plan: StagedPlan, rules: Rules) -> None:
    """One line per stage in execution order, the slowest marked; what binds in each stage."""
    evaluation = evaluate_stages(problem, plan, rules.to_options()["semantics"])
    table = new_table()
    kind = "type," if problem.device_types else ""
    columns(table, f"stage,{kind}layers,d,t,share,load,moved,sync,held,memory,full,", left="type,share")
    slowest = evaluation.bottleneck
    for number_, (stage, cost) in enumerate(zip(plan.stages, evaluation.stages, strict=True)):
        if number_ < MAX_DEVICES_DRAWN:
            table.add_row(*_row(problem, number_, stage, cost, evaluation.time_per_micro_batch, number_ == slowest))
    console = out()
    console.print(table)
    if len(plan.stages) > MAX_DEVICES_DRAWN:
        console.print(styled(f"... and {len(plan.stages) - MAX_DEVICES_DRAWN} more stages"))
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    console.print(
        styled(f"load (with moved and sync):{unit or ' time'} per micro-batch; held: micro-batches in flight")
    )
    console.print(styled(f"devices: {evaluation.devices} of {problem.devices}; degrees sum to {evaluation.degrees}"))
    if rules.objective == FLUSH:
        console.print(styled(f"a batch of {problem.micro_batches} micro-batches takes {evaluation.slots} slots"))
    console.print(styled(f"bottleneck: stage {slowest} with load {number(evaluation.time_per_micro_batch)}{unit}"))
    for number_, stage in enumerate(plan.stages[:MAX_DEVICES_DRAWN]):
        ways = counted(stage.configurations)
        console.print(styled(f"stage {number_}: layers {names(stage.nodes, SHORT_NAMES)}"))
        console.print(styled(f"  {ways}; {binds(evaluation.stages[number_])}"))


def _row(
    problem: StagingProblem, number_: int, stage: PlannedStage, cost: StageCost, largest: float, slowest: bool
) -> list[Any]:
    kind = type_of(problem, stage)
    memory = None if kind is None else kind.memory_bytes
    return [
        styled(str(number_), "bold" if slowest else ""),
        *([styled(stage.device_type or "")] if problem.device_types else []),
        str(len(stage.nodes)),
        str(stage.data_parallel),
        str(stage.tensor_parallel),
        styled(bar(cost.load, largest, SHORT_BAR if problem.device_types else BAR_WIDTH), "red" if slowest else "cyan"),
        f"{cost.load:.4g}",
        f"{cost.transfers:.3g}",
        f"{cost.synchronisation:.3g}",
        str(cost.in_flight),
        size(cost.memory_bytes),
        f"{bar(cost.memory_bytes, memory, SHORT_BAR)} {100 * cost.memory_bytes / memory:3.0f}%" if memory else "-",
        styled("<--" if slowest else "", "bold red"),
    ]


def binds(cost: StageCost) -> str:
    """What holds the stage where it is: the largest part of its load, and memory where it is nearly full."""
    parts = {
        "computation": cost.compute,
        "transfers": cost.transfers,
        "synchronisation": cost.synchronisation,
    }
    largest, *memory = cost.binds
    share = parts[largest] / cost.load if cost.load else 1.0
    verb = "are" if largest == "transfers" else "is"
    return f"{largest} {verb} {100 * share:.0f} % of the load" + (", memory is full" if memory else "")
