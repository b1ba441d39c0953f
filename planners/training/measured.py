"""Runs that were made, fed back: efficiencies fitted to them, and by how much the model is off on runs left out.

The tolerance of a shortlist is about runs that nobody made yet. So its figure is the greatest error on runs that the
fit did not see: each run (or share of them) is left out in turn, with all others of the same configuration.
"""

from __future__ import annotations

import csv
import os
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ...instances.base.errors import InputError, UsageError, errors_in
from ...instances.base.fields import as_number, as_object, check_schema, plain_fields, read_record, require
from ...instances.base.json_file import read_json, read_text, write_json
from ...instances.base.quantities import GIB, MIB, several, whole_number
from ...instances.physics.efficiencies import ABOUT, USUAL_ERROR, Efficiencies
from ...instances.training.build import with_layers
from ...instances.training.flag_options import dashed
from ...instances.training.flags import Read, read_options
from ...instances.training.kind_functions import with_devices
from ...instances.training.problem import TrainingProblem
from ...instances.training.scope import Margin
from ...instances.training.words import words_of
from .runs import MEASURED, NO_FIT, PULL, WEAK_PULL, Fit, Run, RunError, check_possible, fit, runs_of_table

# ---- runs in logs ----------------------------------------------------------------------------------------
#
# A log of Megatron or torchtitan has the configuration, seconds of an iteration and the peak of memory. Megatron
# prints its arguments as `name ....... value`, for some iterations ` iteration 7/ 50 | ... | elapsed time per
# iteration (ms): 843.0 | ...` (megatron/training/training.py), and `[Rank 0] (after 2 iterations) memory (MB) |
# allocated: ... | max allocated: ...` (megatron/training/utils.py, in MiB). torchtitan 0.2 prints its device
# mesh, its batches, and `step: 10 loss: ... memory: 44.30GiB(46.63%) tps: 5,762 ...` (train.py,
# components/metrics.py): tokens per second and GPU, and the memory that is reserved.

# Iterations at the beginning that do not count, where a log has more than these.
WARM_UP = 2

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ARGUMENT = re.compile(r"(?:^|\s)([a-z][a-z0-9_]{1,80}) \.{3,} ?(.*)$")
_MILLISECONDS = re.compile(r"elapsed time per iteration \(ms\):\s*([0-9]+(?:\.[0-9]+)?)")
_PEAK_MIB = re.compile(r"memory \(MB\).*?max allocated:\s*([0-9]+(?:\.[0-9]+)?)")
_STEP = re.compile(r"\bstep:\s*\d+\s.*?memory:\s*([0-9.]+)GiB.*?tps:\s*([0-9][0-9,]*)")
_MESH = re.compile(r"Building device mesh with parallelism: ((?:[a-z_]+=\d+(?:, )?)+)")
_BATCHES = re.compile(r"local batch size (\d+), global batch size (\d+).*?sequence length (\d+)")
_PIPELINE = re.compile(r"Using pipeline schedule (\w+) with (\d+) microbatches and (\d+) stages")
# What torch, CUDA, ROCm and NCCL print where a GPU has no memory left.
_NO_MEMORY = re.compile(
    r"OutOfMemoryError|(?:CUDA|HIP|XPU)(?: error:)? out of memory|cudaErrorMemoryAllocation|Cuda failure 2\b"
)
_AGAIN = re.compile(r"Applied (\w+) activation checkpointing")

# The most characters of a line that are read: no line of these programs is longer.
LONGEST_LINE = 20_000

