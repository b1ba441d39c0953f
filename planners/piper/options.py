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
MAX_DOWNSETS = OptionSpec("max_downsets", "int", 20_000, "With more downsets of layers than this, there is no answer.")

TABLE = OptionSpec(
    "table",
    "path",
    None,
    "Write the least time on every number of devices and every sum of data-parallel degrees, too: .csv, .svg or .png.",
)

DP_OPTIONS = (SEMANTICS, KNAPSACK, MAX_DOWNSETS)
EQUI_OPTIONS = (SEMANTICS,)
