"""The kind graph pipeline: stages that form a graph, with micro-batch schedules."""

from __future__ import annotations

from ..base.kind import Function, Later, kind_in

KIND = kind_in(
    "graph_pipeline",
    name="graph-pipeline",
    schema="pipeplan.graph-pipeline/1",
    problem=Later("problem:GraphPipelineProblem"),
    plans={"stage-graph": Later("plan:StageGraphPlan")},
    write=Function("files:graph_pipeline_to_json"),
    choices={"objective": ("time-per-sample", "iteration")},
    cluster={"devices": "devices", "memory_bytes": "memory_bytes", "batch": "mini_batch"},
    counted="samples",
    runs_on="a graph pipeline runs on devices",
    profile_options=("whole_layers",),
    network=Function("from_workload:to_graph_pipeline"),
    network_arguments={"mini_batch": 32},
    held=Function("each_device:held"),
    to_schedule=Function("to_schedule:lower"),
)
