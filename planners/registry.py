"""Every planner by name, with its options: what `plan planners` shows without importing pandas, Pyomo or a solver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ..formulations.contract import OptionSpec
from ..formulations.plugins import is_address, load_named
from ..formulations.registry import (
    ALLOCATION,
    ANY_SCHEDULE_OBJECTIVE,
    BEAUMONT_MODELS,
    DEGREES,
    FINITE_MODELS,
    FLUSHED,
    FORMULATIONS,
    HEURISTIC_OPTIONS,
    LARGEST_K,
    LATENCY,
    MICRO_BATCH,
    MIXED_MICRO_BATCHES,
    MOST,
    NON_CONTIGUOUS,
    OBJECTIVE,
    PERIODIC_MODELS,
    SCHEDULE_OBJECTIVE,
    SCOPE_OPTIONS,
    SEMANTICS,
    SUBGRAPHS_PER_DEVICE,
    TARNAWSKI_MODELS,
    Entry,
    choice,
    count,
    find_formulation,
    flag,
    plugged_in,
)
from .contract import AT_HAND, entry_of

# ---- placements --------------------------------------------------------------------------------------------

DEVICE_CONTIGUITY = flag(
    "device_contiguity",
    "Require contiguity only of each single device, as published; devices may then form cycles.",
)
SPLIT = OptionSpec("split", "path", None, "The file with the split: a plan, a result or a published split.")
ORDERS = count("orders", 4, 1000, "Number of topological orders to try.")
RESTARTS = count("restarts", 10, MOST, "Number of random starts to improve.", least=0)
_CYCLES = "Number of annealing cycles; the time limit can end them earlier."
CYCLES = count("cycles", 12, MOST, _CYCLES, least=0)
STEPS = count("steps", 1_000_000, MOST, "Annealing steps in the first round of cycles; they double in each round.")

COMMON = (OBJECTIVE, NON_CONTIGUOUS)

LINEAR_OPTIONS = (*COMMON, ORDERS)

# The dynamic program over ideals.
MAX_IDEALS = count(
    "max_ideals",
    2_000_000,
    MOST,
    "Maximum number of ideals to use; on graphs with more, the plan is not proven optimal.",
)
IDEALS_OPTIONS = (OBJECTIVE, MAX_IDEALS)

# The latency of one sample.
LATENCY_CYCLES = count("cycles", 4, MOST, _CYCLES, least=0)
LATENCY_STEPS = count(
    "steps", 100_000, MOST, "Annealing steps in each of the first two runs; they grow by half after every two runs."
)
LATENCY_OPTIONS = (SUBGRAPHS_PER_DEVICE, LATENCY)

# ---- stages ------------------------------------------------------------------------------------------------

KNAPSACK = choice(
    "knapsack",
    "How to choose configurations. exact: the best that fit; greedy: the published bang-per-buck rule.",
    ("exact", "greedy"),
)
MAX_DOWNSETS = count("max_downsets", 20_000, MOST, "Reject networks with more downsets of layers than this.")

TABLE = OptionSpec(
    "table",
    "path",
    None,
    "Also write the shortest time for every number of devices and sum of data-parallel degrees: .csv, or on the "
    "command line .svg, .png or .pdf.",
)

UNIFORM = flag(
    "uniform", "Use the same degrees on every stage, as in Megatron-LM and DeepSpeed; for staging problems.", True
)

RESTRICTED_OPTIONS = (SEMANTICS, KNAPSACK, MAX_DOWNSETS)
PIPER_OPTIONS = (*RESTRICTED_OPTIONS, FLUSHED, TABLE)
EQUI_OPTIONS = (SEMANTICS,)
UNIFORM_OPTIONS = (UNIFORM, FLUSHED)

# ---- graph pipelines ---------------------------------------------------------------------------------------

GRAPH_OBJECTIVE = choice(
    "objective",
    "What to minimise. iteration: the simulated time of a mini-batch; time-per-sample: the time per sample on the "
    "slowest stage, without bubbles.",
    ("iteration", "time-per-sample"),
)
ITERATION = choice("objective", "What to minimise: the simulated time of a mini-batch.", ("iteration",))
DEPTH = choice(
    "depth",
    "Plans to consider. any: also slower ones with a shorter sequence of stages, if they shorten the iteration; "
    "fastest: only those with the shortest time per sample for each micro-batch size, as published.",
    ("any", "fastest"),
)
JOIN = choice(
    "join",
    "Stage of the operator that joins branches. any: it may share a stage with the end of one branch; tree: only with "
    "all of them or none.",
    ("any", "tree"),
)
CUTS = choice(
    "cuts",
    "Possible stages. any: also those cut from a sequence of all operators, across branches; tree: only those of the "
    "decomposition, as published.",
    ("any", "tree"),
)
SAMPLES_HELD = choice(
    "samples_held",
    "Samples in flight. more: a stage may hold more than the rule requires, if memory allows it and it shortens the "
    "iteration; rule: no more, as published.",
    ("more", "rule"),
)

SEQUENTIAL_OPTIONS = (GRAPH_OBJECTIVE, MICRO_BATCH, MIXED_MICRO_BATCHES, LARGEST_K, DEGREES, DEPTH)
GRAPHPIPE_OPTIONS = (*SEQUENTIAL_OPTIONS, JOIN, CUTS, SAMPLES_HELD)
# `graphpipe-parallel` takes its micro-batch from the sequential plan, so it mixes none.
PARALLEL_OPTIONS = tuple(spec for spec in GRAPHPIPE_OPTIONS if spec is not MIXED_MICRO_BATCHES)
SHORTEST_OPTIONS = (ITERATION, MICRO_BATCH, LARGEST_K, DEGREES)


# ---- Every planner by name: what `plan planners` shows without importing pandas, Pyomo or a solver.

# The planner that hands a formulation to a solver.
EXACT = "exact"

_SCOPES = "pipeplan.planners.placement.groups"
_GRAPH_SCOPES = "pipeplan.planners.graph_pipeline.scope"
_CHAINS = "pipeplan.planners.chain"

_GROUPS = frozenset({"the planners' contraction of placements"})
_GRAPHPIPE = frozenset({"prices of stage graphs"})


def _of(kind: str, folder: str, *usual: OptionSpec, **facts: Any) -> Callable[..., Entry]:
    """Makes entries of methods without proofs: of one kind, from one folder, with these options and facts if no others
    are given."""

    def entry(name: str, title: str, address: str, *options: OptionSpec, **more: Any) -> Entry:
        address = f"pipeplan.planners.{folder}.{address}"
        return Entry(
            name, title, kind, address, options or usual, **{"exact": False, "seeded": False, **facts, **more}
        )

    return entry


_placed = {"scope": f"{_SCOPES}:all_placements", "arithmetic": _GROUPS}
_heuristic = _of("placement", "placement", *COMMON, **_placed)
_latency = _of("placement", "placement", *LATENCY_OPTIONS, **_placed)
_chain = _of("chain", "chain")
_staging = _of("staging", "staging")
_piper = _of("staging", "staging", *RESTRICTED_OPTIONS, paper="tarnawski2021piper", extensions=frozenset({"zero"}))
_equal = _of("staging", "staging", *EQUI_OPTIONS, extensions=frozenset({"levels", "no replicas", "types", "zero"}))
_graph = _of("graph-pipeline", "graph_pipeline", scope=f"{_GRAPH_SCOPES}:stage_graphs", arithmetic=_GRAPHPIPE)
_schedule = _of("schedule", "schedule", SCHEDULE_OBJECTIVE)
_training = _of("training", "training", *HEURISTIC_OPTIONS)


BATCHES = count(
    "batches_per_flush", None, 1000, "Batches between two flushes; default: the best number, up to 4 per GPU."
)
_GPIPE = "GPipe: all forward, then all backward passes"

# One row for each method.
# fmt: off
PLANNERS: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(EXACT, "Solves a formulation with a solver", "any", "pipeplan.planners.exact:plan", takes_start=True,
            example="bert-large-training"),
        Entry("dp", "Dynamic program over ideals: exact contiguous plans", "placement",
            "pipeplan.planners.placement.dp:PLANNER", IDEALS_OPTIONS, paper="tarnawski2020placement", seeded=False,
            takes_start=True, extensions=frozenset({"types"}), scope=f"{_SCOPES}:chains_of_stages",
            arithmetic=_GROUPS, starts={"dp": ("dp",)}, checked_by="ip-tarnawski", compiles_on=("memory-tight",),
            proves_anew=({},)),
        _heuristic("brute-force", "Tries all plans of a tiny problem", "brute_force:PLANNER", *COMMON,
            DEVICE_CONTIGUITY, exact=True, seeded=False, scope=f"{_SCOPES}:placements", arithmetic=frozenset(),
            proves_anew=({}, {"non_contiguous": True}, {"device_contiguity": True})),
        _heuristic("greedy", "Fills one device after another, in topological order", "heuristics:fill_greedily"),
        _heuristic("one-device", "Everything on one device", "heuristics:plan_on_one_device"),
        _heuristic("expert", "A split given in a file", "heuristics:EXPERT", *COMMON, SPLIT),
        _heuristic("pipedream", "PipeDream's partitioner", "heuristics:plan_pipedream",
            paper="narayanan2019pipedream"),
        _heuristic("partition", "Balanced graph partition", "heuristics:partition", paper="karypis1998fast",
            seeded=True, needs=("pymetis", "partition")),
        _heuristic("linear-dp", "Optimal cuts of topological orders", "heuristics:plan_linear_dp", *LINEAR_OPTIONS,
            paper="tarnawski2020placement", seeded=True),
        _heuristic("local-search", "Best single reassignment from random starts", "heuristics:search_locally",
            *COMMON, RESTARTS, paper="tarnawski2020placement", seeded=True),
        _heuristic("lns", "Large-neighbourhood search", "annealing:PLANNER", *COMMON, CYCLES, STEPS, seeded=True,
            takes_start=True, starts={"dp": ("dp",)}, compiles_on=("tiny-chain",)),
        _heuristic("device-sets", "Column generation over the node sets of one accelerator: bounds and plans",
            "device_sets:PLANNER", seeded=True, arithmetic=_GROUPS | TARNAWSKI_MODELS, takes_start=True,
            starts={"dp": ("dp",)}, compiles_on=("tiny-chain",)),
        _latency("latency-greedy", "List scheduling for the latency of one sample", "latency:plan_greedily"),
        _latency("latency-cpu", "Everything on the CPUs, for latency", "latency:plan_on_cpus"),
        _latency("latency-expert", "A split given in a file, for latency", "latency:EXPERT", *LATENCY_OPTIONS,
            SPLIT),
        _latency("latency-dp", "The throughput DP's split, by latency", "latency:DP"),
        _latency("latency-linear-dp", "The linearised DP's split, by latency", "latency:LINEAR_DP", seeded=True),
        _latency("latency-partition", "Balanced graph partition, for latency", "latency:PARTITION",
            paper="karypis1998fast", seeded=True, needs=("pymetis", "partition")),
        _latency("latency-lns", "Large-neighbourhood search for latency", "latency_lns:PLANNER", *LATENCY_OPTIONS,
            LATENCY_CYCLES, LATENCY_STEPS, seeded=True, arithmetic=_GROUPS | TARNAWSKI_MODELS, takes_start=True,
            starts={"dp": ("latency-dp",)}, compiles_on=("cpu-offload",)),
        Entry("dp-piper", "Dynamic program over downsets: stages, degrees, recomputation", "staging",
            "pipeplan.planners.staging.planner:PLANNER", PIPER_OPTIONS, paper="tarnawski2021piper", seeded=False,
            extensions=frozenset({"levels", "types", "no replicas", "zero"}),
            scope="pipeplan.formulations.piper.formulation:family", default=True, example="bert-large-stages",
            checked_by="mip-piper", compiles_on=("tiny-stages",),
            proves_anew=({"knapsack": "exact", "table": None},)),
        _piper("piper-no-dp", "Piper without data parallelism", "planner:NO_DATA_PARALLELISM"),
        _piper("piper-no-tp", "Piper without tensor parallelism", "planner:NO_TENSOR_PARALLELISM"),
        _piper("piper-no-ar", "Piper without recomputation", "planner:NO_RECOMPUTATION"),
        _equal("equi", "The even split: equal stages of equal degrees", "equal:PLANNER"),
        _equal("equi-no-tp", "Equal stages of one data-parallel degree", "equal:NO_TENSOR_PARALLELISM"),
        _staging("uniform", "The fastest plan with the same degrees on every stage", "planner:plan_uniform",
            *UNIFORM_OPTIONS, extensions=frozenset({"levels", "no replicas", "zero"}), asked_by=("uniform",),
            as_formulation=True),
        _staging("piper-pipedream", "PipeDream's partitioner, which ignores memory", "planner:plan_pipedream",
            SEMANTICS, paper="narayanan2019pipedream", extensions=frozenset({"zero"})),
        Entry("exact-configuration", "Best-first search over all degrees, with exact layouts", "training",
            "pipeplan.planners.training.planner:PLANNER", SCOPE_OPTIONS, seeded=False,
            scope="pipeplan.planners.training.planner:family", default=True, example="tiny-training",
            compiles_on=("tiny-training", "tiny-experts-training")),
        _training("guide", "Rule of thumb: tensor parallelism in a node, then stages, then data", "planner:guide"),
        _training("even-layouts", "The best configuration with an even layout", "planner:EVEN_LAYOUTS"),
        _training("full-recompute", "The best configuration that recomputes every layer", "planner:FULL_RECOMPUTE"),
        _training("no-recompute", "The best configuration without recomputation", "planner:NO_RECOMPUTE"),
        Entry("exact-beaumont", "Alternates between allocations, schedules and no-good cuts", "chain",
            f"{_CHAINS}.exact:PLANNER", (ALLOCATION,), paper="beaumont2020pipelined", takes_start=True,
            scope="pipeplan.formulations.beaumont.bounds:family", arithmetic=BEAUMONT_MODELS, default=True,
            example="golden-4", compiles_on=("golden-4",), as_formulation=True, proves_anew=({},)),
        _chain("pipedream-eager", "PipeDream's partitions, each pass run as early as possible",
            "baselines:plan_pipedream", paper="narayanan2019pipedream"),
        _chain("contiguous", "The best contiguous stages that fit into memory", "baselines:CONTIGUOUS"),
        _chain("gpipe", _GPIPE, "baselines:GPIPE", BATCHES, paper="huang2019gpipe",
            twins=(_schedule("gpipe", _GPIPE, "named:GPIPE", paper="huang2019gpipe"),)),
        _chain("sync-1f1b", "Synchronous 1F1B, flushed every few batches", "baselines:SYNCHRONOUS", BATCHES),
        _graph("graphpipe", "Stage graphs over a series-parallel decomposition", "planner:plan_stage_graph",
            *GRAPHPIPE_OPTIONS, paper="jeon2025graphpipe", default=True, example="case-study",
            checked_by="cp-graphpipe", check_options={"cuts": "tree"}, compiles_on=("tiny-graph",),
            proves_anew=({},)),
        Entry("shortest-iteration", "Stage graphs over a decomposition, with a bound on the iteration time",
            "graph-pipeline", "pipeplan.planners.graph_pipeline.planner:plan_shortest_iteration", SHORTEST_OPTIONS,
            seeded=False, scope=f"{_GRAPH_SCOPES}:decomposed", arithmetic=_GRAPHPIPE,
            starts={"auto": ("graphpipe",)}, checked_with={"family": "series-parallel"}, proves_anew=({},)),
        _graph("graphpipe-parallel", "Stage graphs with the micro-batch size of the best sequential plan",
            "planner:plan_with_micro_batch_of_a_row", *PARALLEL_OPTIONS, paper="jeon2025graphpipe"),
        _graph("spp-pipedream", "Sequential stages in a linear order", "planner:plan_sequential",
            *SEQUENTIAL_OPTIONS),
        Entry("exact-schedule",
            "Rules, bounds, simulated annealing over orders, then a model that searches for better", "schedule",
            "pipeplan.planners.schedule.exact:plan", (ANY_SCHEDULE_OBJECTIVE,), takes_start=True,
            scope="pipeplan.formulations.zero_bubble.scope:family", arithmetic=FINITE_MODELS | PERIODIC_MODELS,
            default=True, example="zero-bubble-4x12", compiles_on=("zero-bubble-4x12",), as_formulation=True,
            proves_anew=({"objective": "makespan"}, {"objective": "span"})),
        _schedule("list-schedule", "List schedules by several rules", "list_schedule:plan_lists",
            ANY_SCHEDULE_OBJECTIVE, seeded=True),
        _schedule("1f1b", "1F1B: forward and backward passes in turn", "named:ONE_F_ONE_B",
            paper="narayanan2019pipedream"),
        _schedule("interleaved-1f1b", "1F1B with several stages on each device", "named:INTERLEAVED",
            paper="narayanan2021megatron"),
        _schedule("zb-h1", "Zero bubble within the memory of 1F1B", "named:ZB_H1", paper="qi2024zero"),
        _schedule("zb-h2", "Zero bubble with twice the memory of 1F1B", "named:ZB_H2", paper="qi2024zero"),
        _schedule("zb-greedy", "Greedy zero bubble within the memory limit", "named:plan_greedily",
            paper="qi2024zero"),
        _schedule("zb-v", "Zero bubble with stages placed in a V", "named:ZB_V", paper="qi2024controllable"),
        _schedule("dualpipe-v", "DualPipeV: passes overlap on a V of stages", "named:DUALPIPE_V",
            paper="deepseek2024v3"),
    )
}
# fmt: on


# Entry points of this group bring planners of other packages; each is the address of an `Entry`.
GROUP = "pipeplan.planners"


def find_planner(name: str) -> Entry | None:
    """The planner of that name, ours or of another package, or at that address; None: there is none."""
    return PLANNERS.get(name) or AT_HAND.get(name) or plugged_in(name, GROUP, ("plan",), entry_of)


def find_method(name: str) -> Entry | None:
    """The formulation or planner of that name; plug-ins are looked for only where it is none of ours."""
    if is_address(name):
        return find_formulation(name) if is_formulation(name) else find_planner(name)
    return FORMULATIONS.get(name) or PLANNERS.get(name) or find_formulation(name) or find_planner(name)


def is_formulation(name: str) -> bool:
    """Is it the name or the address of a formulation, not of a planner? At an address, an object with `plan` is one."""
    if is_address(name):
        return not callable(getattr(load_named(name, Entry, entry_of).load(), "plan", None))
    return name in FORMULATIONS or (name not in PLANNERS and find_formulation(name) is not None)


# Options of methods that many take; on the command line all others are given as `--option NAME=VALUE`.
USUAL_OPTIONS = ("objective", "non_contiguous", "micro_batch")


def option_owners() -> dict[str, list[str]]:
    """The formulations and planners that declare each option, by the option's name."""
    owners: dict[str, list[str]] = {}
    for entry in all_methods():
        for spec in entry.options:
            owners.setdefault(spec.name, []).append(entry.name)
    return owners


