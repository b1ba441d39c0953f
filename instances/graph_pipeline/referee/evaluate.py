"""What a stage graph costs and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...base.amounts import as_written, in_digits
from ...base.errors import PipeplanError, Violation, show
from ...base.fields import plain_fields
from ...base.graph import adjacency, find_cycle, heights_of, topological_order
from ...base.quantities import of_limit, several
from ...timeline.engine import DeadlockError
from ...timeline.iteration import iteration_time
from ..plan import GraphStage, StageGraphPlan
from ..problem import GraphPipelineProblem
from ..simulated import stage_graph_pipeline
from .costs import GraphStageCost, forced_edges, overfull, required_in_flight, stage_costs

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
    counts = Counter(node_id for stage in plan.stages for node_id in stage.nodes)
    for node_id, count in counts.items():
        if node_id not in problem.index:
            yield Violation("assignment", f"The plan names the unknown operator {show(node_id)}.")
        elif count > 1:
            yield Violation("assignment", f"Operator {show(node_id)} is listed {count} times, not once.")
    for operator in problem.operators:
        if operator.id not in counts:
            yield Violation("assignment", f"Operator {show(operator.id)} is in no stage.")
    for number, stage in enumerate(plan.stages):
        if not stage.nodes:
            yield Violation("assignment", f"Stage {number} is empty.")
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
