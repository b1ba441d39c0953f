"""The program of whole configurations has the values of enumeration, and checks the search."""

from __future__ import annotations

import math
from typing import Any

import pytest

import pipeplan
from pipeplan.formulations.contract import Wanted
from pipeplan.formulations.training.formulation import FORMULATION
from pipeplan.instances.base.errors import TooLargeError
from pipeplan.instances.base.result import Result, Stop
from pipeplan.instances.training.build import problem_of
from pipeplan.planners.options import SolveOptions

from ...problems.asked_trainings import Question, asked

NAME = "mip-configuration"
CLOSE = 1e-9
SOLVERS = ("cp-sat", "highs")
FEW = (1, 2, 3, 4)
"""GPUs."""


def solved(question: Question, solver: str = "highs", **changes: Any) -> Result:
    limits = SolveOptions(time_limit_s=60, threads=1)
    options = question.options | changes
    return pipeplan.solve(question.problem, formulation=NAME, solver=solver, options=options, limits=limits)


def is_the_optimum(result: Result, best: tuple[float, Any] | None) -> None:
    if best is None:
        assert result.stop == Stop.INFEASIBLE
        return
    assert result.stop == Stop.PROVEN
    assert result.verified
    assert result.objective == pytest.approx(best[0], rel=1e-6)
    assert result.bound is not None
    assert result.bound <= best[0] * (1 + CLOSE)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_value_is_that_of_enumeration(solver: str) -> None:
    answers = []
    for seed in range(6):
        question = asked(seed, 60, FEW)
        answers.append(question.best())
        is_the_optimum(solved(question, solver), answers[-1])
    assert any(answers)


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_may_be_misjudged_must_fit_as_well(solver: str) -> None:
    """With less room some of the answers are others."""
    worse = 0
    for seed in range(20, 26):
        question = asked(seed, 40, FEW)
        best, spared = question.best(), question.best(share=0.25)
        worse += best is not None and (spared is None or spared[0] > best[0])
        is_the_optimum(solved(question, solver, memory_error=0.25), spared)
    assert worse


def test_interleaved_and_divided_schedules_are_exact_too() -> None:
    """Their orders of passes differ from 1F1B."""
    seen = set()
    for seed in (0, 4, 5, 9, 12):
        question = asked(seed, 100, (2, 4))
        for schedule in question.problem.rules.schedules:
            if schedule == "1f1b":
                continue
            narrow = Question(question.problem, {"schedule": schedule, "zero": "1", "recompute": "none"})
            best = narrow.best()
            is_the_optimum(solved(narrow), best)
            if best is not None:
                seen.add(schedule)
    assert "interleaved-1f1b" in seen
    assert len(seen) >= 2


def test_a_plan_that_is_encoded_and_decoded_comes_back() -> None:
    for seed in range(8):
        question = asked(seed, 60, FEW)
        best = question.best()
        if best is None:
            continue
        built = FORMULATION.model(question.problem, question.options, Wanted(native=False))
        values = built.encode(best[1])
        assert values is not None, seed
        assert built.decode(values) == best[1]


def test_forbidden_values_and_even_layouts_narrow_the_program() -> None:
    question = asked(0, 100, (2,))
    best = solved(question)
    assert best.plan is not None
    forbidden = f"pipeline={best.plan.degrees.pipeline}"
    other = solved(Question(question.problem, {}), forbid=forbidden)
    assert other.plan is None or other.plan.degrees.pipeline != best.plan.degrees.pipeline
    even = solved(question, layouts="even")
    assert even.plan is None or math.isclose(min(even.objective, best.objective), best.objective, rel_tol=1e-6)


def test_either_method_checks_the_other() -> None:
    question = asked(1, 60, FEW)
    for name in ({"planner": "exact-configuration"}, {"formulation": NAME}):
        result = pipeplan.solve(question.problem, **name, options=question.options, cross_check=True)
        assert result.cross_check is not None
        assert {*name.values()}.isdisjoint({*result.cross_check.values()})
        assert result.cross_check["contradiction"] is None
        assert result.cross_check["objective"] == pytest.approx(result.objective, rel=1e-6)


def test_a_model_of_practice_is_checked_where_its_degrees_are_fixed() -> None:
    """Uneven layouts of 34 units on four ranks."""
    problem = problem_of("llama-3-8b", "8xh100-80gb", batch=16, sequence=8192)
    fixed = "tensor=2 pipeline=4 virtual=1 context=1 micro-batch=1 zero=1 recompute=none"
    result = pipeplan.solve(problem, options={"fix": fixed}, cross_check=True)
    assert result.cross_check is not None
    assert (result.cross_check["stop"], result.cross_check["contradiction"]) == ("proven", None)
    assert result.cross_check["objective"] == pytest.approx(result.objective, rel=1e-6)


def test_a_whole_cluster_is_refused_in_words() -> None:
    problem = problem_of("llama-3-70b", "64xh100-80gb", batch=256, sequence=8192)
    with pytest.raises(TooLargeError, match="--fix"):
        pipeplan.solve(problem, formulation=NAME)


@pytest.mark.sweeps
@pytest.mark.parametrize("start", range(1000, 1200, 10))
def test_the_program_and_the_search_agree_many_times(start: int) -> None:
    """Ten problems each; what enumeration says decides who is wrong."""
    for seed in range(start, start + 10):
        question = asked(seed, 200, (1, 2, 3, 4, 6, 8))
        best = question.best()
        search = pipeplan.solve(question.problem, planner="exact-configuration", options=question.options)
        assert (search.objective is None) == (best is None), seed
        if best is not None:
            assert search.objective == pytest.approx(best[0], rel=CLOSE), seed
        is_the_optimum(solved(question, SOLVERS[seed % 2]), best)
