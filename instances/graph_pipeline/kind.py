"""The kind graph pipeline: stages that form a graph, with micro-batch schedules."""

from __future__ import annotations

from ..kind import Kind

_HERE = "pipeplan.instances.graph_pipeline"

KIND = Kind(
    name="graph-pipeline",
    schema="pipeplan.graph-pipeline/1",
    problem=f"{_HERE}.problem:GraphPipelineProblem",
    plans={"stage-graph": f"{_HERE}.plan:StageGraphPlan"},
    read=f"{_HERE}.door:read",
    write=f"{_HERE}.files:graph_pipeline_to_json",
    rules=f"{_HERE}.rules:rules_of",
    choices={"objective": ("time-per-sample", "iteration")},
    facts=f"{_HERE}.door:facts",
    size=f"{_HERE}.door:size",
    cluster={"devices": "devices", "memory_bytes": "memory_bytes", "batch": "mini_batch"},
    view="pipeplan.show.views.graph_pipeline",
    counted="samples",
    recipes=f"{_HERE}.recipes:PACKAGED",
    upgrades=f"{_HERE}.upgrades:upgrades",
    pipeline=f"{_HERE}.door:pipeline",
    why_none="pipeplan.planners.memory.graph_pipeline:explain",
    least_memory="pipeplan.planners.memory.graph_pipeline:least_memory",
    held=f"{_HERE}.each_device:held",
)
