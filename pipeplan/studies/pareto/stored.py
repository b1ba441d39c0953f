"""The journal of a sweep: the first line names the problem, the settings and the versions of this program and of
solvers; each further line holds one finished piece of work."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...instances.base.errors import InputError
from ...instances.base.fields import as_list, as_object, require
from ...instances.base.json_file import write_text_atomically
from ...instances.base.result import Stop
from ..journal import Journal, line_of
from ..made_by import versions

SCHEMA = "pipeplan.pareto/1"
ANEW = "name another file, or start anew with --no-resume"


def opened(
    path: str | os.PathLike[str] | None,
    problem: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = True,
) -> Journal:
    """A journal that continues only with the same problem, settings and versions; without a path nothing is kept."""
    head = {"schema": SCHEMA, "problem": problem, "settings": settings, "made_by": versions()}
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


def _check_head(head: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """Refuse a file of another problem, other settings or other versions; the error names the first difference."""
    if head.get("schema") != SCHEMA:
        raise InputError("schema", f"is not {SCHEMA}", ANEW, str(path))
    problem = head.get("problem")
    if not isinstance(problem, Mapping) or problem.get("hash") != wanted["problem"]["hash"]:
        raise InputError("problem", "differs from the problem that is to be planned", ANEW, str(path))
    for part in ("settings", "made_by"):
        then = head.get(part)
        for name, value in wanted[part].items():
            stored = then.get(name) if isinstance(then, Mapping) else None
            if stored != value:
                raise InputError(f"{part}.{name}", f"is {stored!r} there and {value!r} now", ANEW, str(path))


def lines_of(journal: Journal, kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Lines of one kind, each with its place in the file."""
    lines = journal.read(partial(as_object, "line"))
    return [(f"line {number}", line) for number, line in lines if line.get("record") == kind]


def as_it_was(where: str, line: Mapping[str, Any]) -> dict[str, Any]:
    """The stored facts of a point that cannot be recomputed from its plan."""
    word = require(where, line, "stop")
    if word not in tuple(Stop):
        raise InputError(f"{where}: stop", f"is {word!r}", ANEW)
    return {
        "stop": Stop(word),
        "bound": number_or_none(where, line, "bound"),
        "seconds": number_of(where, line, "seconds"),
        "messages": tuple(map(str, as_list(where, line.get("messages", [])))),
    }


def number_or_none(where: str, line: Mapping[str, Any], key: str) -> float | None:
    return None if line.get(key) is None else number_of(where, line, key)


def number_of(where: str, line: Mapping[str, Any], key: str) -> float:
    value = require(where, line, key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: {key}", f"is {value!r}, not a number", ANEW)
    return value


def level_of(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: levels", f"hold {value!r}, not a number", ANEW)
    return value
