"""Chains: families with known answers, a benchmark recipe, and lowerings from networks, graphs and profiles.

Names are imported when they are first used: the lowerings bring readers and workloads with them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .from_placement import placement_groups as placement_groups
    from .from_placement import placement_to_chain as placement_to_chain
    from .from_placement import profile_to_chain as profile_to_chain
    from .from_workload import GRAINS as GRAINS
    from .from_workload import workload_groups as workload_groups
    from .from_workload import workload_to_chain as workload_to_chain
    from .golden import golden_chains as golden_chains
    from .guards import guard_chains as guard_chains
    from .known import VARIANTS as VARIANTS
    from .known import KnownChain as KnownChain
    from .recipe import SEEDS as SEEDS
    from .recipe import SIZES as SIZES
    from .recipe import resnet_like as resnet_like
    from .recipe import tightness as tightness
    from .theory import theory_chains as theory_chains

_HOMES = {
    "from_placement": ("placement_groups", "placement_to_chain", "profile_to_chain"),
    "from_workload": ("GRAINS", "workload_groups", "workload_to_chain"),
    "golden": ("golden_chains",),
    "guards": ("guard_chains",),
    "known": ("VARIANTS", "KnownChain"),
    "recipe": ("SEEDS", "SIZES", "resnet_like", "tightness"),
    "theory": ("theory_chains",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
