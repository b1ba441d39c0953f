"""What a stage graph costs and what is wrong with it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..base.amounts import as_written, exact_sum, in_digits
from ..base.checks import NodeId
from ..base.errors import PipeplanError, Violation, assignment_faults, show
from ..base.fields import plain_fields
from ..base.graph import adjacency, find_cycle, heights_of, topological_order
from ..base.kind import Rules, chosen
from ..base.quantities import of_limit, several
from ..registry import GRAPH_PIPELINE
from ..timeline.engine import DeadlockError, iteration_time
from ..timeline.model import Dependency, Order, Pipeline, Stage, gpipe_order, kfkb_order
from .plan import GraphStage, StageGraphPlan
from .problem import GraphPipelineProblem

# ---- costs -------------------------------------------------------------------------------------------
#
# What one stage of a stage graph costs, from the decisions alone.
#
# A stage of d devices splits every micro-batch of b samples into d equal shares.

# An activation goes forward, its gradient back.
TRIPS = 2.0


@dataclass(frozen=True, slots=True)
class GraphStageCost:
    """One stage: times in the problem's time unit, memory of one device in bytes."""

    forward: float
    """Time of the forward pass of one micro-batch."""
    backward: float
    transfers: float
    """Time of one micro-batch's transfers: each tensor that enters or leaves goes forward, and its gradient back."""
    synchronisation: float
    """Time to synchronise the weights, once for each mini-batch."""
    time_per_sample: float
    weight_bytes: float
    """Bytes of one copy of the weights."""
    sample_bytes: float
    """Bytes of one device for each sample in flight."""
    memory_bytes: float
    required_in_flight: int
    """Samples in flight that the schedules of this and the following stages need."""


