"""Why a staging problem has no plan: degrees out of reach, a layer that fits nowhere, or what would be enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ...instances.amounts import as_written, in_digits
from ...instances.errors import show
from ...instances.staging.plan import StagedPlan
from ...instances.staging.problem import Layer, StagingProblem
from ...instances.staging.referee.stages import evaluate_stages, held_bytes, ways_of
from ..contract import Board, Request
from ..options import SolveOptions
from .options import DP_OPTIONS
from .planner import PLANNER


def explain(
    problem: StagingProblem, options: Mapping[str, Any], limits: SolveOptions, proven: bool
) -> tuple[str, ...]:
    """One sentence, of what is surest; nothing where the reason is another."""
    if problem.exact_batches and problem.micro_batches > problem.devices:
        most = f"{problem.devices} devices give {problem.devices} at most"
        return (
            f"data-parallel degrees must sum to exactly {problem.micro_batches}, and {most}; plan for at most N micro-"
            "batches or give more devices",
        )
    wide = next((layer for layer in problem.layers if _fewest(layer) > problem.devices), None)
    if wide is not None:
        name, fewest = show(wide.id), _fewest(wide)
        return (f"layer {name} runs on {fewest} devices or more, of {problem.devices}; give more devices",)
    memory = problem.memory_bytes
    if memory is None or problem.extensions:
        return ()
    layer, needed = max(((layer, _least(problem, layer)) for layer in problem.layers), key=lambda pair: pair[1])
    if needed > as_written(memory):
        least = f"layer {show(layer.id)} alone needs {in_digits(needed)} bytes of each device that it runs on"
        return (f"{least}; give --memory {math.ceil(needed)} or more",)
    enough = _enough(problem, options, limits) if proven else None  # a baseline may need more
    if enough is None:
        return ()
    return (
        f"{in_digits(enough)} bytes of memory would be enough, if not the least; give --memory {math.ceil(enough)}",
    )


def _fewest(layer: Layer) -> int:
    """Devices that a layer runs on."""
    return min(t for t, ways in layer.configurations.items() if ways)


def _least(problem: StagingProblem, layer: Layer) -> Fraction:
    """What a layer takes of a device at least, with one micro-batch in flight."""
    ways = (way for t, ways in layer.configurations.items() if t <= problem.devices for way in ways)
    return min((way.memory_bytes(1) for way in ways), default=Fraction(0))


def _enough(problem: StagingProblem, options: Mapping[str, Any], limits: SolveOptions) -> Fraction | None:
    """The memory of the fastest plan without a limit; None where none is found in time."""
    known = {spec.name: spec.default for spec in DP_OPTIONS}
    semantics = options.get("semantics", "paper")
    free = problem.replace(memory_bytes=None)
    plan = PLANNER.plan(Request(free, {**known, "semantics": semantics}, limits, board=Board())).plan
    if not isinstance(plan, StagedPlan):
        return None
    costs = evaluate_stages(free, plan, semantics).stages
    return max(
        held_bytes(ways_of(free, stage).values(), cost.in_flight)
        for stage, cost in zip(plan.stages, costs, strict=True)
    )
