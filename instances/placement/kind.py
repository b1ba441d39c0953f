"""The kind placement: nodes of a graph on accelerators and CPUs."""

from __future__ import annotations

from ..base.kind import kind_in

_HERE = "pipeplan.instances.placement"

KIND = kind_in(
    "placement",
    name="placement",
    schema="pipeplan.placement/1",
    published=("maxFPGAs", "maxCPUs", "maxSizePerFPGA"),
    read_published=f"{_HERE}.kind_functions:read_published",
    write_published=f"{_HERE}.published:placement_to_published",
    problem=f"{_HERE}.problem:PlacementProblem",
    plans={"placement": f"{_HERE}.plan:PlacementPlan"},
    write=f"{_HERE}.files:placement_to_json",
    choices={"objective": ("max-load", "gpipe", "latency"), "contiguity": ("none", "device", "chain")},
    cluster={"devices": "accelerators", "cpus": "cpus", "memory_bytes": "memory_bytes"},
    profile_options=("in_flight",),
    stage_order=f"{_HERE}.referee.stages:stage_order",
    latency="pipeplan.show.views.latency:of_one_sample",
    network=f"{_HERE}.from_workload:to_placement",
    network_arguments={"batch": None, "cpus": None, "training": None},
    remarks="pipeplan.planners.run.remarks:of_placement",
    why_none="pipeplan.planners.memory.too_little:explain",
    least_memory="pipeplan.planners.memory.placement:least_memory",
    each_memory=f"{_HERE}.each_device:with_memory",
    held=f"{_HERE}.each_device:held",
    to_schedule=f"{_HERE}.to_schedule:lower",
    generators=f"{_HERE}.generators:GENERATORS",
    pareto="pipeplan.studies.pareto.tradeoff:STUDY",
)
