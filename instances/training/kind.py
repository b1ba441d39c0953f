"""The kind training: which configuration of a training framework a model is trained with on a cluster."""

from __future__ import annotations

from ..base.kind import Function, Later, kind_in

KIND = kind_in(
    "training",
    name="training",
    schema="pipeplan.training/1",
    problem=Later("problem:TrainingProblem"),
    plans={"configuration": Later("plan:Configuration")},
    write=Function("files:training_to_json"),
    cluster={"devices": "devices", "memory_bytes": "memory_bytes", "batch": "batch", "levels": "levels"},
    runs_on="configurations run on the GPUs that the problem names",
    adjust=Function("kind_functions:adjusted"),
    pipeline=None,
    from_profile=Function("from_profile:lower"),
    each_memory=Function("kind_functions:with_memory"),
    held=Function("kind_functions:held"),
    generators=Later("generators:GENERATORS"),
)
