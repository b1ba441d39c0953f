"""What the command line and the pages know of each kind of problem: its view and its own exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .instances.base.kind import Function, Later

if TYPE_CHECKING:
    from .models.export.contract import Exported, ExportOptions
    from .show.views import Views


@dataclass(frozen=True)
class ShownKind:
    """How one kind of problem is shown and exported; a field is None where the kind has nothing of the sort."""

    view: Later[Views]
    """The module that knows how its problems and plans are shown."""
    latency: Function[[Any, Any], Any] | None = None
    """Computes how long one sample takes by a plan, or says why that has no value."""
    exports: Mapping[str, Function[[Any, Any, ExportOptions], Exported]] = field(default_factory=dict)
    """By framework the export that needs a plan and its problem, but no profile of a model."""


_VIEWS = "pipeplan.show.views"


# What is shown of each kind, by its name.
SHOWN: dict[str, ShownKind] = {
    "placement": ShownKind(Later(f"{_VIEWS}.placement"), latency=Function(f"{_VIEWS}.placement:of_one_sample")),
    "chain": ShownKind(Later(f"{_VIEWS}.chain")),
    "staging": ShownKind(Later(f"{_VIEWS}.staging")),
    "graph-pipeline": ShownKind(Later(f"{_VIEWS}.graph_pipeline")),
    "schedule": ShownKind(
        Later(f"{_VIEWS}.schedule"), exports={"torch": Function("pipeplan.models.export.torch_pipelining:schedule")}
    ),
    "training": ShownKind(
        Later(f"{_VIEWS}.training"),
        exports={
            target: Function(f"pipeplan.models.export.training:{target}_configuration")
            for target in ("megatron", "torchtitan", "deepspeed")
        },
    ),
}


# Makes the options of an export of which nothing is asked.
EXPORT_OPTIONS: Function[[], ExportOptions] = Function("pipeplan.models.export.contract:ExportOptions")


def shown_kind(problem: Any) -> ShownKind:
    return SHOWN[problem.kind]
