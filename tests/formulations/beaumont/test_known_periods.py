"""Chains whose shortest period is known: every model finds it, with every solver, and proves it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from known_chains import (
    KnownChain,
    e1_load,
    e1_overlap,
    e2_negative_shift,
    e3_phantom_transfer,
    e4_ties,
    e5_overrun,
    golden_chains,
    guard_chains,
)
from problems.chains import theory_chains

from pipeplan import ChainProblem, Found, Stop, solve
from pipeplan.formulations.beaumont.ilp import build
from pipeplan.formulations.contract import Refuted
from pipeplan.instances.chain.referee import evaluate_pattern, verify_pattern
from pipeplan.planners.backends import solve as solve_matrix
from pipeplan.planners.backends.model import compile_pyomo

METHODS = (("ilp-beaumont", "highs"), ("ilp-beaumont", "cp-sat"), ("cp-beaumont", "cp-sat"))
SMALL = 6
"""Layers up to which the integer program is asked as well."""

GOLDEN = golden_chains()
OTHERS = tuple(known for known in (*theory_chains(), *guard_chains()) if "general" in known.answers)


def shortest(problem: ChainProblem, formulation: str, solver: str) -> float | None:
    """The proven optimum; None where there is provably nothing."""
    result = solve(problem, formulation=formulation, solver=solver)
    if result.stop == Stop.INFEASIBLE:
        assert result.plan is None
        return None
    assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
    return result.objective


@pytest.mark.parametrize(
    ("known", "method"),
    [
        pytest.param(known, method, id="-".join((known.name, *method)))
        for known in (*GOLDEN, *OTHERS)
        for method in METHODS
        if known in GOLDEN or known.problem.layers <= SMALL or method[0] == "cp-beaumont"
    ],
)
def test_the_known_period_is_found(known: KnownChain, method: tuple[str, str]) -> None:
    assert shortest(known.problem, *method) == known.answers["general"]
    if known in GOLDEN:
        assert shortest(known.problem.replace(memory_bytes=None), *method) == known.answers["unlimited"]


@pytest.mark.parametrize(
    "method",
    [("ilp-beaumont", "highs"), pytest.param(("cp-beaumont", "cp-sat"), marks=pytest.mark.sweeps)],
    ids="-".join,
)
def test_an_overrun_slot_is_reported_and_can_be_forbidden(method: tuple[str, str]) -> None:
    """E5: the shortest period needs a slot twice at once; with exclusive buffers the next one is proven."""
    problem = e5_overrun().problem
    result = solve(problem, formulation=method[0], solver=method[1])
    assert result.objective == 7
    assert result.plan is not None
    assert evaluate_pattern(problem, result.plan).overruns
    exclusive = problem.replace(exclusive_buffers=True)
    result = solve(exclusive, formulation=method[0], solver=method[1])
    assert (result.stop, result.objective) == (Stop.PROVEN, 8)
    assert not evaluate_pattern(exclusive, result.plan).overruns


# ---- the printed program, erratum by erratum ---------------------------------------------------------------


def with_errata(problem: ChainProblem, *errata: str) -> tuple[float | None, list[str]]:
    """The optimum of the program with these errata alone, and the rules that its plan breaks."""
    built = build(problem, frozenset(errata))
    if isinstance(built, Refuted):
        return None, []
    outcome = solve_matrix("highs", compile_pyomo(built.model))
    if outcome.values is None:
        return None, []
    assert outcome.objective is not None
    plan = built.decode(outcome.values)
    return round(outcome.objective, 5), [violation.rule for violation in verify_pattern(problem, plan)]


@pytest.mark.parametrize(("known", "erratum", "broken"), [
    pytest.param(e1_overlap(), "E1", "exclusive-gpu", id="tasks of one GPU overlap"),
    pytest.param(e1_load(), "E1", "exclusive-gpu", id="and are more than the period"),
    pytest.param(e2_negative_shift(), "E2", "memory", id="negative copies hide memory"),
    pytest.param(e3_phantom_transfer(), "E3", None,
        id="transfers that do not happen: valid, and far from the best"),
    pytest.param(e4_ties(), "E4", "memory", id="a plan that does not exist"),
])  # fmt: skip
def test_each_erratum_alone_does_its_harm(known: KnownChain, erratum: str, broken: str | None) -> None:
    value, rules = with_errata(known.problem, erratum)
    assert value is not None
    assert known.printed is None or value == known.printed
    assert broken in rules if broken else not rules
    assert erratum != "E2" or set(rules) == {"memory"}
    assert with_errata(known.problem) == (known.answers.get("general"), [])


@pytest.mark.parametrize("known", [e1_overlap(), e1_load()], ids=lambda known: known.name)
def test_the_printed_program_is_caught_on_the_way_to_the_user(known: KnownChain) -> None:
    """By CP-SAT: HiGHS 1.15 gives a plan within all rules besides, which is reported in its place."""
    result = solve(known.problem, formulation="ilp-beaumont", solver="cp-sat", options={"variant": "printed"})
    assert (result.found, result.bound, result.verified) == (Found.REJECTED, None, False)
    assert result.claimed == pytest.approx(known.printed)
    assert any("overlap" in text for text in result.violations)
    assert any("printed program is not right" in text for text in result.messages)


def test_times_that_are_no_round_numbers_are_proven_as_well() -> None:
    """Golden chain 5 in units of a seventh of a second: all models agree on 7 sevenths."""
    known = GOLDEN[4]
    seventh = [float(Fraction(time) / 7) for time in known.problem.durations]
    problem = known.problem.replace(
        forward=tuple(seventh[:3]),
        backward=tuple(reversed(seventh[3:])),
        transfer_times=tuple(time / 7 for time in known.problem.edge_times),
    )
    for method in METHODS:
        assert shortest(problem, *method) == pytest.approx(known.answers["general"] / 7, rel=1e-6)
