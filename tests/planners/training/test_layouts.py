"""The search finds the fastest of thousands of layouts: a mixed-integer program says how fast it is."""

from __future__ import annotations

import pytest

from pipeplan import solve
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.problem import TrainingProblem

from ...oracles.training import best_configuration, configurations, values
from ...oracles.training_layouts import best_layout
from ...problems.asked_trainings import asked

CLOSE = 1e-6


def example(seed: int) -> tuple[TrainingProblem, Configuration] | None:
    """A random problem with some configuration of one chunk on each of several ranks; None: it has none."""
    problem = asked(seed, 100, (2, 3, 4)).problem
    usual = {"virtual": "1", "schedule": "1f1b", "micro-batch": "1"}
    plans = (own for own in configurations(problem, usual) if own.degrees.pipeline > 1)
    return None if problem.rules.layouts == "even" else next(((problem, own) for own in plans), None)


def test_the_program_has_the_value_of_enumeration() -> None:
    compared = fitted = 0
    for problem, plan in filter(None, map(example, range(12))):
        best = best_configuration(problem, fixed={key: own for key, own in values(plan).items() if key != "layout"})
        least = best_layout(problem, plan)
        assert (least is None) == (best is None)
        if best is not None:
            assert least == pytest.approx(best[0], rel=CLOSE)
            fitted += 1
        compared += 1
    assert compared > fitted > 2


@pytest.mark.sweeps
def test_the_search_finds_the_fastest_layout_of_a_model_of_practice() -> None:
    """Of 34 units on four ranks, which has 5,456 layouts."""
    problem = problem_of("llama-3-8b", "8xh100-80gb", batch=16, sequence=8192)
    fixed = "tensor=2 pipeline=4 virtual=1 context=1 micro-batch=1 zero=1 schedule=1f1b recompute=none"
    result = solve(problem, options={"fix": fixed})
    assert result.proof
    assert best_layout(problem, result.plan) == pytest.approx(result.objective, rel=CLOSE)
