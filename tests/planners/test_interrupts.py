"""Whenever an interrupt comes, no bound is above the optimum, and only what is optimal is called so.

All methods that prove anything are interrupted: searches with a heap or a stack of their own, and those that ask
solvers in other processes. The moments are lines of the searches' modules, spread over the whole run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from interrupted import Lines
from oracles.truths import METHODS, Method, faults
from problems.nasty import KINDS, nasty

from pipeplan import PipeplanError, Result, Stop
from pipeplan.instances.registry import Problem
from pipeplan.planners.search import OpenItems

ALL = [method for kind in KINDS for method in METHODS[kind]]
OWN = [method for method in ALL if method.planner]
"""The searches of this house, without a solver: these lose what they do not keep."""
FIRST = {method.planner: method for method in reversed(OWN)}


def named(method: Method) -> str:
    return f"{method.kind}: {method.name}"


def posed(method: Method, seed: int) -> Problem:
    problem: Problem = nasty(method.kind, seed)
    return problem


def moments(lines: int, count: int, draw: random.Random) -> Iterator[int]:
    """One in each of so many equal parts of the run."""
    for part in range(count):
        yield 1 + int(lines * (part + draw.random()) / count)


def interrupted(problem: Problem, method: Method, at: int) -> Result | None:
    """The result of a run that is interrupted there; None: there was nothing yet, or the run was over before."""
    lines = Lines(at)
    try:
        result = lines.of(lambda: method.solve(problem, None))
    except KeyboardInterrupt:
        return None
    return result if lines.came else None


def check(method: Method, seed: int, count: int) -> int:
    """Number of results of interrupted runs."""
    problem, whole = posed(method, seed), Lines()
    try:
        whole.of(lambda: method.solve(problem, None))
    except PipeplanError:
        return 0
    results = 0
    for at in moments(whole.count, count, random.Random(f"{method.name} {seed}")):
        result = interrupted(problem, method, at)
        if result is not None:
            results += 1
            assert not list(faults(problem, method, result)), (named(method), seed, at, whole.count)
            assert result.stop != Stop.ERROR
    return results


@pytest.mark.parametrize("method", FIRST.values(), ids=named)
def test_an_interrupt_leaves_no_false_bound(method: Method) -> None:
    assert sum(check(method, seed, 3) for seed in range(2)), "this test looks at nothing"


@pytest.mark.sweeps
@pytest.mark.parametrize("method", [method for method in OWN if method not in FIRST.values()], ids=named)
def test_no_method_of_ours_has_a_false_bound_after_an_interrupt(method: Method) -> None:
    check(method, 2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(2, 5), range(5, 9), range(9, 15)], ids=str)
@pytest.mark.parametrize("method", OWN, ids=named)
def test_many_interrupts_leave_no_false_bound(method: Method, seeds: range) -> None:
    for seed in seeds:
        check(method, seed, 15)


@pytest.mark.slow
@pytest.mark.parametrize("method", [method for method in ALL if method.formulation], ids=named)
def test_interrupted_runs_of_solvers_leave_no_false_bound(method: Method) -> None:
    check(method, 3, 4)


# ---- open items --------------------------------------------------------------------------------------------
# Items of a best-first search count until they are dealt with, whenever an interrupt comes.


def test_no_interrupt_between_two_lines_loses_an_item() -> None:
    """Each item that is dealt with makes the bound 1 larger, so that what is open is never below what was done."""
    for at in range(1, 60):
        items, done = OpenItems([(float(bound),) for bound in range(5)]), -1.0
        lines = Lines(at)

        def work(items: OpenItems[tuple[float]] = items) -> None:
            nonlocal done
            for (bound,) in items:
                done = bound - 1  # all before this one are dealt with

        try:
            lines.of(work)
        except KeyboardInterrupt:
            assert items.least <= done + 2
        if not lines.came:
            break
    assert at > 20, "the loop has more lines than this"
