"""Proofs hold: every method that proves anything against enumeration, on small problems that are as nasty as they come.

What is found optimal is the optimum, what is called infeasible has no plan, no bound is above the optimum, no plan is
refused by the referee. Other units, other names and better clusters change what they must change and nothing else. A
few problems run with every test run, many more under `--sweeps`, thousands by `benchmarks/proofs.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pytest
from oracles.truths import METHODS, Method, judged, truth
from problems.nasty import KINDS, SENTINELS, better, in_fifteen_digits, nasty, renamed, scaled

from pipeplan.instances.files import problem_from_text, problem_to_text
from pipeplan.instances.registry import Problem

POWERS = (0, -9, 6, -6, 9)

QUICK = 2
GROUPS = (range(QUICK, 5), range(5, 8), range(8, 11), range(11, 20))
"""Problems of each method: so many at once, and groups of those of the sweeps, of which the last is slow."""

LONGEST_S = 10.0
"""What is not proven by then counts as not proven."""

ALL = [method for kind in KINDS for method in METHODS[kind]]

FAST = [
    method
    for method in ALL
    if method.solver != "scip"
    and (method.planner or "gpipe" not in method.options.values())
    and (method.formulation, method.solver) != ("ilp-zero-bubble", "cp-sat")
]
"""Those of the quick part."""


def named(method: Method) -> str:
    return f"{method.kind}: {method.name}"


def posed(method: Method, seed: int) -> Problem:
    problem: Problem = nasty(method.kind, seed)
    return problem


REFUSED: dict[tuple[str, str, str], str] = {}
"""Known refusals by problem, method and solver, with what is said; nothing false is claimed. There is none now."""


def check(problem: Problem, method: Method, warm_start: str = "auto") -> None:
    verdict = judged(problem, method, LONGEST_S, warm_start)
    known = REFUSED.get((problem.name, method.formulation, method.solver))
    if known is not None:
        assert known in str(verdict.faults)
        return
    assert not verdict.faults, f"{verdict.faults}\n{problem_to_text(problem)}"


def cases(method: Method, seeds: Iterable[int]) -> Iterator[tuple[Problem, str]]:
    """Its problems at all scales, with a start and without one; each method has its own."""
    place = ALL.index(method)
    first = 1000 * place
    for seed in seeds:
        power = POWERS[(place + seed) % len(POWERS)]
        problem = scaled(nasty(method.kind, first + seed), power, power if seed % 2 else -power)
        yield problem, "none" if seed // len(POWERS) % 2 else "auto"


@pytest.mark.parametrize("method", FAST, ids=named)
def test_proofs_agree_with_enumeration(method: Method) -> None:
    for problem, start in cases(method, range(QUICK)):
        check(problem, method, start)


@pytest.mark.slow(
    "chain: cp-beaumont cp-sat-range(8, 11)",
    "schedule: ilp-zero-bubble cp-sat objective=span-range(8, 11)",
    "types: mip-piper cp-sat semantics=paper objective=flush-range(8, 11)",
)
@pytest.mark.sweeps
@pytest.mark.parametrize("seeds", GROUPS, ids=str)
@pytest.mark.parametrize("method", ALL, ids=named)
def test_many_proofs_agree_with_enumeration(method: Method, seeds: range) -> None:
    for problem, start in cases(method, seeds):
        check(problem, method, start)


# ---- the same problem in other units, with other names, and better ones ----------------------------------

STEADY = [
    method
    for kind in KINDS
    for method in METHODS[kind]
    if not method.wider
    and method.solver in ("auto", "cp-sat", "highs")
    and method.options.get("objective") != "gpipe"
]
"""Every way of thinking once or twice; which problem each one gets follows from its place here."""


def same_but_scaled(problem: Problem, method: Method, time_power: int, memory_power: int) -> None:
    problem = in_fifteen_digits(problem)
    before = judged(problem, method)
    after = judged(scaled(problem, time_power, memory_power), method)
    assert not before.faults
    assert not after.faults, (time_power, memory_power, after.faults)
    assert after.outcome == before.outcome
    if before.value is not None and after.value is not None:
        assert math.isclose(after.value, before.value * 10.0**time_power, rel_tol=2e-6)
    if before.outcome == "optimal" and before.result is not None and after.result is not None:
        assert before.result.bound is not None
        assert after.result.bound is not None
        assert math.isclose(after.result.bound, before.result.bound * 10.0**time_power, rel_tol=2e-6)


def same_or_better(problem: Problem, method: Method) -> None:
    """More of anything never hurts, as the enumeration says, and as the method says."""
    before = judged(problem, method)
    for change, variant in better(problem):
        after = judged(variant, method)
        assert not after.faults, (change, after.faults)
        if before.outcome == "optimal":
            assert after.outcome != "infeasible", change
            if after.outcome == "optimal" and before.value is not None and after.value is not None:
                assert after.value <= before.value * (1 + 2e-6), change


@pytest.mark.sweeps("21", "72")
@pytest.mark.slow("30")
@pytest.mark.parametrize("place", range(0, len(STEADY), 3))
def test_units_do_not_matter(place: int) -> None:
    power = POWERS[1:][place % 4]
    same_but_scaled(nasty(STEADY[place].kind, 50 + place), STEADY[place], power, 0)
    same_but_scaled(nasty(STEADY[place].kind, 50 + place), STEADY[place], 0, power)


@pytest.mark.slow("latency: * highs *", "latency: * cp-sat *=2 *", "latency: * cp-sat *plain")
@pytest.mark.sweeps
@pytest.mark.parametrize("method", STEADY, ids=named)
def test_units_do_not_matter_to_many(method: Method) -> None:
    for seed in range(4):
        for power in (-9, 5):
            same_but_scaled(nasty(method.kind, 300 + seed), method, *((power, 0) if seed % 2 else (0, power)))


@pytest.mark.parametrize("place", range(1, len(STEADY), 3))
def test_names_and_their_order_do_not_matter(place: int) -> None:
    method = STEADY[place]
    problem = posed(method, 100 + place)
    again = renamed(problem, place)
    assert close(truth(again, method), truth(problem, method))
    check(again, method)


@pytest.mark.slow("schedule: ilp-zero-bubble cp-sat objective=span")
@pytest.mark.sweeps
@pytest.mark.parametrize("method", STEADY, ids=named)
def test_names_and_their_order_do_not_matter_to_many(method: Method) -> None:
    for seed in range(10):
        check(renamed(nasty(method.kind, 400 + seed), seed), method)


@pytest.mark.sweeps("14", "26")
@pytest.mark.parametrize("place", range(2, len(STEADY), 3))
def test_more_of_anything_never_hurts(place: int) -> None:
    same_or_better(nasty(STEADY[place].kind, 150 + place), STEADY[place])


@pytest.mark.slow
@pytest.mark.parametrize("method", STEADY, ids=named)
def test_more_of_anything_never_hurts_many(method: Method) -> None:
    for seed in range(5):
        same_or_better(nasty(method.kind, 500 + seed), method)


# ---- the enumerations and the generators themselves ------------------------------------------------------


def close(one: float | None, other: float | None) -> bool:
    """Up to the rounding of a few sums."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-12)


