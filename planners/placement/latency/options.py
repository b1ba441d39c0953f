"""The options of the latency planners, apart from the modules that obey them: lists of planners load no numerics."""

from __future__ import annotations

from ....formulations.contract import OptionSpec
from ..options import SPLIT

OBJECTIVE = OptionSpec(
    "objective",
    "choice",
    "latency",
    "What to minimise. latency: the time from a sample's arrival to its last result.",
    ("latency",),
)
SUBGRAPHS_PER_DEVICE = OptionSpec(
    "subgraphs_per_device", "int", 1, "Largest number of pieces that an accelerator may run one after the other."
)
CYCLES = OptionSpec("cycles", "int", 4, "Number of annealing cycles; the time limit may end them earlier.")
STEPS = OptionSpec(
    "steps", "int", 100_000, "Annealing steps of the first cycle; each cycle adds half as many again."
)

COMMON = (SUBGRAPHS_PER_DEVICE, OBJECTIVE)
EXPERT_OPTIONS = (*COMMON, SPLIT)
LNS_OPTIONS = (*COMMON, CYCLES, STEPS)
