"""One iteration of a plan for training in one sentence: its time, how much passes through it, and the share of the time
in which devices idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..instances.base.cluster import SECONDS
from ..instances.base.errors import PipeplanError
from ..instances.base.fields import plain_fields
from ..instances.base.kind import Samples
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


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of a training plan, and what passes through it in a second."""

    time: float
    """Time of the iteration, in `time_unit`."""
    time_unit: str | None
    count: int
    """Amount that passes through the pipeline in one iteration, in units of `counted`."""
    counted: str
    is_usual_count: bool
    """Does nothing say how many there are, so that `count` is a usual number?"""
    idle: float
    """The share of the time in which the devices of the plan wait."""
    counted_per_second: float | None
    """None: the unit of time is no known one."""
    samples_per_second: float | None
    """None: nothing says how many samples a micro-batch has."""
    tokens_per_second: float | None

    def in_words(self) -> str:
        usual = f" ({FOR_EACH_STAGE} for each stage; plan simulate takes any number)" if self.is_usual_count else ""
        rates: tuple[tuple[float | None, str], ...] = (
            (self.samples_per_second, "samples"),
            (self.tokens_per_second, "tokens"),
        )
        if self.samples_per_second is None:
            rates = ((self.counted_per_second, self.counted),)
        told = (f"{_in_digits(rate)} {what}/s" for rate, what in rates if rate is not None)
        facts = ", ".join([amount(self.time, self.time_unit), *told])
        return (
            f"one iteration of {several(self.count, self.counted.removesuffix('s'))}{usual}: {facts}; "
            f"devices of the plan idle {percent(self.idle)} of it"
        )

    def to_json(self) -> dict[str, Any]:
        return plain_fields(self)


def describe_iteration(problem: Problem, plan: Plan, samples: Samples | None = None) -> Iteration | None:
    """Its facts; None where there is no iteration to speak of, as in inference."""
    if samples is not None and not samples.training:
        return None
    found = iteration_of(problem, plan)
    if found is None:
        return None
    counted, each = kind_of(problem).counted, None
    if found.time_unit in SECONDS:
        each = found.mini_batch / (found.iteration * float(SECONDS[found.time_unit]))
    in_samples = None
    if counted == "samples":
        in_samples = each
    elif samples is not None and samples.micro_batch is not None and each is not None:
        in_samples = each * samples.micro_batch
    tokens = (
        None if samples is None or samples.tokens is None or in_samples is None else in_samples * samples.tokens
    )
    usual = kind_of(problem).batch is None
    return Iteration(
        found.iteration, found.time_unit, found.mini_batch, counted, usual, found.bubble, each, in_samples, tokens
    )


def iteration_json(problem: Problem, plan: Plan | None, samples: Samples | None = None) -> dict[str, Any]:
    """The entry `iteration` of a JSON object; empty where there is none to speak of."""
    iteration = None if plan is None else describe_iteration(problem, plan, samples)
    return {} if iteration is None else {"iteration": iteration.to_json()}


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
