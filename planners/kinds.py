"""What the planners know of each kind of problem beside its methods: the least memory, and why there is no plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..instances.base.kind import Function

if TYPE_CHECKING:
    from .memory.smallest import Questions
    from .options import SolveOptions


@dataclass(frozen=True)
class PlannedKind:
    """What the planners know of one kind; a field is None where they have no such function for it."""

    why_none: Function[[Any, Mapping[str, Any], SolveOptions, bool], tuple[str, ...]] | None = None
    """Sentences on why there is no plan; the last argument says whether that is proven."""
    questions: Function[[Any, Mapping[str, Any]], Questions] | None = None
    """What the search for the least memory asks."""


def _in(module: str, explain: str = "") -> PlannedKind:
    """A kind whose questions and sentences are in a module; `explain` names another one for sentences."""
    here = "pipeplan.planners"
    return PlannedKind(Function(f"{here}.{explain or module}:explain"), Function(f"{here}.{module}:questions"))


# What planners know of each kind, by its name.
PLANNED: dict[str, PlannedKind] = {
    "placement": _in("memory.placement", explain="memory.smallest"),
    "chain": _in("chain.smallest_memory"),
    "staging": _in("memory.staging"),
    "graph-pipeline": _in("memory.graph_pipeline"),
    "schedule": _in("memory.schedule"),
    "training": _in("memory.training"),
}

NOTHING = PlannedKind()


def planned_kind(problem: Any) -> PlannedKind:
    return PLANNED.get(problem.kind, NOTHING)
