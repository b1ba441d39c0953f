"""The options of GraphPipe's planners, apart from the modules that obey them."""

from __future__ import annotations

from ...formulations.contract import OptionSpec
from ...formulations.registry import DEGREES, LARGEST_K, MICRO_BATCH, MIXED_MICRO_BATCHES

OBJECTIVE = OptionSpec(
    "objective",
    "choice",
    "iteration",
    "iteration: simulated time of a mini-batch; time-per-sample: of the slowest stage, bubbles left out.",
    ("iteration", "time-per-sample"),
)
JOIN = OptionSpec(
    "join",
    "choice",
    "any",
    "any: what joins branches may share a stage with the end of one; tree: only with all branches or none.",
    ("any", "tree"),
)
MOST_DOWNSETS = OptionSpec("max_downsets", "int", 20_000, "With more downsets than this, there is no answer.")

SEQUENTIAL_OPTIONS = (OBJECTIVE, MICRO_BATCH, MIXED_MICRO_BATCHES, LARGEST_K, DEGREES)
GRAPHPIPE_OPTIONS = (*SEQUENTIAL_OPTIONS, JOIN)
PIPER_OPTIONS = (OBJECTIVE, MICRO_BATCH, DEGREES, MOST_DOWNSETS)
