"""Efficiencies fitted to runs that were made: least greatest relative error first, then least distance from before.

The time of a configuration is a sum of maxima of products of efficiencies. With the binding branch of each maximum
fixed, its logarithm is nearly linear in the logarithms of the efficiencies. So one step is a linear program over these
within a small box: least

    z + sum of STRAY * near_i + FAR * far_i        near_i <= NEAR, near_i + far_i >= |x_i - known_i|
                                                   z >= |error of run k, linear in x| for every run

Steps repeat, in a smaller box where one was no gain. It is a local method: optimality is not claimed. The second term
decides what few runs leave open, so that a number moves from where it was only as far as a run says something of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...instances.base.errors import InputError
from ...instances.physics.efficiencies import ABOUT, Efficiencies, check_name
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee.seconds import Iteration

# The largest error that a distance of one is worth: a factor e in a factor, or a share from 0 to 1.
STRAY = 0.01
# Beyond the distance NEAR each further unit of distance is worth FAR instead of STRAY: several numbers a
# little off rather than one of them much.
NEAR, FAR = 0.2, 0.1
# Difference of a coordinate by which slopes are measured; a box that is smaller ends the fit.
STEP = 1e-4
# The most that one step may change a coordinate.
BOX = 0.5
# Most steps of a fit, and the gain below which it ends.
STEPS = 60
ENOUGH = 1e-5

# Numbers that may be zero, each with the amount that counts as a distance of one.
LINEAR = {"half_side": 100.0, "launch_seconds": 2e-6, "collective_seconds": 2e-5, "step_seconds": 0.01}


@dataclass(frozen=True, slots=True)
class Run:
    """A configuration with the seconds that it took."""

    problem: TrainingProblem
    plan: Configuration
    seconds: float
    name: str = "run"


@dataclass(frozen=True, slots=True)
class RunError:
    """A run beside the model with the fitted efficiencies."""

    name: str
    predicted_seconds: float
    measured_seconds: float
    says: Mapping[str, float]
    """By efficiency that was fitted, the relative change of the predicted time for a distance of one."""

    @property
    def error(self) -> float:
        """Relative error of the measured time against the predicted one: what a shortlist's tolerance is about."""
        return self.measured_seconds / self.predicted_seconds - 1


@dataclass(frozen=True, slots=True)
class Fit:
    """What was fitted, and how well."""

    efficiencies: Efficiencies
    runs: tuple[RunError, ...]

    @property
    def worst(self) -> float:
        """The greatest relative error of a run."""
        return max(abs(run.error) for run in self.runs)


def fit(runs: Sequence[Run], names: Sequence[str] | None = None, known: Efficiencies | None = None) -> Fit:
    """Efficiencies for these runs.

    Parameters
    ----------
    runs : sequence of Run
        At least one.
    names : sequence of str, optional
        Which efficiencies may change; by default all of them on which the time of some run depends.
    known : Efficiencies, optional
        Where the fit begins, and from which it strays no further than runs say; by default the efficiencies of the
        first run's problem.
    """
    if not runs:
        raise InputError("runs", "are none", "give at least one run with its seconds")
    for run in runs:
        if not run.seconds > 0:
            raise InputError("seconds", f"of {run.name} are {run.seconds:g}", "give the time of an iteration")
    start = known or runs[0].problem.efficiencies
    every = _Search(runs, tuple(ABOUT if names is None else (check_name(name) for name in names)), start)
    slopes = every.slopes(every.start)
    used = tuple(name for i, name in enumerate(every.names) if any(row[i] for row in slopes))
    return _Search(runs, used, start).run()


