"""Cheap runs that stand for dear ones: the same efficiencies show in a run of fewer layers, or on fewer GPUs.

A *proxy* is another problem with the terms of `forms`, so that its time says (3) and (4) of `deciding` as well, within
TWICE rho, since its form may be wrong in another way. On fewer levels of links it says nothing of the links: they, and
what else the candidates do not have, are put at the end of the box that leaves its inequality true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from ...instances.base.errors import PipeplanError
from ...instances.training.build import with_layers
from ...instances.training.kind_functions import with_devices
from ...instances.training.plan import Configuration, Recompute
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import framework_faults, memory_of_ranks, shape_faults
from ...instances.training.words import configuration_from_words, words_of
from .forms import PLACE, TERMS, Box, Timed, believed, plausible, values_of

# A proxy's time may be wrong by so many times what a candidate's may.
TWICE = 2.0
# Coordinates that a run on fewer levels of links does not have.
OF_LINKS = ("links", "collective_seconds")
# A proxy is worth its run from this share of the candidate's GPU seconds down, and if what it tells of makes up this
# share of the candidate's time.
CHEAP, TELLING = 0.25, 0.5
# Layers of a proposed proxy, or more where it has more chunks.
FEW_LAYERS = 8
# Micro-batches of a proposed proxy for each of its stages.
FEW_BATCHES = 2
# Degrees that a proxy shares with its candidate.
SHARED = ("tensor", "context", "pipeline", "virtual", "expert", "expert_tensor")


@dataclass(frozen=True)
class Proxy:
    """A configuration of a smaller problem; `seconds` are None until it was run."""

    whole: TrainingProblem
    problem: TrainingProblem
    plan: Configuration
    seconds: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Equal for the same run."""
        return self.problem.hash, words_of(self.plan)

    @cached_property
    def timed(self) -> Timed:
        return Timed(self.problem, self.plan)

    @property
    def lost(self) -> tuple[str, ...]:
        """Coordinates that mean something else here."""
        used, there = (sum(level.count > 1 for level in own.levels) for own in (self.problem, self.whole))
        return OF_LINKS if used < there else ()

    @cached_property
    def forms(self) -> tuple[Any, Any]:
        """(1) and (2), without the coordinates that are lost."""
        box = plausible(self.whole)
        return self.within(self.timed.form, box, 0), self.within(self.timed.above(box), box, 1)

    def within(self, form: Any, box: Box, side: int) -> Any:
        """The form without what is lost, never above it (side 0) or never below it (side 1) in the box."""
        found = np.zeros(len(TERMS))
        for term, coefficient in zip(TERMS, form, strict=True):
            kept = tuple(name for name in term if name not in self.lost)
            end = side if coefficient > 0 else 1 - side
            found[PLACE[kept]] += coefficient * math.prod(
                box.ranges[name][end] for name in term if name not in kept
            )
        return found


def in_terms(form: Any, box: Box, terms: list[int], side: int) -> Any:
    """The coefficients of some terms; others go to the constant, which stands for the whole time's factor."""
    ends, found = box.terms, form[terms].copy()
    for i in {*range(len(TERMS))} - {*terms}:
        found[terms.index(PLACE[()])] += form[i] * ends[i][side if form[i] > 0 else 1 - side]
    return found


def smaller(
    problem: TrainingProblem, layers: int | None = None, devices: int | None = None, batch: int | None = None
) -> TrainingProblem:
    """The problem of a proxy; None: as in the whole one."""
    model = problem.model if layers in (None, problem.model.layers) else with_layers(problem.model, layers)
    found = problem.replace(model=model, batch=problem.batch if batch is None else batch)
    return found if devices in (None, problem.devices) else with_devices(found, devices)


def is_proxy(whole: TrainingProblem, problem: TrainingProblem) -> bool:
    """Do the two differ in layers, GPUs and batch alone?"""
    try:
        return problem == smaller(whole, problem.model.layers, problem.devices, problem.batch) != whole
    except PipeplanError:
        return False


def proxy_of(problem: TrainingProblem, plan: Configuration) -> Proxy | None:
    """The cheapest run that tells most of what the candidate's would; None: none is cheap and telling."""
    degrees, count, model = plan.degrees, plan.degrees.chunks, problem.model
    if model.own:
        return None
    least = max(FEW_LAYERS, 0 if model.experts is None else model.experts.dense_layers + count)
    layers = min(model.layers, -(-least // count) * count)
    group = degrees.tensor * degrees.context * degrees.pipeline
    node = math.lcm(group, problem.levels[0].count)
    batches = min(plan.micro_batches(problem.batch), FEW_BATCHES * degrees.pipeline)
    for data in range(min(degrees.data, node // group), degrees.data + 1):
        if degrees.data % data:
            continue
        try:
            own = smaller(problem, layers, group * data, data * plan.micro_batch * batches)
            proxy = Proxy(problem, own, _reduced(own, plan, data))
        except PipeplanError:
            continue
        if can_run(proxy):
            return proxy if is_worth(proxy, plan) else None
    return None


def _reduced(problem: TrainingProblem, plan: Configuration, data: int) -> Configuration:
    words = [f"{name.replace('_', '-')}={getattr(plan.degrees, name)}" for name in SHARED]
    words += [f"data={data}", f"micro-batch={plan.micro_batch}", f"zero={plan.zero}", f"schedule={plan.schedule}"]
    again = Recompute(plan.recompute[0].modules)  # what the first chunk computes again, by all layers
    return configuration_from_words(problem, " ".join([*words, f"recompute={again.word}"]))


def can_run(proxy: Proxy) -> bool:
    """Does it fit, by a framework that has it?"""
    problem, plan = proxy.problem, proxy.plan
    if any(chain(shape_faults(problem, plan), framework_faults(problem, plan))):
        return False
    limit = problem.memory_bytes
    return limit is None or max(rank.bytes for rank in memory_of_ranks(problem, plan)) <= limit


def is_worth(proxy: Proxy, plan: Configuration) -> bool:
    """Is it much cheaper than the candidate, and does it have the terms of most of its time?"""
    centre, whole = believed(proxy.whole.efficiencies), Timed(proxy.whole, plan)
    seconds, values = whole.seconds(centre), values_of(centre)
    if proxy.timed.seconds(centre) * proxy.problem.devices > CHEAP * seconds * proxy.whole.devices:
        return False
    missing = [i for i, term in enumerate(TERMS) if {*term} & {*proxy.lost}]
    missing += [i for i, coefficient in enumerate(proxy.timed.form) if coefficient == 0 and i not in missing]
    return float((whole.form * values)[missing].sum()) <= (1 - TELLING) * seconds
