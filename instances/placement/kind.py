"""The kind placement: nodes of a graph on accelerators and CPUs."""

from __future__ import annotations

from ..base.kind import Function, Later, kind_in

KIND = kind_in(
    "placement",
    name="placement",
    trains=Function("kind_functions:trains"),
    schema="pipeplan.placement/1",
    published=("maxFPGAs", "maxCPUs", "maxSizePerFPGA"),
    read_published=Function("kind_functions:read_published"),
    write_published=Function("published:placement_to_published"),
    problem=Later("problem:PlacementProblem"),
    plans={"placement": Later("plan:PlacementPlan")},
    write=Function("files:placement_to_json"),
    choices={"objective": ("max-load", "gpipe", "latency"), "contiguity": ("none", "device", "chain")},
    cluster={"devices": "accelerators", "cpus": "cpus", "memory_bytes": "memory_bytes"},
    profile_options=("in_flight", "gpus", "whole_layers"),
    stage_order=Function("referee.contiguity:stage_order"),
    network=Function("from_workload:to_placement"),
    network_arguments={"batch": None, "cpus": None, "training": None},
    each_memory=Function("each_device:with_memory"),
    held=Function("each_device:held"),
    to_schedule=Function("to_schedule:lower"),
    generators=Later("generators:GENERATORS"),
)
