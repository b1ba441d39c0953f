"""The allocation of a pattern (Beaumont) as the simulator's input: one stage for each GPU's run of layers.

Only the allocation is used, not the pattern's own starts: here a number of batches runs through and the pipeline
drains. Memory is weights and the inputs that are kept for the backward passes; what passes by is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby

from ..base.errors import UsageError, Violation, refuse_broken
from ..schedule.from_plan import (
    Holder,
    LoweredSchedule,
    Part,
    PlannedWork,
    ScheduleOptions,
    evenly,
    joints_of,
    parts_of,
    repeated,
    schedule_of,
    spread,
    together,
)
from ..timeline.model import Dependency, Pipeline, Stage, replica_orders
from .layout import shape_faults
from .plan import PatternPlan
from .problem import ChainProblem


def chain_pipeline(
    problem: ChainProblem, plan: PatternPlan, micro_batches: int, schedule: str = "planned"
) -> Pipeline:
    """The pipeline in 1F1B, where a stage holds as many batches as there are stages from it to the end; or in GPipe."""
    runs = runs_of(plan)
    gpus = [plan.allocation[run[0]] for run in runs]
    if len(set(gpus)) < len(gpus):
        raise UsageError("A GPU holds layers that do not follow each other, so it is no stage of a pipeline.")
    return pipeline_of_runs(problem, runs, gpus, micro_batches, schedule)


def runs_of(plan: PatternPlan) -> list[list[int]]:
    """The runs of layers (from 0) that stand on one GPU, in the order of the chain."""
    layers = range(len(plan.allocation))
    return [list(members) for _, members in groupby(layers, key=plan.allocation.__getitem__)]


def pipeline_of_runs(
    problem: ChainProblem, runs: Sequence[Sequence[int]], gpus: Sequence[int], micro_batches: int, schedule: str
) -> Pipeline:
    """The pipeline in which each run of layers is a stage of its own."""
    stages = []
    for number, (run, gpu) in enumerate(zip(runs, gpus, strict=True)):
        held = micro_batches if schedule == "gpipe" else len(runs) - number
        stages.append(
            Stage(
                name=f"gpu {gpu}",
                micro_batch=1,
                forward=math.fsum(problem.forward[i] for i in run),
                backward=math.fsum(problem.backward[i] for i in run),
                orders=replica_orders(micro_batches, 1, held),
                fixed_bytes=problem.weight_copies * math.fsum(problem.weights[i] for i in run),
                sample_bytes=math.fsum(problem.activations[i] for i in run),
                limit_bytes=problem.memory_bytes,
            )
        )
    return Pipeline(tuple(stages), _dependencies(problem, runs), micro_batches, problem.name, problem.time_unit)


def _dependencies(problem: ChainProblem, runs: Sequence[Sequence[int]]) -> tuple[Dependency, ...]:
    """Edge l leads forward out of layer l (from 1), edge 2L - l carries its gradient back."""
    dependencies = []
    for number in range(len(runs) - 1):
        last = runs[number][-1] + 1
        forward, backward = (problem.edge_times[edge - 1] for edge in (last, problem.tasks - last))
        dependencies.append(Dependency(number, number + 1, forward, backward))
    return tuple(dependencies)


# ---- blocks of a schedule ----------------------------------------------------------------------------
# The allocation of a pattern as a schedule problem: each run of layers on a GPU has its two passes.
#
# Memory is what the chain's memory mode counts. In a run the last layer's forward pass holds most: all kept
# activations and its own output. Going backward, layer by layer, what is kept shrinks while the gradient that is
# read and the one that is made come on top; the most of it beyond all kept activations is the workspace of the
# pass.


# Memory modes that count what tasks read and write, and tensors that cross a GPU's border.
WITH_PASSING = ("reserved", "strict")

Runs = Sequence[Sequence[int]]


def lower(problem: ChainProblem, plan: PatternPlan, options: ScheduleOptions) -> LoweredSchedule:
    """The schedule problem of a pattern's allocation; the starts in the pattern do not count."""
    faults = (Violation("shape", fault) for fault in shape_faults(problem, plan))
    refuse_broken(faults, "lowered to a schedule problem")
    runs, gpus = _chunks(problem, plan, options)
    used = sorted(set(gpus))
    devices = [used.index(gpu) for gpu in gpus]
    pipeline = pipeline_of_runs(problem, runs, gpus, 1, "planned")
    parts = parts_of(pipeline, devices)
    standing = together(_standing(problem, runs, devices), len(used))
    holders = (Holder(f"gpu {gpu}", problem.memory_bytes, held) for gpu, held in zip(used, standing, strict=True))
    work = PlannedWork(
        tuple(holders),
        tuple(_with_memory(problem, run, part) for run, part in zip(runs, parts, strict=True)),
        joints_of(pipeline, devices),
        problem.name,
        problem.time_unit,
        notes=tuple(_notes(problem, len(used))),
    )
    apart = len(used) < len(runs)  # which the simulator does not run
    return schedule_of(work, options, None if apart else lambda count: chain_pipeline(problem, plan, count))


