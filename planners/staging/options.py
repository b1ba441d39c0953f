"""The options of Piper's planners, apart from the modules that obey them."""

from __future__ import annotations

from ...formulations.contract import OptionSpec
from ...formulations.registry import FLUSHED, HIERARCHY, SEMANTICS

KNAPSACK = OptionSpec(
    "knapsack",
    "choice",
    "exact",
    "How configurations are chosen. exact: the best that fit; greedy: the published bang-per-buck choice.",
    ("exact", "greedy"),
)
MAX_DOWNSETS = OptionSpec("max_downsets", "int", 20_000, "Refuse networks with more downsets of layers than this.")

TABLE = OptionSpec(
    "table",
    "path",
    None,
    "Also write the least time on every number of devices and sum of data-parallel degrees: .csv, or on the command "
    "line .svg, .png or .pdf.",
)

ROUNDED_MEMORY = "memory has more digits than are counted: bounds are for a hair more of it, plans for a hair less"

UNIFORM = OptionSpec(
    "uniform",
    "flag",
    True,
    "The same degrees on every stage, as Megatron-LM and DeepSpeed run them; staging problems.",
)

RESTRICTED_OPTIONS = (SEMANTICS, KNAPSACK, MAX_DOWNSETS)
DP_OPTIONS = (*RESTRICTED_OPTIONS, FLUSHED, HIERARCHY, TABLE)
EQUI_OPTIONS = (SEMANTICS, HIERARCHY)
UNIFORM_OPTIONS = (UNIFORM, FLUSHED)
