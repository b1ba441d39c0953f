"""Plans as pictures: the contents of a view decide which picture it gets."""

from __future__ import annotations

import os

from ...instances.base.errors import UsageError
from ...instances.base.kind import Rules
from ...instances.registry import KINDS, Plan, Problem
from ...planners.referee import rules_of
from ..view import PlanView, view_of
from .canvas import format_of
from .load_bars import draw_bars
from .schedule import draw_schedule
from .stage_graph import draw_stage_graph


def check_picture(kind: str, path: str | os.PathLike[str]) -> None:
    """Refuse what cannot be drawn before any work is done."""
    format_of(path)
    if kind not in KINDS:
        raise UsageError(f"There are no problems of kind {kind!r}; known: {', '.join(KINDS)}.")


def draw_plan(problem: Problem, plan: Plan, path: str | os.PathLike[str], rules: Rules | None = None) -> None:
    """Write the picture of a plan: SVG, PNG or PDF by the file's ending."""
    check_picture(problem.kind, path)
    draw_view(view_of(problem, plan, rules or rules_of(problem, {})), path)


def draw_view(view: PlanView, path: str | os.PathLike[str]) -> None:
    """Write the picture of a plan's view: SVG, PNG or PDF by the file's ending."""
    if view.flow is not None:
        draw_stage_graph(view, view.flow, path)
    elif view.timelines and not _tells_memory_in_rows(view):
        draw_schedule(view, path)
    else:
        draw_bars(view, path)


def _tells_memory_in_rows(view: PlanView) -> bool:
    """Is memory known by stage and by what it is for, and not over time?"""
    return not view.memory and any(row.memory is not None and len(row.memory) > 2 for row in view.tables[0].rows)
