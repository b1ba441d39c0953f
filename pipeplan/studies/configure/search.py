"""The search behind `plan configure`; a search that is cut short reports what it knows.

Where nothing fits, `nearest_miss` finds the configuration that lacks least memory, of those that need little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...instances.base.clock import now
from ...instances.base.errors import InputError
from ...instances.physics.schedules import SCHEDULES
from ...instances.training.frameworks import FRAMEWORKS, even_layout
from ...instances.training.plan import NOTHING, Configuration
from ...instances.training.problem import Level, TrainingProblem
from ...instances.training.referee import framework_faults, fullest_of, shape_faults
from ...instances.training.scope import Scope, read_scope
from ...instances.training.words import as_even_as_can_be
from ...planners.options import Progress
from ...planners.training.pools import search_of, space_of
from ...planners.training.search import Report, Settings
from ...planners.training.space import Space, configuration
from .judge import emptied, memory_of_few

if TYPE_CHECKING:
    from .answer import Asked


# Seconds between two reports of progress.
TELL_EVERY_S = 0.2


def scope_in(problem: TrainingProblem, asked: Asked) -> Scope:
    """The scope that was asked for, with layouts that the framework's files can express."""
    return read_scope(asked.fixed, asked.forbidden, FRAMEWORKS[problem.framework].layouts)


def search_configurations(
    problem: TrainingProblem, asked: Asked, time_limit_s: float | None, on_progress: Callable[[Progress], None]
) -> Report:
    """Search until the shortlist is proven, the time is over, or the user interrupts."""
    started = last_report = now()

    def heard(report: Report) -> None:
        nonlocal last_report
        if now() - last_report < TELL_EVERY_S:
            return
        last_report = now()
        incumbent = None if report.best is None else report.best.seconds
        on_progress(
            Progress(last_report - started, incumbent, report.bound or None, report.solved, "exact-configuration")
        )

    def out_of_time() -> bool:
        return time_limit_s is not None and now() - started >= time_limit_s

    settings = Settings(asked.error, asked.memory_error)
    search = search_of(problem)(problem, scope_in(problem, asked), settings, heard, out_of_time)
    try:
        return search.run()
    except KeyboardInterrupt:
        return search.report


# Seconds for each sort of GPU alone.
ALONE_S = 20.0


@dataclass(frozen=True)
class Alone:
    """What the GPUs of one sort reach without the other one."""

    seconds: float | None
    """Of the best configuration that fits for sure; None: none was found."""
    finished: bool
    """Did the search end by itself? Else it was cut short, and a better one may exist."""


def best_alone(problem: TrainingProblem, asked: Asked) -> Alone:
    """The best configuration on GPUs of one sort, of any schedule; the search ends after ALONE_S, or by Ctrl-C."""
    scope, started = scope_in(problem, asked), now()
    kept = {key: value for key, value in scope.fix.items() if key in ("recompute", "zero", "micro-batch")}
    settings = Settings(asked.error, asked.memory_error, list_all=False)
    free = Scope(kept, scope.forbid, scope.layouts)
    search = search_of(problem)(problem, free, settings, out_of_time=lambda: now() - started >= ALONE_S)
    with suppress(KeyboardInterrupt):
        search.run()
    best = search.report.best
    return Alone(None if best is None else best.seconds, search.report.finished)


# ---- where nothing fits ---------------------------------------------------------------------------------------


# The most choices of degrees, micro-batch and ZeRO stage that are tried: those with the least necessary part.
FAMILIES = 24
# The most chunks of a rank in these configurations.
MOST_VIRTUAL = 2


def nearest_miss(problem: TrainingProblem, asked: Asked) -> Configuration | None:
    """The configuration that holds least, with whole layers recomputed where possible; None where none can be run."""
    space = space_of(problem, scope_in(problem, asked))
    if not len(space):
        return None
    _, least = space.bounds
    rows = [int(row) for row in least.argsort(kind="stable")[:FAMILIES]]
    plans = [plan for row in rows for plan in _plans(problem, space, row, asked)]

    def held(plan: Configuration) -> float:
        return fullest_of(memory_of_few(problem, plan)).full

    best = min(plans, key=held, default=None)
    return None if best is None else emptied(problem, best)


# How often the number of nodes is doubled, and how many numbers below the first that fits are tried.
MOST_DOUBLINGS, MOST_BETWEEN = 5, 8


def more_nodes(problem: TrainingProblem, asked: Asked) -> Configuration | None:
    """A configuration that fits for sure on more nodes of the same sort, the fewest of those that are tried; None where
    that needs too many. Links between them do not matter, since none of them changes what a GPU holds."""
    node = problem.levels[0]
    now_there = problem.devices // node.count

    def fitting(nodes: int) -> Configuration | None:
        levels = (node, Level(nodes, node.bandwidth))
        larger = problem.replace(devices=nodes * node.count, levels=levels)
        plan = nearest_miss(larger, asked)
        return plan if plan is not None and _fits_surely(larger, plan, asked) else None

    failed = now_there
    for _ in range(MOST_DOUBLINGS):
        plan, most = fitting(2 * failed), 2 * failed
        if plan is not None:
            step = -(-(most - failed) // MOST_BETWEEN)
            fewer = (fitting(nodes) for nodes in range(failed + step, most, step))
            return next((own for own in fewer if own is not None), plan)
        failed = most
    return None


def _fits_surely(problem: TrainingProblem, plan: Configuration, asked: Asked) -> bool:
    return fullest_of(memory_of_few(problem, plan)).fit(asked.memory_error) == "yes"


def _plans(problem: TrainingProblem, space: Space, row: int, asked: Asked) -> Iterator[Configuration]:
    """Configurations of one row of the space that can be run, with layouts as even as can be."""
    for gamma in space.gammas(row):
        if gamma.degrees.virtual > MOST_VIRTUAL:
            continue
        again = NOTHING if SCHEDULES[gamma.schedule].divided else space.leanest_word
        try:
            layout = even_layout(problem, gamma.degrees.chunks) or as_even_as_can_be(
                len(problem.model.units), gamma.degrees.chunks
            )
        except InputError:  # more chunks than units
            continue
        plan = configuration(gamma, layout, again)
        if not any((*shape_faults(problem, plan), *framework_faults(problem, plan))):
            yield plan
