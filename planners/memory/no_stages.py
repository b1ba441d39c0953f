"""Why a staging problem has no plan: degrees out of reach, a layer that fits nowhere, or what would be enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...instances.base.amounts import as_written
from ...instances.base.errors import show
from ...instances.base.quantities import several
from ...instances.least_memory import at_least, option
from ...instances.staging.problem import Layer, StagingProblem
from ..options import SolveOptions
from .staging import least_of_layer
from .too_little import would_do


def explain(
    problem: StagingProblem, options: Mapping[str, Any], limits: SolveOptions, proven: bool
) -> tuple[str, ...]:
    """The surest reason why there is no plan; nothing where it is none of these."""
    if problem.exact_batches and problem.micro_batches > problem.devices:
        most = f"{several(problem.devices, 'device')} give {problem.devices} at most"
        return (
            f"data-parallel degrees must sum to exactly {problem.micro_batches}, and {most}; plan for at most N micro-"
            "batches or give more devices",
        )
    wide = next((layer for layer in problem.layers if _fewest(layer) > problem.devices), None)
    if wide is not None:
        name, fewest = show(wide.id), _fewest(wide)
        return (
            f"layer {name} needs at least {fewest} devices, and the problem has {problem.devices}; give more devices",
        )
    enough = would_do(problem, options, limits) if proven else ()  # a baseline may need more
    return (*enough, *_too_large(problem, remedy=not enough))


def _too_large(problem: StagingProblem, *, remedy: bool) -> Iterator[str]:
    """A layer that fits no device even alone; with what to give for it where nothing better is known."""
    memory = problem.memory_bytes
    if memory is None or problem.extensions - {"no replicas", "zero"}:
        return
    layer, needed = max(
        ((layer, least_of_layer(problem, layer)) for layer in problem.layers), key=lambda pair: pair[1]
    )
    if needed > as_written(memory):
        least = f"layer {show(layer.id)} alone needs {at_least(needed)} of each device that it runs on"
        yield f"{least}; give {option(needed)} or more" if remedy else least


def _fewest(layer: Layer) -> int:
    """The fewest devices that a layer can run on."""
    return min(t for t, ways in layer.configurations.items() if ways)
