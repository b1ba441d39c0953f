"""The options of every heuristic, apart from the modules that obey them: lists of planners load no numerics."""

from __future__ import annotations

from collections.abc import Mapping

from ...formulations.contract import OptionSpec

OBJECTIVE = OptionSpec(
    "objective",
    "choice",
    "max-load",
    "max-load: largest FW+BW load; gpipe: largest FW plus largest BW load.",
    ("max-load", "gpipe"),
)
NON_CONTIGUOUS = OptionSpec(
    "non_contiguous", "flag", False, "Devices may hold any nodes; default: a chain of contiguous stages."
)
DEVICE_CONTIGUITY = OptionSpec(
    "device_contiguity",
    "flag",
    False,
    "Each device contiguous by itself, as published, though devices may then depend on each other in a circle.",
)
SPLIT = OptionSpec("split", "path", None, "The file that holds the split: a plan, a result or a published split.")
LATENCY_LIMIT = OptionSpec(
    "latency_limit",
    "time",
    None,
    "Inference: only plans in which one sample alone takes no longer: 12ms, or a number in the problem's time unit.",
)
ORDERS = OptionSpec("orders", "int", 4, "How many topological orders are tried.")
RESTARTS = OptionSpec("restarts", "int", 10, "How many random starts are improved.")
CYCLES = OptionSpec("cycles", "int", 12, "Annealing cycles; the time limit may end them earlier.")
STEPS = OptionSpec("steps", "int", 1_000_000, "Annealing steps of the first cycles; they double every round.")

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
}
