"""`plan pareto`, `plan memory` and `plan sensitivity`: the same problem on other clusters, and what they are worth."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from ..instances.base.cluster import Cluster
from ..instances.base.errors import PipeplanError, UsageError
from ..instances.base.json_file import write_json, write_text_atomically
from ..instances.base.quantities import listed
from ..instances.base.result import PROVEN_TOLERANCE, Result, Stop
from ..instances.lookup import holds_profile
from ..instances.registry import Problem, kind_of
from ..kinds import shown_kind
from ..planners.options import SolveOptions
from ..show.console import print_json, put, say_note
from ..show.views import counted_devices, devices
from ..show.words import amount, memory_unit, several
from .arguments import (
    BESIDE_METHODS,
    PROFILE_OPTIONS,
    InstanceArgument,
    Json,
    Progress,
    check_memory,
    limits_for,
    load_instance,
    load_lowered,
    reporter,
    with_cluster,
    with_limits,
    with_micro_batch,
)
from .exits import INTERRUPTED, NO_PLAN, OK, exit_code, graceful
from .signatures import declared, described, in_bytes, shared, size
from .solve import METHOD, OUTPUT, with_method_options

if TYPE_CHECKING:
    from ..show.front import Front
    from ..studies.sensitivity import Sensitivity, Worth
    from ..studies.sweep import Curve, Settings


# ---- `plan pareto` --------------------------------------------------------------------------------------------


# The instance that is drawn where the user names none.
EXAMPLE = "golden-4"
# Options of the cluster without the memory, which most curves vary.
ON_CURVES = ("devices", "bandwidth", "batch", "levels", *(option.name for option in PROFILE_OPTIONS))

# Options that mean something for some kinds alone, under the names that their studies give them.
CURVES = declared(
    """
    method texts NAME: Chains: a method to draw, ilp-beaumont and cp-beaumont included; repeatable; default:
        exact-beaumont and the baselines.
    memory texts SIZE: Chains, stagings and schedules: a memory limit in place of --points: 8GiB; repeatable.
    gpus ints N: Trainings: a number of GPUs in place of --points; repeatable.
    objective text makespan|span|period: Schedules: the value that is drawn; default: makespan, or period where
        there are no micro-batches.
    """,
    panel="Curves",
)


@with_cluster(*ON_CURVES)
@with_limits("rel_gap", "time_limit_s", "threads", "seed")
@shared("own", CURVES)()
@described(
    f"""
    instance input INSTANCE: A chain, staging, schedule or training: a file, - for standard input, or a packaged
        name.
    [Curves]
    points int: How many limits to try, from the smallest with a plan to that of the unlimited optimum; default: 8.
    [{OUTPUT}]
    output output --output -o: Write each point at once, as a JSON line; an interrupted run continues from it.
    resume flag --resume/--no-resume: Continue from an existing --output.
    csv output: Write the points as a table.
    picture picture: Draw the curves: .svg, .png or .pdf.
    report output: Write the curves, every point and its plan as an HTML page.
    """
)
def pareto(
    *,
    instance: str | None = None,
    points: int | None = None,
    own: dict[str, Any],
    limits: dict[str, Any],
    on: Cluster,
    json: Json = False,
    output: str | None = None,
    resume: bool = True,
    csv: str | None = None,
    picture: str | None = None,
    report: str | None = None,
    progress: Progress = None,
) -> None:
    """Draw period against memory for a chain, staging or schedule, time against GPUs for a training.

    Every plan is recomputed by the referee. The time limit (60 s unless given) is for each point. Ctrl-C ends the
    run and shows the points so far.
    """
    profile = instance is not None and holds_profile(instance)
    lowered, named = load_lowered(instance or EXAMPLE, replace(on, memory_bytes=math.inf) if profile else on)
    problem = lowered.problem
    from ..studies.sweep import TIME_LIMIT_S, asked, axis_of, write_csv

    if profile and "memory" not in axis_of(problem).takes:
        say_note("memory has no limit here; plan convert makes a problem of the profile that has one")
    typed = {"points": points, **own}
    if "memory" in own:
        own["memory"] = [size(text) for text in own["memory"]]
        check_memory(problem, "--memory", *own["memory"])
    within = limits_for({"time_limit_s": TIME_LIMIT_S, **limits})
    answer = _answer(problem, asked(problem, points, within, **own), output, resume, progress, json)
    if not answer.complete:
        goes_on = f"; the same command continues from {output}" if output else ""
        say_note(f"interrupted: the curves are not complete{goes_on}")
    if csv is not None:
        write_csv(answer, csv)
    curve = shown_kind(problem).pareto
    assert curve is not None
    front = curve.front(answer)
    if report is not None:
        from ..show.answer import command_of_curve
        from ..show.front import pareto_page

        write_text_atomically(report, pareto_page(answer, front, command_of_curve(named, typed, within)))
    show_front(front, answer.to_json() if json else None, picture)
    if any(point.plan is not None for point in answer.points):
        raise typer.Exit(OK)
    raise typer.Exit(NO_PLAN if answer.complete else INTERRUPTED)


def show_front(front: Front, facts: Mapping[str, Any] | None, picture: str | None) -> None:
    """Draw the picture that is asked for, then print the facts as JSON, or the table where there are none: what is
    printed may meet a closed pipe."""
    if picture is not None:
        from ..show.front import draw_front

        draw_front(front, picture)
    if facts is not None:
        print_json(facts)
    else:
        from ..show.front import draw_front_table

        draw_front_table(front)


def _answer(
    problem: Problem, settings: Settings, output: str | None, resume: bool, progress: str | None, json: bool
) -> Curve:
    """The curve; where not even its ends are known, a note says so and the command ends."""
    from ..planners.run.solve import describe
    from ..studies.sweep import SCHEMA, NothingKnownError, sweep

    try:
        with graceful(), reporter(progress) as watch:
            return sweep(problem, settings, output, resume, watch)
    except NothingKnownError as nothing:
        say_note(nothing)
        if json:
            print_json({"schema": SCHEMA, "problem": describe(problem), "complete": False, "points": []})
        raise typer.Exit(NO_PLAN) from None


# ---- `plan memory` --------------------------------------------------------------------------------------------


# Seconds for all solves together, where the user gives no limit.
USUAL_LIMIT_S = 60.0


@with_cluster(*BESIDE_METHODS)
@with_method_options
@with_limits("rel_gap", "time_limit_s", "memory_limit_bytes", "threads", "seed")
@described(
    f"""
    points int: Amounts of memory for which the best value is sought; 0: only the least memory is.
    [{METHOD}]
    formulation text NAME: The model that finds the values.
    planner text NAME: The planner that finds the values.
    [{OUTPUT}]
    output output --output -o: Write the answer as JSON.
    picture picture: Draw the curves: .svg, .png or .pdf.
    """,
    points={"min": 0, "max": 1000},
)
def memory(
    *,
    instance: InstanceArgument,
    formulation: str | None = None,
    planner: str | None = None,
    own: dict[str, Any],
    points: int = 6,
    limits: dict[str, Any],
    on: Cluster,
    json: Json = False,
    output: str | None = None,
    picture: str | None = None,
    progress: Progress = None,
) -> None:
    """Find the least memory per device with a plan, and what more of it is worth.

    The instance's own memory does not count. The time limit (60 s unless given) is for all together; Ctrl-C shows what
    is known by then.
    """
    if picture is not None and not points:
        raise UsageError("--picture draws the curve, and with --points 0 there is none; drop one of them.")
    if on.memory_bytes not in (None, math.inf):
        raise UsageError("plan memory asks how much memory is needed, whatever there is; drop --memory.")
    if holds_profile(instance):
        on = replace(on, memory_bytes=math.inf)
    on, own = with_micro_batch(instance, on, own)
    problem = load_instance(instance, on)
    from ..studies.memory import memory_study

    within = SolveOptions(**{"time_limit_s": USUAL_LIMIT_S, **limits})
    method: dict[str, Any] = {"formulation": formulation, "planner": planner, "options": own}
    with graceful(), reporter(progress) as watch:
        study = memory_study(problem, **method, limits=within, points=points, on_progress=watch)
    if output is not None:
        write_json(output, study.to_json())
    if not study.complete:
        say_note("the answer is not complete: the search was interrupted, or its time was over")
    from ..show.front import of_memory

    show_front(of_memory(study), study.to_json() if json else None, picture)
    if study.least.memory_bytes is not None:
        raise typer.Exit(OK)
    raise typer.Exit(INTERRUPTED if study.least.stop == "interrupted" else NO_PLAN)


# ---- what changes are worth, in words -------------------------------------------------------------------------


# A change that saves a smaller share of the time is called no help.
WORTH_IT = 1e-3
# A change that reads as a number of devices: 10 devices.
DEVICES = re.compile(r"\d+ \w+s")
# Ends of runs whose answer no longer run can change.
SETTLED = (Stop.PROVEN, Stop.INFEASIBLE)


def lines(problem: Problem, found: Sensitivity) -> list[str]:
    """A line for the problem as it is, then one for each change."""
    unit = problem.time_unit
    memory = _memory(problem)
    limit = "no limit of memory" if memory is None else _size_of(problem, memory)
    itself = f"as it is ({devices(problem)}, {limit}): {_value_of(found.base, unit)} ({found.base.stop})"
    told = [itself]
    for worth in found.changes:
        phrases = ", ".join(filter(None, (_value_of(worth.result, unit), _difference(worth))))
        told.append(f"{changed(problem, worth)}: {phrases} ({worth.result.stop})")
    return told


def _memory(problem: Problem) -> float | None:
    kind = kind_of(problem)
    field = "memory_bytes" if kind.each_memory else kind.cluster.get("memory_bytes", "")
    memory: float | None = getattr(problem, field, None)
    return memory


def _size_of(problem: Problem, memory: float) -> str:
    """An amount in the unit in which the problem counts memory."""
    return memory_unit(getattr(problem, "memory_unit", "bytes")).like([_memory(problem)]).text(memory)


def changed(problem: Problem, worth: Worth) -> str:
    """The change in words that name what it leads to: 10 devices, 1 GB more memory (33 GB)."""
    other = worth.problem
    if other is None or type(other) is not type(problem):
        return worth.change
    if devices(other) != devices(problem) and worth.change.startswith("one more"):
        alike = not getattr(problem, "levels", ()) and not (problem.extensions & {"types"})
        return devices(other) if alike else f"{worth.change} ({devices(other)})"
    memory = _memory(other)
    if memory is not None and memory != _memory(problem) and "more memory" in worth.change:
        return f"{worth.change} ({_size_of(problem, memory)})"
    return worth.change


def _value_of(result: Result, unit: str | None) -> str:
    return "no plan" if result.objective is None else amount(result.objective, unit)


def _difference(worth: Worth) -> str:
    if worth.makes_possible:
        return "where there was no plan"
    if worth.ratio is None:
        return ""
    if abs(1 - worth.ratio) <= PROVEN_TOLERANCE:
        return "no difference"
    return f"{100 * abs(1 - worth.ratio):.2f} % {'less' if worth.ratio < 1 else 'more'} time"


# ---- advice --------------------------------------------------------------------------------------------


def advice(problem: Problem, found: Sensitivity) -> str:
    """A sentence on which single change helps most, or that none does; empty where changes are missing."""
    if found.interrupted or not found.changes:
        return ""
    if found.base.objective is not None:
        sentence = _best(problem, found)
    elif able := [changed(problem, worth) for worth in found.changes if worth.makes_possible]:
        sentence = f"Advice: {listed(able)} {_verb(able, 'make')} a plan possible."
    else:
        sentence = "Advice: none of these changes alone makes a plan possible."
    open_runs = [run for run in (found.base, *(worth.result for worth in found.changes)) if run.stop not in SETTLED]
    return f"{sentence} Not every value is proven, so longer runs may say otherwise." if open_runs else sentence


def _best(problem: Problem, found: Sensitivity) -> str:
    least = min((worth.ratio for worth in found.changes if worth.ratio is not None), default=1.0)
    if 1 - least < WORTH_IT:
        return (
            f"Advice: none of these changes alone saves {100 * WORTH_IT:g} % of the time: what there is suffices."
        )
    best = [worth for worth in found.changes if worth.ratio is not None and worth.ratio <= least + PROVEN_TOLERANCE]
    names = [changed(problem, worth) for worth in best]
    saved = f"{100 * (1 - least):.2f} % less time"
    return f"Advice: {listed(names)} {_verb(names, 'help')} most, with {saved}{_price(problem, best)}."


def _price(problem: Problem, best: Sequence[Worth]) -> str:
    """The share of devices that the best change adds, where one change is best and adds any."""
    _, count = counted_devices(problem)
    problems = [worth.problem for worth in best if type(worth.problem) is type(problem)]
    more = {counted_devices(other)[1] / count - 1 for other in problems if other is not None} - {0.0}
    return f" for {100 * min(more):.3g} % more devices" if len(best) == 1 and more and min(more) > 0 else ""


def _verb(names: Sequence[str], verb: str) -> str:
    """The verb in the number of its subject: plural for several changes, and for one change that reads `10 devices`."""
    is_plural = len(names) > 1 or (DEVICES.fullmatch(names[0]) and not names[0].startswith("1 "))
    return f"each {verb}" if len(names) > 1 and verb == "make" else verb if is_plural else f"{verb}s"


# ---- `plan sensitivity` ---------------------------------------------------------------------------------------


# Options of the cluster that are questions of their own, with the words for an answer.
IN_WORDS: Mapping[str, Callable[[Any], str]] = {
    "devices": lambda count: several(count, "device"),
    "cpus": lambda count: several(count, "CPU"),
    "memory_bytes": lambda size: "no limit of memory" if size == math.inf else f"{in_bytes(size)} of memory",
    "bandwidth": lambda rate: f"{in_bytes(rate)}/s",
    "batch": lambda count: f"a batch of {count}",
    "levels": lambda levels: _of_levels(levels),
}


@with_cluster(*BESIDE_METHODS)
@with_method_options
@with_limits("rel_gap", "time_limit_s", "memory_limit_bytes", "threads", "seed")
@described(
    f"""
    progress choice auto|json|none: How to report progress on stderr, as in `plan solve`.
    [{METHOD}]
    formulation text NAME: What to solve with, as in `plan solve`.
    planner text NAME: What to solve with, as in `plan solve`.
    solver text NAME: What to solve with, as in `plan solve`.
    [Steps]
    more_memory size SIZE: How much memory every device gets in addition.
    more_bandwidth share SHARE: How much faster the links become: 0.1 or 10%.
    """
)
def sensitivity(
    *,
    instance: InstanceArgument,
    formulation: str | None = None,
    planner: str | None = None,
    solver: str = "auto",
    more_memory: float = "1GB",  # type: ignore[assignment]  # read by the parser, as what a user gives
    more_bandwidth: float = "10%",  # type: ignore[assignment]  # likewise
    limits: dict[str, Any],
    json: Json = False,
    progress: str | None = None,
    own: dict[str, Any],
    on: Cluster,
) -> None:
    """Solve an instance again on slightly better clusters: what one more device, memory or bandwidth is worth.

    Options of the cluster are further questions, each alone and all together; where the instance itself has no
    cluster, they are its own. Limits apply to each solve. `plan planners NAME` and `plan formulations NAME` list the
    options of a method.
    """
    on, own = with_micro_batch(instance, on, own)
    problem, questions = _questions(instance, on)
    for flag, value in (("--more-memory", more_memory), ("--more-bandwidth", more_bandwidth)):
        if not 0 < value < math.inf:
            raise UsageError(f"{flag} is {value:g}; give a finite number > 0.")
    check_memory(problem, "--more-memory", more_memory)
    method: dict[str, Any] = {"formulation": formulation, "planner": planner, "solver": solver, "options": own}
    batch_grows = kind_of(problem).batch_grows and on.batch is None and holds_profile(instance)
    if batch_grows:
        say_note("no --batch is given: with more devices a batch has as many more micro-batches")
    from ..studies.sensitivity import sensitivity

    with graceful(), reporter(progress) as watch:
        study = sensitivity(
            problem,
            **method,
            limits=limits_for(limits),
            memory_bytes=more_memory,
            bandwidth_share=more_bandwidth,
            questions=questions,
            batch_grows=batch_grows,
            on_progress=watch,
        )
    if study.interrupted:
        say_note("interrupted: changes that are not listed were not tried")
    for message in study.base.messages:
        say_note(message)
    if json:
        print_json(study.to_json())
    else:
        put(*lines(problem, study), advice(problem, study), soft=True)
    raise typer.Exit(exit_code(study.base))


def _questions(instance: str, on: Cluster) -> tuple[Problem, dict[str, Problem]]:
    """The instance on its own cluster, and on those that the user asks for: each option alone and all together."""
    values = {name: value for name in IN_WORDS if (value := getattr(on, name)) is not None}
    rest = replace(on, **dict.fromkeys(values), gpus=None)
    together = load_instance(instance, on)
    itself = _instance_on(instance, rest)
    if itself is None or not values or on.gpus is not None:
        return together, {}
    alone = {
        IN_WORDS[name](value): _instance_on(instance, replace(rest, **{name: value}))
        for name, value in values.items()
    }
    asked = {words: problem for words, problem in alone.items() if problem is not None}
    return itself, {**asked, ", ".join(alone): together}


def _instance_on(instance: str, on: Cluster) -> Problem | None:
    """The problem on this cluster; None where these options do not make a cluster."""
    try:
        return load_instance(instance, on)
    except PipeplanError:
        return None


def _of_levels(levels: Sequence[tuple[int, float]]) -> str:
    shape = " x ".join(str(count) for count, _ in levels)
    return (
        f"levels of {shape} devices ({', '.join(in_bytes(speed) + '/s' for _, speed in levels)})"
        if levels
        else "no levels"
    )
