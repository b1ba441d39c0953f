"""The door through which plans go to frameworks: what an exporter is asked and answers, and rules that several share.

A new framework is a function from `ToExport` to `Exported` and a row of `TARGETS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from ...instances.base.checks import check_whole
from ...instances.base.errors import (
    InputError,
    PipeplanError,
    UsageError,
    one_of,
    show,
    unknown_choice,
    wrong_argument,
)
from ...instances.base.kind import load_address
from ...instances.base.quantities import whole_number
from ...instances.base.result import Found, Result
from ...instances.files import problem_from_json
from ...instances.lookup import PLAN
from ...instances.networks.profile.profile import Profile
from ...instances.registry import Plan, Problem, is_plan, is_problem, kind_of, kind_of_plan
from ...instances.simulate import MAX_MICRO_BATCHES
from ...kinds import SHOWN
from ..stages import ModelStage, PlanStages, stages_of


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of an export; a target that does not know one of them refuses it."""

    rename: Mapping[str, str] = field(default_factory=dict)
    """Module of the profile -> module of the framework; what lies below is renamed with it."""
    micro_batches: int | None = None
    """Micro-batches in one iteration, for targets that are told the order of all passes."""
    model_flags: bool = False
    """Of training configurations: are the model's own shapes written as well?"""
    launcher: str | None = None
    """Of training configurations: the launcher for which a script is written; None: only what the program is given."""


class PlanRefusalError(UsageError):
    """A framework has no words for a plan, though it may have some for others of the same model."""


@dataclass(frozen=True)
class ToExport:
    """A plan on its way to a target."""

    target: str
    plan: PlanStages
    profile: Profile | None
    options: ExportOptions = field(default_factory=ExportOptions)
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What the plan was made for, as a result keeps it: `devices`, `batch`, `optimizer`; empty for a mere plan."""

    @property
    def stages(self) -> tuple[ModelStage, ...]:
        return self.plan.stages

    def at(self, number: int) -> str:
        """A stage in a sentence, with its first node, by which people find it."""
        return f"stage {number}, with the node {show(self.stages[number].nodes[0])}"

    def refusal(self, why: str, remedy: str) -> PlanRefusalError:
        """An error that says why the target has no words for this plan, and what to do."""
        return PlanRefusalError(f"{self.target} cannot say this plan: {why}; {remedy}.")


@dataclass(frozen=True, slots=True)
class Exported:
    """Files by their names, the main one first, and what a reader should know."""

    files: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Text of the main file."""
        return next(iter(self.files.values()))


# Remedies for plans that a target cannot say.
CONTIGUOUS = "plan with --planner dp, and chains with --planner contiguous"
RUN_IT = "`plan run` runs every plan that has stages"

# ---- rules that several targets have -------------------------------------------------------------------


def check_accelerators(job: ToExport) -> None:
    """No stage on a CPU."""
    for number, stage in enumerate(job.stages):
        if stage.on_cpu:
            raise job.refusal(
                f"the node {show(stage.nodes[0])} is on {show(stage.device)}, a CPU (stage {number})",
                "plan without --cpus, or export --to accelerate",
            )


def check_ordered(job: ToExport) -> None:
    """The order of the stages is known."""
    if job.plan.reads is None and not job.stages[0].device.startswith("stage "):
        raise job.refusal(
            f"a placement does not say in which order its devices run, such as {show(job.stages[0].device)} with the "
            f"node {show(job.stages[0].nodes[0])}",
            "give the profile after the plan",
        )


def check_one_stage_per_rank(job: ToExport) -> None:
    """Each rank holds one stage; a device whose nodes do not follow each other holds several."""
    seen: dict[int, int] = {}
    for number, stage in enumerate(job.stages):
        if stage.rank in seen:
            between = job.stages[seen[stage.rank] + 1].nodes[0]
            raise job.refusal(
                f"{show(stage.device)} holds stages {seen[stage.rank]} and {number}, with the node {show(between)} "
                f"elsewhere between {show(job.stages[seen[stage.rank]].nodes[-1])} and {show(stage.nodes[0])}, and "
                "ranks hold one row of layers each",
                CONTIGUOUS,
            )
        seen[stage.rank] = number


def check_round_robin(job: ToExport) -> None:
    """Stage i is on rank i mod the number of ranks: what frameworks with several stages on a rank assume."""
    ranks = job.plan.ranks
    for number, stage in enumerate(job.stages):
        begins = f"which begins with the node {show(stage.nodes[0])}, is on rank {stage.rank}, and"
        if stage.rank != number % ranks:
            raise job.refusal(
                f"stage {number}, {begins} stage i of {ranks} ranks must be on rank i mod {ranks}", RUN_IT
            )
    if len(job.stages) % ranks:
        raise job.refusal(
            f"the last stage, {begins} every one of {ranks} ranks must hold equally many stages", RUN_IT
        )


