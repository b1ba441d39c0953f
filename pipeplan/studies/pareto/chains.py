"""The study of chains: period against memory, by many methods."""

from __future__ import annotations

import os
from functools import partial

from ...instances.base.kind import Function
from ...instances.chain.problem import ChainProblem
from .curve import places
from .records import DEFAULT_METHODS, Pareto, Settings
from .stored import open_journal
from .study import Asked, Study
from .sweep import check, sweep

_HERE = "pipeplan.studies.pareto"

STUDY = Study(
    takes=frozenset({"method", "memory"}),
    run=Function(f"{_HERE}.chains:ready"),
    draw_table=Function("pipeplan.show.terminal.pareto:draw_curves"),
    front=Function("pipeplan.show.front:of_chain"),
)


def ready(
    problem: ChainProblem, asked: Asked, path: str | os.PathLike[str] | None, resume: bool
) -> partial[Pareto]:
    """The sweep with its checked settings and its journal; a watcher is missing."""
    settings = _settings(asked)
    check(problem, settings)
    return partial(sweep, problem, settings, open_journal(path, problem, settings, resume))


def _settings(asked: Asked) -> Settings:
    methods = tuple(dict.fromkeys(asked.own.get("method") or DEFAULT_METHODS))
    return Settings(methods, *places("--memory", asked.own.get("memory"), asked.levels), asked.limits)
