"""Runs that somebody made: one of them, tables of them, and efficiencies that are fitted to them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ...instances.base.errors import InputError, PipeplanError, UsageError, nearest, show
from ...instances.base.json_file import read_text
from ...instances.base.quantities import GIB, whole_number
from ...instances.physics.efficiencies import ABOUT, NEUTRAL, Efficiencies
from ...instances.physics.hardware import devices_and_gpu
from ...instances.training.build import model_of, with_layers
from ...instances.training.iteration import Iteration
from ...instances.training.kind_functions import with_devices
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import framework_faults, memory_of_ranks, shape_faults
from ...instances.training.words import configuration_from_words

# ---- one run -------------------------------------------------------------------------------------------

# A measured amount so many times above or below its prediction is no run of this configuration: another unit, or
# another model.
MOST_TIMES = 100.0
# Units that people write in place of seconds and of GiB, and how many of each make one of these.
INSTEAD_OF_SECONDS = (("milliseconds", 1e3), ("microseconds", 1e6))
INSTEAD_OF_GIB = (("MiB", 2.0**10), ("KiB", 2.0**20), ("bytes", 2.0**30))


# How a run can end; a run that failed says nothing of time or memory.
Outcome = Literal["measured", "out of memory", "failed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True)
class Run:
    """What was run, and what came of it; None: that was not measured."""

    problem: TrainingProblem
    plan: Configuration
    seconds: float | None
    """Seconds of one iteration; None: the run has no time."""
    name: str = "run"
    peak_bytes: float | None = None
    """Allocated at most on the fullest GPU, without what the driver takes."""
    told: tuple[str, ...] = ()
    """Sentences on how it was read."""
    outcome: Outcome = "measured"

    def iteration(self, efficiencies: Efficiencies) -> Iteration:
        """The iteration by the model with these efficiencies."""
        return Iteration(self.problem.replace(efficiencies=efficiencies), self.plan)

    def error(self, efficiencies: Efficiencies) -> RunError:
        """The time of the run beside the model with these efficiencies."""
        assert self.seconds is not None, self.name
        return RunError(self.name, self.iteration(efficiencies).seconds(), self.seconds)

    def predicted_peak(self) -> float:
        """Bytes allocated on the fullest rank, without the reserve, which no framework counts."""
        ranks = memory_of_ranks(self.problem, self.plan)
        return max(sum(size for part, size in rank.parts.items() if part != "reserve") for rank in ranks)

    def check_plausible(self, by_hand: bool) -> None:
        """Raise an `InputError` for an amount that no run of this configuration can have.

        `by_hand`: somebody wrote the amounts down, perhaps in other units.
        """
        if self.seconds is not None:
            predicted = Iteration(self.problem, self.plan).seconds()
            _check_near("seconds", self.seconds, predicted, "s", by_hand * INSTEAD_OF_SECONDS)
        if self.peak_bytes is not None:
            _check_near(
                "peak_gib", self.peak_bytes / GIB, self.predicted_peak() / GIB, "GiB", by_hand * INSTEAD_OF_GIB
            )


def _check_near(
    column: str, value: float, predicted: float, unit: str, others: Iterable[tuple[str, float]]
) -> None:
    """Refuse an amount that is far from its prediction, with the unit that it seems to have."""
    times = value / predicted
    if 1 / MOST_TIMES <= times <= MOST_TIMES:
        return
    problem = f"is {value:.6g}, and this configuration is predicted to take {predicted:.3g} {unit}"
    guess = next((own for own in others if 0.1 <= times / own[1] <= 10), None)
    if guess is None:
        remedy = "give what was measured, or a model, a batch and GPUs that are those of the run"
    else:
        name, count = guess
        problem += f"; these look like {name}"
        remedy = f"divide the column by {count:.0f}"
    raise InputError(column, problem, remedy)


def check_possible(problem: TrainingProblem, plan: Configuration) -> None:
    """Refuse a configuration that no framework can have run, with the first rule that it breaks."""
    for fault in (*shape_faults(problem, plan), *framework_faults(problem, plan)):
        raise UsageError(f"it cannot have been run: {fault}")


# ---- tables of runs ------------------------------------------------------------------------------------

# Columns that change the problem, those that make the configuration, and those that were measured.
OF_LAYERS = ("layers", "dense_layers", "prediction_layers")
OF_PROBLEM = ("model", *OF_LAYERS, "devices", "sequence", "batch", "precision")
OF_CONFIGURATION = (
    *("micro_batch", "tensor", "context", "pipeline", "virtual", "data", "expert", "zero", "recompute"),
    *("expert_tensor", "schedule", "layout"),
)
MEASURED = ("seconds", "peak_gib")
# Columns of an empty table of measured runs.
COLUMNS = (
    *("model", "layers", "dense_layers", "devices", "sequence", "batch", "micro_batch", "tensor", "context"),
    *("pipeline", "virtual", "data", "expert", "zero", "recompute", "precision", "seconds", "peak_gib"),
)
KNOWN = ("name", *OF_PROBLEM, *OF_CONFIGURATION, *MEASURED, "outcome")
MOST_ROWS = 10_000
# Larger numbers are no seconds and no GiB of anything, and overflow where they are multiplied.
MOST_AMOUNT = 1e30


def template() -> str:
    """A table with no row."""
    return ",".join(COLUMNS) + "\n"


def runs_of_table(path: str, problem: TrainingProblem) -> tuple[Run, ...]:
    """Every row; the first that cannot have been run is refused in one sentence."""
    runs = []
    for number, row in enumerate(_rows(path), start=2):
        where = f"row {number}"
        try:
            runs.append(_run(row, where, problem))
        except InputError as error:
            raise InputError(f"{where}: {error.field}", error.problem, error.remedy, path) from None
        except PipeplanError as error:
            raise UsageError(f"{path}: {where}: {error}") from None
    if not runs:
        raise InputError("content", "has no row", "give one for each run", path)
    return tuple(runs)


def _rows(path: str) -> Iterator[Mapping[str, str]]:
    reader = csv.DictReader(io.StringIO(read_text(path)), strict=True)
    try:
        _check_columns(path, [name.strip() for name in reader.fieldnames or ()])
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        for number, row in enumerate(reader, start=2):
            if number > MOST_ROWS:
                raise InputError("content", f"has more than {MOST_ROWS} rows", "give fewer", path)
            if None in row:
                raise InputError(f"row {number}", "has more cells than there are columns", "drop them", path)
            yield {name: (cell or "").strip() for name, cell in row.items()}
    except csv.Error as error:
        raise InputError("content", f"cannot be read as a table ({error})", "give a CSV file", path) from None


def _check_columns(path: str, names: list[str]) -> None:
    for name in names:
        if name not in KNOWN:
            close = nearest(name, KNOWN)
            remedy = f'write "{close}"' if close else "give some of " + ", ".join(COLUMNS)
            raise InputError("content", f"has the column {show(name)}", remedy, path)
        if names.count(name) > 1:
            raise InputError("content", f"has the column {show(name)} twice", "give it once", path)
    if not {*MEASURED, "outcome"} & set(names):
        raise InputError("content", "has neither the column seconds nor peak_gib", "give what was measured", path)


def _run(row: Mapping[str, str], where: str, problem: TrainingProblem) -> Run:
    of_run = _problem(row, problem)
    names = [name for name in OF_CONFIGURATION if row.get(name)]
    words = " ".join(f'{name.replace("_", "-")}="{row[name]}"' for name in names if '"' not in row[name])
    plan = configuration_from_words(of_run, words)
    check_possible(of_run, plan)
    seconds, peak = (_amount(row, name) for name in MEASURED)
    outcome = row.get("outcome") or "measured"
    if outcome not in OUTCOMES:
        raise InputError("outcome", f"is {show(outcome)}", "write " + ", ".join(OUTCOMES) + ", or leave it empty")
    if outcome == "measured" and seconds is None and peak is None:
        raise InputError("seconds", "is empty, and so is peak_gib", "give what was measured")
    if outcome != "measured" and seconds is not None:
        raise InputError("seconds", f"is given for a run that is {outcome}", "leave the cell empty")
    name = row.get("name") or where
    run = Run(of_run, plan, seconds, name, None if peak is None else peak * GIB, outcome=outcome)
    run.check_plausible(by_hand=True)
    return run


def _problem(row: Mapping[str, str], problem: TrainingProblem) -> TrainingProblem:
    """The problem with what this row has of its own."""
    changes: dict[str, Any] = {name: _whole(row, name) for name in ("sequence", "batch") if row.get(name)}
    if row.get("precision"):
        changes["precision"] = row["precision"].lower()
    model = model_of(row["model"]) if row.get("model") else problem.model
    layers = (_whole(row, name) if row.get(name) else None for name in OF_LAYERS)
    of_run = problem.replace(model=with_layers(model, *layers), **changes)
    if not row.get("devices") and problem.second is not None:
        raise InputError("devices", "is empty, and there are GPUs of two sorts", f"give one of {problem.gpus}")
    return of_run if not row.get("devices") else _on(of_run, row["devices"])


def _on(problem: TrainingProblem, text: str) -> TrainingProblem:
    """The problem on another number of the same GPUs, since efficiencies are those of one sort."""
    count, pools = whole_number(text), {pool.gpu.name: pool for pool in problem.pools}
    if count is None or len(pools) > 1:
        count, gpu = devices_and_gpu(text)
        if gpu.name not in pools:
            raise InputError(
                "devices",
                f"are {show(text)}, and the problem has {' and '.join(pools)}",
                "give runs on the same GPUs",
            )
        problem = pools[gpu.name]
    return problem if count == problem.devices else with_devices(problem, count)


def _whole(row: Mapping[str, str], name: str) -> int:
    number = whole_number(row[name])
    if number is None:
        raise InputError(name, f"is {show(row[name])}", "give a whole number")
    return number


def _amount(row: Mapping[str, str], name: str) -> float | None:
    text = row.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < MOST_AMOUNT:
        raise InputError(name, f"is {show(text)}", f"give a number above 0 and below {MOST_AMOUNT:g}")
    return value


# ---- efficiencies fitted to runs -------------------------------------------------------------------------
#
# The least sum of relative errors, with a pull to where the numbers were:
#
#     sum of |error of run k|  +  PULL * sum of NEAR / 2 * log(1 + ((x_i - known_i) / NEAR)^2)
#
# Absolute errors let one odd run be odd. The pull is greatest at the distance NEAR: what several runs have in common
# goes beyond it, and then as far as they say; one or two runs do not. On published runs, by groups of one model on one
# number of GPUs, a fit on four of a group changes the mean error of the others by 0.4 points at most, either way
# (`benchmarks/measured.py --draws 2`); the least greatest error made some twice as bad.
#
# The time of a configuration is a sum of maxima of products of efficiencies. With the binding branch of each maximum
# fixed, its logarithm is nearly linear in the logarithms of the efficiencies. So one step solves least squares within a
# small box, with weights that make squares equal to the terms above. Steps repeat, in a smaller box where one was no
# gain. It is a local method: optimality is not claimed.

PULL = 4.0
# Runs that agree almost exactly about numbers far from the known ones are met with this pull instead (`fitted` tells).
WEAK_PULL = 0.2
# Nothing moves.
NO_FIT = 1e12
NEAR = 0.1
# Errors much smaller than this do not count.
SMALL = 0.003
# Difference of a coordinate by which slopes are measured; a box that is smaller ends the fit.
STEP = 1e-4
# The most that one step may change a coordinate.
BOX = 0.5
# Most steps of a fit, and the gain below which it ends.
STEPS = 60
ENOUGH = 1e-5

# Numbers that may be zero, each with the amount that counts as a distance of one.
LINEAR = {
    "half_side": 100.0,
    "launch_seconds": 2e-6,
    "host_seconds": 2e-5,
    "collective_seconds": 2e-5,
    "step_seconds": 0.01,
}


@dataclass(frozen=True, slots=True)
class RunError:
    """An amount of a run, measured and predicted by a model."""

    name: str
    predicted: float
    measured: float
    says: Mapping[str, float] = field(default_factory=dict)
    """Where the model was fitted to the run's time: by efficiency, the relative change of the predicted time for a
    distance of one."""

    @property
    def error(self) -> float:
        """Relative error of the measured amount against the predicted one: what a shortlist's tolerance is about."""
        return self.measured / self.predicted - 1


