"""What the planners know of each kind of problem beside its methods: the least memory, and why there is no plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..instances.base.kind import Function

if TYPE_CHECKING:
    from ..instances.least_memory import SmallestMemory
    from .memory.smallest import Questions, Watch
    from .options import SolveOptions


@dataclass(frozen=True)
class PlannedKind:
    """What the planners know of one kind; a field is None where they have no such function for it."""

    why_none: Function[[Any, Mapping[str, Any], SolveOptions, bool], tuple[str, ...]] | None = None
    """Sentences on why there is no plan; the last argument says whether that is proven."""
    least_memory: Function[[Any, Mapping[str, Any], SolveOptions, Watch], SmallestMemory] | None = None
    """The least memory with a plan."""
    questions: Function[[Any, Mapping[str, Any]], Questions] | None = None
    """What the search for the least memory asks; None: the kind has a search of its own."""


_HERE = "pipeplan.planners"


def _in(module: str, explain: str = "") -> PlannedKind:
    """A kind whose least memory is searched by the questions in its module."""
    return PlannedKind(
        Function(f"{_HERE}.memory.{explain or module}:explain"),
        Function(f"{_HERE}.memory.smallest:least_memory"),
        Function(f"{_HERE}.memory.{module}:questions"),
    )


# What planners know of each kind, by its name.
PLANNED: dict[str, PlannedKind] = {
    "placement": _in("placement", explain="smallest"),
    "chain": PlannedKind(
        Function(f"{_HERE}.chain.smallest_memory:explain"), Function(f"{_HERE}.chain.smallest_memory:least_memory")
    ),
    "staging": _in("staging"),
    "graph-pipeline": _in("graph_pipeline"),
    "schedule": _in("schedule"),
    "training": _in("training"),
}

NOTHING = PlannedKind()


def planned_kind(problem: Any) -> PlannedKind:
    return PLANNED.get(problem.kind, NOTHING)
