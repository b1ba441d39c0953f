"""The view of a simulated iteration: the timeline of every stage, and what a device of it holds meanwhile."""

from __future__ import annotations

from ...instances.base.errors import PipeplanError
from ...instances.placement.plan import PlacementPlan
from ...instances.registry import Plan, Problem, kind_of
from ...instances.simulate import simulate
from ...instances.staging.plan import LeveledPlan
from ...instances.timeline.model import Simulation, StageRun, Task, TaskKind
from ..palette import PHASE_NAMES
from ..view import Bar, Curve, PlanView, Row, Table, Timeline, in_units_that_suit
from ..words import amount, several

COLOUR_OF: dict[TaskKind, int] = {"forward": 0, "backward": 1, "weights": 2, "synchronisation": 3}
COLOURS = (*PHASE_NAMES[:3], "synchronisation of weights")
TITLES = {"weights": "backward for weights"}
MARKS = "digits: forward, letters: backward (1 and a: micro-batch 1), =: weights are synchronised"
WINDOWS = ("warm-up", "steady", "cool-down")
# The most micro-batches of a simulation that shows the steady state.
MOST_MICRO_BATCHES = 24


def view_of_simulation(problem: Problem, simulation: Simulation) -> PlanView:
    """Stages with their work, their memory and the timeline of the iteration."""
    timeline = timeline_of(simulation, kind_of(problem).counted)
    view = PlanView(
        name=problem.name,
        value="",
        headline=f"{several(len(simulation.stages), 'stage')}, simulated",
        tables=(Table("stage", tuple(_row(stage, simulation.iteration) for stage in simulation.stages)),),
        unit=simulation.time_unit,
        full_load=simulation.iteration,
        sentences=(),
        time_unit=simulation.time_unit,
        timelines=(timeline,),
        memory=memory_of(simulation),
    )
    return in_units_that_suit(view)


def _row(stage: StageRun, iteration: float) -> Row:
    return Row(
        name=stage.name,
        load=stage.busy,
        parts={"computation": stage.busy},
        cells={
            "devices": str(stage.devices),
            "busy": f"{100 * stage.busy / iteration:.0f}%" if iteration else "-",
            "warm-up": str(stage.warm_up),
            "held": str(stage.peak_in_flight),
        },
        memory={"memory": stage.memory_bytes},
    )


def first_micro_batches(problem: Problem, plan: Plan) -> tuple[tuple[Timeline, ...], tuple[Curve, ...]]:
    """A simulation of a plan that fixes no times: as many micro-batches as show its steady state, if the plan can be
    run."""
    stages = _stages(plan)
    batch = kind_of(problem).batch
    count = min(
        2 * stages + 2, MOST_MICRO_BATCHES if batch is None else getattr(problem, batch), MOST_MICRO_BATCHES
    )
    try:
        simulation = simulate(problem, plan, micro_batches=count)
    except PipeplanError:
        return (), ()
    return (timeline_of(simulation, "micro-batches", f"{several(count, 'micro-batch')}, simulated"),), memory_of(
        simulation
    )


def _stages(plan: Plan) -> int:
    """Number of stages that lie behind each other, on the innermost level."""
    if isinstance(plan, PlacementPlan):
        return len(plan.devices)
    return len(list(plan.leaves())) if isinstance(plan, LeveledPlan) else len(getattr(plan, "stages", ()))


def timeline_of(simulation: Simulation, counted: str = "samples", title: str = "One iteration") -> Timeline:
    """A lane for each replica of each stage."""
    lanes: list[str] = []
    bars: list[Bar] = []
    for stage in simulation.stages:
        for replica in range(stage.replicas):
            lanes.append(stage.name if stage.replicas == 1 else f"{stage.name}/{replica}")
            tasks = [task for task in stage.tasks if task.replica == replica]
            bars += [bar_of(lanes[-1], task) for task in tasks]
    return Timeline(
        title,
        tuple(lanes),
        tuple(sorted((bar for bar in bars if bar.end > bar.start), key=lambda bar: (bar.start, bar.lane))),
        simulation.iteration,
        summary=f"iteration {amount(simulation.iteration, simulation.time_unit)} for {simulation.mini_batch} "
        f"{counted}, depth {simulation.depth}, idle {100 * simulation.bubble:.1f} % of all devices' time",
        marks=MARKS,
        colours=COLOURS,
        windows=WINDOWS,
    )


def bar_of(lane: str, task: Task) -> Bar:
    """The bar of a pass, or of a synchronisation of weights, in its lane."""
    mark, label, title = "=", "", str(task.kind)
    if task.micro_batch:
        letter = chr(ord("a") + (task.micro_batch - 1) % 26)
        marks = {"forward": str(task.micro_batch % 10), "weights": "+"}
        mark, label = marks.get(task.kind, letter), str(task.micro_batch)
        title = f"{TITLES.get(task.kind, task.kind)} of micro-batch {task.micro_batch}"
    return Bar(lane, task.start, task.end, mark, label, title, COLOUR_OF[task.kind])


def memory_of(simulation: Simulation) -> tuple[Curve, ...]:
    """Memory over time of each stage, of a device of its first replica; empty where nothing changes."""
    if not any(stage.micro_batch_bytes for stage in simulation.stages):
        return ()
    curves = []
    for stage in simulation.stages:
        times, amounts = zip(*stage.memory_over_time(), strict=True)
        curves.append(Curve(stage.name, times, {"memory": amounts}, simulation.iteration, stage.limit_bytes))
    return tuple(curves)