def _chunks(
    problem: ChainProblem, plan: PatternPlan, options: ScheduleOptions
) -> tuple[list[list[int]], list[int]]:
    """Runs of layers, each cut into the chunks that the options ask for, and their GPUs, in the order of the chain."""
    runs = runs_of(plan)
    gpus = [plan.allocation[run[0]] for run in runs]
    if options.chunks == 1:
        return runs, gpus
    if len(set(gpus)) < len(gpus):
        raise UsageError(
            "A GPU holds layers that do not follow each other, so it has no even chunks; drop --virtual."
        )
    named = [(run, f"GPU {gpu}") for run, gpu in zip(runs, gpus, strict=True)]
    rows = zip(problem.forward, problem.backward, problem.weights, strict=True)
    counted = repeated(dict(enumerate(rows)))
    cut = [list(piece) for run, name in named for piece in evenly(run, options.chunks, name, counted)]
    return cut, [gpus[device] for device in spread(len(cut), options)]


def _with_memory(problem: ChainProblem, run: Sequence[int], part: Part) -> Part:
    kept = [problem.held_activations[i] for i in run]
    forward, backward = (
        _passing(problem, run) if problem.memory_mode in WITH_PASSING else (Fraction(0), Fraction(0))
    )
    return replace(part, stash=sum(kept), inputs=kept[0], forward_workspace=forward, backward_workspace=backward)


def _passing(problem: ChainProblem, run: Sequence[int]) -> tuple[Fraction, Fraction]:
    """Workspace of the forward and the backward pass, beyond all activations that the run keeps."""
    held, tasks = problem.held_activations, problem.tasks
    most = kept_behind = Fraction(0)
    for layer in reversed(run):
        gradients = held[tasks - layer - 1] + held[tasks - layer]
        most = max(most, gradients - kept_behind)
        kept_behind += held[layer]
    return held[run[-1] + 1], most


def _standing(problem: ChainProblem, runs: Runs, devices: Sequence[int]) -> Iterator[tuple[int, Fraction]]:
    """Weights, and on both sides of each border a slot for the tensor that crosses it and one for its gradient."""
    for run, device in zip(runs, devices, strict=True):
        yield device, sum((problem.held_weights[i] for i in run), Fraction(0))
    if problem.memory_mode not in WITH_PASSING:
        return
    for run, here, there in zip(runs, devices, devices[1:], strict=False):
        edge = run[-1] + 1
        if here != there:
            slots = problem.held_activations[edge] + problem.held_activations[problem.tasks - edge]
            yield here, slots
            yield there, slots


def _notes(problem: ChainProblem, gpus: int) -> Iterator[str]:
    if gpus > 1 and any(problem.edge_times):
        yield "transfers take their time and share no link, where those of a pattern go one at a time"
    if problem.memory_mode == "strict":
        yield "a tensor that crosses a border has a slot all the time, where the mode strict counts it while it lives"
