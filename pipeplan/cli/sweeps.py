"""`plan pareto` and `plan memory`: the same problem with other amounts of memory or devices, as a curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from ..instances.base.cluster import Cluster
from ..instances.base.errors import UsageError
from ..instances.base.json_file import write_json
from ..instances.chain.problem import ChainProblem
from ..instances.lookup import holds_profile
from ..planners.options import SolveOptions
from ..show.console import print_json, say_note
from .arguments import (
    BESIDE_METHODS,
    PROFILE_OPTIONS,
    InstanceArgument,
    Json,
    Progress,
    check_memory,
    limits_for,
    load_instance,
    reporter,
    with_cluster,
    with_limits,
    with_micro_batch,
)
from .exits import INTERRUPTED, NO_PLAN, OK, graceful
from .signatures import described, size
from .solve import METHOD, OUTPUT, with_method_options

if TYPE_CHECKING:
    from ..show.front import Front
    from ..studies.chain_memory import Curve, Settings


# ---- `plan pareto` --------------------------------------------------------------------------------------------


# The instance that is drawn where the user names none.
EXAMPLE = "golden-4"
# Options of the cluster without the memory, which the curves vary.
ON_CURVES = ("devices", "bandwidth", "batch", "levels", *(option.name for option in PROFILE_OPTIONS))


@with_cluster(*ON_CURVES)
@with_limits("rel_gap", "time_limit_s", "threads", "seed")
@described(
    f"""
    instance input INSTANCE: A chain: a file, the name of a packaged instance, or - for standard input.
    [Curves]
    method texts NAME: A planner, or a formulation (ilp-beaumont or cp-beaumont), whose curve to draw; repeatable;
        default: exact-beaumont and the baselines.
    memory texts SIZE: A memory limit to use instead of --points, e.g. 8GiB; repeatable.
    points int: Number of memory limits to try, from the smallest with a plan to the one above which more memory does
        not help; default: 8.
    [{OUTPUT}]
    output output --output -o: Write each point to FILE as a JSON line as soon as it is known, so that an interrupted
        run can continue.
    resume flag --resume/--no-resume: Continue from an existing --output file.
    csv output: Write the points to FILE as a table.
    picture picture: Draw the curves as .svg, .png or .pdf.
    """
)
def pareto(
    *,
    instance: str | None = None,
    method: list[str] | None = None,
    memory: list[str] | None = None,
    points: int | None = None,
    limits: dict[str, Any],
    on: Cluster,
    json: Json = False,
    output: str | None = None,
    resume: bool = True,
    csv: str | None = None,
    picture: str | None = None,
    progress: Progress = None,
) -> None:
    """Show how the period of a chain depends on memory, with one curve per method.

    The referee recomputes every plan. The time limit applies to each point (default: 60 s). Ctrl-C ends the run and
    shows the points so far.
    """
    profile = instance is not None and holds_profile(instance)
    problem = load_instance(instance or EXAMPLE, replace(on, memory_bytes=math.inf) if profile else on)
    from ..studies.chain_memory import DEFAULT_METHODS, LEVELS, TIME_LIMIT_S, Settings, write_csv

    if not isinstance(problem, ChainProblem):
        raise UsageError(
            f"plan pareto is for chain problems; {problem.name} is a {problem.kind} problem, so use plan memory "
            "instead."
        )
    if memory and points is not None:
        raise UsageError("--memory and --points both choose the points; give one of them.")
    chosen = tuple(sorted({size(text) for text in memory or ()}))
    check_memory(problem, "--memory", *chosen)
    settings = Settings(
        LEVELS if points is None else points,
        chosen,
        limits_for({"time_limit_s": TIME_LIMIT_S, **limits}),
        tuple(dict.fromkeys(method or DEFAULT_METHODS)),
    )
    answer = _answer(problem, settings, output, resume, progress, json)
    if not answer.complete:
        goes_on = f"; the same command continues from {output}" if output else ""
        say_note(f"interrupted: the curves are incomplete{goes_on}")
    if csv is not None:
        write_csv(answer, csv)
    from ..show.front import of_chain

    show_front(of_chain(answer), answer.to_json() if json else None, picture)
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
    problem: ChainProblem, settings: Settings, output: str | None, resume: bool, progress: str | None, json: bool
) -> Curve:
    """The curve; where not even its ends are known, a note says so and the command ends."""
    from ..planners.run.solve import describe
    from ..studies.chain_memory import SCHEMA, NothingKnownError, sweep

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
    points int: Number of memory sizes for which to find the best plan; 0: find only the smallest memory.
    [{METHOD}]
    formulation text NAME: Formulation to use; `plan formulations` lists all.
    planner text NAME: Planner to use; `plan planners` lists all.
    [{OUTPUT}]
    output output --output -o: Write the answer to FILE as JSON.
    picture picture: Draw the curves as .svg, .png or .pdf.
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
    """Find the smallest memory per device that allows a plan, and the time that more memory saves.

    The memory given in the instance is ignored. The time limit applies to the whole command (default: 60 s); Ctrl-C
    shows the results so far.
    """
    if picture is not None and not points:
        raise UsageError("--picture draws the curve, but with --points 0 there is none; drop one of them.")
    if on.memory_bytes not in (None, math.inf):
        raise UsageError("plan memory finds out how much memory is needed; drop --memory.")
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
        say_note("the answer is incomplete: the search was interrupted or reached its time limit")
    from ..show.front import of_memory

    show_front(of_memory(study), study.to_json() if json else None, picture)
    if study.least.memory_bytes is not None:
        raise typer.Exit(OK)
    raise typer.Exit(INTERRUPTED if study.least.stop == "interrupted" else NO_PLAN)
