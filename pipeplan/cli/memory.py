"""`plan memory`: the least memory per device with a plan, and what more is worth."""

from __future__ import annotations

import json as json_text
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.errors import UsageError
from ..show.console import print_json, say_note
from . import limits as limit_options
from .arguments import Cluster, InstanceArgument, Json, check_output, load_instance, with_cluster
from .exits import INTERRUPTED, NO_PLAN, OK
from .interrupt import graceful
from .method_options import with_method_options
from .progress import reporter
from .solve import METHOD, OUTPUT, PROGRESS_MODES

if TYPE_CHECKING:
    from ..studies.memory import MemoryStudy

TIME_LIMIT_S = 60.0

_Formulation = Annotated[
    str | None,
    typer.Option(
        "--formulation", metavar="NAME", help="For the values: a model.", rich_help_panel=METHOD, show_default=False
    ),
]
_Planner = Annotated[
    str | None,
    typer.Option(
        "--planner", metavar="NAME", help="For the values: a planner.", rich_help_panel=METHOD, show_default=False
    ),
]
_Points = Annotated[
    int,
    typer.Option(
        "--points", help="Amounts of memory for which the best value is sought; 0: only the least is.", min=0, max=1000
    ),
]
_Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the answer as JSON.", rich_help_panel=OUTPUT, show_default=False
    ),
]
_Picture = Annotated[
    str | None,
    typer.Option(
        "--picture", metavar="FILE", help="The curve as .svg or .png.", rich_help_panel=OUTPUT, show_default=False
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


@with_cluster
@with_method_options
def command(
    on: Cluster,
    own: dict[str, Any],
    instance: InstanceArgument,
    formulation: _Formulation = None,
    planner: _Planner = None,
    points: _Points = 6,
    gap: limit_options.Gap = 0.0,
    abs_gap: limit_options.AbsGap = 0.0,
    time_limit: limit_options.TimeLimit = None,
    memory_limit: limit_options.MemoryLimit = None,
    threads: limit_options.Threads = None,
    seed: limit_options.Seed = 0,
    json: Json = False,
    output: _Output = None,
    picture: _Picture = None,
    progress: _Progress = None,
) -> None:
    """Find the least memory per device with a plan, and what more of it is worth.

    The instance's own memory does not count. The time limit (60 s unless given) is for all together; Ctrl-C shows what
    is known by then.
    """
    if progress is not None and progress not in PROGRESS_MODES:
        raise UsageError(f"--progress is {progress!r}; give one of {', '.join(PROGRESS_MODES)}.")
    _check_files(output, picture, points)
    if on.memory_bytes not in (None, math.inf):
        raise UsageError("plan memory asks how much memory is needed, whatever there is; drop --memory.")
    problem = load_instance(instance, on)
    limit_s = TIME_LIMIT_S if time_limit is None else time_limit
    limits = limit_options.limits(gap, abs_gap, limit_s, memory_limit, threads, seed, None, None)
    from ..studies.memory import memory_study

    method: dict[str, Any] = {"formulation": formulation, "planner": planner, "options": own}
    with graceful(), reporter(progress) as watch:
        study = memory_study(problem, **method, limits=limits, points=points, on_progress=watch)
    _tell(study, json, output, picture)
    raise typer.Exit(_exit_code(study))


def _check_files(output: str | None, picture: str | None, points: int) -> None:
    """Refused before the work is done, not after it."""
    check_output("--output", output)
    check_output("--picture", picture)
    if picture is not None:
        from ..show.pictures.canvas import format_of

        format_of(picture)
        if not points:
            raise UsageError("--picture draws the curve, and with --points 0 there is none; drop one of them.")


def _tell(study: MemoryStudy, json: bool, output: str | None, picture: str | None) -> None:
    """Save first: what follows may meet a closed pipe."""
    if output is not None:
        Path(output).write_text(json_text.dumps(study.to_json(), indent=2) + "\n", encoding="utf-8")
    if picture is not None:
        from ..show.pictures.pareto import draw_memory

        draw_memory(study, picture)
    if not study.complete:
        say_note("the answer is not complete: the search was interrupted, or its time was over")
    if json:
        print_json(study.to_json())
        return
    from ..show.terminal.memory import draw_memory_study

    draw_memory_study(study)


def _exit_code(study: MemoryStudy) -> int:
    if study.least.memory_bytes is not None:
        return OK
    return INTERRUPTED if study.least.stop == "interrupted" else NO_PLAN
