"""The study of chains: period against memory, by many methods."""

from __future__ import annotations

import os
from functools import partial

from ...instances.chain.problem import ChainProblem
from ...instances.errors import UsageError
from .records import DEFAULT_METHODS, Pareto, Settings
from .stored import open_journal
from .study import LEVELS, Asked, Study
from .sweep import check, sweep

_HERE = "pipeplan.studies.pareto"

STUDY = Study(
    takes=frozenset({"method", "memory"}),
    run=f"{_HERE}.chains:ready",
    write_csv=f"{_HERE}.export:write_csv",
    draw_table="pipeplan.show.terminal.pareto:draw_curves",
    draw_picture="pipeplan.show.pictures.pareto:draw_pareto",
)


def ready(
    problem: ChainProblem, asked: Asked, path: str | os.PathLike[str] | None, resume: bool
) -> partial[Pareto]:
    """The sweep with its checked settings and its journal; a watcher is missing."""
    settings = _settings(asked)
    check(problem, settings)
    return partial(sweep, problem, settings, open_journal(path, problem, settings, resume))


def _settings(asked: Asked) -> Settings:
    memory = asked.own.get("memory")
    if memory and asked.levels is not None:
        raise UsageError("--memory and --levels both say where the points lie; give one of them.")
    return Settings(
        methods=tuple(dict.fromkeys(asked.own.get("method") or DEFAULT_METHODS)),
        levels=LEVELS if asked.levels is None else asked.levels,
        memory_bytes=tuple(sorted(set(memory or ()))),
        limits=asked.limits,
    )
