"""The kind chain: layers in a row on GPUs, by periodic patterns."""

from __future__ import annotations

from ..base.kind import Function, Later, kind_in

KIND = kind_in(
    "chain",
    name="chain",
    schema="pipeplan.chain/1",
    problem=Later("problem:ChainProblem"),
    plans={"pattern": Later("plan:PatternPlan")},
    write=Function("files:chain_to_json"),
    cluster={"devices": "gpus", "memory_bytes": "memory_bytes", "bandwidth": "bandwidth"},
    runs_on="a chain runs on GPUs",
    adjust=Function("kind_functions:adjusted"),
    profile_options=("recompute", "zero", "replicas", "whole_layers"),
    periodic=True,
    held=Function("each_device:held"),
    to_schedule=Function("to_schedule:lower"),
)
