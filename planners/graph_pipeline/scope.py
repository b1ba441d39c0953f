"""For which plans the bounds of the planners of stage graphs hold; `planners/registry.py` names it by address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...formulations.family import Family, Outside
from ...formulations.graphpipe.scope import devices, family, freer, micro_batches
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem


def stage_graphs(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> Family:
    """The family of the planners whose bound holds for all stage graphs: see `bounds.py`."""
    wider = " ".join(freer(options, mixable="mixed_micro_batches" in options))
    return Family(f"stage graphs of any convex stages, {micro_batches(options)}{devices(options)}", wider or None)


def decomposed(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> Family:
    """The family of the program for short iterations; the formulation cp-graphpipe allows more stages than this."""
    narrow = family(problem, {**options, "family": "series-parallel", "objective": "iteration"})
    wider = "--formulation cp-graphpipe --objective iteration --option family=convex"

    def outside(plan: StageGraphPlan) -> Outside | None:
        reason = narrow.outside(plan)
        return (
            replace(reason, asks=wider)
            if reason is not None and reason.asks == "--option family=convex"
            else reason
        )

    return replace(narrow, wider=wider, outside=outside)
