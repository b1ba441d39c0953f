"""`plan sensitivity`: what one more device, more memory or faster links are worth, each an exact solve of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.errors import UsageError
from ..show.console import number, out, print_json, say_note, styled
from . import quantities
from .arguments import Cluster, InstanceArgument, Json, load_instance, with_usual_cluster
from .arguments import progress as progress_option
from .exits import exit_code
from .interrupt import graceful
from .limits import limits_for, with_limits
from .method_options import with_method_options
from .progress import reporter
from .solve import METHOD

if TYPE_CHECKING:
    from ..instances.kinds import Problem
    from ..instances.result import Result
    from ..studies.sensitivity import Sensitivity, Worth

STEPS = "Steps"
AS_IN_SOLVE = "What to solve with, as in `plan solve`."

_Name = Annotated[str | None, typer.Option(metavar="NAME", help=AS_IN_SOLVE, rich_help_panel=METHOD)]
_Solver = Annotated[str, typer.Option(metavar="NAME", help=AS_IN_SOLVE, rich_help_panel=METHOD)]
_MoreMemory = Annotated[
    float,
    typer.Option(
        "--more-memory",
        parser=quantities.size,
        metavar="SIZE",
        help="How much memory every device gets in addition.",
        rich_help_panel=STEPS,
    ),
]
_MoreBandwidth = Annotated[
    float,
    typer.Option(
        "--more-bandwidth",
        parser=quantities.share,
        metavar="SHARE",
        help="How much faster the links become: 0.1 or 10%.",
        rich_help_panel=STEPS,
    ),
]
_Progress = Annotated[str | None, progress_option("How to report progress on stderr, as in `plan solve`.")]


@with_usual_cluster()
@with_method_options
@with_limits("rel_gap", "abs_gap", "time_limit_s", "memory_limit_bytes", "threads", "seed")
def command(
    *,
    instance: InstanceArgument,
    formulation: _Name = None,
    planner: _Name = None,
    solver: _Solver = "auto",
    more_memory: _MoreMemory = "1GB",  # type: ignore[assignment]  # read by the parser, as what a user gives
    more_bandwidth: _MoreBandwidth = "10%",  # type: ignore[assignment]  # likewise
    limits: dict[str, Any],
    json: Json = False,
    progress: _Progress = None,
    own: dict[str, Any],
    on: Cluster,
) -> None:
    """Solve an instance again on slightly better clusters: what one more device, memory or bandwidth is worth.

    Limits apply to each solve. `plan planners NAME` and `plan formulations NAME` list the options of a method.
    """
    problem = load_instance(instance, on)
    _check_steps(more_memory, more_bandwidth)
    method: dict[str, Any] = {"formulation": formulation, "planner": planner, "solver": solver, "options": own}
    from ..studies.sensitivity import sensitivity

    with graceful(), reporter(progress) as watch:
        found = sensitivity(
            problem,
            **method,
            limits=limits_for(problem, limits),
            memory_bytes=more_memory,
            bandwidth_share=more_bandwidth,
            on_progress=watch,
        )
    _tell(problem, found, json)
    raise typer.Exit(exit_code(found.base))


def _check_steps(more_memory: float, more_bandwidth: float) -> None:
    """By the names that the command line has for them."""
    for option, value in (("--more-memory", more_memory), ("--more-bandwidth", more_bandwidth)):
        if not 0 < value < math.inf:
            raise UsageError(f"{option} is {value:g}; give a finite number > 0.")


def _tell(problem: Problem, found: Sensitivity, json: bool) -> None:
    if found.interrupted:
        say_note("interrupted: changes that are not listed were not tried")
    for message in found.base.messages:
        say_note(message)
    if json:
        print_json(found.to_json())
    else:
        _draw(problem, found)


def _draw(problem: Problem, found: Sensitivity) -> None:
    from ..show.terminal.shapes import columns, new_table

    unit = f", {problem.time_unit}" if problem.time_unit else ""
    table = new_table()
    columns(table, f"change,value{unit.replace(',', ' in')},ratio,less time,stop", left="change,stop")
    table.add_row(styled("none"), styled(number(found.base.objective, "none")), "", "", styled(found.base.stop))
    for worth in found.changes:
        table.add_row(*_row(worth, found.base))
    out().print(table)


def _row(worth: Worth, base: Result) -> list[Any]:
    ratio = "" if worth.ratio is None else f"{worth.ratio:.6f}"
    value = number(worth.result.objective, "none")
    return [styled(worth.change), styled(value), ratio, styled(_worth(worth, base)), styled(worth.result.stop)]


def _worth(worth: Worth, base: Result) -> str:
    """How much less time, or that there is a plan now."""
    if worth.ratio is not None:
        return f"{100 * (1 - worth.ratio):.2f} %"
    return "now a plan" if worth.result.objective is not None and base.objective is None else "unknown"
