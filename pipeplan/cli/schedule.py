"""`plan schedule`: when the stages of a plan should run what, beside the plan's own schedule and the named rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from ..instances.base.cluster import Cluster
from ..instances.base.errors import UsageError
from ..instances.base.result import Asked
from ..instances.physics.tolerances import SAME
from ..show.console import put, say_note
from ..show.words import amount, memory_unit, percent
from .arguments import (
    CLUSTER_OPTIONS,
    InstanceArgument,
    Json,
    Picture,
    Progress,
    Verbose,
    check_memory,
    limits_for,
    load_for,
    reporter,
    with_cluster,
    with_limits,
)
from .exits import exit_code, graceful
from .plans import PlanArgument, read_case
from .signatures import declared, described, share, shared
from .solve import OUTPUT, show_result

if TYPE_CHECKING:
    from ..studies.stage_schedule import Rival, ScheduleStudy

BLOCKS, METHOD = "Schedule", "Method"
# Options that here are about the schedule, not the cluster: a result of a table brings its cluster's own along.
OWN = ("memory_bytes", "recompute")
# The blocks of the schedule, under the names of arguments of `schedule_study`.
BLOCK_OPTIONS = declared(
    f"""
    [{BLOCKS}]
    micro_batches int M: Micro-batches per iteration; default: steady state only.
    split_backward text SHARE: Split each backward pass: this share of its time is for inputs, the rest is a weight pass
        at any later time; e.g. 0.5, or one share per stage: 0.5,0.5,0.4.
    weight_stash share SHARE: With --split-backward: share of the activations that a stage keeps for the weight pass;
        default: 0.5.
    virtual int V: Cut every stage into V chunks, as equal as possible, assigned to the devices in round-robin order.
    shape choice v: Place two chunks on each device in a V: down the devices and back.
    recompute flag: Keep only the inputs of passes; backward passes rerun the forward pass.
    memory size-or-none SIZE: Memory of each device, e.g. 8GiB; none: no limit; default: as in the plan's problem.
    [{METHOD}]
    objective choice makespan|span|period: What to minimise; default: the makespan, or the period in steady state.
    """
)
METHOD_OPTIONS = declared(
    """
    planner text NAME: How to find the schedule; `plan planners` lists all ways.
    formulation text NAME: Formulation to solve; `plan formulations` lists all.
    """,
    panel=METHOD,
)


@with_cluster(*(known.name for known in CLUSTER_OPTIONS if known.name not in OWN))
@with_limits()
@shared("blocks", BLOCK_OPTIONS)()
@shared("method", METHOD_OPTIONS)()
@described(
    f"""
    [{OUTPUT}]
    output output --output -o: Write the result to FILE as JSON.
    problem_output output: Write the schedule problem to FILE, for use with `plan verify`, `plan show` and `plan solve`.
    """
)
def command(
    *,
    instance: InstanceArgument,
    plan: PlanArgument,
    blocks: dict[str, Any],
    method: dict[str, Any],
    limits: dict[str, Any],
    on: Cluster,
    json: Json = False,
    verbose: Verbose = False,
    output: str | None = None,
    problem_output: str | None = None,
    picture: Picture = None,
    progress: Progress = None,
) -> None:
    """Find the best schedule for the stages of a plan within the device memory.

    A plan is made for one schedule, usually 1F1B. This command keeps its stages and looks for a better order of their
    passes. It reports the gain over the plan's own schedule and over the best published rule.
    """
    if "split_backward" in blocks:
        blocks["split_backward"] = _shares(blocks["split_backward"])
    from ..studies.stage_schedule import schedule_study

    if "memory" in blocks and on != Cluster():
        on = replace(on, memory_bytes=blocks["memory"])
    problem = load_for(plan, instance, on)
    if "memory" in blocks:
        check_memory(problem, "--memory", blocks["memory"])
    case = read_case(problem, plan, {})
    for violation in case.violations()[:1]:
        say_note(f"the plan breaks a rule of the problem: {violation}")
    with graceful(), reporter(progress) as watch:
        study = schedule_study(
            problem, case.plan, method=method, limits=limits_for(limits), on_progress=watch, **blocks
        )
    _save(study, output, problem_output)
    for note in study.lowered.notes:
        say_note(note)
    show_result(study.problem, study.result, study.to_json(), json=json, verbose=verbose, picture=picture)
    put(None if json else _gain(study), style="bold", soft=True)
    raise typer.Exit(exit_code(study.result))


def _shares(text: str) -> float | tuple[float, ...]:
    """One share, or one for each stage."""
    try:
        shares = tuple(share(part) for part in text.split(","))
    except typer.BadParameter as error:
        raise UsageError(f"--split-backward is {text!r}: {error}".rstrip(".") + ".") from None
    return shares[0] if len(shares) == 1 else shares


def _save(study: ScheduleStudy, output: str | None, problem_output: str | None) -> None:
    """The problem in the result, which `plan export` reads, and beside it, which the result then names."""
    from ..instances.files import save
    from ..models.export.contract import with_problem

    result = with_problem(study.result, study.problem)
    if problem_output is not None:
        save(study.problem, problem_output)
        result = replace(result, asked=Asked(problem_output, {}, study.lowered.notes))
    if output is not None:
        save(result, output)


def _gain(study: ScheduleStudy) -> str | None:
    """What the schedule gains over the plan's own and over the best named rule; None where there is no schedule."""
    value, peak = study.result.objective, study.peak
    if value is None or peak is None:
        return None
    unit, limits = study.problem.time_unit, [device.memory for device in study.problem.devices]
    memory = memory_unit(study.problem.memory_unit).like(limits)
    name = {"period": "a micro-batch every"}.get(study.objective, study.objective)
    here = f"{name} {amount(value, unit)}, at most {memory.text(peak)} on a device"

    def against(rival: Rival, what: str) -> str:
        more = "" if rival.fits else ", which does not fit"
        told = f"{amount(rival.value, unit)}, {memory.text(rival.peak)}{more}"
        return f"{_difference(value, rival.value)} {what} ({told})"

    told = [against(study.own, "the plan's own schedule")] if study.own is not None else []
    if study.rule is None:
        told.append("no published rule fits this shape and memory")
    else:
        told.append(against(study.rule, f"{study.rule.name}, the best published rule that fits"))
    return f"{here}: {'; '.join(told)}"


def _difference(value: float, other: float) -> str:
    if abs(value - other) <= SAME * max(abs(value), abs(other)):
        return "as long as"
    if not other:
        return "more than"
    return f"{percent(abs(other - value) / other)} {'less' if value < other else 'more'} than"
