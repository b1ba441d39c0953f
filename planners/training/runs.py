"""A run that somebody made: a configuration, the seconds of an iteration and the peak of a GPU's memory."""

from __future__ import annotations

from dataclasses import dataclass

from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What was run, and what came of it; None: that was not measured."""

    problem: TrainingProblem
    plan: Configuration
    seconds: float | None
    """Seconds of one iteration; None: the run has no time."""
    peak_bytes: float | None = None
    """Allocated at most on the fullest GPU, without what the driver takes."""
    name: str = "run"
    told: tuple[str, ...] = ()
    """Sentences on how it was read."""
