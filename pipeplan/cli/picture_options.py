"""`--picture FILE`, of every command that holds a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..instances.errors import PipeplanError
from ..show.console import say_note

if TYPE_CHECKING:
    from ..instances.kind import Rules
    from ..instances.kinds import Plan, Problem

Picture = Annotated[
    str | None,
    typer.Option("--picture", metavar="FILE", help="Draw the plan: .svg or .png.", show_default=False),
]


def check_picture(problem: Problem, path: str | None) -> None:
    """Refused before the work: another ending, a kind without pictures."""
    if path is not None:
        from ..show.pictures.plans import check_picture as check

        check(problem.kind, path)


def draw_picture(problem: Problem, plan: Plan, rules: Rules, path: str) -> None:
    """A plan without meaning has no picture: that is said, and its violations decide the exit code."""
    from ..show.pictures.plans import draw_plan

    try:
        draw_plan(problem, plan, path, rules)
    except PipeplanError as error:
        say_note(f"there is no picture: {error}")