@dataclass(frozen=True, slots=True)
class Fit:
    """What was fitted, and how well: `runs` are beside the model with the fitted efficiencies."""

    efficiencies: Efficiencies
    runs: tuple[RunError, ...]

    @property
    def worst(self) -> float:
        """The greatest relative error of a run."""
        return max(abs(run.error) for run in self.runs)


def fit(runs: Sequence[Run], known: Efficiencies | None = None, pull: float = PULL) -> Fit:
    """Efficiencies for these runs: those change on which the time of some run depends.

    Parameters
    ----------
    runs : sequence of Run
        At least one.
    known : Efficiencies, optional
        Where the fit begins, and from which it strays no further than runs say; by default the efficiencies of the
        first run's problem.
    pull : float
        How strongly it is held there.
    """
    if not runs:
        raise InputError("runs", "are none", "give at least one run with its seconds")
    for run in runs:
        if run.seconds is None or not run.seconds > 0:
            raise InputError("seconds", f"of {run.name} are {run.seconds or 0:g}", "give the time of an iteration")
    start = known or runs[0].problem.efficiencies
    names = [name for name in ABOUT if name not in NEUTRAL or not start.is_neutral(name)]
    every = _Search(runs, tuple(names), start, pull)
    slopes = every.slopes(every.start)
    used = tuple(name for i, name in enumerate(every.names) if any(row[i] for row in slopes))
    return _Search(runs, used, start, pull).run()


