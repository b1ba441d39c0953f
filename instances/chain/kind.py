"""The kind chain: layers in a row on GPUs, by periodic patterns."""

from __future__ import annotations

from ..base.kind import kind_in

_HERE = "pipeplan.instances.chain"

KIND = kind_in(
    "chain",
    name="chain",
    schema="pipeplan.chain/1",
    problem=f"{_HERE}.problem:ChainProblem",
    plans={"pattern": f"{_HERE}.plan:PatternPlan"},
    write=f"{_HERE}.files:chain_to_json",
    cluster={"devices": "gpus", "memory_bytes": "memory_bytes", "bandwidth": "bandwidth"},
    runs_on="a chain runs on GPUs",
    adjust=f"{_HERE}.kind_functions:adjusted",
    profile_options=("recompute",),
    periodic=True,
    about="pipeplan.show.views.chain:about",
    why_none="pipeplan.planners.chain.too_little_memory:explain",
    least_memory="pipeplan.planners.chain.smallest_memory:least_memory",
    held=f"{_HERE}.each_device:held",
    to_schedule=f"{_HERE}.to_schedule:lower",
    pareto="pipeplan.studies.pareto.chains:STUDY",
)
