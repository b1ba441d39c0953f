"""Options of the planners of placements, apart from the modules that obey them: lists of planners load no numerics."""

from __future__ import annotations

from collections.abc import Mapping

from ...formulations.contract import LATENCY_LIMIT, OptionSpec

OBJECTIVE = OptionSpec(
    "objective",
    "choice",
    "max-load",
    "What to minimise. max-load: the largest forward and backward load; gpipe: the largest forward plus the largest "
    "backward load.",
    ("max-load", "gpipe"),
)
NON_CONTIGUOUS = OptionSpec(
    "non_contiguous", "flag", False, "Let devices hold any nodes; default: a chain of contiguous stages."
)
DEVICE_CONTIGUITY = OptionSpec(
    "device_contiguity",
    "flag",
    False,
    "Ask only that each device is contiguous by itself, as published; devices may then form circles.",
)
SPLIT = OptionSpec("split", "path", None, "The file that holds the split: a plan, a result or a published split.")
ORDERS = OptionSpec("orders", "int", 4, "Number of topological orders to try.")
RESTARTS = OptionSpec("restarts", "int", 10, "Number of random starts to improve.")
CYCLES = OptionSpec("cycles", "int", 12, "Number of annealing cycles; the time limit may end them earlier.")
STEPS = OptionSpec("steps", "int", 1_000_000, "Annealing steps of the first cycles; each round doubles them.")

COMMON = (OBJECTIVE, NON_CONTIGUOUS)

OPTIONS: Mapping[str, tuple[OptionSpec, ...]] = {
    "brute-force": (*COMMON, DEVICE_CONTIGUITY),
    "greedy": COMMON,
    "one-device": COMMON,
    "expert": (*COMMON, SPLIT),
    "pipedream": COMMON,
    "partition": COMMON,
    "linear-dp": (*COMMON, ORDERS),
    "linear-dp-limited": (LATENCY_LIMIT, ORDERS),
    "local-search": (*COMMON, RESTARTS),
    "lns": (*COMMON, CYCLES, STEPS),
    "device-sets": COMMON,
}

# ---- The dynamic program over ideals ------------------------------------------------------------------------

MAX_IDEALS = OptionSpec(
    "max_ideals",
    "int",
    2_000_000,
    "Largest number of ideals to use; on graphs with more, the plan is no longer proven optimal.",
)
DP_OPTIONS = (OBJECTIVE, MAX_IDEALS)

# ---- The latency of one sample ------------------------------------------------------------------------------

LATENCY = OptionSpec(
    "objective",
    "choice",
    "latency",
    "What to minimise. latency: the time from a sample's arrival to its last result.",
    ("latency",),
)
SUBGRAPHS_PER_DEVICE = OptionSpec(
    "subgraphs_per_device", "int", 1, "Largest number of pieces that an accelerator may run one after the other."
)
LATENCY_CYCLES = OptionSpec("cycles", "int", 4, "Number of annealing cycles; the time limit may end them earlier.")
LATENCY_STEPS = OptionSpec(
    "steps", "int", 100_000, "Annealing steps of the first cycle; each cycle adds half as many again."
)
LATENCY_OPTIONS = (SUBGRAPHS_PER_DEVICE, LATENCY)