class _Search:
    """Steps from one point to the next; a point is a list of coordinates, one for each name."""

    def __init__(self, runs: Sequence[Run], names: tuple[str, ...], known: Efficiencies, pull: float) -> None:
        self.runs, self.known, self.pull = runs, known, pull
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
        errors = [run.error(self.efficiencies(point)) for run in self.runs]
        return [math.log(error.predicted / error.measured) for error in errors]

    def value(self, point: Sequence[float], errors: Sequence[float]) -> float:
        distances = [abs(x - start) for x, start in zip(point, self.start, strict=True)]
        pulls = sum(NEAR / 2 * math.log1p((distance / NEAR) ** 2) for distance in distances)
        return sum(math.hypot(error, SMALL) for error in errors) + self.pull * pulls

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
        says = (dict(zip(self.names, row, strict=True)) for row in self.slopes(point))
        pairs = zip(self.runs, says, strict=True)
        return Fit(efficiencies, tuple(replace(run.error(efficiencies), says=own) for run, own in pairs))

    def slopes(self, point: Sequence[float]) -> list[list[float]]:
        """Change of each run's error with every coordinate, by differences that stay inside the bounds.

        The passes that wait for each other stay those of this point, so that every run is simulated once.
        """
        from .forms import longest_path  # loads what compiles

        here = [run.iteration(self.efficiencies(point)) for run in self.runs]
        paths = [longest_path(iteration) for iteration in here]
        old = [iteration.along(path) for iteration, path in zip(here, paths, strict=True)]
        columns = []
        for i, x in enumerate(point):
            step = STEP if x + STEP <= self.high[i] else -STEP
            moved = self.efficiencies([*point[:i], x + step, *point[i + 1 :]])
            new = [run.iteration(moved).along(path) for run, path in zip(self.runs, paths, strict=True)]
            columns.append([math.log(after / before) / step for after, before in zip(new, old, strict=True)])
        return [list(row) for row in zip(*columns, strict=True)]

    def _step(
        self, point: Sequence[float], errors: Sequence[float], slopes: Sequence[Sequence[float]], box: float
    ) -> list[float]:
        """Least squares within the box: errors by the slopes, and distances from the start."""
        import numpy as np
        from scipy.optimize import lsq_linear

        slope, error, start, x0 = (np.array(v, dtype=float) for v in (slopes, errors, self.start, point))
        of_runs = np.hypot(error, SMALL) ** -0.5
        of_numbers = np.sqrt(self.pull / NEAR) / np.hypot(1, (x0 - start) / NEAR)
        rows = np.vstack([of_runs[:, None] * slope, np.diag(of_numbers)])
        wanted = np.concatenate([of_runs * (slope @ x0 - error), of_numbers * start])
        low, high = np.maximum(self.low, x0 - box), np.minimum(self.high, x0 + box)
        return [float(x) for x in lsq_linear(rows, wanted, (low, high), method="bvls").x]


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