def check_neighbours(job: ToExport) -> None:
    """Every tensor that leaves its stage is read by the next stage alone."""
    for node, reader in job.plan.reads or ():
        source, target = job.plan.stage_of[node], job.plan.stage_of[reader]
        if target != source + 1:
            raise job.refusal(
                f"the node {show(reader)} on stage {target} reads from {show(node)} on stage {source}, and tensors go "
                "to the next stage alone",
                RUN_IT,
            )


def check_in_model_order(job: ToExport) -> None:
    """In the model, too, the nodes of a stage come before those of the next one."""
    if job.profile is None:
        return
    place = {job.profile.nodes[i].id: number for number, i in enumerate(job.profile.model_order)}
    last = ""
    for number, stage in enumerate(job.stages):
        if last and place[stage.nodes[0]] < place[last]:
            raise job.refusal(
                f"the node {show(stage.nodes[0])} of stage {number} comes before {show(last)} of an earlier stage in "
                "the model, and the model is cut as a list",
                RUN_IT,
            )
        last = max(stage.nodes, key=place.__getitem__)


def check_row(job: ToExport, check_ranks: Callable[[ToExport], None] | None = None) -> None:
    """Stages on accelerators follow each other as the model's nodes do; `check_ranks` checks their ranks."""
    check_accelerators(job)
    check_ordered(job)
    if check_ranks is not None:
        check_ranks(job)
    check_neighbours(job)
    check_in_model_order(job)


def degrees_of(job: ToExport, *, replicas: bool = True, tensor: bool = True) -> tuple[int, int]:
    """Replicas and tensor-parallel degree, which all stages must share; 1 where the target knows no other."""
    first = job.stages[0]
    for number, stage in enumerate(job.stages):
        for name, degree, other, said in (
            ("replicas", stage.replicas, first.replicas, replicas),
            ("tensor-parallel devices", stage.tensor_parallel, first.tensor_parallel, tensor),
        ):
            if degree != other:
                raise job.refusal(
                    f"{job.at(number)}, has {degree} {name} and stage 0 has {other}, and all stages must have equally "
                    "many",
                    "plan with --option uniform, or without --data-parallel and --tensor-parallel",
                )
            if degree > 1 and not said:
                raise job.refusal(
                    f"{job.at(number)}, has {degree} {name}, and a stage is one device there",
                    "plan without --data-parallel and --tensor-parallel",
                )
    return first.replicas, first.tensor_parallel


