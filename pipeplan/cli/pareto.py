"""`plan pareto`: period against memory for many methods on one chain."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ..instances.errors import UsageError
from ..instances.lookup import holds_profile
from ..planners.options import SolveOptions
from ..show.console import print_json, say_note
from . import limits as limit_options
from . import quantities
from .arguments import Bandwidth, Cluster, Devices, Json, check_output, load_instance
from .exits import INTERRUPTED, NO_PLAN, OK
from .interrupt import graceful
from .progress import reporter
from .solve import PROGRESS_MODES

if TYPE_CHECKING:
    from ..studies.pareto.records import Settings

CURVES, OUTPUT = "Curves", "Output"
EXAMPLE = "golden-4"
TIME_LIMIT_S = 60.0

_Instance = Annotated[
    str | None,
    typer.Argument(
        metavar="INSTANCE", help="A chain: a file or a packaged name; without it an example.", show_default=False
    ),
]
_Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        metavar="NAME",
        help="Repeatable; default: exact-beaumont and the baselines; also ilp-beaumont, cp-beaumont.",
        rich_help_panel=CURVES,
        show_default=False,
    ),
]
_Levels = Annotated[
    int | None,
    typer.Option(
        "--levels",
        help="Memory limits from the smallest that works to that of the unlimited optimum. [default: 8]",
        rich_help_panel=CURVES,
        show_default=False,
    ),
]
_Memory = Annotated[
    list[str] | None,  # a parser would meet each element twice
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="A memory limit in place of --levels: 8GiB; repeatable.",
        rich_help_panel=CURVES,
        show_default=False,
    ),
]
_Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Each point as a JSON line at once; an interrupted run goes on from there.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
_Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Go on with an existing --output.", rich_help_panel=OUTPUT)
]
_Csv = Annotated[
    str | None,
    typer.Option("--csv", metavar="FILE", help="The points as a table.", rich_help_panel=OUTPUT, show_default=False),
]
_Picture = Annotated[
    str | None,
    typer.Option(
        "--picture", metavar="FILE", help="The curves as .svg or .png.", rich_help_panel=OUTPUT, show_default=False
    ),
]
_Progress = Annotated[
    str | None,
    typer.Option(
        "--progress",
        metavar="auto|json|none",
        help="On stderr; without the option drawn on a terminal and silent elsewhere.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]


def command(
    instance: _Instance = None,
    method: _Methods = None,
    levels: _Levels = None,
    memory: _Memory = None,
    gap: limit_options.Gap = 0.0,
    abs_gap: limit_options.AbsGap = 0.0,
    time_limit: limit_options.TimeLimit = None,
    threads: limit_options.Threads = None,
    seed: limit_options.Seed = 0,
    devices: Devices = None,
    bandwidth: Bandwidth = None,
    json: Json = False,
    output: _Output = None,
    resume: _Resume = True,
    csv: _Csv = None,
    picture: _Picture = None,
    progress: _Progress = None,
) -> None:
    """Draw period against memory: each method at each memory limit, every plan recomputed by the referee.

    The time limit (60 s unless given) is for each point. Ctrl-C shows what is there.
    """
    if progress is not None and progress not in PROGRESS_MODES:
        raise UsageError(f"--progress is {progress!r}; give one of {', '.join(PROGRESS_MODES)}.")
    _check_files(output, csv, picture)
    problem = load_instance(instance or EXAMPLE, _cluster(instance, Cluster(devices=devices, bandwidth=bandwidth)))
    from ..instances.chain.problem import ChainProblem

    if not isinstance(problem, ChainProblem):
        raise UsageError(f"plan pareto is for chains; {instance} is a {problem.kind} problem.")
    from ..studies.pareto.stored import open_journal
    from ..studies.pareto.sweep import check, sweep

    limit_s = TIME_LIMIT_S if time_limit is None else time_limit
    limits = SolveOptions(time_limit_s=limit_s, rel_gap=gap, abs_gap=abs_gap, threads=threads, seed=seed)
    settings = _settings(method, levels, memory, limits)
    check(problem, settings)
    journal = open_journal(output, problem, settings, resume)
    with graceful(), reporter(progress) as watch:
        answer = sweep(problem, settings, journal, watch)
    if not answer.complete:
        goes_on = f"; the same command goes on from {output}" if output else ""
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


def _check_files(output: str | None, csv: str | None, picture: str | None) -> None:
    """Refused before the work is done, not after it."""
    for option, path in (("--output", output), ("--csv", csv), ("--picture", picture)):
        check_output(option, path)
    if picture is not None:
        from ..show.pictures.canvas import format_of

        format_of(picture)


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
