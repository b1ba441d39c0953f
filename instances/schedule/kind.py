"""The kind schedule: when every block of work of every micro-batch runs."""

from __future__ import annotations

from ..base.kind import kind_in

_HERE = "pipeplan.instances.schedule"

KIND = kind_in(
    "schedule",
    name="schedule",
    schema="pipeplan.schedule/1",
    problem=f"{_HERE}.problem:ScheduleProblem",
    plans={
        "schedule": f"{_HERE}.plan:SchedulePlan",
        "periodic-schedule": f"{_HERE}.plan:PeriodicSchedulePlan",
    },
    write=f"{_HERE}.files:schedule_to_json",
    choices={"objective": ("makespan", "span", "period")},
    cluster={"memory_bytes": "devices", "batch": "micro_batches"},
    runs_on="blocks run on the devices that the problem names",
    adjust=f"{_HERE}.kind_functions:adjusted",
    from_profile=None,
    pipeline=None,
    each_memory=f"{_HERE}.each_device:with_memory",
    held=f"{_HERE}.each_device:held",
    why_none="pipeplan.planners.memory.schedule:explain",
    least_memory="pipeplan.planners.memory.schedule:least_memory",
    read_plan=f"{_HERE}.csv_file:schedule_from_csv",
    pareto="pipeplan.studies.pareto.schedules:STUDY",
    exports={"torch": "pipeplan.models.export.schedules:torch"},
    generators=f"{_HERE}.generators:GENERATORS",
)
