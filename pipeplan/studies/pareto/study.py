"""What `plan pareto` needs to know of a kind of problems, in functions that are imported when they are called."""

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
    """The class of its sweep."""

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
        kind = self.sweep.load()
        settings = kind.settings_for(problem, asked)
        kind.check(problem, settings)
        journal = opened(path, kind.axes.facts(problem), settings.to_json(), resume)
        return partial(sweep, kind, problem, settings, journal)
