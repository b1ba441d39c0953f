"""What `plan pareto` needs to know of a kind of problems, in functions that are imported when they are called."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...instances.base.errors import UsageError
from ...instances.base.kind import Function
from ...planners.options import SolveOptions
from .curve import USUAL, Curve, Watch


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user says of the curve."""

    levels: int | None = None
    """None: the usual number."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """What only some kinds have a meaning for, by name; only what was given."""
    limits: SolveOptions = USUAL
    """Of each point."""


@dataclass(frozen=True, slots=True)
class Study:
    """One curve for each kind."""

    takes: frozenset[str]
    """What of `Asked.own` says anything."""
    run: Function[[Any, Asked, str | os.PathLike[str] | None, bool], Callable[[Watch], Curve]]
    """Of a problem, with the path of its points, and whether they are read again first."""

    def check(self, kind: str, asked: Asked) -> None:
        """A `UsageError` where something was said that means nothing here."""
        foreign = next((name for name in asked.own if name not in self.takes), None)
        if foreign is not None:
            flag = "--" + foreign.replace("_", "-")
            raise UsageError(f"{flag} says nothing about the curve of a {kind} problem; drop it.")

    def curve(
        self, problem: Any, asked: Asked, path: str | os.PathLike[str] | None, resume: bool
    ) -> Callable[[Watch], Curve]:
        """All that can be refused is refused here; then the watcher is all that is missing."""
        self.check(problem.kind, asked)
        return self.run(problem, asked, path, resume)