# An argument that every log of Megatron has.
OF_MEGATRON = "tensor-model-parallel-size"
# Arguments of Megatron whose flags have other names.
RENAMED = {"fp8": "fp8-format"}
# How a log prints number formats.
DTYPES = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.uint8": "fp8"}
# How a log prints the one flag of these that switches something off.
BIASES_OFF = ("add-bias-linear", "False")
# Flags that say what was run; a log names hundreds of others.
READ_FROM_LOG = (
    *("tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size", "seq-length"),
    *("expert-model-parallel-size", "expert-tensor-parallel-size", "micro-batch-size", "global-batch-size"),
    *("use-distributed-optimizer", "num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"),
    *("pipeline-model-parallel-layout", "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"),
    *("account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split", "world-size"),
    *("recompute-granularity", "recompute-method", "recompute-num-layers", "recompute-modules"),
    *("use-megatron-fsdp", "data-parallel-sharding-strategy", "cpu-offloading", "num-layers", "hidden-size"),
    *("num-attention-heads", "sequence-parallel", "bf16", "fp16", "fp8-format", "num-experts"),
    *("cross-entropy-loss-fusion", "attention-dropout", "hidden-dropout", "moe-grouped-gemm", "optimizer"),
    *(
        "use-precision-aware-optimizer",
        "main-grads-dtype",
        "main-params-dtype",
        "exp-avg-dtype",
        "exp-avg-sq-dtype",
    ),
    *("grad-reduce-in-bf16", "accumulate-allreduce-grads-in-fp32", "sgd-momentum"),
    *("add-qkv-bias", "disable-bias-linear"),
    *("untie-embeddings-and-output-weights", "swiglu", "multi-latent-attention", "mtp-num-layers"),
)
# torchtitan's option for each dimension of its device mesh.
MESH = {
    "pp": "pipeline-parallel-degree",
    "dp-replicate": "data-parallel-replicate-degree",
    "dp-shard": "data-parallel-shard-degree",
    "cp": "context-parallel-degree",
    "tp": "tensor-parallel-degree",
    "ep": "expert-parallel-degree",
    "etp": "expert-tensor-parallel-degree",
}


@dataclass(frozen=True, slots=True)
class Logged:
    """What a log says was measured."""

    iterations: int = 0
    """Iterations after the warm-up."""
    seconds: float | None = None
    """Seconds of one, their median; None: the log has no iteration."""
    peak_bytes: float | None = None
    out_of_memory: bool = False
    """Does the log end without memory on a GPU? An earlier line of this kind was survived."""

    @classmethod
    def of(cls, text: str, problem: TrainingProblem) -> Logged:
        """The amounts in a log of Megatron or torchtitan, whatever its beginning says of the configuration."""
        lines = lines_of(text)
        found = [(n, own) for n, line in enumerate(lines) if (own := _MILLISECONDS.search(line))]
        steps = [(n, own) for n, line in enumerate(lines) if (own := _STEP.search(line))]
        last = max((n for n, _ in (*found, *steps)), default=-1)
        out = any(_NO_MEMORY.search(line) for line in lines[last + 1 :])
        if found:
            milliseconds, count = _counted([float(own[1]) for _, own in found])
            peaks = [float(own[1]) * MIB for line in lines if (own := _PEAK_MIB.search(line))]
            return cls(count, milliseconds / 1000, max(peaks, default=0.0) or None, out)
        if not steps:
            return cls(out_of_memory=out)
        rate, count = _counted([float(own[2].replace(",", "")) for _, own in steps])
        seconds = problem.batch * problem.sequence / (rate * problem.devices) if rate > 0 else None
        return cls(count, seconds, max(float(own[1]) for _, own in steps) * GIB or None, out)


def lines_of(text: str) -> list[str]:
    """The lines of a log without colours, none longer than any program writes."""
    return [line[:LONGEST_LINE] for line in _COLOUR.sub("", text).splitlines()]


def run_of_text(path: str, text: str, problem: TrainingProblem) -> Run:
    """The run in the text of a log, which errors call by its path."""
    lines = lines_of(text)
    ended = any(_NO_MEMORY.search(line) for line in lines)
    try:
        with errors_in(path):
            if any(_MILLISECONDS.search(line) for line in lines) or (ended and OF_MEGATRON in _arguments(lines)):
                return _megatron(path, lines, problem)
            if any(_STEP.search(line) for line in lines) or (ended and _last(_MESH, lines)):
                return _torchtitan(path, lines, problem)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    raise InputError(
        "content",
        "is neither a table of runs nor a log of Megatron or torchtitan",
        "give rows with the columns of --template, or a log with iteration times",
        path,
    )


def _counted(values: Sequence[float]) -> tuple[float, int]:
    """The median of the values after the warm-up, and how many these are."""
    kept = values[WARM_UP:] if len(values) > WARM_UP else values
    return statistics.median(kept), len(kept)


