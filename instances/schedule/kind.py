"""The kind schedule: when every block of work of every micro-batch runs."""

from __future__ import annotations

from ..base.kind import Function, Later, kind_in

KIND = kind_in(
    "schedule",
    name="schedule",
    schema="pipeplan.schedule/1",
    problem=Later("problem:ScheduleProblem"),
    plans={
        "schedule": Later("plan:SchedulePlan"),
        "periodic-schedule": Later("plan:PeriodicSchedulePlan"),
    },
    write=Function("files:schedule_to_json"),
    choices={"objective": ("makespan", "span", "period")},
    cluster={"memory_bytes": "devices", "batch": "micro_batches"},
    runs_on="blocks run on the devices that the problem names",
    adjust=Function("kind_functions:adjusted"),
    from_profile=None,
    pipeline=None,
    each_memory=Function("each_device:with_memory"),
    held=Function("each_device:held"),
    read_plan=Function("csv_file:schedule_from_csv"),
    generators=Later("generators:GENERATORS"),
)
