"""Schedule configurations: micro-batch sizes and k of kFkB, and how many samples each stage must hold in flight.

At the end the even split of a graph pipeline, which plans are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ..search import shares
from .kernel import NEVER


@dataclass(frozen=True, slots=True)
class Configuration:
    """Micro-batches of b samples, k forward passes and k backward passes in turn."""

    b: int
    k: int = 1

    @property
    def group(self) -> int:
        """Samples of the passes of one kind in a row."""
        return self.b * self.k


def extra_in_flight(upper: Configuration, lower: Configuration) -> int:
    """Samples that a stage holds beyond what its successor holds: all ten rows of the paper's table in one formula.

    The stage that works in larger groups waits for the difference, and a transfer of the larger micro-batch is under
    way. Where both group several such micro-batches, a second one has to be buffered.
    """
    larger = max(upper.b, lower.b)
    buffers = 2 if larger < min(upper.group, lower.group) else 1
    return max(0, upper.group - lower.group) + larger * buffers


def required_in_flight(own: Configuration, successors: Iterable[tuple[Configuration, int]], mini_batch: int) -> int:
    """In-flight samples of a stage above stages with the given configurations and in-flight samples.

    Whole micro-batches, and never more than the mini-batch. A stage without successors holds one group.
    """
    needs = [held + extra_in_flight(own, configuration) for configuration, held in successors]
    return min(mini_batch, -(-max(needs, default=own.group) // own.b) * own.b)


@dataclass(frozen=True)
class Menu:
    """What a search may choose from for every stage: configurations, and numbers of devices."""

    configurations: tuple[Configuration, ...]
    degrees: tuple[int, ...]
    mini_batch: int
    devices: int

    @cached_property
    def extra(self) -> Any:
        """extra[x, y]: samples that a stage of configuration x holds beyond a successor of configuration y."""
        return np.array([[extra_in_flight(x, y) for y in self.configurations] for x in self.configurations])

    @cached_property
    def sizes(self) -> Any:
        """The micro-batch sizes of the configurations."""
        return np.array([configuration.b for configuration in self.configurations])

    @cached_property
    def degree_array(self) -> Any:
        return np.array(self.degrees)

    def above(self, lower: int, held: Any) -> Any:
        """In-flight samples of each configuration (a new first axis) above configuration `lower` with `held`."""
        held = np.asarray(held)
        shape = (len(self.configurations), *(1,) * held.ndim)
        sizes = self.sizes.reshape(shape)
        needs = -(-(held[None] + self.extra[:, lower].reshape(shape)) // sizes) * sizes
        return np.where(held[None] >= NEVER, NEVER, np.minimum(needs, self.mini_batch))

    @cached_property
    def alone(self) -> Any:
        """In-flight samples of each configuration where nothing comes after."""
        return np.array([required_in_flight(own, (), self.mini_batch) for own in self.configurations])


def synchronisation(problem: GraphPipelineProblem, degrees: Iterable[int]) -> tuple[Any, Any]:
    """Cost of synchronising the replicas of a stage, for each number of devices: seconds per byte of weights, and
    latency."""
    rates, latencies = [], []
    for d in degrees:
        link = problem.inner_link(d)
        rates.append(0.0 if d == 1 or link.bandwidth is None else 2 * (d - 1) / d / link.bandwidth)
        latencies.append(0.0 if d == 1 else link.latency_s)
    return np.array(rates), np.array(latencies)


# What the option `degrees` may be: see `allowed_degrees`.
DEGREES = ("divisors", "pow2", "none")


def allowed_degrees(sizes: Iterable[int], devices: int, which: str = "divisors") -> tuple[int, ...]:
    """Numbers of devices that split some micro-batch evenly: all, powers of two alone, or just one device."""
    if which == "none":
        return (1,)
    micro_batches = list(sizes)
    largest = min(devices, max(micro_batches))
    numbers = [d for d in range(1, largest + 1) if any(b % d == 0 for b in micro_batches)]
    return tuple(d for d in numbers if which == "divisors" or d & (d - 1) == 0)


def menu(
    problem: GraphPipelineProblem, sizes: Iterable[int], largest_k: int = 1, degrees: str = "divisors"
) -> Menu:
    """Each size with k = 1, 2, 4, ... up to `largest_k`, as far as the mini-batch has micro-batches."""
    sizes = tuple(sizes)
    ks = [1 << e for e in range(max(1, largest_k).bit_length())]
    configurations = tuple(
        Configuration(b, k) for b in sizes for k in ks if k <= largest_k and b * k <= problem.mini_batch
    )
    return Menu(
        configurations, allowed_degrees(sizes, problem.devices, degrees), problem.mini_batch, problem.devices
    )


# ---- The even split, and samples in flight by the rule ------------------------------------------------------------
# The even split of a graph pipeline, which plans are compared with, and samples in flight by the rule.


# Micro-batches of an iteration, at most: with more of them, simulating takes too long for a comparison.
MOST_MICRO_BATCHES = 64


def stage_graphs(problem: GraphPipelineProblem) -> Iterator[StageGraphPlan]:
    """Equally many operators on each device, one stage behind the other, for every micro-batch that is a power of 2."""
    operators = [problem.operators[i].id for i in problem.topological_order]
    parts = shares(operators, problem.devices)
    edges = tuple((i, i + 1) for i in range(len(parts) - 1))
    for size in (2**power for power in range(problem.mini_batch.bit_length())):
        if problem.mini_batch <= MOST_MICRO_BATCHES * size:
            stages = tuple(GraphStage(tuple(part), 1, size) for part in parts)
            yield by_the_rule(problem, StageGraphPlan(stages, edges))


def by_the_rule(problem: GraphPipelineProblem, plan: StageGraphPlan) -> StageGraphPlan:
    """The plan with the samples in flight that later stages make each stage hold, and with all edges of operators."""
    stage_of = {node: number for number, stage in enumerate(plan.stages) for node in stage.nodes}
    between = {(stage_of[u], stage_of[v]) for u, v in problem.edges if stage_of[u] != stage_of[v]}
    plan = replace(plan, edges=tuple(sorted({*plan.edges, *between})))
    passes = [Configuration(stage.micro_batch, stage.k) for stage in plan.stages]
    in_flight = [stage.in_flight for stage in plan.stages]
    for _ in plan.stages:
        in_flight = [
            required_in_flight(
                own, [(passes[j], in_flight[j]) for i, j in plan.edges if i == number], problem.mini_batch
            )
            for number, own in enumerate(passes)
        ]
    stages = (replace(stage, in_flight=most) for stage, most in zip(plan.stages, in_flight, strict=True))
    return replace(plan, stages=tuple(stages))
