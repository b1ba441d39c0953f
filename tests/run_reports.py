"""Reports of a run that never was: two ranks whose passes take as long as it is said."""

from __future__ import annotations

from typing import Any

from problems.profiles import ROW

from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.models.run.orders import Schedule, schedule_of
from pipeplan.models.run.report import CaseReport, RunReport, case_report

MICRO_BATCHES = 3
PLAN = PlacementPlan((Device("acc0", "accelerator", ("a", "b")), Device("acc1", "accelerator", ("c", "d"))))


def schedule() -> Schedule:
    """Two stages of 2 ms forward and 4 ms backward."""
    return schedule_of(PLAN, ROW, MICRO_BATCHES, bandwidth=1e9)


def answers(slowdown: float = 1.0, wall_per_cpu: float = 1.0, name: str = "plan") -> list[dict[str, Any]]:
    """As if every pass had taken `slowdown` times as long as predicted, by its CPU time."""
    planned = schedule()
    found = []
    starts = {
        (x, task.micro_batch if task.kind == "forward" else -task.micro_batch): task
        for x, stage in enumerate(planned.predicted.stages)
        for task in stage.tasks
    }
    for rank in (0, 1):
        cpu, spans = 100.0, []
        for own in planned.orders[rank]:
            task = starts[own.stage, own.micro_batch]
            length = (task.end - task.start) * slowdown
            begin = 50.0 + task.start * slowdown * wall_per_cpu
            spans.append(
                {
                    "stage": own[0],
                    "micro_batch": own[1],
                    "begin": [begin, cpu],
                    "end": [begin + length * wall_per_cpu, cpu + length],
                }
            )
            cpu += length
        step = {
            "begin": [50.0, 100.0],
            "end": [spans[-1]["end"][0], cpu],
            "spans": spans,
            "sent_bytes": 100 + rank,
            "loss": 1.5 if rank else None,
        }
        found.append({"cases": {name: [step, step]}, "checks": {}, "torch": "2.13.0"})
    return found


def report_of(slowdown: float = 1.0, wall_per_cpu: float = 1.0) -> CaseReport:
    return case_report("plan", schedule(), answers(slowdown, wall_per_cpu))


def whole_report(wall_per_cpu: float = 1.0) -> RunReport:
    """The even split took twice as long."""
    plan = report_of(wall_per_cpu=wall_per_cpu)
    even = case_report("even", schedule(), answers(2.0, wall_per_cpu, "even"))
    return RunReport("<row>", plan, even, MICRO_BATCHES, "2.13.0", 1e9, ROW, 1.02, ("a note",))