@pytest.mark.sweeps("levels", "training")
@pytest.mark.slow("schedule")
@pytest.mark.parametrize("kind", KINDS)
def test_enumerations_follow_the_units(kind: str) -> None:
    for seed in range(6):
        for method in METHODS[kind][:: max(1, len(METHODS[kind]) // 4)]:
            problem = in_fifteen_digits(posed(method, seed))
            best = truth(problem, method)
            assert close(truth(scaled(problem, 0, -7), method), best)
            assert close(truth(scaled(problem, 5, 3), method), None if best is None else best * 1e5)


@pytest.mark.sweeps("training")
@pytest.mark.slow("schedule")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_is_the_same_problem_which_a_file_can_hold(kind: str) -> None:
    for seed in range(30):
        problem = nasty(kind, seed)
        assert nasty(kind, seed) == problem
        assert problem_from_text(problem_to_text(problem)) == problem


@pytest.mark.slow("schedule", "training")
@pytest.mark.sweeps
@pytest.mark.parametrize("kind", KINDS)
def test_problems_are_as_nasty_as_promised(kind: str) -> None:
    """Otherwise agreement would say little."""
    problems = [nasty(kind, seed) for seed in range(60)]
    texts = [problem_to_text(problem) for problem in problems]
    method = next(method for method in METHODS[kind] if not method.wider)
    answers = [truth(problem, method) for problem in problems]
    assert sum(answer is None for answer in answers) >= 1
    assert sum(answer is not None for answer in answers) >= 25
    assert any(str(int(sentinel)) in text or repr(sentinel) in text for text in texts for sentinel in SENTINELS)
    assert any("1e-09" in text for text in texts)
    assert sum("0.1" in text for text in texts) >= 5
