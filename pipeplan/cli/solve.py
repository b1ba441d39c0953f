"""`plan solve`: plan an instance, with every plan recomputed by the referee before it is shown."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..formulations.registry import FORMULATIONS
from ..instances.errors import UsageError
from ..instances.kinds import Problem
from ..instances.result import Result
from ..planners.registry import EXACT, PLANNERS, example_of
from ..show.console import print_json, say_note
from ..studies import export
from . import limits as limit_options
from .arguments import (
    Cluster,
    Json,
    check_output,
    load_instance,
    with_cluster,
)
from .exits import exit_code
from .interrupt import graceful
from .method_options import with_method_options
from .picture_options import Picture, check_picture, draw_picture
from .progress import reporter
from .table_picture import pictured_table

METHOD, OUTPUT = "Method", "Output"
PROGRESS_MODES = ("auto", "json", "none")

_Instance = Annotated[
    str | None,
    typer.Argument(
        metavar="INSTANCE", help="A file or a packaged name; without it a packaged example.", show_default=False
    ),
]
_Formulation = Annotated[
    str | None,
    typer.Option(
        "--formulation", metavar="NAME", help="See `plan formulations`.", rich_help_panel=METHOD, show_default=False
    ),
]
_Planner = Annotated[
    str | None,
    typer.Option("--planner", metavar="NAME", help="See `plan planners`.", rich_help_panel=METHOD, show_default=False),
]
_Solver = Annotated[str, typer.Option("--solver", metavar="NAME", help="See `plan solvers`.", rich_help_panel=METHOD)]
_WarmStart = Annotated[
    str,
    typer.Option(
        "--warm-start",
        metavar="auto|dp|none|FILE",
        help="dp: the optimal chain of stages; FILE: a plan or a result to start from.",
        rich_help_panel=METHOD,
    ),
]
_CrossCheck = Annotated[
    bool,
    typer.Option(
        "--cross-check",
        help="Solve with a second exact method, too; contradicting proofs fail.",
        rich_help_panel=METHOD,
    ),
]
_Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the result as JSON.", rich_help_panel=OUTPUT, show_default=False
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
_Export = Annotated[
    str | None,
    typer.Option(
        "--export-model",
        metavar="FILE",
        help="Write the model as .mps or .lp before solving it.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]


@with_cluster
@with_method_options
def command(
    on: Cluster,
    own: dict[str, Any],
    instance: _Instance = None,
    formulation: _Formulation = None,
    planner: _Planner = None,
    solver: _Solver = "auto",
    warm_start: _WarmStart = "auto",
    cross_check: _CrossCheck = False,
    gap: limit_options.Gap = 0.0,
    abs_gap: limit_options.AbsGap = 0.0,
    time_limit: limit_options.TimeLimit = None,
    memory_limit: limit_options.MemoryLimit = None,
    threads: limit_options.Threads = None,
    seed: limit_options.Seed = 0,
    native: limit_options.Native = None,
    json: Json = False,
    output: _Output = None,
    picture: Picture = None,
    log: limit_options.Log = None,
    progress: _Progress = None,
    export_model: _Export = None,
) -> None:
    """Plan an instance: prove the best plan, or find the best within the limits."""
    if progress is not None and progress not in PROGRESS_MODES:
        raise UsageError(f"--progress is {progress!r}; give one of {', '.join(PROGRESS_MODES)}.")
    check_output("--output", output)
    check_output("--log", log)
    check_output("--picture", picture)
    if export_model is not None:
        check_output("--export-model", export_model)
        export.check_export(export_model)
    limits = limit_options.limits(gap, abs_gap, time_limit, memory_limit, threads, seed, log, native)
    problem = load_instance(instance or _example(formulation, planner), on)
    check_picture(problem, picture)
    method: dict[str, Any] = {"formulation": formulation, "planner": planner, "solver": solver, "options": own}
    if export_model is not None:
        export.export_model(problem, export_model, **method)
    start = _warm_start(warm_start, problem)
    from ..planners.referee import rules_of
    from ..planners.run.solve import solve

    with graceful(), reporter(progress) as watch, pictured_table(problem, own) as method["options"]:
        result = solve(problem, **method, limits=limits, warm_start=start, on_progress=watch, cross_check=cross_check)
    _tell(problem, result, json, output)
    if picture is not None and result.plan is not None and result.verified:
        draw_picture(problem, result.plan, rules_of(problem, result.options), picture)
    raise typer.Exit(exit_code(result))


def _example(formulation: str | None, planner: str | None) -> str:
    """A packaged instance that the method can plan."""
    entry = FORMULATIONS.get(formulation or "") or PLANNERS.get(planner or "") or PLANNERS[EXACT]
    example = example_of(entry)
    if example is None:
        raise UsageError(f"There is no packaged instance for {entry.name!r}; name an INSTANCE.")
    return example


def _warm_start(text: str, problem: Problem) -> Any:
    if text in ("auto", "dp", "none"):
        return text
    from ..instances.results import load_plan

    return load_plan(text, problem)


def _tell(problem: Problem, result: Result, json: bool, output: str | None) -> None:
    """Save first: what follows may meet a closed pipe."""
    if output is not None:
        from ..instances.files import save

        save(result, output)
    for message in result.messages:
        say_note(message)
    if json:
        print_json(result.to_json())
    else:
        from ..show.terminal.drawing import draw_result

        draw_result(problem, result)
