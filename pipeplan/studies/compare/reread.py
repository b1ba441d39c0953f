"""Finished runs as they are read from a folder: their results are recomputed, since anybody may have edited them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...formulations.contract import Problem
from ...instances.base.errors import UsageError
from ...instances.files import load, save
from ...instances.lookup import packaged_by_hash
from ...instances.stored_results import result_from_json
from ...planners.run.claims import recompute
from .run import Record

PROBLEMS = "problems"
"""The folder's folder of problems, one file each, named by their hashes."""


def keep_problems(folder: Path, problems: Mapping[str, Problem]) -> None:
    """Without them nobody could recompute a result later."""
    (folder / PROBLEMS).mkdir(exist_ok=True)
    for name, problem in problems.items():
        path = folder / PROBLEMS / f"{name}.json"
        if not path.exists():
            save(problem, path)


def reread(folder: Path, records: Mapping[str, Record]) -> tuple[dict[str, Record], dict[str, tuple[str, ...]]]:
    """The records with recomputed results, and by key what they had claimed otherwise."""
    problems: dict[str, Problem | None] = {}

    def problem_of(record: Record) -> Problem | None:
        name = record.run.problem_hash
        if name not in problems:
            problems[name] = _problem(folder / PROBLEMS / f"{name}.json", record)
        return problems[name]

    anew, differences = {}, {}
    for key, record in records.items():
        anew[key], found = _recomputed(record, problem_of)
        if found:
            differences[key] = found
    return anew, differences


def _problem(path: Path, record: Record) -> Problem | None:
    if path.is_file():
        return load(path)
    try:
        return packaged_by_hash((record.result or {}).get("problem", {}))
    except UsageError:
        return None


def _recomputed(record: Record, problem_of: Callable[[Record], Problem | None]) -> tuple[Record, tuple[str, ...]]:
    if record.result is None:
        return record, ()
    problem = problem_of(record)
    if problem is None:
        return record, (f"nothing was recomputed: {PROBLEMS}/{record.run.problem_hash}.json is missing",)
    found = recompute(problem, result_from_json(record.result))
    if not found.differences:
        return record, ()
    messages = (*found.result.messages, *found.differences)
    result: Mapping[str, Any] = replace(found.result, messages=messages).to_json()
    return replace(record, result=result), found.differences
