"""Graph pipelines of known networks on named clusters: the models of GraphPipe's evaluation, and any workload.

Names are imported when they are first used: the lowerings bring readers and workloads with them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .clusters import CLUSTERS as CLUSTERS
    from .clusters import ClusterProfile as ClusterProfile
    from .from_profile import profile_to_graph_pipeline as profile_to_graph_pipeline
    from .from_workload import to_graph_pipeline as to_graph_pipeline
    from .models import GRAPH_MODELS as GRAPH_MODELS
    from .models import GraphModel as GraphModel
    from .models import candle_uno as candle_uno
    from .models import case_study as case_study
    from .models import dlrm as dlrm
    from .models import mmt as mmt
    from .models import sequential as sequential

_HOMES = {
    "clusters": (
        "CLUSTERS",
        "ClusterProfile",
    ),
    "from_profile": ("profile_to_graph_pipeline",),
    "from_workload": ("to_graph_pipeline",),
    "models": (
        "GRAPH_MODELS",
        "GraphModel",
        "candle_uno",
        "case_study",
        "dlrm",
        "mmt",
        "sequential",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
