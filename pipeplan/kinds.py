"""What the front door knows of each kind of problem: how it is shown, its curve, and what frameworks are told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .instances.base.kind import Function, Later

if TYPE_CHECKING:
    from .models.export.contract import Exported, ExportOptions
    from .show.view import About, Views
    from .studies.pareto.study import Study


@dataclass(frozen=True)
class ShownKind:
    """Absent is what there is none of."""

    view: Later[Views]
    """The module that knows how its problems and plans are shown."""
    about: Function[[Any], About] | None = None
    """What has to be computed to know a problem."""
    latency: Function[[Any, Any], Any] | None = None
    """How long one sample takes by a plan, or why that has no value."""
    pareto: Later[Study] | None = None
    """What `plan pareto` makes of it."""
    exports: Mapping[str, Function[[Any, Any, ExportOptions], Exported]] = field(default_factory=dict)
    """Frameworks that are told of a plan by its problem, not by the model."""


_VIEWS, _STUDIES = "pipeplan.show.views", "pipeplan.studies.pareto"

SHOWN: dict[str, ShownKind] = {
    "placement": ShownKind(
        Later(f"{_VIEWS}.placement"),
        latency=Function(f"{_VIEWS}.latency:of_one_sample"),
        pareto=Later(f"{_STUDIES}.tradeoff:STUDY"),
    ),
    "chain": ShownKind(
        Later(f"{_VIEWS}.chain"), Function(f"{_VIEWS}.chain:about"), pareto=Later(f"{_STUDIES}.chains:STUDY")
    ),
    "staging": ShownKind(Later(f"{_VIEWS}.staging"), pareto=Later(f"{_STUDIES}.stagings:STUDY")),
    "graph-pipeline": ShownKind(Later(f"{_VIEWS}.graph_pipeline"), Function(f"{_VIEWS}.graph_pipeline:about")),
    "schedule": ShownKind(
        Later(f"{_VIEWS}.schedule"),
        pareto=Later(f"{_STUDIES}.schedules:STUDY"),
        exports={"torch": Function("pipeplan.models.export.schedules:torch")},
    ),
}
"""By the kind's name."""


def shown_kind(problem: Any) -> ShownKind:
    return SHOWN[problem.kind]
