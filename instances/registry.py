"""The kinds of problems and plans that there are: each is one object, and what it names is imported on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from .base.errors import InputError, PipeplanError, show
from .base.fields import as_object, join, require
from .base.kind import Function, Kind, Later, Listing, kind_in

if TYPE_CHECKING:
    from .base.errors import Violation
    from .chain.plan import PatternPlan
    from .chain.problem import ChainProblem
    from .graph_pipeline.plan import StageGraphPlan
    from .graph_pipeline.problem import GraphPipelineProblem
    from .placement.plan import PlacementPlan
    from .placement.problem import PlacementProblem
    from .schedule.plan import PeriodicSchedulePlan, SchedulePlan
    from .schedule.problem import ScheduleProblem
    from .staging.plan import LeveledPlan, StagedPlan
    from .staging.problem import StagingProblem
    from .training.plan import Configuration
    from .training.problem import TrainingProblem

    Problem = (
        PlacementProblem | ChainProblem | StagingProblem | GraphPipelineProblem | ScheduleProblem | TrainingProblem
    )
    Plan = (
        PlacementPlan
        | PatternPlan
        | StagedPlan
        | LeveledPlan
        | StageGraphPlan
        | SchedulePlan
        | PeriodicSchedulePlan
        | Configuration
    )
else:  # annotations alone name them, and a kind that nobody asks for is not imported
    Problem = Plan = Any

# Names of the kinds, for type checkers, which find misspelt names before anything runs.
KindName = Literal["placement", "chain", "staging", "graph-pipeline", "schedule", "training"]

# Nodes of a graph on accelerators and CPUs.
PLACEMENT = kind_in(
    "placement",
    trains=Function("kind_functions:trains"),
    published=("maxFPGAs", "maxCPUs", "maxSizePerFPGA"),
    read_published=Function("published:read"),
    problem=Later("problem:PlacementProblem"),
    plans={"placement": Later("plan:PlacementPlan")},
    write=Function("kind_functions:placement_to_json"),
    choices={"objective": ("max-load", "gpipe", "latency"), "contiguity": ("none", "device", "chain")},
    cluster={"devices": "accelerators", "cpus": "cpus", "memory_bytes": "memory_bytes"},
    profile_options=("in_flight", "gpus", "whole_layers"),
    rules=Function("referee.verify:rules_of"),
    stage_order=Function("referee.structure:stage_order"),
    listing=Listing(
        columns={"nodes": "{nodes}", "devices": "{accelerators}+{cpus}"},
        # Contiguous plans are chains of stages; others put any sets of nodes on the devices.
        variants={"contiguous": "contiguous", "non-contiguous": "any plan"},
        note="placements (devices: accelerators+CPUs): best known value of contiguous plans and of any plan",
    ),
    complete=Function("kind_functions:with_colours"),
    adjust=None,
)

# Layers in a row on GPUs, by periodic patterns.
CHAIN = kind_in(
    "chain",
    problem=Later("problem:ChainProblem"),
    plans={"pattern": Later("plan:PatternPlan")},
    write=Function("kind_functions:chain_to_json"),
    cluster={"devices": "gpus", "memory_bytes": "memory_bytes", "bandwidth": "bandwidth"},
    runs_on="a chain runs on GPUs",
    profile_options=("recompute", "zero", "replicas", "whole_layers"),
    listing=Listing(
        columns={"layers": "{layers}", "GPUs": "{gpus}"},
        variants={"general": "any plan", "contiguous": "contiguous"},
        note="chains: best known period of any plan and of contiguous plans",
    ),
    rules=Function("referee:rules_of"),
    periodic=True,
    each_memory=None,
)

# Stages with data- and tensor-parallel degrees and recomputation, flat or on levels.
STAGING = kind_in(
    "staging",
    rules=Function("referee:rules_of"),
    published=("maxDevices", "mbsInBatch", "maxBatchSize", "maxMemoryPerDevice"),
    read_published=Function("kind_functions:read_published"),
    problem=Later("problem:StagingProblem"),
    plans={"stages": Later("plan:StagedPlan"), "leveled-stages": Later("plan:LeveledPlan")},
    write=Function("kind_functions:staging_to_json"),
    choices={"objective": ("throughput", "flush"), "semantics": ("paper", "reference")},
    cluster={
        "devices": "devices",
        "memory_bytes": "memory_bytes",
        "bandwidth": "bandwidth",
        "batch": "micro_batches",
        "levels": "levels",
        "time_unit": "time_unit",
    },
    runs_on="stages run on devices",
    profile_options=("recompute", "data_parallel", "tensor_parallel", "efficiency", "zero", "gpus", "whole_layers"),
    listing=Listing(
        columns={"layers": "{layers}", "devices": "{devices}"},
        # When weights are synchronised: once per d micro-batches (paper), or once per batch (reference).
        variants={"paper": "paper", "reference": "reference"},
        note="stagings: best known time per micro-batch, as counted by the paper and by its program (reference)",
    ),
)

# Stages that form a graph, with micro-batch schedules.
GRAPH_PIPELINE = kind_in(
    "graph-pipeline",
    rules=Function("referee:rules_of"),
    problem=Later("problem:GraphPipelineProblem"),
    plans={"stage-graph": Later("plan:StageGraphPlan")},
    write=Function("kind_functions:graph_pipeline_to_json"),
    choices={"objective": ("time-per-sample", "iteration")},
    cluster={"devices": "devices", "memory_bytes": "memory_bytes", "batch": "mini_batch"},
    counted="samples",
    runs_on="a graph pipeline runs on devices",
    profile_options=("whole_layers",),
    listing=Listing(
        columns={"operators": "{operators}", "devices": "{devices}"},
        variants={"time-per-sample": "per sample", "iteration": "iteration"},
        note="graph pipelines: best known time per sample in steady state, and per simulated iteration",
    ),
    to_schedule=Function("kind_functions:lower"),
    adjust=None,
    each_memory=None,
)

# When every block of work of every micro-batch runs.
SCHEDULE = kind_in(
    "schedule",
    problem=Later("problem:ScheduleProblem"),
    plans={"schedule": Later("plan:SchedulePlan"), "periodic-schedule": Later("plan:PeriodicSchedulePlan")},
    write=Function("kind_functions:schedule_to_json"),
    choices={"objective": ("makespan", "span", "period")},
    cluster={"memory_bytes": "devices", "batch": "micro_batches"},
    runs_on="blocks run on the devices that the problem names",
    listing=Listing(
        columns={"blocks": "{blocks}", "devices": "{devices}"},
        variants={"span": "span", "period": "period"},
        note="schedules: best known time of all micro-batches (span), or of each in steady state (period)",
    ),
    from_profile=None,
    pipeline=None,
    rules=Function("referee:rules_of"),
    read_plan=Function("csv_file:schedule_from_csv"),
    to_schedule=None,
)

# Which configuration of a training framework a model is trained with on a cluster.
TRAINING = kind_in(
    "training",
    rules=Function("referee:rules_of"),
    problem=Later("problem:TrainingProblem"),
    plans={"configuration": Later("plan:Configuration")},
    write=Function("kind_functions:training_to_json"),
    cluster={"devices": "devices", "memory_bytes": "memory_bytes", "batch": "batch", "levels": "levels"},
    runs_on="configurations run on the GPUs that the problem names",
    listing=Listing(
        columns={"units": "{units}", "devices": "{devices}"},
        variants={"configuration": "iteration"},
        note="training configurations: best known time per iteration",
    ),
    pipeline=None,
    to_schedule=None,
)

# The kind of files that do not say theirs: placements were the first kind.
DEFAULT_KIND = PLACEMENT

KINDS: dict[str, Kind[Any, Any]] = {
    kind.name: kind for kind in (PLACEMENT, CHAIN, STAGING, GRAPH_PIPELINE, SCHEDULE, TRAINING)
}


def kind_of(problem: Problem) -> Kind[Any, Any]:
    """The kind of the problem."""
    return KINDS[problem.kind]


def kind_of_plan(plan: Plan) -> Kind[Any, Any]:
    """The kind of the problems that such plans solve."""
    return next(kind for kind in KINDS.values() if plan.kind in kind.plans)


def is_problem(value: object) -> TypeGuard[Problem]:
    """Is it a problem of any kind?"""
    kind = KINDS.get(_kind_named_by(value))
    return kind is not None and isinstance(value, kind.problem.load())


def is_plan(value: object) -> TypeGuard[Plan]:
    """Is it a plan of any kind?"""
    type_ = plan_types().get(_kind_named_by(value))
    return type_ is not None and isinstance(value, type_.load())


def _kind_named_by(value: object) -> str:
    name = getattr(value, "kind", "")
    return name if isinstance(name, str) else ""


def plan_kinds(problem: Problem) -> tuple[str, ...]:
    """The kinds of plans that solve the problem, as files name them: for the usual objective, then for others."""
    kind = kind_of(problem)
    names = [kind.rules(problem, {}).plan_type.kind]  # type: ignore[attr-defined]
    for objective in kind.choices.get("objective", ()):
        try:
            names.append(kind.rules(problem, {"objective": objective}).plan_type.kind)  # type: ignore[attr-defined]
        except PipeplanError:  # the problem has none by that objective
            continue
    return tuple(dict.fromkeys(names))


def plan_types() -> dict[str, Later[type[Plan]]]:
    """Every type of plan, by the kind that a plan's file names."""
    return {name: plan_type for kind in KINDS.values() for name, plan_type in kind.plans.items()}


def any_plan_from_json(data: object, where: str = "plan") -> Plan:
    """Read a plan object of the kind that it names; `where` is its path in the file."""
    top = as_object(where, data, '{"kind": "placement", "devices": [...]}')
    name, types = require(where, top, "kind"), plan_types()
    if not isinstance(name, str) or name not in types:
        listed = " or ".join(f'"{kind}"' for kind in types)
        raise InputError(join(where, "kind"), f"is {show(name)}", f"give {listed}")
    plan: Any = types[name].load().from_json(top, where)
    return plan  # type: ignore[no-any-return]


# ---- the referee's verdict, by kind: methods ask here and import no referee ----------------------------


def violations_of(problem: Problem, plan: Plan, **options: Any) -> tuple[Violation, ...]:
    """Every rule that the plan breaks; the options are those of the kind's rules."""
    return kind_of(problem).rules(problem, options).violations(problem, plan)


def evaluation_of(problem: Problem, plan: Plan, **options: Any) -> Any:
    """Everything that follows from the plan, whether it obeys the rules or not."""
    return kind_of(problem).rules(problem, options).evaluation(problem, plan)