def servers_of(job: ToExport, devices: int) -> tuple[int, int] | None:
    """Devices of a server and the number of servers, where the plan was made for levels and uses them all."""
    levels = job.asked.get("levels")
    texts = levels.split(",") if isinstance(levels, str) else []
    counts = [whole_number(text.partition("x")[0]) or 0 for text in texts]
    return (counts[0], devices // counts[0]) if prod(counts) == devices and len(counts) > 1 else None


# ---- notes that several targets share ------------------------------------------------------------------


def usual_notes(job: ToExport, *, ties: str | None = None) -> list[str]:
    """What the text does not say: which device is which rank, what is computed again, weights on two stages.

    `ties`: what becomes of tied weights; None: the framework keeps them equal itself.
    """
    notes = []
    if job.profile is None:
        row = "" if job.plan.reads is not None else ", and the stages as a row"
        notes.append(f"without a profile the node names of the plan are taken as names of modules{row}")
    named = {stage.rank: stage.device for stage in job.stages if not stage.device.startswith("stage ")}
    if named and list(named.values()) != sorted(named.values()):
        notes.append("ranks are " + ", ".join(f"{rank} = {named[rank]}" for rank in sorted(named)))
    unusual = [(node, way) for stage in job.stages for node, way in (stage.configurations or {}).items()]
    if unusual:
        node, way = unusual[0]
        notes.append(
            f"the text does not say how nodes run: the plan has {show(way)} for {show(node)}"
            + (f" and {len(unusual) - 1} more" if len(unusual) > 1 else "")
        )
    if ties is not None:
        notes += [
            f"{one} (stage {x}) and {other} (stage {y}) are one parameter: {ties}" for one, x, other, y in tied(job)
        ]
    return notes


def tied(job: ToExport) -> list[tuple[str, int, str, int]]:
    """Tied parameters on two stages: the name and the stage of one, then of the other."""
    if job.profile is None:
        return []
    homes = {name: job.plan.stage_of[node.id] for node in job.profile.nodes for name in node.parameters}
    pairs = [(one, homes[one], other, homes[other]) for one, other in job.profile.tied]
    return [pair for pair in pairs if pair[1] != pair[3]]


@dataclass(frozen=True, slots=True)
class Target:
    """What is needed to write a plan for one framework."""

    address: str
    """Module of this package and function in it."""
    about: str
    """A phrase that says what is written."""
    options: tuple[str, ...] = ()
    """Fields of `ExportOptions` that it knows."""
    expected_for: str | None = None
    """The use, "training" or "inference", for which readers are told beforehand that this target cannot say a plan."""


# Options that are for training configurations alone.
_OF_JOBS = ("model_flags", "launcher")

TARGETS: Mapping[str, Target] = {
    "torch": Target(
        "torch_pipelining:export",
        "modules of each stage, split_spec and schedule for torch.distributed.pipelining",
        ("rename", "micro_batches"),
    ),
    "torchtitan": Target(
        "torch_pipelining:torchtitan",
        "module_fqns_per_model_part and schedule",
        ("rename", "micro_batches", *_OF_JOBS),
    ),
    "megatron": Target("training:megatron", "--pipeline-model-parallel-layout", _OF_JOBS, expected_for="training"),
    "deepspeed": Target("training:deepspeed", "a PipelineModule with the planned parts", _OF_JOBS),
    "vllm": Target("serving:vllm", "VLLM_PP_LAYER_PARTITION", expected_for="inference"),
    "sglang": Target("serving:sglang", "SGLANG_PP_LAYER_PARTITION"),
    "trtllm": Target("serving:trtllm", "pp_partition"),
    "accelerate": Target("serving:accelerate", "a device_map, one device at a time", ("rename",)),
    "llamacpp": Target("serving:llamacpp", "--tensor-split, in proportions"),
}


# ---- registry ------------------------------------------------------------
# The door through which plans go to frameworks.


_FLAGS = {
    "rename": "--rename",
    "micro_batches": "--micro-batches",
    "model_flags": "--with-model-flags",
    "launcher": "--launcher",
}
# Launchers of training configurations, each with the name of its file; `launch` writes them.
LAUNCHERS = {"torchrun": "launch.sh", "slurm": "launch.sh", "mcore": "model_config.yaml"}
# The key of a result's `problem` under which the result holds the problem itself.
WHOLE = "whole"
# The remedy for an argument that is no profile.
PROFILE = "give what pipeplan.load_profile(path) or pipeplan.import_torch(build) returns, or None"


def export(
    planned: Plan | Result,
    profile: Profile | Problem | None = None,
    *,
    to: str,
    rename: Mapping[str, str] | None = None,
    micro_batches: int | None = None,
    model_flags: bool = False,
    launcher: str | None = None,
) -> str:
    """Say a plan in the words of a framework.

    Parameters
    ----------
    planned : Plan or Result
        A plan of any kind, or a result that holds one.
    profile : Profile or problem, optional
        What the plan was made from; of a schedule or a training configuration its problem, which results of `plan
        configure` bring along. A profile says which modules nodes are, and what reads from what. None: the names of the
        plan's nodes are those of modules, which is enough for plans that list their stages.
    to : str
        The framework: "torch", "torchtitan", "megatron", "deepspeed", "vllm", "sglang", "trtllm", "accelerate" or
        "llamacpp".
    rename : mapping of str to str, optional
        For torch, torchtitan and accelerate: modules of the profile, and their names in the framework's own model;
        what lies below them is renamed, too. None: nothing is.
    micro_batches : int, optional
        For torch and torchtitan: micro-batches of an iteration. None: the text names no order of passes.
    model_flags : bool
        Of a training configuration: write flags for the model's shapes as well.
    launcher : str, optional
        Of a training configuration: write a script for "torchrun" or "slurm", or Megatron's own file, "mcore". None:
        only what the program is given.

    Returns
    -------
    str
        What the framework is given: options, an environment variable, JSON, a line of a file or a module, as
        docs/export.md lists them.

    Raises
    ------
    InputError
        An argument is no plan or no profile, or the plan is one of another model.
    UsageError
        There is no such target, it does not know an option, or it has no words for this plan: the message names the
        node and the rule.
    """
    more = {"model_flags": model_flags, "launcher": launcher}
    return export_files(planned, profile, to=to, rename=rename, micro_batches=micro_batches, **more).text


def export_files(
    planned: Plan | Result,
    profile: Profile | Problem | None = None,
    *,
    to: str,
    rename: Mapping[str, str] | None = None,
    **given: Any,
) -> Exported:
    """All files of an export, of which `export` gives the main one, and notes on what they do not say."""
    if to not in TARGETS:
        raise unknown_choice("--to", to, TARGETS)
    options = ExportOptions(dict(rename or {}), **given)
    _check_options(to, options)
    # Results of `plan configure` and `plan schedule` bring their problem along.
    whole = planned.problem.get(WHOLE) if isinstance(planned, Result) else None
    problem = problem_from_json(whole) if profile is None and whole is not None else profile
    plan = _plan_in(planned)
    if SHOWN[kind_of_plan(plan).name].exports:
        exported = _by_problem(plan, problem, to, options)
    elif profile is not None and not isinstance(profile, Profile):
        raise wrong_argument("profile", profile, "a profile", PROFILE)
    else:
        _refuse_jobs(options)
        asked = planned.asked.cluster if isinstance(planned, Result) and planned.asked is not None else {}
        job = ToExport(to, stages_of(plan, profile), profile, options, asked)
        exported = load_address(f"{__package__}.{TARGETS[to].address}")(job)
        count = asked.get("devices")
        used = sum({stage.rank: stage.replicas * stage.tensor_parallel for stage in job.stages}.values())
        if isinstance(count, int) and used < count:
            about = f"the plan uses {used} of the {count} devices that it was made for"
            exported = replace(exported, notes=(about, *exported.notes))
    # Nodes of two models can have the same names.
    name = planned.problem.get("name") if isinstance(planned, Result) else None
    if profile is None or name in (None, profile.name):
        return exported
    about = f"the result is about {show(name)} and the profile is called {show(profile.name)}"
    return replace(exported, notes=(about, *exported.notes))


def expected_refusal(planned: Plan | Result, profile: Profile) -> str | None:
    """Why a framework that many train or serve with cannot say this plan, in the words of its export.

    None: it can, or it does not run this model.
    """
    use = "training" if profile.training else "inference"
    for to, target in TARGETS.items():
        if target.expected_for == use:
            try:
                export_files(planned, profile, to=to)
            except PipeplanError as error:
                if isinstance(error, PlanRefusalError):
                    return str(error).removesuffix(".")
    return None


def _by_problem(plan: Plan, problem: object, to: str, options: ExportOptions) -> Exported:
    """The export of a plan that is about its problem, such as the blocks of a schedule, and about no model."""
    exports = SHOWN[kind_of_plan(plan).name].exports
    planned = f"plan of the kind {plan.kind}"
    if to not in exports:
        raise UsageError(f"A {planned} cannot be written for {to}; give --to {' or '.join(exports)}.")
    if options.rename:
        raise UsageError(f"{_FLAGS['rename']} is for modules, and a {planned} has none; drop it.")
    if plan.kind != "configuration":
        _refuse_jobs(options)
    if not is_problem(problem) or plan.kind not in kind_of(problem).plans:
        raise UsageError(f"A {planned} is exported with its problem; name that after the plan.")
    return exports[to](problem, plan, options)


def _refuse_jobs(options: ExportOptions) -> None:
    for name in _OF_JOBS:
        if getattr(options, name):
            raise UsageError(
                f"{_FLAGS[name]} is for training configurations, as `plan configure -o` writes; drop it."
            )


def with_problem(result: Result, problem: Problem) -> Result:
    """A result that brings its problem along."""
    return replace(result, problem={**result.problem, WHOLE: kind_of(problem).write(problem)})


def _plan_in(planned: object) -> Plan:
    if isinstance(planned, Result):
        if planned.plan is None:
            raise InputError("plan", "is null: the run found none", "give a result with a plan")
        if planned.found == Found.REJECTED or planned.violations:
            broken = f" ({planned.violations[0]})" if planned.violations else ""
            raise InputError("plan", f"was rejected by the referee{broken}", "give a result with a verified plan")
        return planned.plan
    if not is_plan(planned):
        raise wrong_argument("planned", planned, "a plan or a result", PLAN)
    return planned


def _check_options(to: str, options: ExportOptions) -> None:
    """Refuse an option that the target does not know: nothing that a user says is dropped in silence."""
    for name, flag in _FLAGS.items():
        if getattr(options, name) and name not in TARGETS[to].options:
            able = ", ".join(other for other, target in TARGETS.items() if name in target.options)
            raise UsageError(f"{flag} is not for {to}; it is for {able}.")
    if options.launcher is not None:
        one_of("--launcher", options.launcher, LAUNCHERS)
    if options.micro_batches is not None:
        check_whole("--micro-batches", options.micro_batches, MAX_MICRO_BATCHES)
