"""Without a plan the result says why: how much memory is enough, who lacks it for what, and what would need less."""

from __future__ import annotations

from typing import Any

import known_chains as theory
import pytest
from recipes.chain import resnet_like

from pipeplan import ChainProblem, Found, Result, SolveOptions, Stop, smallest_memory, solve
from pipeplan.planners.chain.smallest_memory import amount, binding, explain

TIGHT = theory.golden_chains()[3].problem.replace(memory_bytes=8)
EXACT: tuple[dict[str, Any], ...] = (
    {"formulation": "ilp-beaumont"},
    {"formulation": "cp-beaumont"},
    {"planner": "exact-beaumont"},
)
LIMITS = SolveOptions(threads=1)


def run(problem: ChainProblem, **method: Any) -> Result:
    return solve(problem, limits=LIMITS, **method)


@pytest.mark.parametrize("method", EXACT, ids=lambda method: "-".join(method.values()))
def test_every_exact_method_says_what_would_be_enough(method: dict[str, Any]) -> None:
    result = run(TIGHT, **method)
    assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING)
    needed = smallest_memory(TIGHT, LIMITS)
    text = " ".join(result.messages)
    assert (
        f"no plan fits in 8 B of memory per GPU: even one batch at a time on the best allocation needs {amount(29)}"
        in text
    )
    assert f"gpu{needed.gpu} with layers" in text
    assert "--memory 29" in text
    assert "not modelled" in text
    assert run(TIGHT.replace(memory_bytes=needed.memory_bytes), **method).verified


@pytest.mark.parametrize("planner", ["contiguous", "gpipe", "sync-1f1b"])
def test_baselines_say_it_too(planner: str) -> None:
    assert any(message.startswith("no plan fits in 8 B") for message in run(TIGHT, planner=planner).messages)


def test_a_baseline_that_fails_where_patterns_exist_names_who_finds_them() -> None:
    problem = theory.lemma_2().problem
    messages = run(problem, planner="contiguous").messages
    assert any("use --planner exact-beaumont" in message for message in messages)
    assert run(problem, planner="exact-beaumont").verified


def test_nothing_is_explained_where_there_is_a_plan_or_no_limit() -> None:
    assert not any("memory per GPU" in message for message in run(theory.three_chain().problem).messages)
    assert explain(TIGHT.replace(memory_bytes=None), {}, LIMITS, True) == ()


def test_remedies_are_computed() -> None:
    """Twice the GPUs are enough here, and so are single copies of the weights: both are solved for."""
    problem = ChainProblem((1,) * 4, (1,) * 4, (0,) * 5, (2,) * 4, gpus=2, memory_bytes=6, name="heavy")
    remedies = " ".join(explain(problem, {}, LIMITS, True))
    assert "with --devices 4, 6 B is enough" in remedies
    assert "with weight_copies 1 instead of 3, 4 B is enough" in remedies
    assert run(problem.replace(gpus=4)).verified
    assert run(problem.replace(weight_copies=1)).verified


@pytest.mark.parametrize(("unit", "name"), [(2**20, "MiB"), (10**6, "MB")])
def test_amounts_are_in_the_unit_in_which_they_were_written(unit: int, name: str) -> None:
    weights = (2 * unit,) * 4
    problem = ChainProblem((1,) * 4, (1,) * 4, (0,) * 5, weights, gpus=2, memory_bytes=6 * unit, name="heavy")
    first, *more = explain(problem, {}, LIMITS, True)
    assert first.startswith(f"no plan fits in 6 {name} of memory per GPU")
    assert f"more GPUs would help: with --devices 4, 6 {name} is enough" in more


def test_the_binding_term_is_named() -> None:
    heavy = ChainProblem((1, 1), (1, 1), (1, 1, 1), (50, 1), gpus=2)
    wide = ChainProblem((1, 1), (1, 1), (50, 1, 1), (0, 0), gpus=2, memory_mode="inputs")
    assert "mostly for weights" in binding(smallest_memory(heavy, LIMITS))
    assert "gpu0 with layers 1" in binding(smallest_memory(heavy, LIMITS))
    assert "mostly for kept activations" in binding(smallest_memory(wide, LIMITS))


def test_an_open_question_is_called_open() -> None:
    """Without time for a proof, a limit between the lower value and the plan's is not called too small."""
    problem = resnet_like(18, 4)
    hurried = SolveOptions(time_limit_s=1e-9, threads=1)
    found = smallest_memory(problem, hurried)
    assert found.lower_bytes < found.memory_bytes
    between = problem.replace(memory_bytes=found.lower_bytes)
    assert explain(between, {}, hurried, False)[0].startswith("perhaps no plan fits")
    assert explain(between, {}, hurried, True)[0].startswith("no plan fits")
