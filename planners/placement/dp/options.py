"""The options of the planner, apart from the modules that obey them: lists of planners load no numerics."""

from __future__ import annotations

from ....formulations.contract import OptionSpec
from ..options import OBJECTIVE

MAX_IDEALS = OptionSpec(
    "max_ideals",
    "int",
    2_000_000,
    "Largest number of ideals to use; on graphs with more, the plan is no longer proven optimal.",
)

OPTIONS = (OBJECTIVE, MAX_IDEALS)