def all_methods() -> Iterator[Entry]:
    """Formulations first, then planners; those of one name for several kinds of problems one after the other."""
    yield from FORMULATIONS.values()
    for entry in PLANNERS.values():
        yield from entry.all_kinds


def methods_of(kind: str) -> list[Entry]:
    """All methods for a kind of problems, by the order of the tables."""
    return [entry for entry in all_methods() if entry.problem_kind == kind]


def default_method(kind: str, extensions: Collection[str] = ()) -> Entry | None:
    """What is taken where no method is named; where it cannot plan all that the problem uses, an exact one that can."""
    methods = sorted(methods_of(kind), key=lambda entry: not entry.default)
    able = (entry for entry in methods if entry.exact or entry.default if entry.extensions.issuperset(extensions))
    return next(able, None)


def default_formulation(kind: str) -> Entry | None:
    """What a solver is given where only the solver is named: the first of its kind."""
    return next((entry for entry in FORMULATIONS.values() if entry.problem_kind == kind), None)


def objectives_of(kind: str) -> tuple[str, ...]:
    """All that exact methods of the kind can minimise, where that may be chosen."""
    exact = (entry for entry in methods_of(kind) if entry.exact)
    return tuple(dict.fromkeys(objective for entry in exact for objective in entry.objectives))


