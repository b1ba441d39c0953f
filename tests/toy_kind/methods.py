"""Two ways to a plan: all of them, and one job after the other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from pipeplan import Entry, Outcome, Request, Stop
from pipeplan.formulations.family import Family
from toy_kind.problem import ToyPlan, ToyProblem
from toy_kind.rules import ToyRules

EXHAUSTIVE = Entry(
    "toy-exhaustive",
    "All plans, one by one",
    "toy",
    "toy_kind.methods:exhaustive",
    scope="toy_kind.methods:family",
    default=True,
)
BALANCED = Entry("toy-balanced", "The longest job first", "toy", "toy_kind.methods:balanced", exact=False)


def family(problem: ToyProblem, options: Mapping[str, Any]) -> Family:
    return Family("all plans")


class Exhaustive:
    def plan(self, request: Request) -> Outcome:
        problem: Any = request.problem
        plans = map(ToyPlan, product(range(problem.machines), repeat=len(problem.jobs)))
        best = min(plans, key=lambda plan: ToyRules().value(problem, plan))
        value = ToyRules().value(problem, best)
        return Outcome(Stop.PROVEN, best, value, bound=value, checks=("every plan was tried",))  # type: ignore[arg-type]


class Balanced:
    def plan(self, request: Request) -> Outcome:
        problem: Any = request.problem
        loads, machine = [0.0] * problem.machines, [0] * len(problem.jobs)
        for job in sorted(range(len(problem.jobs)), key=lambda i: -problem.jobs[i]):
            machine[job] = loads.index(min(loads))
            loads[machine[job]] += problem.jobs[job]
        return Outcome(Stop.COMPLETED, ToyPlan(tuple(machine)), max(loads))  # type: ignore[arg-type]


exhaustive, balanced = Exhaustive(), Balanced()
