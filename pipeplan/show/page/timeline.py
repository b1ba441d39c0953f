"""What runs when: tasks on lanes, for every kind of plan that fixes times."""

from __future__ import annotations

from dataclasses import dataclass

from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.errors import PipeplanError
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.kind import Rules
from ...instances.kinds import Plan, Problem
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.latency import evaluate_latency
from ...instances.placement.rules import LATENCY
from ...instances.simulate import simulate
from ...instances.simulation.timeline import Simulation
from ...instances.staging.problem import StagingProblem

BATCHES_SHOWN = 6
MOST_MICRO_BATCHES = 24
MOST_TASKS = 4000


@dataclass(frozen=True, slots=True)
class Task:
    """`batch` counts from 0; `kind` is what colours go by where there are no batches."""

    lane: str
    start: float
    end: float
    label: str
    batch: int | None = None
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """Tasks in the order of their starts; `period` is the length of one steady period, if there is one."""

    title: str
    tasks: tuple[Task, ...]
    period: float | None = None

    @property
    def lanes(self) -> tuple[str, ...]:
        return tuple(sorted({task.lane for task in self.tasks}))


def timelines(problem: Problem, plan: Plan, rules: Rules) -> tuple[Timeline, ...]:
    """A pattern or a latency plan fixes its times; of other plans a simulated iteration is shown, if it can be run."""
    if isinstance(problem, ChainProblem) and isinstance(plan, PatternPlan):
        return (unrolled(problem, plan),)
    if isinstance(problem, PlacementProblem) and isinstance(plan, PlacementPlan) and rules.objective == LATENCY:
        return (one_sample(problem, plan),)
    try:
        return (simulated(problem, plan),)
    except PipeplanError:
        return ()


def one_sample(problem: PlacementProblem, plan: PlacementPlan) -> Timeline:
    """Pieces of the accelerators, and the nodes on the CPUs in as few lanes as are busy at once."""
    evaluation = evaluate_latency(problem, plan)
    tasks = [
        Task(piece.device, piece.start, piece.finish, f"{len(piece.nodes)} nodes from {piece.nodes[0]}", i)
        for i, piece in enumerate(evaluation.pieces)
    ]
    on_cpu = {node for device in plan.devices if device.type == "cpu" for node in device.nodes}
    free: list[float] = []
    for node in sorted(
        (n for n in problem.nodes if n.id in on_cpu), key=lambda n: evaluation.finish[n.id] - n.cpu_time
    ):
        end = evaluation.finish[node.id]
        start = end - node.cpu_time
        lane = next((i for i, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [end]
        tasks.append(Task(f"cpu lane {lane}", start, end, str(node.name or node.id)))
    return Timeline("One sample", _in_order(tasks))


def memory_over_time(problem: Problem, plan: Plan) -> dict[str, tuple[tuple[float, float], ...]]:
    """By stage, bytes of a device of its first replica over the simulated iteration; empty where nothing changes."""
    if isinstance(problem, ChainProblem):
        return {}  # the referee knows it exactly
    try:
        found, _ = _simulation(problem, plan)
    except PipeplanError:
        return {}
    if not any(stage.micro_batch_bytes for stage in found.stages):
        return {}
    return {stage.name: stage.memory_over_time() for stage in found.stages}


def simulated(problem: Problem, plan: Plan) -> Timeline:
    """One iteration under the plan's schedule, of as many micro-batches as show its steady state."""
    found, count = _simulation(problem, plan)
    tasks = [
        Task(
            stage.name if stage.replicas == 1 else f"{stage.name}, replica {task.replica}",
            task.start,
            task.end,
            f"{task.kind} of micro-batch {task.micro_batch}" if task.micro_batch else task.kind,
            task.micro_batch - 1 if task.micro_batch else None,
            task.kind == "backward",
        )
        for stage in found.stages
        for task in stage.tasks
    ]
    words = "One iteration" if count is None else f"{count} micro-batches, simulated"
    return Timeline(words, _in_order(tasks))


def _simulation(problem: Problem, plan: Plan) -> tuple[Simulation, int | None]:
    """A whole iteration of a stage graph; elsewhere so many micro-batches (then they are counted)."""
    count = None
    if not isinstance(problem, GraphPipelineProblem):
        stages = len(plan.devices if isinstance(plan, PlacementPlan) else getattr(plan, "stages", ()))
        most = problem.micro_batches if isinstance(problem, StagingProblem) else MOST_MICRO_BATCHES
        count = min(2 * stages + 2, most, MOST_MICRO_BATCHES)
    return simulate(problem, plan, micro_batches=count), count


def unrolled(problem: ChainProblem, plan: PatternPlan, batches: int = BATCHES_SHOWN) -> Timeline:
    """The first batches through the pattern, warm-up and all."""
    tasks: list[Task] = []
    rows = len(plan.starts)
    for batch in range(batches):
        shift, row = divmod(batch, rows)
        late = shift * plan.period
        tasks += [_compute(problem, plan, row, task, late, batch) for task in range(2 * problem.layers)]
        for edge, start in plan.transfers[row].items():
            ends = sorted(plan.allocation[problem.layer_of[task]] for task in (edge - 1, edge))
            lane, length = f"link {ends[0]}-{ends[1]}", problem.edge_times[edge - 1]
            label = f"transfer {edge} of batch {batch}"
            tasks.append(Task(lane, start + late, start + late + length, label, batch, edge > problem.layers))
    return Timeline(f"First {batches} batches", _in_order(tasks), plan.period)


def _compute(problem: ChainProblem, plan: PatternPlan, row: int, task: int, late: float, batch: int) -> Task:
    layer, start = problem.layer_of[task], plan.starts[row][task] + late
    backward = task >= problem.layers
    label = f"{'B' if backward else 'F'}{layer + 1} of batch {batch}"
    return Task(f"gpu {plan.allocation[layer]}", start, start + problem.durations[task], label, batch, backward)


def _in_order(tasks: list[Task]) -> tuple[Task, ...]:
    timed = [task for task in tasks if task.end > task.start]
    return tuple(sorted(timed, key=lambda task: (task.start, task.lane)))
