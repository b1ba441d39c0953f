"""The options of every heuristic, apart from the modules that obey them: lists of planners load no numerics."""

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
