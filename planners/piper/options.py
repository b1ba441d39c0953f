"""The options of Piper's planners, apart from the modules that obey them."""

from __future__ import annotations

from ...formulations.contract import OptionSpec
from ...formulations.registry import SEMANTICS

KNAPSACK = OptionSpec(
    "knapsack",
    "choice",
    "exact",
    "exact: the best configurations that fit; greedy: the published bang-per-buck choice.",
    ("exact", "greedy"),
)
MAX_DOWNSETS = OptionSpec(
    "max_downsets", "int", 20_000, "With more downsets of layers than this, there is no answer."
)

TABLE = OptionSpec(
    "table",
    "path",
    None,
    "Also write the least time on every number of devices and sum of data-parallel degrees: .csv; here .svg and .png.",
)

HIERARCHY = OptionSpec(
    "hierarchy",
    "choice",
    "precise",
    "With levels: precise counts memory by copies on all levels, crude too much of it, basic none.",
    ("precise", "crude", "basic"),
)

OBJECTIVE = OptionSpec(
    "objective",
    "choice",
    "throughput",
    "throughput: the largest load of a stage; flush: the same, times (N + stages - 1) / N for an emptied pipeline.",
    ("throughput", "flush"),
)

ROUNDED_MEMORY = "memory has more digits than are counted: bounds are for a hair more of it, plans for a hair less"

RESTRICTED_OPTIONS = (SEMANTICS, KNAPSACK, MAX_DOWNSETS)
DP_OPTIONS = (*RESTRICTED_OPTIONS, OBJECTIVE, HIERARCHY, TABLE)
EQUI_OPTIONS = (SEMANTICS,)