# ---- Megatron ------------------------------------------------------------------------------------------


def _megatron(path: str, lines: Sequence[str], problem: TrainingProblem) -> Run:
    arguments = _arguments(lines)
    if OF_MEGATRON not in arguments:
        raise InputError("content", "holds no arguments of Megatron", "give the log from its beginning")
    of_run = _problem_of_arguments(arguments, problem)
    read = read_options(
        of_run, "megatron", {name: arguments[name] for name in READ_FROM_LOG if name in arguments}, ""
    )
    of_run = read.problem
    check_possible(of_run, read.configuration)
    return _run(path, lines, of_run, read, "iterations")


def _run(path: str, lines: Sequence[str], of_run: TrainingProblem, read: Read, steps: str) -> Run:
    """The run with the configuration that was read from its log, and the amounts there."""
    logged, name = Logged.of("\n".join(lines), of_run), Path(path).name
    notes = tuple(f"{path}: {note}" for note in read.notes)
    if logged.out_of_memory:
        told = (f"{path}: out of memory.", *notes)
        return Run(of_run, read.configuration, None, name, None, told, "out of memory")
    if logged.seconds is None:
        raise InputError("content", "has no tokens per second", "give a log of a run that went on")
    told = (f"{path}: the median of {logged.iterations} {steps}.", *notes)
    return Run(of_run, read.configuration, logged.seconds, name, logged.peak_bytes, told)