def stage_costs(problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[GraphStageCost, ...]:
    """Every stage's costs; the plan must hold known operators, and its numbers must be positive."""
    required = required_in_flight(problem, plan)
    return tuple(_cost(problem, stage, needed) for stage, needed in zip(plan.stages, required, strict=True))


def _cost(problem: GraphPipelineProblem, stage: GraphStage, required: int) -> GraphStageCost:
    b, d = stage.micro_batch, stage.devices
    members = [problem.operators[problem.index[node_id]] for node_id in stage.nodes]
    forward, backward = passes_of(problem, stage)
    weights = math.fsum(operator.weight_bytes for operator in members)
    link = problem.boundary_link
    transfers = TRIPS * math.fsum(link.seconds(amount * b / d) for amount in _boundary(problem, stage))
    synchronisation = problem.inner_link(d).seconds(2 * (d - 1) / d * weights) if d > 1 else 0.0
    sample_bytes = math.fsum(operator.stash_bytes for operator in members) / d
    return GraphStageCost(
        forward=forward,
        backward=backward,
        transfers=transfers,
        synchronisation=synchronisation,
        time_per_sample=math.fsum((forward, backward, transfers)) / b + synchronisation / problem.mini_batch,
        weight_bytes=weights,
        sample_bytes=sample_bytes,
        memory_bytes=float(held_bytes(problem, stage)),
        required_in_flight=required,
    )


def passes_of(problem: GraphPipelineProblem, stage: GraphStage) -> tuple[float, float]:
    """Forward and backward time of one micro-batch."""
    members = [problem.operators[problem.index[node_id]] for node_id in stage.nodes]
    samples = stage.micro_batch / stage.devices
    forward = math.fsum(operator.forward(samples) for operator in members)
    return forward, math.fsum(operator.backward(samples) for operator in members)


def held_bytes(problem: GraphPipelineProblem, stage: GraphStage) -> Fraction:
    """What a device of the stage holds, exactly."""
    members = [problem.operators[problem.index[node_id]] for node_id in stage.nodes]
    weights = exact_sum(operator.weight_bytes for operator in members)
    stashes = exact_sum(operator.stash_bytes for operator in members)
    fixed = as_written(problem.weight_copies) * weights + as_written(problem.workspace_bytes)
    return fixed + stashes * stage.in_flight / stage.devices


def overfull(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[tuple[int, Fraction]]:
    """Stages whose devices hold more than their memory, and how much they hold."""
    if problem.memory_bytes is not None:
        for number, stage in enumerate(plan.stages):
            bytes_held = held_bytes(problem, stage)
            if bytes_held > as_written(problem.memory_bytes):
                yield number, bytes_held


def _boundary(problem: GraphPipelineProblem, stage: GraphStage) -> Iterable[float]:
    """Bytes per sample of every tensor that crosses the stage's boundary, each counted once."""
    inside = {problem.index[node_id] for node_id in stage.nodes}
    entering = {u for v in inside for u in problem.predecessors[v] if u not in inside}
    leaving = {u for u in inside if any(v not in inside for v in problem.successors[u])}
    return [problem.operators[u].output_bytes for u in sorted(entering | leaving)]


# ---- samples in flight ---------------------------------------------------------------------------------


def in_flight_before(stage: GraphStage, successor: GraphStage, successor_in_flight: int) -> int:
    """Samples that a stage must hold so that a stage after it, which holds so many, is never kept waiting.

    The published table of ten rows in one formula: more where the stage works in bigger groups, and a second
    buffer where both stages work in groups of several micro-batches.
    """
    group, next_group = stage.k * stage.micro_batch, successor.k * successor.micro_batch
    bigger = max(stage.micro_batch, successor.micro_batch)
    buffers = 2 if bigger < min(group, next_group) else 1
    return successor_in_flight + max(0, group - next_group) + buffers * bigger


def required_in_flight(problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[int, ...]:
    """Samples that each stage must hold by those of the stages after it: whole micro-batches, at most the mini-batch.

    Edges to stages that do not exist are left out: the rules say what is wrong with them.
    """
    stages = plan.stages
    needs = [[stage.k * stage.micro_batch] for stage in stages]
    for x, y in plan.edges:
        if x < len(stages) and y < len(stages) and x != y:
            needs[x] += [in_flight_before(stages[x], stages[y], stages[y].in_flight)]
    return tuple(
        min(-(-max(need[1:] or need) // stage.micro_batch) * stage.micro_batch, problem.mini_batch)
        for stage, need in zip(stages, needs, strict=True)
    )


# ---- the graph of stages -------------------------------------------------------------------------------


def stage_of_operators(plan: StageGraphPlan) -> dict[NodeId, int]:
    """The first stage that lists each operator."""
    owner: dict[NodeId, int] = {}
    for number, stage in enumerate(plan.stages):
        for node_id in stage.nodes:
            owner.setdefault(node_id, number)
    return owner


def forced_edges(
    problem: GraphPipelineProblem, plan: StageGraphPlan
) -> dict[tuple[int, int], tuple[NodeId, NodeId]]:
    """Pairs of stages that an edge between operators orders, each with the first such edge."""
    owner = stage_of_operators(plan)
    edges: dict[tuple[int, int], tuple[NodeId, NodeId]] = {}
    for u, v in problem.edges:
        pair = owner.get(u), owner.get(v)
        if pair[0] is not None and pair[1] is not None and pair[0] != pair[1]:
            edges.setdefault((pair[0], pair[1]), (u, v))
    return edges


# ---- the pipeline that the simulator runs: the plan's own schedule, or 1F1B or GPipe on the same stages ----


def stage_graph_pipeline(
    problem: GraphPipelineProblem, plan: StageGraphPlan, schedule: str = "planned"
) -> Pipeline:
    """The pipeline by a schedule: `planned`: kFkB with the plan's k and in-flight samples; `1f1b`: the same with k = 1;
    `gpipe`: all forward passes first.

    Every micro-batch size divides the mini-batch, and every operator is in one stage.
    """
    costs = stage_costs(problem, plan)
    stages = tuple(
        _stage(problem, number, stage, cost, schedule)
        for number, (stage, cost) in enumerate(zip(plan.stages, costs, strict=True))
    )
    return Pipeline(stages, _dependencies(problem, plan), problem.mini_batch, problem.name, problem.time_unit)


def _stage(
    problem: GraphPipelineProblem, number: int, stage: GraphStage, cost: GraphStageCost, schedule: str
) -> Stage:
    return Stage(
        name=f"stage {number}",
        micro_batch=stage.micro_batch,
        forward=cost.forward,
        backward=cost.backward,
        orders=(_order(stage, problem.mini_batch // stage.micro_batch, schedule),),
        devices=stage.devices,
        synchronisation=cost.synchronisation,
        fixed_bytes=problem.weight_copies * cost.weight_bytes + problem.workspace_bytes,
        sample_bytes=cost.sample_bytes,
        limit_bytes=problem.memory_bytes,
    )


def _order(stage: GraphStage, count: int, schedule: str) -> Order:
    batches = range(1, count + 1)
    if schedule == "gpipe":
        return gpipe_order(batches)
    return kfkb_order(batches, stage.in_flight // stage.micro_batch, stage.k if schedule == "planned" else 1)


def _dependencies(problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[Dependency, ...]:
    """Edges that operators force, with the time of the tensors that cross them; other edges only order stages.

    The tensors of one micro-batch between two stages travel as one message, over as many links as the smaller
    stage has devices.
    """
    producers: dict[tuple[int, int], set[int]] = {
        edge: set() for edge in (*plan.edges, *forced_edges(problem, plan))
    }
    owner = stage_of_operators(plan)
    for (source, target), (u, _) in zip(problem.edges, problem.arcs, strict=True):
        if owner[source] != owner[target]:
            producers[owner[source], owner[target]].add(u)
    dependencies = []
    for (x, y), tensors in producers.items():
        sender, receiver = plan.stages[x], plan.stages[y]
        sample_bytes = sum(problem.operators[u].output_bytes for u in sorted(tensors))
        share = sample_bytes / min(sender.devices, receiver.devices)
        delays = [
            problem.boundary_link.seconds(share * s.micro_batch) if tensors else 0.0 for s in (sender, receiver)
        ]
        dependencies.append(Dependency(x, y, *delays))
    return tuple(dependencies)


# ---- evaluate ----------------------------------------------------------------------------------------

# Passes of all stages in one iteration, forward and backward. Plans with more are refused, since they are not
# simulated.
MAX_PASSES = 10_000_000


class NotAStageGraphError(PipeplanError, ValueError):
    """The plan does not put every operator into one stage with usable numbers, so it has no cost."""


@dataclass(frozen=True, slots=True)
class StageGraphEvaluation:
    """All costs of a plan. `time_per_sample` is that of the slowest stage: the time of one more sample in steady
    state."""

    stages: tuple[GraphStageCost, ...]
    time_per_sample: float
    bottleneck: int
    """Position of the first stage with the largest time per sample."""
    iteration: float | None
    """Simulated time of one mini-batch; None: the schedule cannot be run."""
    depth: int | None
    """Number of stages on the longest directed path; None where the stages form a circle."""
    devices: int
    peak_memory_bytes: float

    def objective(self, name: str) -> float:
        """`iteration`, or the largest time per sample."""
        if name != "iteration":
            return self.time_per_sample
        if self.iteration is None:
            raise NotAStageGraphError("The schedule of the plan cannot be run, so an iteration has no time.")
        return self.iteration

    def to_json(self) -> dict[str, Any]:
        return plain_fields(self)


def evaluate_stage_graph(problem: GraphPipelineProblem, plan: StageGraphPlan) -> StageGraphEvaluation:
    """Every cost of the plan, from the decisions alone."""
    fault = next(_unreadable(problem, plan), None)
    if fault is not None:
        raise NotAStageGraphError(fault.message)
    costs = stage_costs(problem, plan)
    bottleneck = max(range(len(costs)), key=lambda i: costs[i].time_per_sample)
    iteration = None
    if not [*_micro_batches(problem, plan), *_passes(problem, plan), *_plan_edges(problem, plan)]:
        outcome = _simulated(problem, plan)
        iteration = outcome if isinstance(outcome, float) else None
    heights = heights_of(_successors(problem, plan))
    return StageGraphEvaluation(
        stages=costs,
        time_per_sample=costs[bottleneck].time_per_sample,
        bottleneck=bottleneck,
        iteration=iteration,
        depth=None if heights is None else max(heights),
        devices=sum(stage.devices for stage in plan.stages),
        peak_memory_bytes=max(cost.memory_bytes for cost in costs),
    )


def _simulated(problem: GraphPipelineProblem, plan: StageGraphPlan) -> float | DeadlockError:
    """The time of an iteration, or why there is none."""
    try:
        return float(iteration_time(stage_graph_pipeline(problem, plan)))
    except DeadlockError as error:
        return error


def _successors(problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[tuple[int, ...], ...]:
    """The stages after each stage, by the plan's edges and those that operators force."""
    count = len(plan.stages)
    edges = {(x, y) for x, y in plan.edges if x < count and y < count and x != y}
    return adjacency(count, sorted(edges | set(forced_edges(problem, plan))))


def stage_levels(problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[int, ...] | None:
    """Number of stages before each stage on the longest path to it; None where there is a circle."""
    successors = _successors(problem, plan)
    before = adjacency(len(successors), ((y, x) for x, after in enumerate(successors) for y in after))
    heights = heights_of(before)
    return None if heights is None else tuple(height - 1 for height in heights)


# ---- rules ---------------------------------------------------------------------------------------------


def verify_stage_graph(problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[Violation, ...]:
    """Every broken rule, in words with numbers; an empty tuple is a valid plan.

    A schedule is run only where nothing else is wrong with it; memory is judged wherever the stages have costs.
    """
    unreadable = [*_unreadable(problem, plan)]
    violations = [*unreadable, *_convexity(problem, plan), *_plan_edges(problem, plan), *_circles(problem, plan)]
    violations += _devices(problem, plan)
    violations += [*_micro_batches(problem, plan), *_passes(problem, plan)]
    if not any(violation.rule in ("shape", "micro-batch") for violation in violations):
        violations += _in_flight(problem, plan)
    runnable = not violations
    if not unreadable:
        violations += _memory(problem, plan)
    if runnable and isinstance(outcome := _simulated(problem, plan), DeadlockError):
        violations.append(Violation("deadlock", str(outcome)))
    return tuple(violations)


def _unreadable(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[Violation]:
    """What leaves a plan without costs: operators that are missing, repeated or unknown, and numbers below 1."""
    yield from assignment_faults([stage.nodes for stage in plan.stages], problem.index, "operator")
    for number, stage in enumerate(plan.stages):
        for name, value in _numbers(stage).items():
            if value < 1:
                yield Violation("shape", f"Stage {number} has {name} {value}, below 1.")


def _numbers(stage: GraphStage) -> dict[str, int]:
    return {
        "devices": stage.devices,
        "micro-batch": stage.micro_batch,
        "k": stage.k,
        "in-flight samples": stage.in_flight,
    }


def _convexity(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[Violation]:
    """No path may leave a stage and come back."""
    for number, stage in enumerate(plan.stages):
        inside = {problem.index[node_id] for node_id in stage.nodes if node_id in problem.index}
        left_by: dict[int, tuple[int, int]] = {}
        for v in problem.topological_order:
            near = problem.predecessors[v]
            arrivals = [(u, v) if u in inside else left_by[u] for u in near if u in inside or u in left_by]
            if v not in inside and arrivals:
                left_by[v] = arrivals[0]
            returning = [u for u in near if u in left_by]
            if v in inside and returning:
                path = [problem.operators[i].id for i in (*left_by[returning[0]], v)]
                yield Violation(
                    "convexity",
                    f"A path leaves stage {number} from operator {show(path[0])} to {show(path[1])} and comes back to "
                    f"{show(path[2])}.",
                )
                break


def _plan_edges(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[Violation]:
    """Edges join two stages that exist, each pair once, and include all that the edges between operators force."""
    count = len(plan.stages)
    for (x, y), times in Counter(plan.edges).items():
        if x >= count or y >= count:
            yield Violation("edges", f"The edge {x} -> {y} names a stage that is not there: there are {count}.")
        elif x == y:
            yield Violation("edges", f"An edge leads from stage {x} to itself.")
        if times > 1:
            yield Violation("edges", f"The edge {x} -> {y} is listed {times} times.")
    for (x, y), (u, v) in forced_edges(problem, plan).items():
        if (x, y) not in plan.edges:
            yield Violation("edges", f"The edge {x} -> {y} is missing: operator {show(v)} reads {show(u)}.")


def _circles(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[Violation]:
    successors = _successors(problem, plan)
    if topological_order(successors) is None:
        circle = " -> ".join(map(str, find_cycle(successors)))
        yield Violation("acyclic", f"The stages form the circle {circle}.")


def _devices(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[Violation]:
    used = sum(stage.devices for stage in plan.stages)
    if used != problem.devices:
        yield Violation(
            "devices",
            f"The stages have {several(used, 'device')}, not exactly the {problem.devices} of the problem.",
        )


def _micro_batches(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[Violation]:
    for number, stage in enumerate(plan.stages):
        b, d = stage.micro_batch, stage.devices
        if b >= 1 and problem.mini_batch % b:
            yield Violation(
                "micro-batch",
                f"The micro-batch of stage {number}, {several(b, 'sample')}, does not divide the mini-batch of "
                f"{problem.mini_batch}.",
            )
        if b >= 1 and d >= 1 and b % d:
            yield Violation(
                "micro-batch",
                f"Stage {number} cannot split micro-batches of {several(b, 'sample')} evenly "
                f"over {several(d, 'device')}.",
            )


def _passes(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[Violation]:
    count = sum(2 * problem.mini_batch // stage.micro_batch for stage in plan.stages if stage.micro_batch >= 1)
    if count > MAX_PASSES:
        yield Violation(
            "micro-batch",
            f"An iteration has {count} passes, more than the {MAX_PASSES} that are simulated; larger micro-batches "
            "have fewer.",
        )


def _in_flight(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[Violation]:
    """Stages whose samples in flight are no whole micro-batches, exceed the mini-batch, or are fewer than the
    schedule needs."""
    for number, (stage, needed) in enumerate(zip(plan.stages, required_in_flight(problem, plan), strict=True)):
        if stage.in_flight % stage.micro_batch or stage.in_flight > problem.mini_batch:
            yield Violation(
                "in-flight",
                f"Stage {number} holds {several(stage.in_flight, 'sample')} in flight; give whole micro-batches of "
                f"{stage.micro_batch}, at most the mini-batch of {problem.mini_batch}.",
            )
        elif stage.in_flight < needed:
            yield Violation(
                "in-flight",
                f"Stage {number} holds {stage.in_flight} samples in flight, {needed - stage.in_flight} fewer than the "
                f"{needed} that its schedule and those of the stages after it need.",
            )


def _memory(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[Violation]:
    """A violation for each stage whose devices hold more than their memory."""
    limit = as_written(problem.memory_bytes or 0)
    for number, amount in overfull(problem, plan):
        yield Violation(
            "memory",
            f"A device of stage {number} holds {in_digits(amount)} bytes with {plan.stages[number].in_flight} samples "
            f"in flight, {in_digits(amount - limit)} more than its memory of {in_digits(limit)} bytes"
            f"{of_limit(float(amount), float(limit))}.",
        )


# ---- rules --------------------------------------------------------------------------------------------
#
# The rules by which a stage graph is judged: time per sample in steady state, or one mini-batch from end to end.


@dataclass(frozen=True, slots=True)
class StageGraphRules:
    """Plans are judged by the time per sample of the slowest stage, or by the time of a simulated iteration."""

    objective: str = "time-per-sample"

    plan_type = StageGraphPlan

    def violations(self, problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[Violation, ...]:
        return verify_stage_graph(problem, plan)

    def value(self, problem: GraphPipelineProblem, plan: StageGraphPlan) -> float:
        return evaluate_stage_graph(problem, plan).objective(self.objective)

    def evaluation(self, problem: GraphPipelineProblem, plan: StageGraphPlan) -> StageGraphEvaluation:
        return evaluate_stage_graph(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {"objective": self.objective}


def rules_of(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> Rules:
    return StageGraphRules(chosen(options, "objective", GRAPH_PIPELINE.choices["objective"]))
