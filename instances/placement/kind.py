"""The kind placement: nodes of a graph on accelerators and CPUs."""

from __future__ import annotations

from ..kind import Kind

_HERE = "pipeplan.instances.placement"

KIND = Kind(
    name="placement",
    schema="pipeplan.placement/1",
    published=("maxFPGAs", "maxCPUs", "maxSizePerFPGA"),
    read_published=f"{_HERE}.door:read_published",
    write_published=f"{_HERE}.published:placement_to_published",
    problem=f"{_HERE}.problem:PlacementProblem",
    plans={"placement": f"{_HERE}.plan:PlacementPlan"},
    read=f"{_HERE}.door:read",
    write=f"{_HERE}.files:placement_to_json",
    rules=f"{_HERE}.rules:rules_of",
    choices={"objective": ("max-load", "gpipe", "latency"), "contiguity": ("none", "device", "chain")},
    facts=f"{_HERE}.door:facts",
    size=f"{_HERE}.door:size",
    cluster={"devices": "accelerators", "cpus": "cpus", "memory_bytes": "memory_bytes"},
    view="pipeplan.show.views.placement",
    recipes=f"{_HERE}.recipes:PACKAGED",
    upgrades=f"{_HERE}.upgrades:upgrades",
    pipeline=f"{_HERE}.door:pipeline",
    remarks="pipeplan.planners.run.remarks:of_placement",
    why_none="pipeplan.planners.memory.too_little:explain",
    least_memory="pipeplan.planners.memory.placement:least_memory",
    each_memory=f"{_HERE}.each_device:with_memory",
    held=f"{_HERE}.each_device:held",
)
