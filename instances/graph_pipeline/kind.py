"""The kind graph pipeline: stages that form a graph, with micro-batch schedules."""

from __future__ import annotations

from ..kind import kind_in

_HERE = "pipeplan.instances.graph_pipeline"

KIND = kind_in(
    "graph_pipeline",
    name="graph-pipeline",
    schema="pipeplan.graph-pipeline/1",
    problem=f"{_HERE}.problem:GraphPipelineProblem",
    plans={"stage-graph": f"{_HERE}.plan:StageGraphPlan"},
    write=f"{_HERE}.files:graph_pipeline_to_json",
    choices={"objective": ("time-per-sample", "iteration")},
    cluster={"devices": "devices", "memory_bytes": "memory_bytes", "batch": "mini_batch"},
    counted="samples",
    runs_on="a graph pipeline runs on devices",
    about="pipeplan.show.views.graph_pipeline:about",
    network=f"{_HERE}.from_workload:to_graph_pipeline",
    network_arguments={"mini_batch": 32},
    why_none="pipeplan.planners.memory.graph_pipeline:explain",
    least_memory="pipeplan.planners.memory.graph_pipeline:least_memory",
    held=f"{_HERE}.each_device:held",
    to_schedule=f"{_HERE}.to_schedule:lower",
)
