"""`plan pareto`: period against memory for many methods on one chain."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.errors import UsageError
from ..planners.options import SolveOptions
from ..show.console import print_json, say_note
from . import quantities
from .arguments import Cluster, Json, drawable, load_instance, output_file, with_cluster
from .exits import INTERRUPTED, NO_PLAN, OK
from .interrupt import graceful
from .limits import with_limits
from .progress import reporter
from .solve import Progress

if TYPE_CHECKING:
    from ..studies.pareto.records import Settings

OUTPUT = "Output"
_curves = partial(typer.Option, rich_help_panel="Curves")
EXAMPLE = "golden-4"

_Instance = Annotated[
    str | None,
    typer.Argument(metavar="INSTANCE", help="A chain: a file or a packaged name; without it an example."),
]
_Methods = Annotated[
    list[str] | None,
    _curves(
        "--method",
        metavar="NAME",
        help="Repeatable; default: exact-beaumont and the baselines; also ilp-beaumont, cp-beaumont.",
    ),
]
_Levels = Annotated[
    int | None,
    _curves(
        "--levels", help="Memory limits from the smallest that works to that of the unlimited optimum; default: 8."
    ),
]
_Memory = Annotated[
    list[str] | None,  # a parser would meet each element twice
    _curves("--memory", metavar="SIZE", help="A memory limit in place of --levels: 8GiB; repeatable."),
]
_Output = Annotated[
    str | None,
    output_file(
        "Each point as a JSON line at once; an interrupted run goes on from there.", "--output", "-o", panel=OUTPUT
    ),
]
_Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Go on with an existing --output.", rich_help_panel=OUTPUT)
]
_Csv = Annotated[str | None, output_file("The points as a table.", "--csv", panel=OUTPUT)]
_Picture = Annotated[
    str | None, output_file("The curves as .svg or .png.", "--picture", panel=OUTPUT, check=drawable)
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

    The time limit (60 s unless given) is for each point. Ctrl-C shows what is there.
    """
    problem = load_instance(instance or EXAMPLE, on)
    from ..instances.chain.problem import ChainProblem

    if not isinstance(problem, ChainProblem):
        raise UsageError(f"plan pareto is for chains; {instance} is a {problem.kind} problem.")
    from ..studies.pareto.records import TIME_LIMIT_S
    from ..studies.pareto.stored import open_journal
    from ..studies.pareto.sweep import check, sweep

    settings = _settings(method, levels, memory, SolveOptions(**{"time_limit_s": TIME_LIMIT_S, **limits}))
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
