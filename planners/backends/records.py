"""What travels between a solver process and whoever asked: options in, events and an answer out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...formulations.contract import NativeModel
from ...instances.base.result import PROVEN_TOLERANCE, Stop, WarmStart
from ..options import Progress, SolveOptions
from .model import Floats, Indices, MatrixModel

# Objective and bound this close to each other have met where the search is complete.
ZERO = 1e-9


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A new best solution. `value` is its objective in the minimised model."""

    seconds: float
    value: float
    values: Mapping[str, float]
    source: str = ""
    """The backend, or `start` for an accepted warm start."""


Event = Progress | Incumbent


@dataclass(frozen=True, slots=True)
class Answer:
    """What a backend brought home, not yet judged by the referee. Objective and bound are of the minimised model.

    The worker fills in what its driver found; `stop` is PROVEN there where the search was complete. The parent
    settles `stop` and adds names and units, and what only it knows.
    """

    stop: Stop
    x: Floats | None = None
    """The solution while it travels from the worker; the parent turns it into `values`."""
    objective: float | None = None
    bound: float | None = None
    """Valid for the true data, however the backend scaled them."""
    nodes: int | None = None
    message: str = ""
    size: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of the work of the search, in the backend's own words; the same each time with one thread and the
    same seed."""
    warm_start: WarmStart = WarmStart()
    values: Mapping[str, float] | None = None
    """The best solution, in the model's own names; None: there is none, whatever `stop` says."""
    backend: str = ""
    version: str | None = None
    seconds: float = 0.0


# ---- inside the layer ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker is told to do. `submitted` is the system's monotonic clock, the same in every process."""

    number: int
    model: MatrixModel | NativeModel
    options: SolveOptions
    submitted: float
    start: tuple[Indices, Floats] | None = None
    named_start: Mapping[str, float] | None = None
    """A start by names, for native models, whose columns only the worker knows."""
    paths: tuple[str, ...] = ()
    """Where the parent finds modules, for the builder of a native model."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message about a task. `kind` is begun, names, progress, incumbent, answer or refused from the worker, and
    interrupt or offer from the parent."""

    number: int
    kind: str
    content: Any


def settle(answer: Answer, options: SolveOptions) -> Answer:
    """Why it ended, in the words of the result, and a bound that rounding has not pushed past the objective.

    `proven` where objective and bound meet, whatever gap was asked for; `gap` where the gap that was
    asked for is reached. A complete search whose bound does not meet (a grid) is `completed`.
    """
    stop, objective, bound = answer.stop, answer.objective, answer.bound
    if objective is None:
        return replace(answer, stop=Stop.ERROR) if stop == Stop.PROVEN else answer
    if bound is None:
        return replace(answer, stop=Stop.COMPLETED) if stop == Stop.PROVEN else answer
    difference = objective - bound
    tolerance = PROVEN_TOLERANCE * max(abs(objective), abs(bound))
    if stop == Stop.PROVEN:
        tolerance = max(tolerance, ZERO)  # around 0 no relative tolerance helps
    if abs(difference) <= tolerance:
        return replace(answer, stop=Stop.PROVEN, bound=min(bound, objective))
    if difference < 0:  # whoever judges will see the contradiction
        wrong = f"its bound {bound!r} is above its own solution of value {objective!r}"
        return replace(answer, stop=Stop.ERROR, message=answer.message or wrong)
    rounding = 1 + 1e-9
    if difference <= options.abs_gap * rounding or difference <= options.rel_gap * abs(objective) * rounding:
        return replace(answer, stop=Stop.GAP)
    return replace(answer, stop=Stop.COMPLETED) if stop in (Stop.PROVEN, Stop.GAP) else answer


def finite(value: float | None) -> float | None:
    """A number, or None for what solvers write when they have none."""
    return float(value) if value is not None and np.isfinite(value) and abs(value) < 1e20 else None
