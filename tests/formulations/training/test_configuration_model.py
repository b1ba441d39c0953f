"""The program of whole configurations has the values of enumeration, and checks the search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import pipeplan
from pipeplan.formulations.contract import BuiltModel, Wanted
from pipeplan.formulations.training.formulation import FORMULATION
from pipeplan.instances.base.errors import TooLargeError
from pipeplan.instances.base.result import Result, Stop
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.frameworks import even_layout
from pipeplan.instances.training.referee.evaluate import evaluate_configuration
from pipeplan.planners.options import SolveOptions

from ...oracles.training import configurations
from ...problems.asked_trainings import Question, asked

NAME = "mip-configuration"
CLOSE = 1e-9
SOLVERS = ("cp-sat", "highs")
FEW = (1, 2, 3, 4)
"""GPUs."""


def solved(question: Question, solver: str = "highs", **changes: Any) -> Result:
    limits = SolveOptions(time_limit_s=600, threads=1)
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
    for seed in (0, 7, 16):
        problem = asked(seed, 100, (4,)).problem
        problem = problem.replace(gpu=replace(problem.gpu, memory_bytes=None))
        for schedule in {*problem.rules.schedules} - {"1f1b", "gpipe"}:
            fixed = {"schedule": schedule, "pipeline": "2", "tensor": "1", "context": "1", "recompute": "none"}
            narrow = Question(problem, fixed)
            best = narrow.best()
            is_the_optimum(solved(narrow), best)
            if best is not None:
                seen.add(schedule)
    assert {"interleaved-1f1b", "zb-v"} <= seen


def test_a_plan_that_is_encoded_and_decoded_comes_back() -> None:
    seen = 0
    for seed in range(8):
        question = asked(seed, 60, FEW)
        best = question.best()
        if best is None:
            continue
        built = FORMULATION.model(question.problem, question.options, Wanted(False, None, 1e-6))
        assert isinstance(built, BuiltModel)
        assert built.encode is not None
        values = built.encode(best[1])
        assert values is not None, seed
        assert built.decode(values) == best[1]
        seen += 1
    assert seen >= 3


def test_a_word_for_as_many_layers_as_there_are_can_be_fixed() -> None:
    """Nobody would enumerate it beside `full`, which says the same."""
    question = asked(3, 60, FEW)
    question.fixed["recompute"] = f"full:{question.problem.model.layers}"
    best = question.best()
    assert best is not None
    is_the_optimum(solved(question), best)


def test_forbidden_values_and_even_layouts_narrow_the_program() -> None:
    question = asked(3, 100, (2,))
    problem = question.problem.replace(gpu=replace(question.problem.gpu, memory_bytes=None))
    question = Question(problem, {"recompute": "none", "micro-batch": "1"})
    best, plans = solved(question), [*configurations(problem, question.fixed)]
    assert best.plan is not None
    taken = best.plan.degrees.pipeline
    others = [own for own in plans if own.degrees.pipeline != taken]
    even = [own for own in plans if own.layout == even_layout(problem, own.degrees.chunks)]
    for changes, left in (({"forbid": f"pipeline={taken}"}, others), ({"layouts": "even"}, even)):
        least = min(evaluate_configuration(problem, own).timing.seconds for own in left)
        assert solved(question, **changes).objective == pytest.approx(least, rel=1e-6)


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
@pytest.mark.parametrize("seeds", [range(start, start + 10) for start in range(1000, 1200, 10)], ids=str)
def test_the_program_and_the_search_agree_many_times(seeds: range) -> None:
    """Ten problems each; what enumeration says decides who is wrong."""
    for seed in seeds:
        question = asked(seed, 200, (1, 2, 3, 4, 6, 8))
        best = question.best()
        search = pipeplan.solve(question.problem, planner="exact-configuration", options=question.options)
        assert (search.objective is None) == (best is None), seed
        if best is not None:
            assert search.objective == pytest.approx(best[0], rel=CLOSE), seed
        is_the_optimum(solved(question, SOLVERS[seed % 2]), best)
