"""Schedules for frameworks that are told the order of all passes."""

from __future__ import annotations

from ...instances.base.errors import InputError, UsageError
from ...instances.base.quantities import several
from ...instances.schedule.csv_file import csv_stages, schedule_to_csv
from ...instances.schedule.plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from .contract import Exported, ExportOptions
from .torch_pipelining import SCHEDULE


def torch(problem: ScheduleProblem, plan: AnySchedule, options: ExportOptions) -> Exported:
    """A row for each rank with a cell for each pass, as torch's `_PipelineScheduleRuntime._load_csv` reads them."""
    if options.micro_batches is not None:
        problem = problem.replace(micro_batches=options.micro_batches)
    text = schedule_to_csv(problem, _finite(problem, plan))
    names = [problem.devices[device].name for device in csv_stages(problem).ranks]
    ranks = ", ".join(f"{rank} = {name}" for rank, name in enumerate(names))
    return Exported({SCHEDULE: text}, (f"ranks are {ranks}", "the file has an order and no times"))


def _finite(problem: ScheduleProblem, plan: AnySchedule) -> SchedulePlan:
    """The schedule of all micro-batches: a steady state is repeated for as many as the problem has."""
    if isinstance(plan, PeriodicSchedulePlan):
        if problem.micro_batches is None:
            raise UsageError("A steady state has no end; say how many --micro-batches the file is to run.")
        numbers = range(problem.micro_batches)
        return SchedulePlan(
            {b: tuple(start + n * plan.period for n in numbers) for b, start in plan.starts.items()}
        )
    count = max(map(len, plan.starts.values()), default=0)
    if problem.micro_batches not in (None, count):
        raise InputError(
            "plan", f"runs {several(count, 'micro-batch')}, not {problem.micro_batches}", "schedule that many"
        )
    return plan
