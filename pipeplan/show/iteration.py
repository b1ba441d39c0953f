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
from .words import amount, percent, several, singular

if TYPE_CHECKING:
    from ..instances.timeline.model import Simulation

# Micro-batches of each stage in an iteration, where neither the plan nor the problem says how many there are.
FOR_EACH_STAGE = 4
# Passes that are simulated in a second or two.
MOST_PASSES = 100_000


def iteration_of(problem: Problem, plan: Plan) -> Simulation | None:
    """A simulated iteration. None for plans without backward passes, and where a simulation fails or takes long."""
    if not _trains(problem):
        return None
    from ..instances.simulate import pipeline_of, simulate
    from ..instances.timeline.engine import DeadlockError

    batch = kind_of(problem).batch
    try:
        pipeline = pipeline_of(problem, plan, micro_batches=None if batch else 1)
        count = None if batch else FOR_EACH_STAGE * len(pipeline.stages)
        if len(pipeline.stages) * (count or pipeline.mini_batch) > MOST_PASSES:
            return None
        simulation = simulate(problem, plan, micro_batches=count)
    except (PipeplanError, DeadlockError):
        return None
    trains = any(task.kind == "backward" for stage in simulation.stages for task in stage.tasks)
    return simulation if trains and simulation.iteration > 0 else None


def _trains(problem: Problem) -> bool:
    """Does the problem train? True as well where its kind does not say, and a simulation must tell."""
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
    """Amount of `counted` in a second; None: `time_unit` is not a known unit."""
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
        rates_in_words = (f"{_in_digits(rate)} {what}/s" for rate, what in rates if rate is not None)
        facts = ", ".join([amount(self.time, self.time_unit), *rates_in_words])
        return (
            f"one iteration of {several(self.count, singular(self.counted))}{usual}: {facts}; "
            f"devices of the plan idle {percent(self.idle)} of it"
        )

    def to_json(self) -> dict[str, Any]:
        return plain_fields(self)


def describe_iteration(problem: Problem, plan: Plan, samples: Samples | None = None) -> Iteration | None:
    """The facts of one iteration of the plan; None where there is none to speak of, as in inference."""
    if samples is not None and not samples.training:
        return None
    run = iteration_of(problem, plan)
    if run is None:
        return None
    counted, rate = kind_of(problem).counted, None
    if run.time_unit in SECONDS:
        rate = run.mini_batch / (run.iteration * float(SECONDS[run.time_unit]))
    in_samples = None
    if counted == "samples":
        in_samples = rate
    elif samples is not None and samples.micro_batch is not None and rate is not None:
        in_samples = rate * samples.micro_batch
    tokens = (
        None if samples is None or samples.tokens is None or in_samples is None else in_samples * samples.tokens
    )
    usual = kind_of(problem).batch is None
    return Iteration(
        run.iteration, run.time_unit, run.mini_batch, counted, usual, run.bubble, rate, in_samples, tokens
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
    available = getattr(problem, field) if field else 0
    used = len(stages.shared) or sum(stage.devices for stage in stages.stages)
    if used >= available:
        return None
    return f"the plan uses {used} of {several(available, 'device')}; the others are left over"


def _in_digits(rate: float) -> str:
    """A rate with four digits; from 1000 on as a whole number with commas, not as a power of ten."""
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"
