"""`plan sensitivity`: what one more device, more memory or faster links are worth, each an exact solve of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.base.cluster import MEMORY, check_figure
from ..instances.base.errors import PipeplanError, UsageError
from ..instances.lookup import holds_profile
from ..instances.registry import kind_of
from ..show.console import clean, out, print_json, say_note
from ..show.words import several
from . import quantities
from .arguments import (
    BESIDE_METHODS,
    Cluster,
    InstanceArgument,
    Json,
    counts_bytes,
    load_instance,
    with_cluster,
    with_micro_batch,
)
from .arguments import progress as progress_option
from .exits import exit_code
from .interrupt import graceful
from .limits import limits_for, with_limits
from .method_options import with_method_options
from .progress import reporter
from .solve import METHOD

if TYPE_CHECKING:
    from ..instances.registry import Problem
    from ..studies.sensitivity import Sensitivity

STEPS = "Steps"
AS_IN_SOLVE = "What to solve with, as in `plan solve`."
# Options of the cluster that are questions of their own, with the words for an answer.
IN_WORDS: Mapping[str, Callable[[Any], str]] = {
    "devices": lambda count: several(count, "device"),
    "cpus": lambda count: several(count, "CPU"),
    "memory_bytes": lambda size: (
        "no limit of memory" if size == math.inf else f"{quantities.in_bytes(size)} of memory"
    ),
    "bandwidth": lambda rate: f"{quantities.in_bytes(rate)}/s",
    "batch": lambda count: f"a batch of {count}",
    "exact_batches": lambda exact: "exactly as many replicas" if exact else "at most as many replicas",
    "levels": lambda levels: _of_levels(levels),
}

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


@with_cluster(*BESIDE_METHODS)
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

    Options of the cluster are further questions, each alone and all together; where the instance itself has no
    cluster, they are its own. Limits apply to each solve. `plan planners NAME` and `plan formulations NAME` list the
    options of a method.
    """
    on, own = with_micro_batch(instance, on, own)
    problem, questions = _asked(instance, on)
    _check_steps(more_memory, more_bandwidth)
    if counts_bytes(problem):
        check_figure("--more-memory", more_memory, MEMORY)
    method: dict[str, Any] = {"formulation": formulation, "planner": planner, "solver": solver, "options": own}
    batch_grows = kind_of(problem).batch_grows and on.batch is None and holds_profile(instance)
    if batch_grows:
        say_note("no --batch is given: with more devices a batch has as many more micro-batches")
    from ..studies.sensitivity import sensitivity

    with graceful(), reporter(progress) as watch:
        study = sensitivity(
            problem,
            **method,
            limits=limits_for(problem, limits),
            memory_bytes=more_memory,
            bandwidth_share=more_bandwidth,
            questions=questions,
            batch_grows=batch_grows,
            on_progress=watch,
        )
    _tell(problem, study, json)
    raise typer.Exit(exit_code(study.base))


def _asked(instance: str, on: Cluster) -> tuple[Problem, dict[str, Problem]]:
    """The instance on its own cluster, and on those that the user asks for: each option alone and all together."""
    values = {name: value for name in IN_WORDS if (value := getattr(on, name)) is not None}
    rest = replace(on, **dict.fromkeys(values), gpus=None)
    together = load_instance(instance, on)
    itself = _instance_on(instance, rest)
    if itself is None or not values:
        return together, {}
    if on.gpus is not None:
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
        f"levels of {shape} devices ({', '.join(quantities.in_bytes(speed) + '/s' for _, speed in levels)})"
        if levels
        else "no levels"
    )


def _check_steps(more_memory: float, more_bandwidth: float) -> None:
    """Refuse steps that are infinite or not above 0, by the names of the options."""
    for option, value in (("--more-memory", more_memory), ("--more-bandwidth", more_bandwidth)):
        if not 0 < value < math.inf:
            raise UsageError(f"{option} is {value:g}; give a finite number > 0.")


def _tell(problem: Problem, study: Sensitivity, json: bool) -> None:
    if study.interrupted:
        say_note("interrupted: changes that are not listed were not tried")
    for message in study.base.messages:
        say_note(message)
    if json:
        print_json(study.to_json())
        return
    from ..show.sensitivity import advice, lines

    for line in (*lines(problem, study), advice(problem, study)):
        if line:
            out().print(clean(line), soft_wrap=True)
