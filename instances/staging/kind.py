"""The kind staging: stages with data- and tensor-parallel degrees and recomputation, flat or on levels."""

from __future__ import annotations

from ..kind import Kind

_HERE = "pipeplan.instances.staging"

KIND = Kind(
    name="staging",
    schema="pipeplan.staging/1",
    published=("maxDevices", "mbsInBatch", "maxBatchSize", "maxMemoryPerDevice"),
    read_published=f"{_HERE}.door:read_published",
    write_published=f"{_HERE}.files:staging_to_published",
    problem=f"{_HERE}.problem:StagingProblem",
    plans={"stages": f"{_HERE}.plan:StagedPlan", "leveled-stages": f"{_HERE}.leveled_plan:LeveledPlan"},
    read=f"{_HERE}.door:read",
    write=f"{_HERE}.files:staging_to_json",
    rules=f"{_HERE}.rules:rules_of",
    choices={
        "objective": ("throughput", "flush"),
        "semantics": ("paper", "reference"),
        "hierarchy": ("precise", "crude", "basic"),
    },
    facts=f"{_HERE}.door:facts",
    size=f"{_HERE}.door:size",
    cluster={
        "devices": "devices",
        "memory_bytes": "memory_bytes",
        "bandwidth": "bandwidth",
        "batch": "micro_batches",
        "exact_batches": "exact_batches",
        "levels": "levels",
        "time_unit": "time_unit",
    },
    adjust=f"{_HERE}.door:adjusted",
    view="pipeplan.show.views.staging",
    recipes=f"{_HERE}.recipes:PACKAGED",
    upgrades=f"{_HERE}.upgrades:upgrades",
    pipeline=f"{_HERE}.door:pipeline",
    why_none="pipeplan.planners.memory.no_stages:explain",
    least_memory="pipeplan.planners.memory.staging:least_memory",
    each_memory=f"{_HERE}.each_device:with_memory",
    held=f"{_HERE}.each_device:held",
)
