"""The kind staging: stages with data- and tensor-parallel degrees and recomputation, flat or on levels."""

from __future__ import annotations

from ..kind import kind_in

_HERE = "pipeplan.instances.staging"

KIND = kind_in(
    "staging",
    name="staging",
    schema="pipeplan.staging/1",
    published=("maxDevices", "mbsInBatch", "maxBatchSize", "maxMemoryPerDevice"),
    read_published=f"{_HERE}.door:read_published",
    write_published=f"{_HERE}.files:staging_to_published",
    problem=f"{_HERE}.problem:StagingProblem",
    plans={"stages": f"{_HERE}.plan:StagedPlan", "leveled-stages": f"{_HERE}.leveled_plan:LeveledPlan"},
    write=f"{_HERE}.files:staging_to_json",
    choices={
        "objective": ("throughput", "flush"),
        "semantics": ("paper", "reference"),
        "hierarchy": ("precise", "crude", "basic"),
    },
    cluster={
        "devices": "devices",
        "memory_bytes": "memory_bytes",
        "bandwidth": "bandwidth",
        "batch": "micro_batches",
        "exact_batches": "exact_batches",
        "levels": "levels",
        "time_unit": "time_unit",
    },
    runs_on="stages run on devices",
    adjust=f"{_HERE}.door:adjusted",
    profile_options=("recompute", "data_parallel", "tensor_parallel", "efficiency"),
    network=f"{_HERE}.from_workload:to_staging",
    network_arguments={"batch": None, "micro_batches": 8, "merge": None},
    why_none="pipeplan.planners.memory.no_stages:explain",
    least_memory="pipeplan.planners.memory.staging:least_memory",
    each_memory=f"{_HERE}.each_device:with_memory",
    held=f"{_HERE}.each_device:held",
    to_schedule=f"{_HERE}.to_schedule:lower",
    batch_grows=True,
    pareto="pipeplan.studies.pareto.stagings:STUDY",
)
