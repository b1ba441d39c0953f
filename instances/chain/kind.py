"""The kind chain: layers in a row on GPUs, by periodic patterns."""

from __future__ import annotations

from ..kind import Kind

_HERE = "pipeplan.instances.chain"

KIND = Kind(
    name="chain",
    schema="pipeplan.chain/1",
    problem=f"{_HERE}.problem:ChainProblem",
    plans={"pattern": f"{_HERE}.plan:PatternPlan"},
    read=f"{_HERE}.door:read",
    write=f"{_HERE}.files:chain_to_json",
    rules=f"{_HERE}.rules:rules_of",
    facts=f"{_HERE}.door:facts",
    size=f"{_HERE}.door:size",
    cluster={"devices": "gpus", "memory_bytes": "memory_bytes", "bandwidth": "bandwidth"},
    adjust=f"{_HERE}.door:adjusted",
    view="pipeplan.show.views.chain",
    recipes=f"{_HERE}.recipes:PACKAGED",
    upgrades=f"{_HERE}.upgrades:upgrades",
    pipeline=f"{_HERE}.door:pipeline",
    why_none="pipeplan.planners.beaumont.too_little_memory:explain",
    least_memory="pipeplan.planners.beaumont.smallest_memory:least_memory",
    held=f"{_HERE}.each_device:held",
)
