"""The fastest layout under 1F1B by a mixed-integer program, where there are too many layouts to enumerate.

Degrees, micro-batch, ZeRO stage and recomputation are given, with one chunk on each rank. x_kij is one where rank k has
the units i to j - 1; only what fits is a choice. Its seconds F and B of a pass and E behind the last pass are the
referee's; D are those of a message to the next rank and back.

    minimise T
    (1)  sum over j of x_00j = 1                       the first rank begins with the first unit
    (2)  sum over i of x_kij = sum over l of x_(k+1)jl  each rank begins where the one before ends
    (3)  f_k = sum of F_kij x_kij, b_k and d_k alike    what passes and messages take
    (4)  e_u >= e_v + f_u, or + d + f_u                 pass u comes behind pass v on its rank, or waits for its message
    (5)  T >= e_u + sum of E_kij x_kij                  u is the last pass of rank k

For given x the rest is a longest path, so the least T is the time of the fastest layout. The order of passes is written
here anew; what a rank takes and holds is the referee's, whom other oracles check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyomo.environ as pyo

from pipeplan.instances.base.amounts import fits
from pipeplan.instances.base.result import Stop
from pipeplan.instances.training.frameworks import uncut
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.referee import evaluate_configuration
from pipeplan.planners.backends import solve
from pipeplan.planners.backends.model import compile_pyomo
from pipeplan.planners.options import SolveOptions


@dataclass(frozen=True)
class Stage:
    """What the referee says of the units on one rank."""

    forward: float
    backward: float
    message: float
    tail: float
    fits: bool

    def in_units(self, unit: float) -> Stage:
        seconds = (self.forward, self.backward, self.message, self.tail)
        return Stage(*(own / unit for own in seconds), self.fits)


def best_layout(problem: TrainingProblem, plan: Configuration) -> float | None:
    """The least seconds of an iteration over all layouts of the plan; None: no layout fits."""
    choices = list(_choices(problem, plan))
    if {k for k, _, _, _ in choices} != set(range(plan.degrees.pipeline)):
        return None
    unit = max(stage.forward for _, _, _, stage in choices) / 100  # far above a solver's tolerances
    model = _program(problem, plan, [(k, i, j, stage.in_units(unit)) for k, i, j, stage in choices])
    answer = solve("highs", compile_pyomo(model), SolveOptions(threads=1, rel_gap=1e-7))
    if answer.stop == Stop.INFEASIBLE:
        return None
    assert answer.stop == Stop.PROVEN
    assert answer.objective is not None
    return unit * answer.objective + problem.efficiencies.step_seconds


Choice = tuple[int, int, int, Stage]
"""Rank, first unit, the unit behind the last one, and what they take."""


def _choices(problem: TrainingProblem, plan: Configuration) -> Iterator[Choice]:
    """Ranks that have the same types of units are asked for once."""
    p, names, known = plan.degrees.pipeline, problem.model.units, dict[object, Stage]()
    borders = [i for i in range(len(names) + 1) if i not in uncut(problem, plan.degrees)]
    for k in range(p):
        for first in borders if k else [0]:
            for behind in borders if k < p - 1 else [len(names)]:
                if first < k or behind <= first or len(names) - behind < p - 1 - k:
                    continue
                key = k, (first, behind) if problem.model.own else names[first:behind]
                if key not in known:
                    known[key] = _stage(problem, plan, k, first, behind)
                if known[key].fits:
                    yield k, first, behind, known[key]


def _stage(problem: TrainingProblem, plan: Configuration, k: int, first: int, behind: int) -> Stage:
    """In some whole layout that has these units on rank k."""
    later, rest = plan.degrees.pipeline - 1 - k, len(problem.model.units) - behind
    before = (first - k + 1, *[1] * (k - 1)) if k else ()
    after = (rest - later + 1, *[1] * (later - 1)) if later else ()
    own = evaluate_configuration(problem, replace(plan, layout=(*before, behind - first, *after)))
    passes, timing = own.timing.chunks[k], own.timing
    held = fits(own.memory[k].parts.values(), problem.memory_bytes)
    message = timing.delays[k] if later else 0.0
    return Stage(passes.forward, passes.backward, message, timing.tails[k], held)


def _passes(rank: int, ranks: int, batches: int) -> list[tuple[int, str, int]]:
    """1F1B: forward passes until the first micro-batch comes back, then one backward and one forward pass in turn."""
    warm = min(batches, ranks - rank)
    order = [(rank, "F", n) for n in range(warm)]
    for n in range(batches):
        order += [(rank, "B", n), *([(rank, "F", warm + n)] if warm + n < batches else [])]
    return order


def _program(problem: TrainingProblem, plan: Configuration, choices: list[Choice]) -> Any:
    p, units = plan.degrees.pipeline, len(problem.model.units)
    orders = [_passes(k, p, plan.micro_batches(problem.batch)) for k in range(p)]
    model = pyo.ConcreteModel("layouts")
    model.x = pyo.Var([own[:3] for own in choices], domain=pyo.Binary)
    model.seconds = pyo.Var(range(p), ["F", "B", "D"], domain=pyo.NonNegativeReals)
    model.e = pyo.Var([own for order in orders for own in order], domain=pyo.NonNegativeReals)
    model.T = pyo.Var(domain=pyo.NonNegativeReals)
    model.objective = pyo.Objective(expr=model.T)
    model.rows = pyo.ConstraintList()
    model.rows.add(sum(model.x[own[:3]] for own in choices if own[0] == 0) == 1)
    for k, border in ((k, border) for k in range(p - 1) for border in range(units + 1)):
        ends = [model.x[own[:3]] for own in choices if own[0] == k and own[2] == border]
        begins = [model.x[own[:3]] for own in choices if own[0] == k + 1 and own[1] == border]
        if ends or begins:
            model.rows.add(sum(ends) - sum(begins) == 0)
    for k, order in enumerate(orders):
        own = [(model.x[choice[:3]], choice[3]) for choice in choices if choice[0] == k]
        model.rows.add(model.seconds[k, "F"] == sum(stage.forward * x for x, stage in own))
        model.rows.add(model.seconds[k, "B"] == sum(stage.backward * x for x, stage in own))
        model.rows.add(model.seconds[k, "D"] == sum(stage.message * x for x, stage in own))
        for i, (_, kind, n) in enumerate(order):
            end, there = model.e[k, kind, n], k - 1 if kind == "F" else k + 1
            model.rows.add(end >= model.seconds[k, kind] + (model.e[order[i - 1]] if i else 0))
            if 0 <= there < p:
                sent = model.e[there, kind, n] + model.seconds[min(k, there), "D"]
                model.rows.add(end >= model.seconds[k, kind] + sent)
        model.rows.add(model.e[order[-1]] + sum(stage.tail * x for x, stage in own) <= model.T)
    return model