def questions() -> frozenset[str]:
    """Options that ask another question than the usual one."""
    return frozenset(name for entry in all_methods() for name in entry.asked_by)


def asked_formulation(kind: str, options: Mapping[str, Any]) -> Entry | None:
    """The formulation that the user's question means where none is named; None: any default will do.

    It can minimise the objective, and is made for just those options that change the question (`asked_by`).
    """
    asked = questions().intersection(options)
    objective = options.get("objective")
    named = (*FORMULATIONS.values(), *(entry for entry in PLANNERS.values() if entry.asked_by))
    fitting = (entry for entry in named if entry.problem_kind == kind)
    for entry in fitting if asked or objective is not None else ():
        if asked == set(entry.asked_by) and objective in (None, *entry.objectives):
            return entry
    return None


def quick_planners(entry: Entry, asked: str) -> list[Entry]:
    """The planners whose plans a method is offered as starts; `asked` is "auto" or "dp".

    A method that names no starts at all is offered the dynamic program of its kind where the user asks for that one.
    """
    usual = default_formulation(entry.problem_kind)
    starts = usual.starts if asked == "dp" and not entry.starts and usual is not None else entry.starts
    return [PLANNERS[name] for name in starts.get(asked, ())]


def cross_check_of(entry: Entry) -> Entry | None:
    """The method that checks the proofs of this one, without sharing arithmetic with it; None: there is none."""
    checker = next((other for other in methods_of(entry.problem_kind) if other.checked_by is not None), None)
    if checker is None or (entry.objectives and not {*entry.objectives} & {*checker.objectives}):
        return None
    asked = checker if checker.module != entry.module else FORMULATIONS[str(checker.checked_by)]
    return asked if asked.is_independent_of(entry) else None


