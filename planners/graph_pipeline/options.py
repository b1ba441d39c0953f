"""The options of GraphPipe's planners, apart from the modules that obey them."""

from __future__ import annotations

from ...formulations.contract import OptionSpec
from ...formulations.registry import DEGREES, LARGEST_K, MICRO_BATCH, MIXED_MICRO_BATCHES

OBJECTIVE = OptionSpec(
    "objective",
    "choice",
    "iteration",
    "What to minimise. iteration: the simulated time of a mini-batch; time-per-sample: the time of one more sample on "
    "the slowest stage, without bubbles.",
    ("iteration", "time-per-sample"),
)
ITERATION = OptionSpec(
    "objective", "choice", "iteration", "What to minimise: the simulated time of a mini-batch.", ("iteration",)
)
DEPTH = OptionSpec(
    "depth",
    "choice",
    "any",
    "Plans to consider. any: also slower ones of fewer stages in a row, if they shorten the iteration; fastest: only "
    "those of the least time per sample for each micro-batch size, as published.",
    ("any", "fastest"),
)
JOIN = OptionSpec(
    "join",
    "choice",
    "any",
    "Where branches join. any: the join may share a stage with the end of one branch; tree: only with all of them or "
    "none.",
    ("any", "tree"),
)
CUTS = OptionSpec(
    "cuts",
    "choice",
    "any",
    "Possible stages. any: also those cut from a row of all operators, across branches; tree: only those of the "
    "decomposition, as published.",
    ("any", "tree"),
)
SAMPLES_HELD = OptionSpec(
    "samples_held",
    "choice",
    "more",
    "Samples in flight. more: a stage may hold more than the rule asks for, if memory is left and the iteration is "
    "shorter for it; rule: no more, as published.",
    ("more", "rule"),
)
MOST_DOWNSETS = OptionSpec("max_downsets", "int", 20_000, "Refuse graphs with more downsets than this.")

ROUNDED_MEMORY = "memory has more digits than are counted: there is no plan for a hair less of it"

SEQUENTIAL_OPTIONS = (OBJECTIVE, MICRO_BATCH, MIXED_MICRO_BATCHES, LARGEST_K, DEGREES, DEPTH)
GRAPHPIPE_OPTIONS = (*SEQUENTIAL_OPTIONS, JOIN, CUTS, SAMPLES_HELD)
PARALLEL_OPTIONS = tuple(spec for spec in GRAPHPIPE_OPTIONS if spec is not MIXED_MICRO_BATCHES)
"""Its micro-batch is that of the sequential plan."""
SHORTEST_OPTIONS = (ITERATION, MICRO_BATCH, LARGEST_K, DEGREES)
TEXTBOOK_OPTIONS = (OBJECTIVE, MICRO_BATCH, DEGREES)
PIPER_OPTIONS = (*TEXTBOOK_OPTIONS, MOST_DOWNSETS)
