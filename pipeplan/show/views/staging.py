"""The view of a staged plan: degrees, recomputation, load and memory of each stage, or of each stage of each level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ...instances.base.kind import Rules
from ...instances.physics.tolerances import SAME
from ...instances.staging.plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan, counted
from ...instances.staging.problem import FLUSH, StagingProblem
from ...instances.staging.referee import (
    CopyCost,
    LeafCost,
    LeveledEvaluation,
    LeveledRow,
    StagedEvaluation,
    gathered_bytes,
    leveled_rows,
    type_of,
)
from ...planners.referee import rules_of
from ...planners.staging.equal import RECOMPUTATION, configured, equal_plans, equal_trees, on_types
from ..words import Order, amount, order_of, rate, several, time_scale, with_memory
from . import MOST_TOLD, Graph, PlanView, Row, Table, shares_of_blocks

# Parts of a scope that are usual and need no mention.
USUAL = ("weights synchronised as published", "memory counted on all levels")

# The even plans in words.
EVEN = "equally many layers in each stage, the same degrees for all"
# Layers of all plans of equal stages that are tried, some seconds of work: a count, so that a busy machine finds the
# same plan.
MOST_LAYERS = 50_000


def even_plans(problem: StagingProblem) -> Iterator[StagedPlan | LeveledPlan]:
    """The best plan of equal stages, of those that are tried; where none fits, those that do not fit."""
    plans: Iterator[StagedPlan | LeveledPlan] = equal_plans(problem, "paper", True)
    if problem.levels:
        plans = equal_trees(problem, True)
    tried, rules = list(islice(plans, max(1, MOST_LAYERS // len(problem.layers)))), rules_of(problem, {})
    fitting = (plan for plan in tried if not rules.violations(problem, plan))
    best = min(fitting, key=lambda plan: rules.value(problem, plan), default=None)
    yield from tried if best is None else [best]


def block_plans(problem: StagingProblem) -> Iterator[StagedPlan | LeveledPlan]:
    """As many blocks in a stage on each device, with and without recomputation; none on devices within devices."""
    order = problem.topological_order
    groups = shares_of_blocks(order, [problem.layers[i].id for i in order], problem.devices)
    if groups is not None and not problem.levels:
        for again in (False, True):
            chosen = configured(problem, groups, 1, again)
            if chosen is not None:
                yield from on_types(problem, [PlannedStage(tuple(ways), 1, 1, ways) for ways in chosen])


def facts(problem: StagingProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    degrees = ", ".join(map(str, problem.degrees))
    replicas = f"data-parallel: at most {problem.micro_batches} in sum" if problem.replication else "no replicas"
    memory = "" if problem.device_types else f" {with_memory(problem.memory_bytes)}"
    links = "" if problem.levels else f", {rate(problem.bandwidth, problem.time_unit)} between them"
    facts = {
        "graph": f"{several(len(problem.layers), 'layer')}, {several(len(problem.edges), 'edge')}",
        "cluster": f"{several(problem.devices, 'device')}{memory}{links}",
        "degrees": f"tensor-parallel {degrees}; {replicas}",
    }
    for kind in problem.device_types:
        speed = f"{several(kind.devices, 'device')} of speed {kind.speed:g}"
        facts[kind.name] = f"{speed} {with_memory(kind.memory_bytes)}"
    for number, level in enumerate(problem.levels, start=1):
        speed = rate(level.bandwidth, problem.time_unit)
        facts[f"level {number}"] = f"{several(level.devices, 'device')}, {speed}"
    return facts


def assumptions(problem: StagingProblem, rules: Rules) -> tuple[str, ...]:
    overlap = "Computation, transfers and synchronisation of a stage add up to its load."
    if problem.levels:
        overlap += " Between levels they overlap: a load is the largest over the levels."
    reference = rules.to_options().get("semantics") == "reference"
    often = "per batch" if reference else "for as many micro-batches as the stage has replicas"
    return (
        overlap,
        f"Weights are synchronised once {often}.",
        "A stage holds as many micro-batches as there are replicas from it to the last stage, shared among its own.",
    )


def scope_in_words(problem: StagingProblem, scope: str) -> str:
    """A scope as a part of a sentence, without the theory of downsets and without its usual parts."""
    row = all(v == u + 1 for u, v in problem.arcs)
    cut = "all ways to cut the layers into stages" if row else "all ways to cut the graph into a sequence of stages"
    within = " and these into stages on each level" if problem.levels else ""
    rest = "".join(f", {part}" for part in scope.split(", ")[1:] if part not in USUAL)
    return cut + within + rest


def value_name(rules: Rules) -> str:
    """What the value of a plan is called."""
    return "time per micro-batch" + (", flushes included," if rules.objective == FLUSH else "")


def view(problem: StagingProblem, plan: StagedPlan | LeveledPlan, rules: Rules) -> PlanView:
    """Stages in execution order; on devices within devices the stages of all levels, each before those inside it."""
    if isinstance(plan, LeveledPlan):
        return _leveled(problem, plan, rules)
    evaluation: StagedEvaluation = rules.evaluation(problem, plan)
    unit, largest = problem.time_unit, evaluation.time_per_micro_batch
    layers = order_of(problem, problem.layers)
    rows = tuple(_stage_row(problem, i, stage, evaluation, layers) for i, stage in enumerate(plan.stages))
    labels = {layer.id: str(layer.id) for layer in problem.layers}
    edges = [(edge.source, edge.target) for edge in problem.edges]
    groups = {f"stage {i}": stage.nodes for i, stage in enumerate(plan.stages)}
    return PlanView(
        value=_value(problem, plan, rules),
        headline=f"{amount(largest, unit, 6)} per micro-batch, {evaluation.devices} of {problem.devices} devices "
        "(data x tensor parallel)",
        tables=(Table("stage", rows),),
        full_load=largest,
        sentences=(
            f"devices: {evaluation.devices} of {problem.devices}; degrees sum to {evaluation.degrees}",
            *_slots(problem, evaluation, rules),
            f"bottleneck: stage {evaluation.bottleneck} with load {amount(largest, unit)}",
            *(_told(row, cost) for row, cost in list(zip(rows, evaluation.stages, strict=True))[:MOST_TOLD]),
        ),
        legend=f"load (transfers and synchronisation included): {time_scale(largest, unit)[1] or 'time'} "
        f"per micro-batch; {_legend(rows, problem)}",
        graph=Graph.of("Layers by stage", labels, edges, groups),
    )


def _value(problem: StagingProblem, plan: StagedPlan | LeveledPlan, rules: Rules) -> str:
    flushes = ", flushes included" if rules.objective == FLUSH else ""
    return f"{amount(rules.value(problem, plan), problem.time_unit)} per micro-batch{flushes}"


def _slots(
    problem: StagingProblem, evaluation: StagedEvaluation | LeveledEvaluation, rules: Rules
) -> tuple[str, ...]:
    """A sentence on the slots of a batch, where flushes are part of the value."""
    batch = f"a batch of {several(problem.micro_batches, 'micro-batch')} takes {evaluation.slots} slots"
    return (batch,) if rules.objective == FLUSH else ()


def _legend(rows: Iterable[Row], problem: StagingProblem) -> str:
    """The meaning of columns whose titles do not say it."""
    again = any("again" in row.cells for row in rows)
    held = f"d, t: data- and tensor-parallel degree; held: micro-batches in flight, of {problem.micro_batches}"
    return held + ("; again: layers that recompute their activations, of all" if again else "")


def _stage_row(
    problem: StagingProblem, i: int, stage: PlannedStage, evaluation: StagedEvaluation, layers: Order
) -> Row:
    kind, cost = type_of(problem, stage), evaluation.stages[i]
    return Row(
        name=str(i),
        load=cost.load,
        parts=_parts(cost),
        cells={
            "type": stage.device_type or "",
            "d": str(stage.data_parallel),
            "t": str(stage.tensor_parallel),
            "held": str(cost.in_flight),
            **_recomputed(stage),
        },
        label=_label(str(i), stage, of_type=stage.device_type),
        memory=_memory(problem, stage, cost),
        limit=None if kind is None else kind.memory_bytes,
        slowest=i == evaluation.bottleneck,
        held=layers.fold(stage.nodes),
        told={"devices": str(cost.devices), **_ways(problem, stage), "binds": ", ".join(cost.binds)},
    )


def _recomputed(stage: PlannedStage | LeveledStage) -> dict[str, str]:
    """The column "again" (recomputed layers of all layers, such as 3/8), where a stage recomputes any."""
    again = sum(RECOMPUTATION in way for way in stage.configurations.values())
    return {"again": f"{again}/{len(stage.nodes)}"} if again else {}


def _label(
    name: str, stage: PlannedStage | LeveledStage, level: str | None = None, of_type: str | None = None
) -> str:
    """The name with the level, the degrees that are more than one, by their columns in tables, and the type."""
    degrees = {"d": stage.data_parallel, "t": stage.tensor_parallel}
    told = [level, *(f"{name} {degree}" for name, degree in degrees.items() if degree > 1), of_type]
    facts = ", ".join(filter(None, told))
    return f"stage {name} ({facts})" if facts else f"stage {name}"


def _memory(problem: StagingProblem, stage: PlannedStage | LeveledStage, cost: CopyCost) -> dict[str, float]:
    """Memory of a stage by use; all that is not fixed is for micro-batches in flight."""
    degree = stage.tensor_parallel
    copies = cost.copies if isinstance(cost, LeafCost) else stage.data_parallel
    fixed = float(gathered_bytes(problem, degree, copies))
    for node in stage.nodes:
        ways = problem.layers[problem.index[node]].configurations.get(degree, ())
        chosen = (way for way in ways if way.id == stage.configurations.get(node))
        fixed += sum(float(way.memory_bytes(0, copies)) for way in chosen)
    return {"fixed": fixed, "micro-batches in flight": max(0.0, cost.memory_bytes - fixed)}


def _parts(cost: CopyCost, share: float = 1.0) -> dict[str, float]:
    parts = {"computation": cost.compute, "transfers": cost.transfers, "synchronisation": cost.synchronisation}
    return {name: part * share for name, part in parts.items()}


def _told(row: Row, cost: CopyCost) -> str:
    """A sentence on how the layers of a stage run, and on what binds it: the largest part of its load, and memory that
    is nearly full."""
    largest, *memory = cost.binds
    share = row.parts[largest] / row.load if row.load else 1.0
    verb = "are" if largest == "transfers" else "is"
    binds = f"{largest} {verb} {100 * share:.0f} % of the load" + (", memory is nearly full" if memory else "")
    return f"stage {row.name}: {'; '.join(filter(None, [row.told.get('layers run'), binds]))}"


def _ways(problem: StagingProblem, stage: PlannedStage | LeveledStage) -> dict[str, str]:
    """How the layers of a stage run, where the problem leaves a choice."""
    free = any(len(ways) > 1 for layer in problem.layers for ways in layer.configurations.values())
    return {"layers run": counted(stage.configurations)} if free else {}


def _leveled(problem: StagingProblem, plan: LeveledPlan, rules: Rules) -> PlanView:
    """The view of a plan on levels; all loads are per micro-batch of the whole, so that they can be compared."""
    evaluation: LeveledEvaluation = rules.evaluation(problem, plan)
    unit, largest = problem.time_unit, evaluation.time_per_micro_batch
    leveled = list(leveled_rows(plan, evaluation))
    layers = order_of(problem, problem.layers)
    rows = tuple(_leveled_row(problem, row, largest, layers) for row in leveled)
    told = [_told(row, of.leaf) for row, of in zip(rows, leveled, strict=True) if of.leaf is not None]
    return PlanView(
        value=_value(problem, plan, rules),
        headline=f"{amount(largest, unit, 6)} per micro-batch, the largest over {len(problem.levels)} levels",
        tables=(Table("stage", rows),),
        full_load=largest,
        sentences=(
            f"a load is the largest over its levels: {amount(largest, unit)}",
            f"{several(len(evaluation.leaves), 'stage')} of level 1; copies sum to {evaluation.degrees}",
            *_slots(problem, evaluation, rules),
            *told[:MOST_TOLD],
        ),
        each="stage of each level",
        legend=f"load: {time_scale(largest, unit)[1] or 'time'} per micro-batch that leaves the pipeline; "
        f"{_legend(rows, problem)}",
    )


def _leveled_row(problem: StagingProblem, row: LeveledRow, largest: float, layers: Order) -> Row:
    """The row of a stage of some level; only a leaf, which is of level 1, has a memory limit and parts of its load."""
    stage, leaf, cost = row.stage, row.leaf, row.cost
    copies = stage.data_parallel
    return Row(
        name=row.name,
        load=row.load,
        parts={"larger of links and inside": row.load} if leaf is None else _parts(leaf, row.share),
        cells={
            "level": str(cost.level),
            "d": str(copies),
            "t": "" if leaf is None else str(stage.tensor_parallel),
            "held": "" if leaf is None else str(leaf.in_flight),
            **({} if leaf is None else _recomputed(stage)),
            "binds": ", ".join(cost.binds),
        },
        label=_label(row.name, stage, level=None if leaf is not None else f"level {cost.level}"),
        memory=None if leaf is None else _memory(problem, stage, leaf),
        limit=None if leaf is None else problem.memory_bytes,
        slowest=row.load >= largest * (1 - SAME),
        depth=len(row.path) - 1,
        held=layers.fold(stage.nodes),
        told={} if leaf is None else _ways(problem, stage),
    )
