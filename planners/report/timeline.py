"""What runs when: tasks on lanes, for every kind of plan that fixes times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...instances.chain import ChainProblem
from ...instances.kinds import Plan, Problem
from ...instances.pattern import PatternPlan

BATCHES_SHOWN = 6
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


def timelines(problem: Problem, plan: Plan) -> tuple[Timeline, ...]:
    """Those that the plan fixes; none where it fixes no times."""
    if isinstance(problem, ChainProblem) and isinstance(plan, PatternPlan):
        return (unrolled(problem, plan),)
    return ()


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


def as_data(timeline: Timeline) -> list[dict[str, Any]]:
    """For tests and machines."""
    return [{"lane": t.lane, "start": t.start, "end": t.end, "label": t.label} for t in timeline.tasks]
