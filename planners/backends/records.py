"""What travels between a solver process and whoever asked: options in, events and outcomes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...formulations.contract import NativeModel
from ...instances.result import PROVEN_TOLERANCE, Stop, WarmStart
from ..options import Progress, SolveOptions
from .model import Floats, Indices, MatrixModel

ZERO = 1e-9
"""Objective and bound this close to each other have met where the search is complete."""


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
class RawOutcome:
    """What a backend brought home, not yet judged by the referee. Objective and bound are of the minimised model.

    `stop` says why it ended, `values` what there is: each can be without the other.
    """

    stop: Stop
    backend: str
    version: str | None
    seconds: float
    values: Mapping[str, float] | None = None
    objective: float | None = None
    bound: float | None = None
    """Valid for the true data, however the backend scaled them."""
    nodes: int | None = None
    warm_start: WarmStart = WarmStart()
    log_path: str | None = None
    message: str = ""
    size: Mapping[str, int] = field(default_factory=dict)


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
    """For native models, whose names only the worker knows."""
    paths: tuple[str, ...] = ()
    """Where the parent finds modules, for the builder of a native model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a driver found. `stop` is PROVEN where its search was complete; bound and objective have the last word."""

    stop: Stop
    x: Floats | None = None
    objective: float | None = None
    bound: float | None = None
    nodes: int | None = None
    message: str = ""
    size: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """The worker's last word on a task."""

    answer: Answer
    warm_start: WarmStart
    seconds: float


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the worker: `kind` is names, progress, incumbent, report or refused."""

    number: int
    kind: str
    content: Any


def settle(answer: Answer, options: SolveOptions) -> tuple[Stop, float | None]:
    """Why it ended, in the words of the result, and a bound that rounding has not pushed past the objective.

    `proven` where objective and bound meet, whatever gap was asked for; `gap` where the gap that was
    asked for is reached. A complete search whose bound does not meet (a grid) is `completed`.
    """
    objective, bound = answer.objective, answer.bound
    if objective is None or bound is None:
        stop = Stop.ERROR if answer.stop == Stop.PROVEN and objective is None else answer.stop
        return (Stop.COMPLETED if stop == Stop.PROVEN else stop), bound
    difference = objective - bound
    tolerance = PROVEN_TOLERANCE * max(abs(objective), abs(bound))
    if answer.stop == Stop.PROVEN:
        tolerance = max(tolerance, ZERO)  # around 0 no relative tolerance helps
    if abs(difference) <= tolerance:
        return Stop.PROVEN, min(bound, objective)
    if difference < 0:
        return Stop.ERROR, bound  # a bound above a solution: whoever judges will see the contradiction
    rounding = 1 + 1e-9
    if difference <= options.abs_gap * rounding or difference <= options.rel_gap * abs(objective) * rounding:
        return Stop.GAP, bound
    return (Stop.COMPLETED if answer.stop in (Stop.PROVEN, Stop.GAP) else answer.stop), bound


def finite(value: float | None) -> float | None:
    """A number, or None for what solvers write when they have none."""
    return float(value) if value is not None and np.isfinite(value) and abs(value) < 1e20 else None
