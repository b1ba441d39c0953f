"""The file of a sweep: one JSON line per finished piece of work, written at once, so that nothing is done twice.

The first line names the problem and the settings. A process that is killed leaves at most half a line at the end,
which is cut off when the sweep goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...instances.chain.problem import ChainProblem
from ...instances.errors import InputError
from ...instances.fields import as_object
from ...instances.json_file import read_text
from .records import SCHEMA, Settings, facts

ANEW = "name another file, or start anew with --no-resume"


@dataclass
class Journal:
    """Lines of a sweep, old and new. Without a path nothing is kept."""

    path: Path | None = None
    lines: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    """What an earlier run has finished, each with its number in the file."""

    def append(self, kind: str, content: Mapping[str, Any]) -> None:
        """One more finished piece; it is on the disk when this returns."""
        if self.path is not None:
            _write(self.path, "a", _line({"record": kind, **content}))

    def of(self, kind: str) -> list[tuple[int, Mapping[str, Any]]]:
        return [(number, line) for number, line in self.lines if line.get("record") == kind]


def open_journal(
    path: str | os.PathLike[str] | None, problem: ChainProblem, settings: Settings, resume: bool = True
) -> Journal:
    """The journal of this sweep: continued where the file fits, begun where there is none, refused otherwise."""
    if path is None:
        return Journal()
    target = Path(path)
    head = {"schema": SCHEMA, "problem": facts(problem), "settings": settings.to_json()}
    first = _line(head)
    text = read_text(target) if resume and target.exists() and target.stat().st_size else ""
    if not text or _is_begun(text, first):
        _write(target, "w", first)
        return Journal(target)
    whole, _, _ = text.rpartition("\n")
    numbered = [(n, line) for n, line in enumerate(whole.split("\n"), start=1) if line.strip()]
    records = [(n, _parsed(n, line, target)) for n, line in numbered]
    if not records:
        raise InputError("file", "is not a sweep of plan pareto", ANEW, str(path))
    _check_head(records[0][1], json.loads(first), target)
    _cut(target, len(whole.encode()) + 1)
    return Journal(target, records[1:])


def _is_begun(text: str, first: str) -> bool:
    """Was the run killed while it wrote its first line?"""
    return "\n" not in text and first.startswith(text)


def _line(content: Mapping[str, Any]) -> str:
    return json.dumps(content, allow_nan=False, separators=(",", ":")) + "\n"


def _write(path: Path, mode: str, text: str) -> None:
    with path.open(mode, encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _cut(path: Path, size: int) -> None:
    """Half a line at the end would spoil the next one."""
    if path.stat().st_size > size:
        os.truncate(path, size)


def _parsed(number: int, text: str, path: Path) -> Mapping[str, Any]:
    try:
        return as_object(f"line {number}", json.loads(text))
    except ValueError as error:
        if isinstance(error, InputError):
            raise error.in_file(str(path)) from None
        raise InputError(f"line {number}", "is not JSON", ANEW, str(path)) from None


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
