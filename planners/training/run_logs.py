"""Runs in logs, as Megatron and torchtitan print them: the configuration, seconds of an iteration, peak of memory.

Megatron prints its arguments as `name ....... value`, for some iterations ` iteration 7/ 50 | ... | elapsed time per
iteration (ms): 843.0 | ...` (megatron/training/training.py), and `[Rank 0] (after 2 iterations) memory (MB) |
allocated: ... | max allocated: ...` (megatron/training/utils.py, in MiB). torchtitan 0.2 prints its device mesh, its
batches, and `step: 10 loss: ... memory: 44.30GiB(46.63%) tps: 5,762 ...` (train.py, components/metrics.py): tokens per
second and GPU, and the memory that is reserved.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any

from ...instances.base.errors import InputError, UsageError
from ...instances.base.json_file import read_text
from ...instances.base.quantities import GIB, MIB, whole_number
from ...instances.training.flag_words import dashed
from ...instances.training.flags import Read, read_options
from ...instances.training.kind_functions import with_devices
from ...instances.training.known_models import with_layers
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee.verify import framework_faults, shape_faults
from .runs import MeasuredRun

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
_AGAIN = re.compile(r"Applied (\w+) activation checkpointing")

# Arguments of Megatron whose flags have other names.
RENAMED = {"fp8": "fp8-format"}
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
    *("cross-entropy-loss-fusion", "attention-dropout", "hidden-dropout"),
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


def run_of_log(path: str, problem: TrainingProblem) -> MeasuredRun:
    """The one run that a log is about."""
    lines = _COLOUR.sub("", read_text(path)).splitlines()
    try:
        if any(_MILLISECONDS.search(line) for line in lines):
            return _megatron(path, lines, problem)
        if any(_STEP.search(line) for line in lines):
            return _torchtitan(path, lines, problem)
    except InputError as error:
        raise error if error.file else error.in_file(path) from None
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


def _checked(path: str, read: Read, problem: TrainingProblem) -> None:
    for fault in (*shape_faults(problem, read.configuration), *framework_faults(problem, read.configuration)):
        raise UsageError(f"it cannot have been run: {fault}")


# ---- Megatron ------------------------------------------------------------------------------------------


def _megatron(path: str, lines: Sequence[str], problem: TrainingProblem) -> MeasuredRun:
    arguments = _arguments(lines)
    if "tensor-model-parallel-size" not in arguments:
        raise InputError("content", "holds no arguments of Megatron", "give the log from its beginning")
    of_run = _problem_of_arguments(arguments, problem)
    read = read_options(
        of_run, "megatron", {name: arguments[name] for name in READ_FROM_LOG if name in arguments}, ""
    )
    _checked(path, read, of_run)
    milliseconds, count = _counted([float(found[1]) for line in lines if (found := _MILLISECONDS.search(line))])
    peaks = [float(found[1]) for line in lines if (found := _PEAK_MIB.search(line))]
    told = (f"{path}: the median of {count} iterations.", *(f"{path}: {note}" for note in read.notes))
    return MeasuredRun(
        of_run, read.configuration, milliseconds / 1000, max(peaks) * MIB if peaks else None, _name(path), told
    )


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
        "sequence_parallel": "sequence-parallel" in arguments,
    }
    if whole("tensor-model-parallel-size", 1) == 1:
        changes["sequence_parallel"] = problem.sequence_parallel
    if arguments.get("fp8-format"):
        changes["precision"] = "fp8"
    elif "bf16" in arguments or "fp16" in arguments:
        changes["precision"] = "bf16" if "bf16" in arguments else "fp16"
    layers = whole("num-layers", problem.model.layers)
    model = problem.model if layers == problem.model.layers else with_layers(problem.model, layers)
    of_run = problem.replace(model=model, **changes)
    devices = whole("world-size", problem.devices)
    return of_run if devices == of_run.devices else with_devices(of_run, devices)


# ---- torchtitan ----------------------------------------------------------------------------------------


def _torchtitan(path: str, lines: Sequence[str], problem: TrainingProblem) -> MeasuredRun:
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
    _checked(path, read, of_run)
    steps = [found for line in lines if (found := _STEP.search(line))]
    rate, count = _counted([float(found[2].replace(",", "")) for found in steps])
    if not rate > 0:
        raise InputError("content", "has no tokens per second", "give a log of a run that went on")
    seconds = batch * sequence / (rate * of_run.devices)
    told = (f"{path}: the median of {count} steps.", *(f"{path}: {note}" for note in read.notes))
    peak = max(float(found[1]) for found in steps) * GIB
    return MeasuredRun(of_run, read.configuration, seconds, peak or None, _name(path), told)


def _last(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next((found for line in reversed(lines) if (found := pattern.search(line))), None)


def _name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