def _arguments(lines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The arguments of a log as flags: None and False are absent, True is a flag alone, lists are words."""
    flags: dict[str, tuple[str, ...]] = {}
    for line in lines:
        match = _ARGUMENT.search(line)
        value = match[2].strip() if match else "None"
        if match is not None and (dashed(match[1]), value) == BIASES_OFF:
            flags["disable-bias-linear"] = ()
        if match is None or value in ("None", "False", "[]", ""):
            continue
        name = dashed(match[1])
        value = DTYPES.get(value, value)
        words = () if value == "True" else tuple(word.strip(" '\"") for word in value.strip("[]").split(","))
        flags[RENAMED.get(name, name)] = (value,) if name == "pipeline-model-parallel-layout" else words
    if "recompute-granularity" not in flags:
        flags.pop("recompute-modules", None)  # printed with their default, although nothing is computed again
    return flags


def _problem_of_arguments(arguments: dict[str, tuple[str, ...]], problem: TrainingProblem) -> TrainingProblem:
    """The problem with batch, sequence, GPUs, layers and number format of the log."""

    def whole(name: str, usual: int) -> int:
        number = whole_number("".join(arguments.get(name, ())[:1]))
        return usual if number is None else number

    changes: dict[str, Any] = {
        "batch": whole("global-batch-size", problem.batch),
        "sequence": whole("seq-length", problem.sequence),
        "framework": "megatron",
    }
    layers = whole("num-layers", problem.model.layers)
    model = problem.model if layers == problem.model.layers else with_layers(problem.model, layers)
    of_run = problem.replace(model=model, **changes)
    devices = whole("world-size", problem.devices)
    return of_run if devices == of_run.devices else with_devices(of_run, devices)


# ---- torchtitan ----------------------------------------------------------------------------------------


def _torchtitan(path: str, lines: Sequence[str], problem: TrainingProblem) -> Run:
    mesh, batches, pipeline, again = (_last(of_run, lines) for of_run in (_MESH, _BATCHES, _PIPELINE, _AGAIN))
    if mesh is None or batches is None:
        raise InputError(
            "content", "names neither the device mesh nor the batches", "give the log from its beginning"
        )
    degrees = dict(part.split("=") for part in mesh[1].replace("_", "-").split(", ") if part)
    local, batch, sequence = (whole_number(text) or 0 for text in batches.groups())
    options = {f"parallelism.{MESH[name]}": (degree,) for name, degree in degrees.items() if name in MESH}
    options |= {
        "training.local-batch-size": (str(local),),
        "training.global-batch-size": (str(batch),),
        "activation-checkpoint.mode": (again[1] if again else "none",),
    }
    micro_batches = 0 if pipeline is None else whole_number(pipeline[2])
    if pipeline is not None and micro_batches:
        ranks = whole_number(degrees.get("pp", "1")) or 1
        chunks = max((whole_number(pipeline[3]) or 0) // ranks, 1)
        options["parallelism.pipeline-parallel-schedule"] = (pipeline[1],)
        options["parallelism.pipeline-parallel-microbatch-size"] = (str(max(local // micro_batches, 1)),)
        if chunks > 2:
            each = -(-(problem.model.layers + 2) // (ranks * chunks))
            options["parallelism.pipeline-parallel-layers-per-stage"] = (str(each),)
    of_run = problem.replace(batch=batch, sequence=sequence, framework="torchtitan")
    read = read_options(of_run, "torchtitan", options, "")
    check_possible(of_run, read.configuration)
    return _run(path, lines, of_run, read, "steps")


def _last(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next((found for line in reversed(lines) if (found := pattern.search(line))), None)


# ---- all runs ------------------------------------------------------------------------------------------

SCHEMA = "pipeplan.efficiencies/1"
# The most fits that leave runs out; where there are more runs, several are left out at a time.
MOST_TURNS = 12
# A fit that lets numbers go far is taken where the errors of runs left out are so small a share: they then agree
# almost exactly, while runs that differ by chance would be followed too far.
MUCH_BETTER = 0.2
# A run says something of an efficiency from this relative change of its time on.
SAYS = 0.002


@dataclass(frozen=True)
class Fitted:
    """What runs made of a problem's efficiencies, and how well they are known."""

    known: Efficiencies
    """The efficiencies before the fit."""
    fit: Fit | None
    """None: no run has a time."""
    seconds: tuple[RunError, ...]
    """Times of runs that were left out of a fit to the others."""
    untouched: tuple[RunError, ...]
    """Times of all runs by what was known before."""
    memory: tuple[RunError, ...]
    """Peaks in bytes; nothing of memory is fitted, so that all are left out."""
    told: tuple[str, ...]
    """Sentences on how the runs were read."""
    compared: tuple[str, ...] = ()
    """Sentences on how far the runs vary, and whether they agree."""
    gpu: str | None = None
    """The sort of GPU of the runs; None: the problem's own."""

    @property
    def efficiencies(self) -> Efficiencies:
        return self.known if self.fit is None else self.fit.efficiencies

    @property
    def eps(self) -> float | None:
        """The greatest error of a time, on runs left out and on those of the fit; None: no run has a time.

        Runs of one configuration that contradict each other show up in the second, however few they are.
        """
        return None if self.worst_run is None else abs(self.worst_run.error)

    @property
    def worst_run(self) -> RunError | None:
        """The run with the greatest error of its time."""
        seen = () if self.fit is None else self.fit.runs
        return max((*self.seconds, *seen), key=lambda run: abs(run.error), default=None)

    @property
    def worst_peak(self) -> RunError | None:
        return max(self.memory, key=lambda run: abs(run.error), default=None)

    @property
    def eps_before(self) -> float | None:
        """The greatest error of a time without the fit, on the same runs: none of them was seen then."""
        return max((abs(run.error) for run in self.untouched), default=None)

    @property
    def left_out(self) -> int:
        return len(self.seconds)

    @property
    def memory_eps(self) -> float | None:
        """The greatest error of a peak; None: none was measured."""
        return None if self.worst_peak is None else abs(self.worst_peak.error)

    @property
    def memory_margin(self) -> Margin | None:
        """By which shares peaks were above and below their predictions, at most; None: none was measured."""
        errors = [run.error for run in self.memory]
        return Margin(max(0.0, *errors), max(0.0, *(-error for error in errors))) if errors else None

    @property
    def changes(self) -> Mapping[str, tuple[float, float]]:
        """Efficiencies that the runs moved: before and after."""
        names = (entry.name for entry in fields(Efficiencies))
        pairs = {name: (getattr(self.known, name), getattr(self.efficiencies, name)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def said(self, name: str) -> tuple[tuple[str, float], ...]:
        """What runs said of an efficiency: relative change of their time, most first; the silent are left out."""
        runs = () if self.fit is None else self.fit.runs
        changes = [(run.name, run.says.get(name, 0.0)) for run in runs]
        return tuple(sorted((pair for pair in changes if abs(pair[1]) >= SAYS), key=lambda pair: -abs(pair[1])))

    def sentences(self) -> tuple[str, ...]:
        """All of it in words: what moved and by whom, and the errors with their numbers."""
        lines = [*self.told, *self.compared]
        runs = several(0 if self.fit is None else len(self.fit.runs), "run")
        for name, (before, after) in self.changes.items():
            said = self.said(name)
            by = f"; {len(said)} of {runs} depend on it, {said[0][0]} most" if said else ""
            if said or f"{after:.3g}" != f"{before:.3g}":
                lines.append(f"{name} is {after:.4g} in place of {before:.4g}{by}.")
        still = [name for name in ABOUT if name not in self.changes]
        silent = [name for name in still if not self.said(name)] if self.fit is not None else []
        if silent:
            lines.append(f"No run depends on {', '.join(silent)}.")
        if self.seconds:
            worst = max(self.seconds, key=lambda run: abs(run.error))
            lines.append(
                f"Times of {self.left_out} runs that were left out are off by {abs(worst.error):.1%} at most "
                f"({worst.name}); without the fit the same runs are off by {self.eps_before or 0:.1%}."
            )
        if self.worst_peak is not None:
            peaks = "1 run is" if len(self.memory) == 1 else f"{len(self.memory)} runs are"
            lines.append(
                f"The peak of {peaks} off by {abs(self.worst_peak.error):.1%} at most ({self.worst_peak.name}); "
                "nothing of them is fitted."
            )
        return tuple(lines)

    def to_json(self) -> dict[str, Any]:
        """What stands under `measured` in an answer."""
        return {
            "efficiencies": {name: {"before": old, "after": new} for name, (old, new) in self.changes.items()},
            "said": {name: dict(self.said(name)) for name in ABOUT if self.said(name)},
            "error": self.eps,
            "error_before": self.eps_before,
            "left_out": [_left_out(run) for run in self.seconds],
            "memory_error": self.memory_eps,
            "memory_margin": None if self.memory_margin is None else plain_fields(self.memory_margin),
            "memory": [_left_out(run) for run in self.memory],
        }


def _left_out(run: RunError) -> dict[str, Any]:
    return {"name": run.name, "predicted": run.predicted, "measured": run.measured, "error": run.error}


# ---- reading -------------------------------------------------------------------------------------------


def measured_runs(path: str | os.PathLike[str], problem: TrainingProblem) -> tuple[Run, ...]:
    """Runs in a table or a log; what a row leaves out is the problem's own.

    Parameters
    ----------
    path : str or PathLike
        A CSV table with the columns of `template`, or a log of Megatron or torchtitan.
    problem : TrainingProblem
        Its GPUs, efficiencies and everything that a run does not say of itself.

    Raises
    ------
    InputError or UsageError
        A run cannot have been made: one sentence with the row.
    """
    path = str(path)
    header = read_text(path).partition("\n")[0]
    names = {name.strip() for name in next(csv.reader([header]), [])}
    if {*MEASURED, "outcome"} & names:
        return runs_of_table(path, problem)
    if problem.second is not None:
        raise InputError(
            "content", "is no table, and logs do not name their GPUs", "give a table with the column devices", path
        )
    run = run_of_text(path, read_text(path), problem)
    try:
        run.check_plausible(by_hand=False)
    except InputError as error:
        raise error.in_file(path) from None
    return (run,)


# ---- fitting -------------------------------------------------------------------------------------------


def fitted(
    problem: TrainingProblem,
    runs: Sequence[Run],
    *,
    share: float | None = None,
    heard: Callable[[int, int], None] | None = None,
) -> Fitted:
    """Efficiencies for these runs, from the problem's own on, and the errors on runs left out.

    Parameters
    ----------
    problem : TrainingProblem
        Whose efficiencies are known so far.
    runs : sequence of Run
        Of the same GPUs.
    share : float, optional
        Leave out so large a share of the runs at a time; by default one configuration at a time, or the twelfth part.
    heard : callable, optional
        Is told how many fits of how many are done.
    """
    known = problem.efficiencies
    timed = [own for own in runs if own.seconds is not None]
    alike = _alike(timed)
    groups = _groups(alike, share)
    turns = len(groups) if len(groups) > 1 else 0
    untouched = tuple(run.error(known) for run in timed)
    left, pull = list(untouched) if turns else [], NO_FIT if turns else PULL
    for attempt, (tried, least_gain) in enumerate(((PULL, 1.0), (WEAK_PULL, MUCH_BETTER)) if turns else ()):
        errors = _errors_left_out(groups, known, tried, heard, attempt)
        if _mean(errors) < least_gain * _mean(left):
            left, pull = errors, tried
    answer = fit(timed, known, pull) if timed else None
    peaks = [RunError(own.name, own.predicted_peak(), own.peak_bytes) for own in runs if own.peak_bytes is not None]
    told = tuple(dict.fromkeys(sentence for own in runs for sentence in own.told))
    if pull == NO_FIT:
        told += ("A fit predicts runs that were left out no better, so the efficiencies stay.",)
    return Fitted(known, answer, tuple(left), untouched, tuple(peaks), told, tuple(_on_the_runs(timed, alike)))


@dataclass(frozen=True)
class FittedSorts:
    """The fits for GPUs of two sorts, each to the runs on its own sort."""

    parts: Mapping[str, Fitted]
    """By the name of the GPU; a sort without runs has none."""

    @property
    def eps(self) -> float | None:
        """The greatest error of a time; None: no run has a time."""
        return max((own.eps for own in self.parts.values() if own.eps is not None), default=None)

    def sentences(self) -> tuple[str, ...]:
        return tuple(f"{gpu}: {sentence}" for gpu, own in self.parts.items() for sentence in own.sentences())

    def to_json(self) -> dict[str, Any]:
        return {"sorts": {gpu: own.to_json() for gpu, own in self.parts.items()}}


def fitted_by_sort(problem: TrainingProblem, runs: Sequence[Run]) -> dict[str, Fitted]:
    """The fit for each sort of GPU that has runs, by its name."""
    found = {}
    for pool in problem.pools:
        own = [run for run in runs if run.problem.gpu.name == pool.gpu.name] if problem.second is not None else runs
        if own:
            found[pool.gpu.name] = replace(fitted(pool, own), gpu=pool.gpu.name)
    return found


def _errors_left_out(
    groups: Sequence[list[Run]],
    known: Efficiencies,
    pull: float,
    heard: Callable[[int, int], None] | None,
    attempt: int,
) -> list[RunError]:
    """The errors of each group's runs by a fit to those of the others: the first or second of two attempts."""
    errors: list[RunError] = []
    for turn, group in enumerate(groups):
        if heard is not None:
            heard(attempt * len(groups) + turn, 2 * len(groups))
        others = [run for other in groups if other is not group for run in other]
        own = fit(others, known, pull).efficiencies
        errors += [run.error(own) for run in group]
    return errors


def _mean(errors: Sequence[RunError]) -> float:
    return statistics.fmean(abs(run.error) for run in errors)


def _alike(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs by configuration."""
    alike: dict[object, list[Run]] = {}
    for run in runs:
        alike.setdefault((run.problem.replace(efficiencies=Efficiencies()).hash, run.plan), []).append(run)
    return list(alike.values())


def _groups(configurations: Sequence[list[Run]], share: float | None) -> list[list[Run]]:
    """Groups of runs that are left out together: each run is in one, with all runs of the same configuration."""
    if share is not None and not 0 < share < 1:
        raise UsageError(f"The share of runs that are left out is {share:g}; give one between 0 and 1.")
    turns = min(len(configurations), MOST_TURNS if share is None else max(round(1 / share), 2))
    return [[run for part in configurations[number::turns] for run in part] for number in range(turns)]


def _on_the_runs(runs: Sequence[Run], configurations: Sequence[list[Run]]) -> Iterator[str]:
    """How many runs there are and in what they differ, and which of them contradict each other."""
    if len(runs) < 2:
        return
    differences = [
        f"{name} ({values[0]} to {values[-1]})" if all(value.isdecimal() for value in values) else name
        for name, values in _values(runs).items()
        if len(values) > 1
    ]
    differ = f"which differ in {', '.join(differences)}" if differences else "which do not differ"
    yield f"{len(runs)} runs were given, {differ}."
    for own in configurations:
        seconds = sorted(run.seconds for run in own if run.seconds is not None)
        if seconds[-1] > seconds[0] * (1 + USUAL_ERROR):
            yield (
                f"{several(len(own), 'run')} of one configuration took {seconds[0]:.4g} to {seconds[-1]:.4g} s "
                f"({', '.join(run.name for run in own)}): no model explains both."
            )


def _values(runs: Sequence[Run]) -> Mapping[str, list[str]]:
    """By name of a fact, its different values among the runs, numbers in their order."""
    values: dict[str, set[str]] = {}
    for run in runs:
        facts = {name: str(getattr(run.problem, name)) for name in ("devices", "sequence", "batch", "precision")}
        facts |= {"model": run.problem.model.name, "layers": str(run.problem.model.layers)}
        facts |= dict(word.split("=", 1) for word in words_of(run.plan).split() if not word.startswith("layout="))
        for name, value in facts.items():
            values.setdefault(name, set()).add(value)
    return {name: sorted(own, key=lambda value: (len(value), value)) for name, own in values.items()}


# ---- saved and given again -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Saved:
    """A fit from a file."""

    efficiencies: Efficiencies
    eps: float | None
    """The greatest error of a time; None: no run has one."""
    left_out: int
    """Number of runs that were left out."""
    memory_margin: Margin | None
    """By which shares peaks were above and below their predictions; None: none was measured."""
    gpu: str | None

    @property
    def worst_run(self) -> None:
        """A saved fit does not name its runs."""

    @property
    def worst_peak(self) -> None:
        """A saved fit does not name its runs."""


def save_fit(path: str | os.PathLike[str], problem: TrainingProblem, own: Fitted) -> None:
    """Write everything that `saved_fit` reads, with what the runs said."""
    own_numbers = {entry.name: getattr(own.efficiencies, entry.name) for entry in fields(Efficiencies)}
    write_json(
        path,
        {
            "schema": SCHEMA,
            "gpu": problem.gpu.name,
            "efficiencies": own_numbers,
            "error": own.eps,
            "runs_left_out": own.left_out,
            "memory_error": own.memory_eps,
            "memory_margin": None if own.memory_margin is None else plain_fields(own.memory_margin),
            "measured": own.to_json(),
        },
    )


def saved_fit(path: str | os.PathLike[str], problem: TrainingProblem | None = None) -> Saved:
    """Read a fit that was saved; one of other GPUs than the problem's is refused."""
    data = read_json(path)
    try:
        top = as_object("", data, f'{{"schema": "{SCHEMA}", "efficiencies": {{...}}}}')
        check_schema(top, (SCHEMA,))
        own = read_record(Efficiencies, "efficiencies", require("", top, "efficiencies"))
        error = None if top.get("error") is None else as_number("error", top["error"])
        memory = _saved_margin(top)
        gpu = top.get("gpu")
        names = [] if problem is None else [pool.gpu.name for pool in problem.pools]
        if names and gpu not in (names if len(names) > 1 else (None, *names)):
            raise InputError(
                "gpu", f"is {gpu}, and the problem has {' and '.join(names)}", "give a fit to the same GPUs"
            )
        count = top.get("runs_left_out", 0)
    except InputError as error_:
        raise error_.in_file(str(path)) from None
    return Saved(own, error, count if isinstance(count, int) else 0, memory, gpu)


def _saved_margin(top: Mapping[str, Any]) -> Margin | None:
    """The margin of memory; files without one have an error to both sides."""
    if top.get("memory_margin") is not None:
        own: Margin = read_record(Margin, "memory_margin", top["memory_margin"])
        return own
    if top.get("memory_error") is None:
        return None
    share = as_number("memory_error", top["memory_error"])
    return Margin(share, share)


def with_fit(problem: TrainingProblem, own: Fitted | Saved) -> TrainingProblem:
    """The problem with the efficiencies of a fit, which are those of its sort of GPU."""
    if problem.second is not None and own.gpu == problem.second.gpu.name:
        return problem.replace(second=replace(problem.second, efficiencies=own.efficiencies))
    return replace(problem, efficiencies=own.efficiencies)
