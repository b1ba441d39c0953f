"""Pieces of a sweep to and from its journal; plans are measured again when they are read.

The first line names the problem and the settings, each other one holds one finished piece of work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...instances.base.errors import InputError
from ...instances.base.fields import as_list, as_object, require, require_list, require_object
from ...instances.base.json_file import write_text_atomically
from ...instances.base.result import Stop
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee.evaluate import verify_pattern
from ..journal import Journal, line_of
from .candidates import measured
from .curve import POINT, SCHEMA, no_more_than
from .records import Candidate, Frame, Point, Settings, facts

FRAME, RUNS = "frame", "runs"
ANEW = "name another file, or start anew with --no-resume"


def open_journal(
    path: str | os.PathLike[str] | None, problem: ChainProblem, settings: Settings, resume: bool = True
) -> Journal:
    """The journal of this sweep: continued where the file fits, begun where there is none, refused otherwise."""
    return opened(path, facts(problem), settings.to_json(), resume)


def opened(
    path: str | os.PathLike[str] | None,
    problem: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = True,
) -> Journal:
    """A journal that begins with what is asked; without a path nothing is kept."""
    head = {"schema": SCHEMA, "problem": problem, "settings": settings}
    journal = Journal(None if path is None else Path(path), "line of plan pareto", ANEW)
    if journal.path is None:
        return journal
    if not resume:
        write_text_atomically(journal.path, line_of(head))
        return journal
    lines = journal.read(partial(as_object, "line"))
    if lines:
        _check_head(lines[0][1], json.loads(line_of(head)), journal.path)
        return journal
    # A run that was killed at once has left the beginning of its first line.
    begun = journal.path.read_text() if journal.exists() else ""
    if not line_of(head).startswith(begun):
        raise InputError("file", "is not a sweep of plan pareto", ANEW, str(path))
    journal.append(head)
    return journal


def _check_head(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """The same problem and the same settings, or a sentence that names the first difference."""
    if found.get("schema") != SCHEMA:
        raise InputError("schema", f"is not {SCHEMA}", ANEW, str(path))
    problem = found.get("problem")
    if not isinstance(problem, Mapping) or problem.get("hash") != wanted["problem"]["hash"]:
        raise InputError("problem", "is another one than the one to be planned", ANEW, str(path))
    settings = found.get("settings")
    for name, value in wanted["settings"].items():
        given = settings.get(name) if isinstance(settings, Mapping) else None
        if given != value:
            raise InputError(f"settings.{name}", f"is {given!r} there and {value!r} now", ANEW, str(path))


def lines_of(journal: Journal, kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Lines of one kind, each with where it is."""
    found = journal.read(partial(as_object, "line"))
    return [(f"line {number}", line) for number, line in found if line.get("record") == kind]


def frame_to_json(frame: Frame) -> dict[str, Any]:
    return {
        "record": FRAME,
        "levels": list(frame.levels),
        "smallest_bytes": frame.smallest_bytes,
        "smallest_proven": frame.smallest_proven,
        "smallest_plan": frame.smallest_plan.to_json(),
        "unlimited_bound": frame.unlimited_bound,
        "unlimited_plan": frame.unlimited_plan.to_json(),
    }


def stored_frame(problem: ChainProblem, journal: Journal) -> Frame | None:
    for where, line in lines_of(journal, FRAME):
        plan = _candidate(problem, require_object(where, line, "unlimited_plan"), "unlimited", where)
        smallest = _candidate(problem, require_object(where, line, "smallest_plan"), "smallest", where)
        bound = number_or_none(where, line, "unlimited_bound")
        return Frame(
            levels=tuple(level_of(where, level) for level in require_list(where, line, "levels")),
            smallest_bytes=number_of(where, line, "smallest_bytes"),
            smallest_proven=require(where, line, "smallest_proven") is True,
            smallest_plan=smallest.plan,
            unlimited_period=plan.period,
            unlimited_bound=no_more_than(bound, plan.period),
            unlimited_bytes=plan.peak_bytes,
            unlimited_plan=plan.plan,
        )
    return None


def candidates_to_json(candidates: tuple[Candidate, ...]) -> dict[str, Any]:
    return {"record": RUNS, "plans": [{"source": c.source, "plan": c.plan.to_json()} for c in candidates]}


def stored_candidates(problem: ChainProblem, journal: Journal) -> tuple[Candidate, ...] | None:
    for where, line in lines_of(journal, RUNS):
        rows = [
            require_object(where, {"plans": row}, "plans") for row in as_list(where, require(where, line, "plans"))
        ]
        return tuple(
            _candidate(problem, require_object(where, row, "plan"), str(row.get("source")), where) for row in rows
        )
    return None


def stored_points(problem: ChainProblem, journal: Journal) -> dict[tuple[str, float], Point]:
    """By method and memory limit; the bound is as it was proven, everything about the plan is recomputed."""
    points: dict[tuple[str, float], Point] = {}
    for where, line in lines_of(journal, POINT):
        memory, method = number_of(where, line, "memory_bytes"), str(require(where, line, "method"))
        plan = None
        if line.get("plan") is not None:
            source = str(line.get("source") or method)
            plan = _candidate(problem.replace(memory_bytes=memory), line["plan"], source, where)
        points[method, memory] = Point(method, memory, **as_it_was(where, line)).with_plan(plan)
    return points


def _candidate(problem: ChainProblem, data: Mapping[str, Any], source: str, where: str) -> Candidate:
    plan = PatternPlan.from_json(data, f"{where}: plan")
    broken = verify_pattern(problem, plan)
    found = None if broken else measured(problem, plan, source)
    if found is None:
        raise InputError(f"{where}: plan", "does not stand before the referee", ANEW)
    return found


def as_it_was(where: str, line: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored of a point and cannot be recomputed from its plan."""
    return {
        "stop": _stop_of(where, line),
        "bound": number_or_none(where, line, "bound"),
        "seconds": number_of(where, line, "seconds"),
        "messages": tuple(map(str, as_list(where, line.get("messages", [])))),
    }


def number_or_none(where: str, line: Mapping[str, Any], key: str) -> float | None:
    return None if line.get(key) is None else number_of(where, line, key)


def _stop_of(where: str, line: Mapping[str, Any]) -> Stop:
    word = require(where, line, "stop")
    if word not in tuple(Stop):
        raise InputError(f"{where}: stop", f"is {word!r}", ANEW)
    return Stop(word)


def number_of(where: str, line: Mapping[str, Any], key: str) -> float:
    value = require(where, line, key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: {key}", f"is {value!r}, not a number", ANEW)
    return value


def level_of(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: levels", f"hold {value!r}, not a number", ANEW)
    return value
