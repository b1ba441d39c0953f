"""Plans as pictures: one table says who draws which kind."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping

from ...formulations.contract import Plan, Problem
from ...instances.errors import UsageError
from ...instances.kind import Rules
from ...planners.referee import rules_of
from .canvas import format_of

PICTURES: Mapping[str, str] = {
    "placement": "placement",
    "chain": "pattern",
    "staging": "stages",
    "graph-pipeline": "stage_graph",
}
"""By kind of problem, the module beside this one that draws its plans: `picture(problem, plan, rules, path)`."""


def check_picture(kind: str, path: str | os.PathLike[str]) -> None:
    """Refuse what cannot be drawn before any work is done."""
    format_of(path)
    if kind not in PICTURES:
        raise UsageError(
            f"There are no pictures of plans for problems of kind {kind!r}; kinds with pictures: {', '.join(PICTURES)}."
        )


def draw_plan(problem: Problem, plan: Plan, path: str | os.PathLike[str], rules: Rules | None = None) -> None:
    """Write the picture of a plan, SVG or PNG by the file's ending."""
    check_picture(problem.kind, path)
    module = importlib.import_module(f".{PICTURES[problem.kind]}", __package__)
    module.picture(problem, plan, rules or rules_of(problem, {}), path)
