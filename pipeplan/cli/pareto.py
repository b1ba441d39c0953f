"""`plan pareto`: period against memory for many methods on one chain."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.errors import UsageError
from ..instances.lookup import holds_profile
from ..planners.options import SolveOptions
from ..show.console import print_json, say_note
from . import quantities
from .arguments import Cluster, Json, drawable, input_file, load_instance, output_file, with_cluster
from .exits import INTERRUPTED, NO_PLAN, OK
from .interrupt import graceful
from .limits import limits_for, with_limits
from .progress import reporter
from .solve import Progress

if TYPE_CHECKING:
    from ..studies.pareto.records import Settings

OUTPUT = "Output"
_curves = partial(typer.Option, rich_help_panel="Curves")
EXAMPLE = "golden-4"

_Instance = Annotated[
    str | None,
    input_file("INSTANCE", "A chain: a file, - for standard input, or a packaged name; default: an example."),
]
_Methods = Annotated[
    list[str] | None,
    _curves(
        "--method",
        metavar="NAME",
        help="A method to draw, ilp-beaumont and cp-beaumont included; repeatable; default: exact-beaumont and the "
        "baselines.",
    ),
]
_Levels = Annotated[
    int | None,
    _curves(
        "--levels",
        help="How many memory limits to try, from the smallest with a plan to that of the unlimited optimum; "
        "default: 8.",
    ),
]
_Memory = Annotated[
    list[str] | None,  # a parser would meet each element twice
    _curves("--memory", metavar="SIZE", help="A memory limit in place of --levels: 8GiB; repeatable."),
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
_Picture = Annotated[
    str | None, output_file("Draw the curves: .svg, .png or .pdf.", "--picture", panel=OUTPUT, check=drawable)
]


@with_limits("rel_gap", "abs_gap", "time_limit_s", "threads", "seed")
@with_cluster("devices", "bandwidth")
def command(
    *,
    instance: _Instance = None,
    method: _Methods = None,
    levels: _Levels = None,
    memory: _Memory = None,
    limits: dict[str, Any],
    on: Cluster,
    json: Json = False,
    output: _Output = None,
    resume: _Resume = True,
    csv: _Csv = None,
    picture: _Picture = None,
    progress: Progress = None,
) -> None:
    """Draw period against memory: each method at each memory limit, every plan recomputed by the referee.

    The time limit (60 s unless given) is for each point. Ctrl-C ends the run and shows the points so far.
    """
    problem = load_instance(instance or EXAMPLE, _cluster(instance, on))
    from ..instances.chain.problem import ChainProblem

    if not isinstance(problem, ChainProblem):
        raise UsageError(f"plan pareto is for chains; {instance} is a {problem.kind} problem.")
    from ..studies.pareto.records import TIME_LIMIT_S
    from ..studies.pareto.stored import open_journal
    from ..studies.pareto.sweep import check, sweep

    settings = _settings(method, levels, memory, limits_for(problem, {"time_limit_s": TIME_LIMIT_S, **limits}))
    check(problem, settings)
    journal = open_journal(output, problem, settings, resume)
    with graceful(), reporter(progress) as watch:
        answer = sweep(problem, settings, journal, watch)
    if not answer.complete:
        goes_on = f"; the same command continues from {output}" if output else ""
        say_note(f"interrupted: the curves are not complete{goes_on}")
    if csv is not None:
        from ..studies.pareto.export import write_csv

        write_csv(answer, csv)
    if picture is not None:
        from ..show.pictures.pareto import draw_pareto

        draw_pareto(answer, picture)
    if json:
        print_json(answer.to_json())
    else:
        from ..show.terminal.pareto import draw_curves

        draw_curves(answer)
    if any(point.plan is not None for point in answer.points):
        raise typer.Exit(OK)
    raise typer.Exit(NO_PLAN if answer.complete else INTERRUPTED)


def _cluster(instance: str | None, on: Cluster) -> Cluster:
    """A profile becomes a chain; its memory is what the curve is about."""
    if instance is None or not holds_profile(instance):
        return on
    from ..instances.profile.options import ProfileOptions

    return replace(on, memory_bytes=math.inf, profile=ProfileOptions(kind="chain"))


def _settings(
    methods: list[str] | None, levels: int | None, memory: list[str] | None, limits: SolveOptions
) -> Settings:
    from ..studies.pareto.records import DEFAULT_METHODS, LEVELS, Settings

    if memory and levels is not None:
        raise UsageError("--memory and --levels both say where the points lie; give one of them.")
    return Settings(
        methods=tuple(dict.fromkeys(methods or DEFAULT_METHODS)),
        levels=LEVELS if levels is None else levels,
        memory_bytes=tuple(sorted({quantities.size(text) for text in memory or ()})),
        limits=limits,
    )
