"""The options of GraphPipe's planners, apart from the modules that obey them."""

from __future__ import annotations

from ...formulations.contract import OptionSpec
from ...formulations.registry import MICRO_BATCH

OBJECTIVE = OptionSpec(
    "objective",
    "choice",
    "iteration",
    "iteration: simulated time of a mini-batch; time-per-sample: of the slowest stage, bubbles left out.",
    ("iteration", "time-per-sample"),
)
PER_STAGE = OptionSpec(
    "mixed_micro_batches", "flag", False, "Stages may have micro-batches of different sizes; slower."
)
LARGEST_K = OptionSpec(
    "k", "int", 1, "Stages may run 1, 2, 4, ... forward passes in a row, then as many backward ones."
)
DEGREES = OptionSpec(
    "degrees",
    "choice",
    "divisors",
    "Devices of a stage: any that divide its micro-batch, powers of two among them, or none but one.",
    ("divisors", "pow2", "none"),
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
MOST_DOWNSETS = OptionSpec("max_downsets", "int", 20_000, "With more downsets than this, there is no answer.")

SEQUENTIAL_OPTIONS = (OBJECTIVE, MICRO_BATCH, PER_STAGE, LARGEST_K, DEGREES, DEPTH)
GRAPHPIPE_OPTIONS = (*SEQUENTIAL_OPTIONS, JOIN)
PIPER_OPTIONS = (OBJECTIVE, MICRO_BATCH, DEGREES, MOST_DOWNSETS)
