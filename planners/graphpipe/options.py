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
DEPTH = OptionSpec(
    "depth",
    "choice",
    "any",
    "any: also stages that are slower, but fewer in a row, if that shortens the iteration; fastest: as published, for "
    "each micro-batch size the least time per sample alone.",
    ("any", "fastest"),
)
JOIN = OptionSpec(
    "join",
    "choice",
    "any",
    "any: what joins branches may share a stage with the end of one; tree: only with all branches or none.",
    ("any", "tree"),
)
CUTS = OptionSpec(
    "cuts",
    "choice",
    "any",
    "any: also stages cut from a row of all operators, across branches; tree: those of the decomposition alone, as "
    "published.",
    ("any", "tree"),
)
MOST_DOWNSETS = OptionSpec("max_downsets", "int", 20_000, "With more downsets than this, there is no answer.")

ROUNDED_MEMORY = "memory has more digits than are counted: there is no plan for a hair less of it"

SEQUENTIAL_OPTIONS = (OBJECTIVE, MICRO_BATCH, MIXED_MICRO_BATCHES, LARGEST_K, DEGREES, DEPTH)
GRAPHPIPE_OPTIONS = (*SEQUENTIAL_OPTIONS, JOIN, CUTS)
PARALLEL_OPTIONS = tuple(spec for spec in GRAPHPIPE_OPTIONS if spec is not MIXED_MICRO_BATCHES)
"""Its micro-batch is that of the sequential plan."""
TEXTBOOK_OPTIONS = (OBJECTIVE, MICRO_BATCH, DEGREES)
PIPER_OPTIONS = (*TEXTBOOK_OPTIONS, MOST_DOWNSETS)
