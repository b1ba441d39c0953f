"""The view of a stage graph: the stages by level with devices, micro-batches, load and memory, and their timeline."""

from __future__ import annotations

from typing import Any

from ...instances.base.errors import PipeplanError
from ...instances.base.kind import Rules
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem, Link
from ...instances.graph_pipeline.referee import StageGraphEvaluation, stage_levels
from ...instances.simulate import simulate
from ...planners.graph_pipeline.configurations import stage_graphs
from ..words import Order, amount, order_of, rate, several, time_scale, with_memory
from . import Graph, PlanView, Row, Table, Timeline, memory_of, timeline_of

# The most stages that the column `after` names.
MAX_READERS_SHOWN = 6

# Makes plans that anyone would try first, for comparison, from a problem.
even_plans = stage_graphs
# The even plans in words.
EVEN = "equally many operators on each device, in one sequence of stages"


def even_differs(plan: StageGraphPlan, even: StageGraphPlan) -> str:
    """Words on the micro-batches of the even plan, where those of the plan differ: the even plan has its best size."""
    size = even.stages[0].micro_batch
    alike = all(stage.micro_batch == size for stage in plan.stages)
    return "" if alike else f" with micro-batches of {several(size, 'sample')}"


def facts(problem: GraphPipelineProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    facts = {
        "graph": f"{several(len(problem.operators), 'operator')}, {several(len(problem.edges), 'edge')}",
        "batch": f"{several(problem.mini_batch, 'sample')} between two updates",
        "cluster": f"{several(problem.devices, 'device')} {with_memory(problem.memory_bytes)}, weights x "
        f"{problem.weight_copies:g}",
        "link": _link(problem, problem.link),
    }
    if problem.node_link is not None:
        facts["nodes"] = (
            f"{several(problem.devices_per_node or 0, 'device')} each, {_link(problem, problem.node_link)}"
        )
    return facts


def _link(problem: GraphPipelineProblem, link: Link) -> str:
    latency = f"latency {amount(link.latency_s, problem.time_unit)}"
    if link.bandwidth is None:
        return latency if link.latency_s else "transfers take no time"
    return f"{rate(link.bandwidth, problem.time_unit)}, {latency}"


def assumptions(problem: GraphPipelineProblem, rules: Rules) -> tuple[str, ...]:
    return (
        "The weights are updated once per batch, when all its samples have come back.",
        "Forward passes, backward passes and transfers of a stage add up to its load; in the iteration, which is "
        "simulated, transfers run beside the computation.",
        f"Each byte of weights is held {problem.weight_copies:g} times.",
    )


def scope_in_words(problem: GraphPipelineProblem, scope: str) -> str:
    """A scope as a part of a sentence, without the usual restriction on sizes of micro-batches."""
    return scope.replace("stage graphs of any convex stages, ", "all stage graphs with ").replace(
        ", a power of two", ""
    )


def value_name(rules: Rules) -> str:
    return "iteration" if rules.objective == "iteration" else "time per sample"


def view(problem: GraphPipelineProblem, plan: StageGraphPlan, rules: Rules) -> PlanView:
    """Stages by level with loads per sample, and a timeline of one iteration."""
    evaluation: StageGraphEvaluation = rules.evaluation(problem, plan)
    levels, unit = stage_levels(problem, plan), problem.time_unit
    places = levels or tuple(range(len(plan.stages)))
    order = sorted(range(len(plan.stages)), key=places.__getitem__)
    groups = [[x for x in order if places[x] == level] for level in sorted({*places})]
    try:
        simulation = simulate(problem, plan)
        timeline, memory = timeline_of(simulation), memory_of(simulation)
    except PipeplanError as error:
        timeline, memory = Timeline("One iteration", (), (), 0.0, summary=str(error)), ()
    operators, value = order_of(problem, problem.operators), evaluation.objective(rules.objective)
    text = f"{amount(value, unit)} per {'iteration' if rules.objective == 'iteration' else 'sample'}"
    rows = tuple(_row(problem, plan, x, evaluation, operators) for x in order)
    return PlanView(
        value=text,
        headline=f"{text}, depth {evaluation.depth}",
        tables=(Table("stage", rows, "operator"),),
        full_load=evaluation.time_per_sample,
        sentences=(
            *([] if levels is None else [f"stages: {' -> '.join(','.join(map(str, group)) for group in groups)}"]),
            f"devices: {evaluation.devices} of {problem.devices}; depth: {evaluation.depth or 'none'}",
            f"bottleneck: stage {evaluation.bottleneck} with {amount(evaluation.time_per_sample, unit)} per sample",
        ),
        legend="d: devices; b: micro-batch in samples; k: passes in a row; held: samples in flight; "
        f"load (transfers and synchronisation included): "
        f"{time_scale(evaluation.time_per_sample, unit)[1] or 'time'} per sample",
        timelines=(timeline,),
        memory=memory,
        graph=Graph.of(
            "Operators by stage",
            {operator.id: str(operator.id) for operator in problem.operators},
            problem.edges,
            {f"stage {i}": stage.nodes for i, stage in enumerate(plan.stages)},
        ),
    )


def _row(
    problem: GraphPipelineProblem, plan: StageGraphPlan, x: int, evaluation: StageGraphEvaluation, operators: Order
) -> Row:
    """The row of stage x in the table of stages; its parts are times per sample."""
    stage, cost = plan.stages[x], evaluation.stages[x]
    per_sample, weights = 1 / stage.micro_batch, problem.weight_copies * cost.weight_bytes
    before = sorted(i for i, j in plan.edges if j == x)
    more = len(before) - MAX_READERS_SHOWN
    return Row(
        name=str(x),
        load=cost.time_per_sample,
        parts={
            "forward": per_sample * cost.forward,
            "backward": per_sample * cost.backward,
            "transfers": per_sample * cost.transfers,
            "synchronisation": cost.synchronisation / problem.mini_batch,
        },
        cells={
            "d": str(stage.devices),
            "b": str(stage.micro_batch),
            "k": str(stage.k),
            "held": str(stage.in_flight),
            "after": ",".join(map(str, before[:MAX_READERS_SHOWN])) + (f",+{more}" if more > 0 else ""),
        },
        label=f"stage {x}",
        memory={
            "weights": weights,
            **({"workspace": problem.workspace_bytes} if problem.workspace_bytes else {}),
            "samples in flight": max(0.0, cost.memory_bytes - weights - problem.workspace_bytes),
        },
        limit=problem.memory_bytes,
        slowest=x == evaluation.bottleneck,
        held=operators.fold(stage.nodes),
    )
