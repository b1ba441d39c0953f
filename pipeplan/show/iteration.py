"""One iteration of a plan for training in one sentence: its time, how much passes through it, and the share of the time
in which devices idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..instances.base.cluster import SECONDS
from ..instances.base.errors import PipeplanError
from ..instances.registry import Plan, Problem, kind_of
from .words import amount, percent, several

if TYPE_CHECKING:
    from ..instances.base.kind import Samples
    from ..instances.timeline.timeline import Simulation

# Micro-batches of each stage in an iteration, where neither the plan nor the problem says how many there are.
FOR_EACH_STAGE = 4
# Passes that are simulated in a second or two.
MOST_PASSES = 100_000


def iteration_of(problem: Problem, plan: Plan) -> Simulation | None:
    """One iteration, simulated; None for plans that run forward passes alone or repeat without an end."""
    if not _trains(problem):
        return None
    from ..instances.simulate import pipeline_of, simulate
    from ..instances.timeline.engine import DeadlockError

    batch = kind_of(problem).batch
    try:
        one = pipeline_of(problem, plan, micro_batches=None if batch else 1)
        count = None if batch else FOR_EACH_STAGE * len(one.stages)
        if len(one.stages) * (count or one.mini_batch) > MOST_PASSES:
            return None
        found = simulate(problem, plan, micro_batches=count)
    except (PipeplanError, DeadlockError):
        return None
    trains = any(task.kind == "backward" for stage in found.stages for task in stage.tasks)
    return found if trains and found.iteration > 0 else None


def _trains(problem: Problem) -> bool:
    """Not sure of kinds whose problems do not say: then a simulation tells."""
    trains = kind_of(problem).trains
    return trains is None or trains(problem)


def iteration_in_words(problem: Problem, plan: Plan, samples: Samples | None = None) -> str | None:
    """The sentence; None where there is no iteration to speak of, as in inference."""
    if samples is not None and not samples.training:
        return None
    found = iteration_of(problem, plan)
    if found is None:
        return None
    counted = kind_of(problem).counted
    time = amount(found.iteration, problem.time_unit)
    facts = ", ".join([time, *_rates(found, counted, samples)])
    usual = "" if kind_of(problem).batch else f" ({FOR_EACH_STAGE} for each stage; plan simulate takes any number)"
    return (
        f"one iteration of {several(found.mini_batch, counted.removesuffix('s'))}{usual}: {facts}; "
        f"devices of the plan idle {percent(found.bubble)} of it"
    )


def _rates(found: Simulation, counted: str, samples: Samples | None) -> list[str]:
    """How much passes through it in a second, in the largest units that are known."""
    if found.time_unit not in SECONDS:
        return []
    each = found.mini_batch / (found.iteration * float(SECONDS[found.time_unit]))
    if samples is None:
        return [f"{_in_digits(each)} {counted}/s"]
    each *= 1 if counted == "samples" else samples.micro_batch
    tokens = [] if samples.tokens is None else [f"{each * samples.tokens:,.0f} tokens/s"]
    return [f"{_in_digits(each)} samples/s", *tokens]


def unused_devices(problem: Problem, plan: Plan) -> str | None:
    """A sentence where a plan leaves devices without work, which is easily overlooked."""
    if not _trains(problem):
        return None
    from ..instances.simulate import pipeline_of

    field = kind_of(problem).cluster.get("devices")
    try:
        stages = pipeline_of(problem, plan, micro_batches=None if kind_of(problem).batch else 1)
    except PipeplanError:
        return None
    there = getattr(problem, field) if field else 0
    used = len(stages.shared) or sum(stage.devices for stage in stages.stages)
    if used >= there:
        return None
    return f"the plan uses {used} of {several(there, 'device')}; the others are left over"


def _in_digits(rate: float) -> str:
    """Four digits, and whole thousands apart: never as a power of ten."""
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"
