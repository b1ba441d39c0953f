"""What is wrong with a split as a plan for latency, rule by rule, one sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ...base.errors import Violation, show
from ..plan import NotAnAssignmentError, PlacementPlan
from ..problem import PlacementProblem
from .latency import evaluate_latency
from .verify import verify


def verify_latency(
    problem: PlacementProblem, plan: PlacementPlan, subgraphs_per_device: int | None = None
) -> tuple[Violation, ...]:
    """Every broken rule of `verify`, with `latency` where a plan has none; an empty tuple is a valid plan for latency.

    All CPUs are one pool, so nodes of one colour may be on several of them. `subgraphs_per_device`: how many pieces
    an accelerator may hold (None: any number); where the plan states none, the fewest that can be run are counted.
    """
    if subgraphs_per_device is not None and subgraphs_per_device < 1:
        raise ValueError(f"subgraphs_per_device is {show(subgraphs_per_device)}; give at least 1")
    violations = [violation for violation in verify(problem, plan) if violation.rule != "colocation"]
    violations += [violation for violation in verify(problem, _pooled(plan)) if violation.rule == "colocation"]
    if not {"devices", "assignment", "subgraphs"} & {violation.rule for violation in violations}:
        violations += _pieces(problem, plan, subgraphs_per_device)
    return tuple(violations)


def _pooled(plan: PlacementPlan) -> PlacementPlan:
    """The plan with everything that is on CPUs on the first of them."""
    cpus = [device for device in plan.devices if device.type == "cpu"]
    if len(cpus) < 2:
        return plan
    pool = replace(cpus[0], nodes=tuple(node_id for device in cpus for node_id in device.nodes), subgraphs=None)
    return replace(plan, devices=(*(device for device in plan.devices if device.type != "cpu"), pool))


def _pieces(problem: PlacementProblem, plan: PlacementPlan, limit: int | None) -> Iterator[Violation]:
    try:
        evaluation = evaluate_latency(problem, plan)
    except NotAnAssignmentError as error:
        yield Violation("latency", str(error))
        return
    if evaluation.latency is None:
        yield Violation("latency", evaluation.reason or "The plan has no latency.")
        return
    counts = Counter(piece.device for piece in evaluation.pieces)
    stated = {device.name for device in plan.devices if device.subgraphs is not None}
    for name, count in counts.items():
        if limit is not None and count > limit:
            how = "has" if name in stated else "needs"
            pieces = "subgraph" if limit == 1 else "subgraphs"
            yield Violation("subgraphs", f"Device {show(name)} {how} {count} subgraphs, {limit} {pieces} allowed.")
