"""Better patterns by annealing: what stands between the search and the compiled loop of `anneal_kernel`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...formulations.beaumont.integer_chain import IntegerChain
from ...instances.base.compiled import compiled
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.registry import violations_of
from . import anneal_kernel
from .schedule import longest_period, pattern_at

# Steps of one round; they double each time that ROUNDS rounds found nothing.
STEPS, ROUNDS = 100_000, 4
# Tasks of a usual chain: of longer ones a round has fewer steps, since each takes longer and no round can be
# interrupted.
USUAL_TASKS = 48
# What a round calls.
LOOP = (anneal_kernel, "anneal")
# Limit on products of sizes and times in the compiled loops, which count in 64 bits.
MOST_AREA = 2**61
# Increases of energy that are accepted now and then, at the beginning and at the end of a round.
HOT, COLD = 0.05, 0.002


class Annealer:
    """Rounds of annealing at the longest period that would be an improvement; not to be shared by threads."""

    def __init__(self, problem: ChainProblem, chain: IntegerChain, seed: int) -> None:
        self.problem, self.chain = problem, chain
        self.tables = tables(chain)
        self.random = array([2 * seed + 1], "uint64")
        self.first_steps = STEPS * USUAL_TASKS**2 // max(USUAL_TASKS, chain.tasks) ** 2
        self.steps, self.failed = self.first_steps, 0

    def improve(self, plan: PatternPlan, ceiling: int) -> PatternPlan | None:
        """One round from the plan's allocation: a better plan, or None."""
        loop = compiled(*LOOP)
        state = self._state(plan.allocation)
        if not loop(self.tables, state, ceiling, self.steps, HOT, COLD):
            self.failed += 1
            if self.failed % ROUNDS == 0:
                self.steps *= 2
            return None
        self.failed, self.steps = 0, self.first_steps
        return self._plan(state, ceiling)

    def load(self) -> None:
        """Load the loop, or compile it."""
        compiled(*LOOP)(self.tables, self._state([0] * self.chain.layers), 1, 0, HOT, COLD)

    def _plan(self, state: anneal_kernel.State, period: int) -> PatternPlan | None:
        """The state as a pattern of the true problem; None where the referee rejects it."""
        allocation = canonical(state.gpu.tolist())
        starts, sent = state.starts.tolist(), state.sent.tolist()
        plan = pattern_at(self.problem, self.chain, allocation, starts, sent, period)
        return None if plan is None or violations_of(self.problem, plan) else plan

    def _state(self, allocation: Sequence[int]) -> anneal_kernel.State:
        tasks = self.chain.tasks
        resources = self.chain.gpus + self.chain.gpus**2
        return anneal_kernel.State(
            random=self.random,
            gpu=array(allocation),
            passed=np.zeros(tasks, np.int64),
            middle=array([self.failed % 2]),
            starts=np.zeros(tasks, np.int64),
            sent=np.zeros(tasks, np.int64),
            busy=np.zeros((resources, 2 * tasks, 2), np.int64),
            counts=np.zeros(resources, np.int64),
            saved_gpu=np.zeros(len(allocation), np.int64),
            saved_passed=np.zeros(tasks, np.int64),
            saved_middle=np.zeros(1, np.int64),
        )


def canonical(allocation: Sequence[int]) -> tuple[int, ...]:
    """GPUs numbered by their first layers."""
    numbers: dict[int, int] = {}
    for gpu in allocation:
        numbers.setdefault(gpu, len(numbers))
    return tuple(numbers[gpu] for gpu in allocation)


def tables(chain: IntegerChain) -> anneal_kernel.Tables:
    """The problem for the compiled loops; sizes are rounded down where products with times would overflow."""
    assert chain.memory is not None
    chain = coarser(chain)
    assert chain.memory is not None
    return anneal_kernel.Tables(
        durations=array(chain.durations),
        transfers=array(chain.transfers),
        activations=array(chain.activations),
        weights=array(chain.weights),
        own=array([_own_size(chain, task) for task in range(chain.tasks)]),
        timeless=array(chain.timeless),
        gpus=chain.gpus,
        memory=chain.memory,
        inputs_only=chain.inputs_only,
        full_duplex=chain.full_duplex,
    )


def coarser(chain: IntegerChain) -> IntegerChain:
    """The chain with sizes in units so large that all of them times the longest time fit a machine word."""
    assert chain.memory is not None
    longest = (2 * chain.tasks + 1) * longest_period(chain)
    together = chain.memory + sum(chain.weights) + 2 * sum(chain.activations)
    unit = -(-together * longest // MOST_AREA)
    if unit <= 1:
        return chain
    return replace(
        chain,
        activations=tuple(size // unit for size in chain.activations),
        weights=tuple(size // unit for size in chain.weights),
        memory=chain.memory // unit,
        exact_sizes=False,
    )


def _own_size(chain: IntegerChain, task: int) -> int:
    """What a task alone holds while it runs; of tasks that take no time, a forward one holds its input."""
    if chain.timeless[task]:
        return chain.activations[task] if task < chain.layers else 0
    return chain.own_size(task)


def array(values: Sequence[int], kind: str = "int64") -> Any:
    """An array of machine words."""
    return np.array(values, dtype=kind)