class _Search:
    """Steps from one point to the next; a point is a list of coordinates, one for each name."""

    def __init__(self, runs: Sequence[Run], names: tuple[str, ...], known: Efficiencies) -> None:
        self.runs, self.known = runs, known
        self.names = names
        self.start = [coordinate(name, getattr(known, name)) for name in names]
        self.low, self.high = zip(*map(_bounds, names), strict=True)

    def efficiencies(self, point: Sequence[float]) -> Efficiencies:
        changes = {
            name: value_of(name, x) if x != start else getattr(self.known, name)
            for name, x, start in zip(self.names, point, self.start, strict=True)
        }
        return replace(self.known, **changes)

    def errors(self, point: Sequence[float]) -> list[float]:
        """The logarithm of predicted over measured time, for each run."""
        efficiencies = self.efficiencies(point)
        return [math.log(self._seconds(run, efficiencies) / run.seconds) for run in self.runs]

    @staticmethod
    def _seconds(run: Run, efficiencies: Efficiencies) -> float:
        return _Search._iteration(run, efficiencies).seconds()

    def value(self, point: Sequence[float], errors: Sequence[float]) -> float:
        distances = [abs(x - start) for x, start in zip(point, self.start, strict=True)]
        return max(map(abs, errors)) + sum(STRAY * min(d, NEAR) + FAR * max(0.0, d - NEAR) for d in distances)

    def run(self) -> Fit:
        point, box = list(self.start), BOX
        errors = self.errors(point)
        value = self.value(point, errors)
        slopes = self.slopes(point)
        for _ in range(STEPS):
            tried = self._step(point, errors, slopes, box)
            tried_errors = self.errors(tried)
            tried_value = self.value(tried, tried_errors)
            if tried_value < value:
                gain = value - tried_value
                point, errors, value = tried, tried_errors, tried_value
                if gain < ENOUGH:
                    break
                slopes, box = self.slopes(point), min(2 * box, BOX)
            else:
                box /= 3
                if box < STEP:
                    break
        efficiencies = self.efficiencies(point)
        slopes = self.slopes(point)
        return Fit(efficiencies, tuple(self._told(k, efficiencies, slopes[k]) for k in range(len(self.runs))))

    def slopes(self, point: Sequence[float]) -> list[list[float]]:
        """Change of each run's error with every coordinate, by differences that stay inside the bounds.

        The passes that wait for each other stay those of this point, so that every run is simulated once.
        """
        here = [self._iteration(run, self.efficiencies(point)) for run in self.runs]
        paths = [iteration.path() for iteration in here]
        old = [iteration.along(path) for iteration, path in zip(here, paths, strict=True)]
        columns = []
        for i, x in enumerate(point):
            step = STEP if x + STEP <= self.high[i] else -STEP
            moved = self.efficiencies([*point[:i], x + step, *point[i + 1 :]])
            new = [self._iteration(run, moved).along(path) for run, path in zip(self.runs, paths, strict=True)]
            columns.append([math.log(after / before) / step for after, before in zip(new, old, strict=True)])
        return [list(row) for row in zip(*columns, strict=True)]

    @staticmethod
    def _iteration(run: Run, efficiencies: Efficiencies) -> Iteration:
        return Iteration(run.problem.replace(efficiencies=efficiencies), run.plan)

    def _step(
        self, point: Sequence[float], errors: Sequence[float], slopes: Sequence[Sequence[float]], box: float
    ) -> list[float]:
        """The linear program: coordinates, their distances from the start in two parts, and the greatest error."""
        import numpy as np
        from scipy.optimize import linprog

        n = len(self.names)
        slope, error, start, x0 = (np.array(v, dtype=float) for v in (slopes, errors, self.start, point))
        one, zeros = np.ones((len(errors), 1)), np.zeros((len(errors), n))
        eye, none = np.eye(n), np.zeros((n, 1))
        rows = np.vstack(
            [
                np.hstack([slope, zeros, zeros, -one]),
                np.hstack([-slope, zeros, zeros, -one]),
                np.hstack([eye, -eye, -eye, none]),
                np.hstack([-eye, -eye, -eye, none]),
            ]
        )
        constant = slope @ x0 - error
        limits = np.concatenate([constant, -constant, start, -start])
        bounds: list[tuple[float, float | None]] = [
            (max(low, x - box), min(high, x + box)) for low, high, x in zip(self.low, self.high, point, strict=True)
        ]
        bounds += [(0, NEAR)] * n + [(0, None)] * (n + 1)
        costs = np.concatenate([np.zeros(n), np.full(n, STRAY), np.full(n, FAR), [1.0]])
        answer: Any = linprog(costs, A_ub=rows, b_ub=limits, bounds=bounds, method="highs")
        if answer.x is None:
            return list(point)
        coordinates = zip(answer.x[:n], self.low, self.high, strict=True)
        return [float(min(max(x, low), high)) for x, low, high in coordinates]

    def _told(self, k: int, efficiencies: Efficiencies, slopes: Sequence[float]) -> RunError:
        run = self.runs[k]
        return RunError(
            run.name, self._seconds(run, efficiencies), run.seconds, dict(zip(self.names, slopes, strict=True))
        )


def left_out(
    runs: Sequence[Run], names: Sequence[str] | None = None, known: Efficiencies | None = None, parts: int = 8
) -> tuple[RunError, ...]:
    """Each run beside the model that was fitted without it, and without the others of its part: what a fit is worth.

    Runs go to the parts by turns. Parameters are those of `fit`; `parts` is the most fits that are made.
    """
    errors: list[RunError] = []
    count = min(parts, len(runs))
    for part in range(count):
        out = runs[part::count]
        used = [run for k, run in enumerate(runs) if k % count != part]
        efficiencies = fit(used, names, known).efficiencies if used else known or runs[0].problem.efficiencies
        errors += [
            RunError(run.name, _Search._iteration(run, efficiencies).seconds(), run.seconds, {}) for run in out
        ]
    return tuple(errors)


# ---- efficiencies as coordinates -----------------------------------------------------------------------


def coordinate(name: str, value: float) -> float:
    """The coordinate of an efficiency: the logarithm of a factor, a hidden share as it is, a number that may be zero in
    its scale."""
    if name in LINEAR:
        return value / LINEAR[name]
    return math.log(value) if _is_factor(name) else value


def value_of(name: str, x: float) -> float:
    """The efficiency at a coordinate, inside its bounds."""
    about = ABOUT[name]
    value = x * LINEAR[name] if name in LINEAR else math.exp(x) if _is_factor(name) else x
    return min(max(value, about.least), math.inf if about.most is None else about.most)


def _is_factor(name: str) -> bool:
    return name not in LINEAR and not name.endswith("_hidden")


def _bounds(name: str) -> tuple[float, float]:
    about = ABOUT[name]
    low = about.least if about.least > 0 or not _is_factor(name) else 1e-3
    high = math.inf if about.most is None else about.most
    return coordinate(name, low), min(coordinate(name, high), 1e3) if high < math.inf else 1e3
