"""What both large-neighbourhood searches do alike: starts, cycles of runs, and when they stop."""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Event
from time import sleep

import pytest

from pipeplan.instances.base.result import StartOutcome, Stop
from pipeplan.instances.placement.plan import PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.planners.contract import Board, Outcome, Request
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.placement.annealing import LargeNeighbourhoodSearch, Run
from pipeplan.planners.search import Incumbent

PROBLEM = PlacementProblem((Node("only", 5.0, 9.0),), (), accelerators=1, cpus=0)
PLAN = PlacementPlan.from_assignment(PROBLEM, {"only": 0})


def numbers(request: Request) -> Incumbent:
    """An assignment is one number, which is its value; odd ones break a rule."""
    return Incumbent(request, lambda a: float(a[0]), lambda a: a[0] % 2 == 0, lambda a: PLAN, lambda: 4.0)


class Search(LargeNeighbourhoodSearch):
    """Starts at 20; `found` tells what the run of a cycle and a thread finds."""

    def __init__(self, request: Request, found: Callable[[int, int], int], warm: int | None = None) -> None:
        super().__init__(request, numbers(request), cycles=6)
        self.found, self.warm = found, warm
        self.runs: list[tuple[int, int]] = []

    def read(self, plan: PlacementPlan) -> list[int] | None:
        return None if self.warm is None else [self.warm]

    def take_starts(self) -> None:
        self.incumbent.offer([20])

    def run(self, cycle: int, thread: int, rng: random.Random) -> Run:
        self.runs.append((cycle, thread))
        return lambda: [self.found(cycle, thread)]


def request(warm: bool = False, board: Board | None = None, **limits: float) -> Request:
    return Request(
        PROBLEM, limits=SolveOptions(**limits), warm_start=PLAN if warm else None, board=board or Board()
    )  # type: ignore[arg-type]


def falling(cycle: int, thread: int) -> int:
    """The second thread is better by 2; its values are 16, 14, 12, ..."""
    return 18 - 2 * (cycle + thread)


def test_every_thread_runs_in_every_cycle_and_the_best_counts() -> None:
    search = Search(request(threads=2), falling)
    outcome = search.outcome()
    assert search.runs == [(cycle, thread) for cycle in range(6) for thread in range(2)]
    assert (outcome.stop, outcome.claimed, outcome.bound) == (Stop.COMPLETED, 6.0, 4.0)


def test_what_breaks_a_rule_never_counts() -> None:
    assert Search(request(), lambda cycle, thread: 5).outcome().claimed == 20


def test_it_ends_once_the_bound_is_met() -> None:
    search = Search(request(), lambda cycle, thread: 4)
    assert search.outcome().stop == Stop.PROVEN
    assert search.runs == [(0, 0)]


def test_a_bound_of_somebody_else_and_a_gap_end_it_too() -> None:
    """12 is within 20 % of 10."""
    board = Board(bound=10.0)
    search = Search(request(board=board, rel_gap=0.2), falling)
    outcome = search.outcome()
    assert (outcome.claimed, outcome.stop) == (12.0, Stop.COMPLETED)
    assert search.runs[-1] == (3, 0)


def test_no_time_means_the_starts_alone() -> None:
    search = Search(request(time_limit_s=0.0), falling)
    assert (search.outcome().stop, search.runs) == (Stop.TIME, [])


@pytest.mark.parametrize(("warm", "start_outcome"), [(10, StartOutcome.ACCEPTED), (None, StartOutcome.REJECTED)])
def test_a_warm_start_counts_where_the_search_can_read_it(warm: int | None, start_outcome: StartOutcome) -> None:
    outcome = Search(request(warm=True), lambda cycle, thread: 30, warm).outcome()
    assert outcome.warm_start.outcome == start_outcome
    assert outcome.warm_start.value == (None if warm is None else 10.0)
    assert outcome.claimed == (20.0 if warm is None else 10.0)


@pytest.mark.timing
def test_an_interrupt_ends_the_runs_of_other_threads() -> None:
    """One thread raises, the other looks whether the search has ended."""
    stopped = Event()

    def found(cycle: int, thread: int) -> int:
        if thread == 0:
            raise KeyboardInterrupt
        for _ in range(10_000):
            if search.ended:
                stopped.set()
                break
            sleep(0.001)
        return 20

    search = Search(request(threads=2), found)
    with pytest.raises(KeyboardInterrupt):
        search.outcome()
    assert stopped.is_set()


def test_without_anything_that_fits_there_is_a_message_and_a_bound() -> None:
    class Hopeless(Search):
        def take_starts(self) -> None:
            self.cycles = 0

    assert Hopeless(request(), falling).outcome() == Outcome(
        Stop.COMPLETED, bound=4.0, messages=("no start fits the memory",)
    )
