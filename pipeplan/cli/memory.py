"""`plan memory`: the least memory per device with a plan, and what more is worth."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer

from ..instances.base.errors import UsageError
from ..instances.lookup import holds_profile
from ..planners.options import SolveOptions
from ..show.console import say_note
from .arguments import (
    BESIDE_METHODS,
    Cluster,
    InstanceArgument,
    Json,
    load_instance,
    output_file,
    with_cluster,
    with_micro_batch,
)
from .exits import INTERRUPTED, NO_PLAN, OK
from .interrupt import graceful
from .limits import with_limits
from .method_options import with_method_options
from .pareto import Picture, show_front
from .progress import reporter
from .solve import METHOD, OUTPUT, Progress

# Seconds for all solves together, where the user gives no limit.
TIME_LIMIT_S = 60.0

_method = partial(typer.Option, metavar="NAME", rich_help_panel=METHOD, show_default=False)

_Formulation = Annotated[str | None, _method("--formulation", help="The model that finds the values.")]
_Planner = Annotated[str | None, _method("--planner", help="The planner that finds the values.")]
_Points = Annotated[
    int,
    typer.Option(
        "--points",
        help="Amounts of memory for which the best value is sought; 0: only the least memory is.",
        min=0,
        max=1000,
    ),
]
_Output = Annotated[str | None, output_file("Write the answer as JSON.", "--output", "-o", panel=OUTPUT)]


@with_cluster(*BESIDE_METHODS)
@with_method_options
@with_limits("rel_gap", "abs_gap", "time_limit_s", "memory_limit_bytes", "threads", "seed")
def command(
    *,
    instance: InstanceArgument,
    formulation: _Formulation = None,
    planner: _Planner = None,
    own: dict[str, Any],
    points: _Points = 6,
    limits: dict[str, Any],
    on: Cluster,
    json: Json = False,
    output: _Output = None,
    picture: Picture = None,
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

    within = SolveOptions(**{"time_limit_s": TIME_LIMIT_S, **limits})
    method: dict[str, Any] = {"formulation": formulation, "planner": planner, "options": own}
    with graceful(), reporter(progress) as watch:
        study = memory_study(problem, **method, limits=within, points=points, on_progress=watch)
    if output is not None:
        from ..instances.base.json_file import write_json

        write_json(output, study.to_json())
    if not study.complete:
        say_note("the answer is not complete: the search was interrupted, or its time was over")
    from ..show.front import of_memory

    show_front(of_memory(study), study.to_json() if json else None, picture)
    if study.least.memory_bytes is not None:
        raise typer.Exit(OK)
    raise typer.Exit(INTERRUPTED if study.least.stop == "interrupted" else NO_PLAN)
