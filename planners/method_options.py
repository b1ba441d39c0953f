"""Options of the planners, by kind, apart from the modules that obey them: lists of planners load no numerics."""

from __future__ import annotations

from collections.abc import Mapping

from ..formulations.contract import OptionSpec
from ..formulations.registry import (
    DEGREES,
    FLUSHED,
    HIERARCHY,
    LARGEST_K,
    MICRO_BATCH,
    MIXED_MICRO_BATCHES,
    MOST,
    SEMANTICS,
    SUBGRAPHS_PER_DEVICE,
)

# ---- placements --------------------------------------------------------------------------------------------

LOAD = OptionSpec(
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
ORDERS = OptionSpec("orders", "int", 4, "Number of topological orders to try.", least=1, most=1000)
RESTARTS = OptionSpec("restarts", "int", 10, "Number of random starts to improve.", least=0, most=MOST)
CYCLES = OptionSpec(
    "cycles", "int", 12, "Number of annealing cycles; the time limit may end them earlier.", least=0, most=MOST
)
STEPS = OptionSpec(
    "steps",
    "int",
    1_000_000,
    "Annealing steps of the first round of cycles; each round doubles them.",
    least=1,
    most=MOST,
)

COMMON = (LOAD, NON_CONTIGUOUS)

PLACEMENT_OPTIONS: Mapping[str, tuple[OptionSpec, ...]] = {
    "brute-force": (*COMMON, DEVICE_CONTIGUITY),
    "greedy": COMMON,
    "one-device": COMMON,
    "expert": (*COMMON, SPLIT),
    "pipedream": COMMON,
    "partition": COMMON,
    "linear-dp": (*COMMON, ORDERS),
    "local-search": (*COMMON, RESTARTS),
    "lns": (*COMMON, CYCLES, STEPS),
    "device-sets": COMMON,
}

# The dynamic program over ideals.
MAX_IDEALS = OptionSpec(
    "max_ideals",
    "int",
    2_000_000,
    "Largest number of ideals to use; on graphs with more, the plan is no longer proven optimal.",
    least=1,
    most=MOST,
)
IDEALS_OPTIONS = (LOAD, MAX_IDEALS)

# The latency of one sample.
LATENCY = OptionSpec(
    "objective",
    "choice",
    "latency",
    "What to minimise. latency: the time from a sample's arrival to its last result.",
    ("latency",),
)
LATENCY_CYCLES = OptionSpec(
    "cycles", "int", 4, "Number of annealing cycles; the time limit may end them earlier.", least=0, most=MOST
)
LATENCY_STEPS = OptionSpec(
    "steps",
    "int",
    100_000,
    "Annealing steps of each of the first two runs; after every two runs they grow by half.",
    least=1,
    most=MOST,
)
LATENCY_OPTIONS = (SUBGRAPHS_PER_DEVICE, LATENCY)

# ---- stages ------------------------------------------------------------------------------------------------

KNAPSACK = OptionSpec(
    "knapsack",
    "choice",
    "exact",
    "How configurations are chosen. exact: the best that fit; greedy: the published bang-per-buck choice.",
    ("exact", "greedy"),
)
MAX_DOWNSETS = OptionSpec(
    "max_downsets", "int", 20_000, "Refuse networks with more downsets of layers than this.", least=1, most=MOST
)

TABLE = OptionSpec(
    "table",
    "path",
    None,
    "Also write the least time on every number of devices and sum of data-parallel degrees: .csv, or on the command "
    "line .svg, .png or .pdf.",
)

UNIFORM = OptionSpec(
    "uniform",
    "flag",
    True,
    "The same degrees on every stage, as Megatron-LM and DeepSpeed run them; staging problems.",
)

RESTRICTED_OPTIONS = (SEMANTICS, KNAPSACK, MAX_DOWNSETS)
PIPER_OPTIONS = (*RESTRICTED_OPTIONS, FLUSHED, HIERARCHY, TABLE)
EQUI_OPTIONS = (SEMANTICS, HIERARCHY)
UNIFORM_OPTIONS = (UNIFORM, FLUSHED)

# ---- graph pipelines ---------------------------------------------------------------------------------------

GRAPH_OBJECTIVE = OptionSpec(
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
MAX_GRAPH_DOWNSETS = OptionSpec(
    "max_downsets", "int", 20_000, "Refuse graphs with more downsets than this.", least=1, most=10**7
)

SEQUENTIAL_OPTIONS = (GRAPH_OBJECTIVE, MICRO_BATCH, MIXED_MICRO_BATCHES, LARGEST_K, DEGREES, DEPTH)
GRAPHPIPE_OPTIONS = (*SEQUENTIAL_OPTIONS, JOIN, CUTS, SAMPLES_HELD)
# `graphpipe-parallel` takes its micro-batch from the sequential plan, so it mixes none.
PARALLEL_OPTIONS = tuple(spec for spec in GRAPHPIPE_OPTIONS if spec is not MIXED_MICRO_BATCHES)
SHORTEST_OPTIONS = (ITERATION, MICRO_BATCH, LARGEST_K, DEGREES)
DOWNSET_OPTIONS = (GRAPH_OBJECTIVE, MICRO_BATCH, DEGREES, MAX_GRAPH_DOWNSETS)
