"""What `plan pareto` needs to know of a kind of problems; its code is imported when it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...instances.base.errors import UsageError
from ...instances.base.kind import Later
from .curve import Asked, Curve, Sweep, Watch, sweep
from .stored import opened


@dataclass(frozen=True, slots=True)
class Study:
    """The curve of a kind."""

    takes: frozenset[str]
    """Names of options in `Asked.own` that have a meaning for this kind."""
    sweep: Later[type[Sweep]]
    """The class of the kind's sweep."""

    def check(self, kind: str, asked: Asked) -> None:
        """Raise a `UsageError` for an option that has no meaning for the curve of this kind."""
        foreign = next((name for name in asked.own if name not in self.takes), None)
        if foreign is not None:
            flag = "--" + foreign.replace("_", "-")
            raise UsageError(f"{flag} says nothing about the curve of a {kind} problem; drop it.")

    def curve(
        self, problem: Any, asked: Asked, path: str | os.PathLike[str] | None, resume: bool
    ) -> Callable[[Watch], Curve]:
        """Check everything that can be refused, and return the sweep, which is called with its watcher."""
        self.check(problem.kind, asked)
        kind = self.sweep.load()
        settings = kind.settings_for(problem, asked)
        kind.check(problem, settings)
        journal = opened(path, kind.axes.facts(problem), settings.to_json(), resume)
        return partial(sweep, kind, problem, settings, journal)
