"""The door through which plans go to frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...instances.base.checks import check_whole
from ...instances.base.errors import InputError, PipeplanError, UsageError, show, unknown_choice, wrong_argument
from ...instances.base.kind import load_address
from ...instances.base.result import Found, Result
from ...instances.files import problem_from_json
from ...instances.lookup import PLAN
from ...instances.networks.profile.profile import Profile
from ...instances.registry import Plan, Problem, is_plan, is_problem, kind_of, kind_of_plan
from ...instances.simulate import MAX_MICRO_BATCHES
from ...kinds import SHOWN
from ..stages import stages_of
from .contract import TARGETS, Exported, ExportOptions, PlanRefusalError, ToExport

_FLAGS = {"rename": "--rename", "micro_batches": "--micro-batches"}
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
    legacy: bool = False,
    micro_batches: int | None = None,
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
    legacy : bool
        For megatron and torchtitan: the options of versions before they had lists of all stages.
    micro_batches : int, optional
        For torch and torchtitan: micro-batches of an iteration. None: the text names no order of passes.

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
    return export_files(planned, profile, to=to, rename=rename, legacy=legacy, micro_batches=micro_batches).text


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
    plan = _plan_in(planned)
    unused: tuple[str, ...] = ()
    if SHOWN[kind_of_plan(plan).name].exports:
        exported = _by_problem(plan, profile if profile is not None else _problem_in(planned), to, options)
    elif profile is not None and not isinstance(profile, Profile):
        raise wrong_argument("profile", profile, "a profile", PROFILE)
    else:
        asked = planned.asked.cluster if isinstance(planned, Result) and planned.asked is not None else {}
        job = ToExport(to, stages_of(plan, profile), profile, options, asked)
        unused = _about_devices(job)
        exported = load_address(f"{__package__}.{TARGETS[to].address}")(job)
    return replace(exported, notes=(*_about_names(planned, profile), *unused, *exported.notes))


def expected_refusal(planned: Plan | Result, profile: Profile) -> str | None:
    """Why a framework that many train or serve with cannot say this plan, in the words of its export.

    None: it can, or it does not run this model.
    """
    use = "training" if profile.training else "inference"
    for to, target in TARGETS.items():
        if target.expected_for == use:
            try:
                export_files(planned, profile, to=to)
            except PlanRefusalError as refusal:
                return str(refusal).removesuffix(".")
            except PipeplanError:
                pass
    return None


def _by_problem(plan: Plan, problem: object, to: str, options: ExportOptions) -> Exported:
    """The export of a plan that is about its problem, such as the blocks of a schedule, and about no model."""
    exports = SHOWN[kind_of_plan(plan).name].exports
    planned = f"plan of the kind {plan.kind}"
    if to not in exports:
        raise UsageError(f"A {planned} cannot be written for {to}; give --to {' or '.join(exports)}.")
    if options.rename:
        raise UsageError(f"{_FLAGS['rename']} is for modules, and a {planned} has none; drop it.")
    if not is_problem(problem) or plan.kind not in kind_of(problem).plans:
        raise UsageError(f"A {planned} is exported with its problem; name that after the plan.")
    return exports[to](problem, plan, options)


def with_problem(result: Result, problem: Problem) -> Result:
    """A result that brings its problem along."""
    return replace(result, problem={**result.problem, WHOLE: kind_of(problem).write(problem)})


def _problem_in(planned: Plan | Result) -> Problem | None:
    """The problem that a result brings along, as those of `plan configure` and `plan schedule` do."""
    whole = planned.problem.get(WHOLE) if isinstance(planned, Result) else None
    return None if whole is None else problem_from_json(whole)


def _about_names(planned: Plan | Result, profile: Profile | Problem | None) -> tuple[str, ...]:
    """A note where the result and the profile have different names, since nodes of two models can have the same."""
    name = planned.problem.get("name") if isinstance(planned, Result) else None
    if profile is None or name in (None, profile.name):
        return ()
    return (f"the result is about {show(name)} and the profile is called {show(profile.name)}",)


def _about_devices(job: ToExport) -> tuple[str, ...]:
    """A note where the plan was made for more devices than it uses."""
    count = job.asked.get("devices")
    used = sum({stage.rank: stage.replicas * stage.tensor_parallel for stage in job.stages}.values())
    if not isinstance(count, int) or used >= count:
        return ()
    return (f"the plan uses {used} of the {count} devices that it was made for",)


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
    is_given = {"rename": bool(options.rename), "micro_batches": options.micro_batches is not None}
    for name, said in is_given.items():
        if said and name not in TARGETS[to].options:
            able = ", ".join(other for other, target in TARGETS.items() if name in target.options)
            raise UsageError(f"{_FLAGS[name]} is not for {to}; it is for {able}.")
    if options.legacy and "legacy" not in TARGETS[to].options:
        raise UsageError(f"{to} has no words of earlier versions; drop legacy.")
    if options.micro_batches is not None:
        check_whole("--micro-batches", options.micro_batches, MAX_MICRO_BATCHES)