def second_methods(entry: Entry) -> list[Entry]:
    """Methods that `--cross-check` or `verify --proof` may ask for a second, independent word on its proofs."""
    asked = [cross_check_of(entry), *provers(entry.problem_kind)] if entry.scope is not None else []
    usual = (usual_objective(entry.problem_kind),)
    methods = {
        other.name: other
        for other in asked
        if other is not None and not entry.asked_by and other.is_independent_of(entry)
        if set(entry.objectives or usual) & set(other.objectives or usual)
    }
    return list(methods.values())


def provers(kind: str) -> list[Entry]:
    """Methods that may prove stored bounds anew: exact ones first, and of these the one that checks all others."""
    able = [entry for entry in methods_of(kind) if entry.proves_anew]
    return sorted(able, key=lambda entry: (not entry.exact, entry.checked_by is None, not entry.default))


def example_of(entry: Entry) -> str | None:
    """A packaged instance that the method can plan."""
    default = default_method(entry.problem_kind)
    return entry.example if entry.example is not None or default is None else default.example


def usual_objective(kind: str) -> str | None:
    """The objective by which plans are judged where a method has no option for it."""
    specs = (spec for entry in methods_of(kind) for spec in entry.options if spec.name == "objective")
    return next((str(spec.default) for spec in specs), None)
