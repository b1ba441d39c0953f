"""`plan pareto`: what one thing costs of the other, as a curve: period against memory, time against GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.base.plausible import MEMORY, check_figure
from ..instances.lookup import holds_profile
from ..kinds import shown_kind
from ..show.answer import command_of_curve
from ..show.console import print_json, say_note
from . import quantities
from .arguments import (
    PROFILE_OPTIONS,
    Cluster,
    Json,
    counts_bytes,
    drawable,
    input_file,
    load_asked,
    output_file,
    with_cluster,
)
from .exits import INTERRUPTED, NO_PLAN, OK
from .interrupt import graceful
from .limits import limits_for, with_limits
from .progress import reporter
from .signatures import option, shared
from .solve import Progress

if TYPE_CHECKING:
    from ..instances.registry import Problem
    from ..show.front import Front
    from ..studies.sweep import Curve, Settings

OUTPUT = "Output"
_curves = partial(option, rich_help_panel="Curves")
# The instance that is drawn where the user names none.
EXAMPLE = "golden-4"
# Options of the cluster without the memory, which most curves vary.
CLUSTER_OPTIONS = ("devices", "bandwidth", "batch", "levels", *(option.name for option in PROFILE_OPTIONS))

_Instance = Annotated[
    str | None,
    input_file(
        "INSTANCE",
        "A chain, staging, schedule or training: a file, - for standard input, or a packaged name.",
    ),
]
# Options that mean something for some kinds alone, under the names that their studies give them.
CURVES = (
    _curves(
        "method",
        list[str],
        metavar="NAME",
        help="Chains: a method to draw, ilp-beaumont and cp-beaumont included; repeatable; default: exact-beaumont and "
        "the baselines.",
    ),
    _curves(
        "memory",
        list[str],  # a parser would meet each element twice
        metavar="SIZE",
        help="Chains, stagings and schedules: a memory limit in place of --points: 8GiB; repeatable.",
    ),
    _curves("gpus", list[int], metavar="N", help="Trainings: a number of GPUs in place of --points; repeatable."),
    _curves(
        "objective",
        str,
        metavar="makespan|span|period",
        help="Schedules: the value that is drawn; default: makespan, or period where there are no micro-batches.",
    ),
)
_Points = Annotated[
    int | None,
    typer.Option(
        "--points",
        rich_help_panel="Curves",
        help="How many limits to try, from the smallest with a plan to that of the unlimited optimum; default: 8.",
    ),
]
_Output = Annotated[
    str | None,
    output_file(
        "Write each point at once, as a JSON line; an interrupted run continues from it.",
        "--output",
        "-o",
        panel=OUTPUT,
    ),
]
_Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Continue from an existing --output.", rich_help_panel=OUTPUT)
]
_Csv = Annotated[str | None, output_file("Write the points as a table.", "--csv", panel=OUTPUT)]
Picture = Annotated[
    str | None, output_file("Draw the curves: .svg, .png or .pdf.", "--picture", panel=OUTPUT, check=drawable)
]
_Report = Annotated[
    str | None, output_file("Write the curves, every point and its plan as an HTML page.", "--report", panel=OUTPUT)
]


@with_cluster(*CLUSTER_OPTIONS)
@with_limits("rel_gap", "abs_gap", "time_limit_s", "threads", "seed")
@shared("own", CURVES)()
def command(
    *,
    instance: _Instance = None,
    points: _Points = None,
    own: dict[str, Any],
    limits: dict[str, Any],
    on: Cluster,
    json: Json = False,
    output: _Output = None,
    resume: _Resume = True,
    csv: _Csv = None,
    picture: Picture = None,
    report: _Report = None,
    progress: Progress = None,
) -> None:
    """Draw period against memory for a chain, staging or schedule, time against GPUs for a training.

    Every plan is recomputed by the referee. The time limit (60 s unless given) is for each point. Ctrl-C ends the
    run and shows the points so far.
    """
    profile = instance is not None and holds_profile(instance)
    problem, named = load_asked(instance or EXAMPLE, replace(on, memory_bytes=math.inf) if profile else on)
    from ..studies.sweep import TIME_LIMIT_S, asked, axis_of, write_csv

    if profile and "memory" not in axis_of(problem).takes:
        say_note("memory has no limit here; plan convert makes a problem of the profile that has one")
    typed = {"points": points, **own}
    if "memory" in own:
        own["memory"] = [quantities.size(text) for text in own["memory"]]
        if counts_bytes(problem):
            for memory in own["memory"]:
                check_figure("--memory", memory, MEMORY)
    within = limits_for(problem, {"time_limit_s": TIME_LIMIT_S, **limits})
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
        from ..instances.base.json_file import write_text_atomically
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
