"""Options of the methods for training configurations, apart from the modules that obey them."""

from __future__ import annotations

from ..contract import OptionSpec

FIX = OptionSpec("fix", "text", None, 'Only configurations with these values, as in "tensor=4 zero=1".')
FORBID = OptionSpec(
    "forbid", "text", None, 'No configurations with any of these values, as in "virtual=1 context=8".'
)
LAYOUTS = OptionSpec(
    "layouts",
    "choice",
    "any",
    "Which layouts are asked for. any: each number of units in each chunk; even: those that the framework makes.",
    ("any", "even"),
)
MEMORY_ERROR = OptionSpec(
    "memory_error",
    "float",
    0.0,
    "The share by which memory may be misjudged: plans fit although so much more is held; plan configure takes 3 %.",
)
SCOPE_OPTIONS = (FIX, FORBID, LAYOUTS, MEMORY_ERROR)
HEURISTIC_OPTIONS = (MEMORY_ERROR,)
