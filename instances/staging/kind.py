"""The kind staging: stages with data- and tensor-parallel degrees and recomputation, flat or on levels."""

from __future__ import annotations

from ..base.kind import Function, Later, kind_in

KIND = kind_in(
    "staging",
    name="staging",
    schema="pipeplan.staging/1",
    published=("maxDevices", "mbsInBatch", "maxBatchSize", "maxMemoryPerDevice"),
    read_published=Function("kind_functions:read_published"),
    write_published=Function("files:staging_to_published"),
    problem=Later("problem:StagingProblem"),
    plans={"stages": Later("plan:StagedPlan"), "leveled-stages": Later("leveled_plan:LeveledPlan")},
    write=Function("files:staging_to_json"),
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
    adjust=Function("kind_functions:adjusted"),
    profile_options=("recompute", "data_parallel", "tensor_parallel", "efficiency", "zero", "gpus", "whole_layers"),
    network=Function("from_workload:to_staging"),
    network_arguments={"batch": None, "micro_batches": 8, "merge": None, "zero": 0},
    each_memory=Function("each_device:with_memory"),
    held=Function("each_device:held"),
    to_schedule=Function("to_schedule:lower"),
    batch_grows=True,
)
