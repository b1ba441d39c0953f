"""With the allocation given, every exact method finds the best schedule of that allocation, and proves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import known_chains as theory
import pytest
from oracles.chain import allocations
from problems.chains import random_chain

from pipeplan import ChainProblem, InputError, Result, SolveOptions, Stop, solve
from pipeplan.formulations.beaumont.bounds import load_bound
from pipeplan.instances.chain.plan import given_allocation
from pipeplan.instances.chain.referee import PatternRules

METHODS: tuple[dict[str, Any], ...] = (
    {"formulation": "ilp-beaumont", "solver": "highs"},
    {"formulation": "ilp-beaumont", "solver": "cp-sat"},
    {"formulation": "cp-beaumont"},
    {"planner": "exact-beaumont"},
)
G4 = theory.golden_chains()[3].problem


def scheduled(problem: ChainProblem, allocation: tuple[int, ...], **method: Any) -> Result:
    options = {"allocation": ",".join(map(str, allocation))}
    if method.get("solver") == "highs":  # slow to find what it is quick to prove
        method["warm_start"] = solve(problem, formulation="cp-beaumont", options=options).plan or "none"
    return solve(problem, options=options, limits=SolveOptions(threads=1), **method)


def shortest(problem: ChainProblem, allocation: tuple[int, ...], **method: Any) -> float | None:
    """Proven; None where nothing fits."""
    result = scheduled(problem, allocation, **method)
    if result.stop == Stop.INFEASIBLE:
        return None
    assert result.stop == Stop.PROVEN, result.messages
    assert result.plan.kind == "pattern"
    assert result.plan.allocation == allocation
    return result.objective


# ---- E6: Theorem 3 ----------------------------------------------------------------------------------------


THEOREM_3 = {
    "printed-no-split": theory.e6_sizes_as_printed(),
    "corrected-no-split": theory.e6_sizes_corrected(),
    "corrected-split": theory.theorem_3((6, 6, 8, 6, 7, 7)),
}
LONG = "corrected-no-split"
"""To refute a shorter period takes seconds, and HiGHS most of a minute; `cp-beaumont` alone is quick."""


@pytest.mark.at_once(2)
@pytest.mark.parametrize(
    ("known", "method"),
    [
        pytest.param(
            known,
            method,
            id="-".join((name, *method.values())),
            marks=[pytest.mark.sweeps] if name == LONG and "cp-beaumont" not in method.values() else [],
        )
        for name, known in THEOREM_3.items()
        for method in METHODS
    ],
)
def test_theorem_3_holds_with_the_sizes_corrected(known: theory.KnownChain, method: dict[str, Any]) -> None:
    """E6: without a split into triples the period of a split, 80, is reached with the sizes as printed only."""
    assert known.allocation is not None
    period = 81 if known.name == "guard-e6" else 80
    assert known.answers["fixed"] == period
    assert shortest(known.problem, known.allocation, **method) == pytest.approx(period, rel=1e-6)


# ---- the same as choosing it ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_the_best_of_all_allocations_is_the_best_pattern(seed: int) -> None:
    """One allocation after the other, the three methods agree; the best of them is what the free search finds."""
    problem = random_chain(seed)
    periods = []
    for allocation in allocations(problem):
        answers = [shortest(problem, allocation, **method) for method in METHODS[1:]]
        assert all(answer == pytest.approx(answers[0], rel=1e-6) for answer in answers if answer is not None)
        assert len({answer is None for answer in answers}) == 1
        periods += [answer for answer in answers[:1] if answer is not None]
    free = solve(problem, planner="exact-beaumont", limits=SolveOptions(threads=1))
    assert free.objective == pytest.approx(min(periods, default=None))


def test_gpus_keep_their_numbers_and_without_a_memory_limit_the_loads_decide() -> None:
    free = G4.replace(memory_bytes=None)
    for method in METHODS:
        assert shortest(G4, (1, 0, 0, 1), **method) == 13
        assert shortest(free, (0, 1, 0, 1), **method) == load_bound(free, (0, 1, 0, 1))


def test_exclusive_buffers_are_kept() -> None:
    """E5: with this allocation 7 overruns a slot, and 8 is the shortest period that does not."""
    problem = theory.e5_overrun().problem
    assert shortest(problem, (0, 1, 0), formulation="ilp-beaumont") == 7
    problem = problem.replace(exclusive_buffers=True)
    assert shortest(problem, (0, 1, 0), formulation="ilp-beaumont") == pytest.approx(8, rel=1e-6)
    exclusive = scheduled(problem, (0, 1, 0), planner="exact-beaumont")
    assert exclusive.verified
    assert exclusive.objective == 8


@pytest.mark.parametrize("method", METHODS, ids=lambda method: "-".join(method.values()))
def test_an_allocation_that_never_fits_is_refused_with_the_reason(method: dict[str, Any]) -> None:
    result = scheduled(G4.replace(memory_bytes=30), (0, 0, 0, 0), **method)
    assert (result.stop, result.plan) == (Stop.INFEASIBLE, None)
    assert any("no plan with this allocation fits in 30 B" in message for message in result.messages)


# ---- who judges -------------------------------------------------------------------------------------------


def test_a_plan_of_another_allocation_is_rejected_and_no_start() -> None:
    other = solve(G4, planner="exact-beaumont").plan
    assert other is not None
    given = "0,1,0,1"
    told = [violation.rule for violation in PatternRules((0, 1, 0, 1)).violations(G4, other)]
    assert told == ["allocation"]
    result = solve(G4, formulation="cp-beaumont", options={"allocation": given}, warm_start=other)
    assert any("warm start was not used" in message for message in result.messages)
    assert result.objective == shortest(G4, (0, 1, 0, 1))


# ---- how it is given --------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [
    "0,1,1,0", "[0, 1, 1, 0]", " 0, 1,1,0 ", [0, 1, 1, 0], {"allocation": [0, 1, 1, 0]},
    {"plan": {"allocation": [0, 1, 1, 0]}},
])  # fmt: skip
def test_it_is_a_list_or_a_file(tmp_path: Path, given: Any) -> None:
    path = tmp_path / "given.json"
    path.write_text(json.dumps(given), "utf-8")
    allocation = given if isinstance(given, str) else str(path)
    assert given_allocation(G4, {"allocation": allocation}) == (0, 1, 1, 0)


@pytest.mark.parametrize(("given", "words"), [
    ("0,1", "has 2 entries for 4 layers"),
    ("0,1,,0", "is '0,1,,0'"),
    ("0,1,2,0", "puts layer 3 on GPU 2"),
    ("nowhere.json", "neither a list nor a file"),
    *((data, "option allocation") for data in ({"plan": None}, 7, ["0", 1, 1, 0], [0, True, 1, 0])),
])  # fmt: skip
def test_what_is_no_allocation_is_refused_in_one_sentence(tmp_path: Path, given: Any, words: str) -> None:
    """As a text, or in a file."""
    path = tmp_path / "given.json"
    path.write_text(json.dumps(given), "utf-8")
    with pytest.raises(InputError) as refused:
        given_allocation(G4, {"allocation": given if isinstance(given, str) else str(path)})
    assert words.replace("'", '"') in str(refused.value).replace("'", '"')


def test_what_is_stored_is_the_allocation_not_where_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    path.write_text("[1, 0, 0, 1]", "utf-8")
    for given in (str(path), "1,0,0,1", [1, 0, 0, 1], (1, 0, 0, 1)):
        result = solve(G4, planner="exact-beaumont", options={"allocation": given})
        assert result.options["allocation"] == [1, 0, 0, 1]
        assert result.objective == 13
