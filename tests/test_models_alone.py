"""Every linear model holds the best plan, whoever solves it: here nobody is asked again and nothing is put right.

`plan solve` lets another solver check what HiGHS proves, so that a wrong model would only cost time there, unseen. Here
the model alone meets enumeration: with the cut-off close above the optimum, and with none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from oracles.truths import METHODS, Method, truth
from problems.nasty import KINDS, nasty

from pipeplan import InputError, SolveOptions
from pipeplan.formulations.contract import BuiltModel
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.files import problem_to_text
from pipeplan.instances.registry import Problem
from pipeplan.planners.backends import solve
from pipeplan.planners.backends.model import compile_pyomo
from pipeplan.planners.run.choose import choose

LINEAR = [method for kind in KINDS for method in METHODS[kind] if method.formulation and method.solver == "highs"]
QUICK, SWEPT = 5, 60
NEAR = 1e-3
"""Relative: how far the cut-off is above the optimum."""
WIDEST = 1e6
"""Ratio of times, or of sizes, that HiGHS is sure to tell apart."""
TIMES = ("accelerator_time", "cpu_time", "transfer_time", "forward", "backward", "transfer_times", "time")
SIZES = ("size_bytes", "activations", "weights", "weight_bytes", "memory_fixed", "memory_per_batch")


def ordinary(method: Method, seeds: Iterator[int]) -> Iterator[tuple[Problem, float]]:
    """Problems with a plan, whose values HiGHS can tell apart."""
    for seed in seeds:
        problem: Problem = nasty(method.kind, seed)
        try:
            best = truth(problem, method)
        except InputError:  # the problem asks for what this question leaves out
            continue
        if best and _near([best, *_amounts(problem, TIMES)]) and _near(_amounts(problem, SIZES)):
            yield problem, best


def _near(amounts: list[float]) -> bool:
    return not amounts or max(amounts) < WIDEST * min(amounts)


def _amounts(problem: Problem, names: tuple[str, ...]) -> list[float]:
    """All that the text of a problem says under one of these names, as far as it is not 0."""
    found: list[float] = []

    def look(entry: object, name: str) -> None:
        if isinstance(entry, dict):
            for key, value in entry.items():
                look(value, key)
        elif isinstance(entry, list):
            for value in entry:
                look(value, name)
        elif isinstance(entry, (int, float)) and name in names and entry:
            found.append(float(entry))

    look(json.loads(problem_to_text(problem)), "")
    return found


@pytest.mark.sweeps("some-schedule: ilp-zero-bubble highs *")
@pytest.mark.slow("many-schedule: ilp-zero-bubble highs *")
@pytest.mark.parametrize("method", LINEAR, ids=lambda method: f"{method.kind}: {method.name}")
@pytest.mark.parametrize(
    "seeds", [range(QUICK), pytest.param(range(QUICK, SWEPT), marks=pytest.mark.sweeps)], ids=["some", "many"]
)
def test_a_model_alone_holds_the_best_plan(method: Method, seeds: range) -> None:
    for problem, best in ordinary(method, iter(seeds)):
        formulation = FORMULATIONS[method.formulation or ""].load()
        options = choose(problem, method.formulation, None, "highs", method.options).options
        for cutoff in (None, best * (1 + NEAR)):
            built = formulation.build(problem, options, native=False, cutoff=cutoff)
            assert isinstance(built, BuiltModel), f"{built.reason}\n{problem_to_text(problem)}"
            model = compile_pyomo(built.model)
            outcome = solve("highs", model, SolveOptions(threads=1, time_limit_s=600))
            where = f"{method.name}, cut-off {cutoff}, truth {best}: {outcome.stop}\n{problem_to_text(problem)}"
            assert outcome.objective is not None, where
            if model.costs.any():
                assert outcome.objective <= best * (1 + 1e-5), where
            else:  # one period at a time: the model says that there is a plan, of what is asked for
                assert cutoff is None or outcome.objective <= cutoff, where
