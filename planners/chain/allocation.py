"""Allocations from the relaxation: one that may fit a period, the best one without memory, and the period bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...formulations.beaumont import allocation as model
from ...formulations.beaumont.bounds import load_bound
from ...formulations.beaumont.draft import edge_is_cut, link_of
from ...formulations.beaumont.fixed_allocation import Known
from ...formulations.beaumont.integer_chain import IntegerChain
from ...formulations.contract import NativeModel
from ...instances.base.amounts import as_written, common_unit
from ...instances.base.result import Stop
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ..backends.client import Solver
from .baselines import one_batch

# Steps on the first grid in an even share of all times, where the times do not give a grid themselves, ...
COARSE_STEPS = 2_000
# ... and up to how many steps their own grid is manageable.
MOST_COARSE_STEPS = 100_000


def coarse_steps(problem: ChainProblem) -> Fraction:
    """The grid of the times themselves where that is a manageable one, else a rounded one."""
    times = [as_written(time) for time in (*problem.durations, *problem.edge_times)]
    unit = common_unit(times)
    span = sum(times, Fraction(0)) / min(problem.gpus, problem.layers)
    return 1 / unit if span <= MOST_COARSE_STEPS * unit else Fraction(COARSE_STEPS) / span


@dataclass(frozen=True, slots=True)
class Candidate:
    """`allocation` may fit. Where it is None, no allocation fits if `exhausted`; otherwise the time was too short."""

    allocation: tuple[int, ...] | None = None
    exhausted: bool = False


def candidate(
    chain: IntegerChain, period: int, refuted: Iterable[Known], solver: Solver, limit_s: float | None = None
) -> Candidate:
    """An allocation that neither the relaxation at this period nor what is refuted excludes."""
    outcome = solver.run(NativeModel(model.BUILDER, model.payload(chain, period, refuted)), limit_s)
    if outcome is None:
        return Candidate()
    if outcome.stop == Stop.INFEASIBLE:
        return Candidate(exhausted=True)
    return Candidate() if outcome.values is None else Candidate(decoded(outcome.values, chain.layers, chain.gpus))


def period_bound(
    chain: IntegerChain, refuted: int, longest: int, resolution: int, solver: Solver, limit_s: float | None = None
) -> int:
    """A period that the relaxation alone refutes, by bisection between `refuted` and `longest`.

    It ends when what is left to bisect is below the resolution, or when a question takes longer than the limit.
    """
    while longest - refuted > resolution:
        middle = (refuted + longest + 1) // 2
        answer = candidate(chain, middle, (), solver, limit_s)
        if answer.exhausted:
            refuted = middle
        elif answer.allocation is not None:
            longest = middle - 1
        else:
            break
    return refuted


def least_period(chain: IntegerChain) -> int:
    """A lower bound on periods: the load of the largest layer, or an even share of the loads of all layers."""
    loads = [chain.load(layer) for layer in range(chain.layers)]
    return max(max(loads), -(-sum(loads) // chain.gpus), 1)


@dataclass(frozen=True, slots=True)
class Balance:
    """The allocation of least largest load, as far as the limit allowed, and a bound in steps."""

    allocation: tuple[int, ...] | None
    bound: int
    """No allocation has a smaller largest load of GPUs and links."""
    proven: bool


def balanced(chain: IntegerChain, solver: Solver, threads: int, start: Sequence[int] | None = None) -> Balance:
    """The allocation of least largest load, which is all that counts without a memory limit (Lemma 1)."""
    data = model.payload(chain, None, (), start)
    outcome = solver.run(NativeModel(model.BUILDER, data), None, threads)
    least = least_period(chain)
    if outcome is None:
        return Balance(None, least, False)
    bound = least if outcome.bound is None else max(least, round(outcome.bound))
    if outcome.values is None:
        return Balance(None, bound, False)
    return Balance(decoded(outcome.values, chain.layers, chain.gpus), bound, outcome.stop == Stop.PROVEN)


def decoded(values: Mapping[str, float], layers: int, gpus: int) -> tuple[int, ...]:
    """The allocation that a solution stands for."""
    return tuple(next(g for g in range(gpus) if values[f"x{i}_{g}"] > 0.5) for i in range(layers))


# ---- without memory: Lemma 1 ----------------------------------------------------------------------------------


def packed_pattern(problem: ChainProblem, allocation: Sequence[int]) -> PatternPlan:
    """The pattern in which the busiest GPU or link never pauses (Lemma 1): each task and transfer takes the next free
    position in the period of its GPU or link, and serves a later batch where its input comes after that position."""
    period = load_bound(problem, allocation)
    filled: dict[tuple[int, ...], Fraction] = {}
    starts: list[Fraction] = []
    transfers: dict[int, Fraction] = {}
    ready = Fraction(0)

    def place(key: tuple[int, ...], duration: Fraction) -> Fraction:
        """The first start from `ready` on at the resource's next free position in the period."""
        nonlocal ready
        position = filled.get(key, Fraction(0))
        filled[key] = position + duration
        start = position + period * max(0, -((position - ready) // period))
        ready = start + duration
        return start

    for task, duration in enumerate(problem.durations):
        starts.append(place((allocation[problem.layer_of[task]],), as_written(duration)))
        edge = task + 1
        if edge in problem.remote_edges and edge_is_cut(problem, allocation, edge):
            transfers[edge] = place(link_of(problem, allocation, edge), as_written(problem.edge_times[task]))
    return one_batch(period, allocation, starts, transfers)
