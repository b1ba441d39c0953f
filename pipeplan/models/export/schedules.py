"""Schedules for frameworks that are told the order of all passes."""

from __future__ import annotations

from ...instances.base.errors import InputError, UsageError
from ...instances.schedule.csv_file import csv_stages, schedule_to_csv
from ...instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from .contract import Exported, ExportOptions
from .torch_pipelining import SCHEDULE


def torch(problem: ScheduleProblem, plan: AnySchedule, options: ExportOptions) -> Exported:
    """For `_PipelineScheduleRuntime._load_csv(file, format="compute_only")`: a row for each rank, a cell a pass."""
    if options.micro_batches is not None:
        problem = problem.replace(micro_batches=options.micro_batches)
    text = schedule_to_csv(problem, _finite(problem, plan))
    names = [problem.devices[device].name for device in csv_stages(problem).ranks]
    ranks = ", ".join(f"{rank} = {name}" for rank, name in enumerate(names))
    return Exported({SCHEDULE: text}, (f"ranks are {ranks}", "the file has an order and no times"))


def _finite(problem: ScheduleProblem, plan: AnySchedule) -> SchedulePlan:
    """A steady state as so many micro-batches of it; a schedule has all of its own."""
    if isinstance(plan, PeriodicSchedulePlan):
        if problem.micro_batches is None:
            raise UsageError("A steady state has no end; say how many --micro-batches the file is to run.")
        numbers = range(problem.micro_batches)
        return SchedulePlan(
            {b: tuple(start + n * plan.period for n in numbers) for b, start in plan.starts.items()}
        )
    own = max(map(len, plan.starts.values()), default=0)
    if problem.micro_batches not in (None, own):
        raise InputError("plan", f"runs {own} micro-batches, not {problem.micro_batches}", "schedule that many")
    return plan
