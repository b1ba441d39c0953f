"""Large-neighbourhood search: starts, cycles of runs and when it stops, for both searches."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import sleep
from typing import Any

import pytest

from pipeplan import Node, PlacementPlan, PlacementProblem, SolveOptions, StartOutcome, Stop
from pipeplan.planners.contract import Board, Outcome, Request
from pipeplan.planners.placement.annealing import PLANNER, LargeNeighbourhoodSearch, Run
from pipeplan.planners.search import Incumbent

PROBLEM = PlacementProblem((Node("only", 5.0, 9.0),), (), accelerators=1, cpus=0)
PLAN = PlacementPlan.from_assignment(PROBLEM, {"only": 0})


class Search(LargeNeighbourhoodSearch):
    """An assignment is one number, which is its value; odd ones break a rule. Starts at 20; `found` tells what the run
    of a cycle and a thread finds."""

    def __init__(self, request: Request, found: Callable[[int, int], int], warm: int | None = None) -> None:
        numbers = Incumbent(request, lambda a: float(a[0]), lambda a: a[0] % 2 == 0, lambda a: PLAN, lambda: 4.0)
        super().__init__(request, numbers, cycles=6)
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
    asked = SolveOptions(**limits)  # type: ignore[arg-type]
    return Request(PROBLEM, limits=asked, warm_start=PLAN if warm else None, board=board or Board())


def falling(cycle: int, thread: int) -> int:
    """The second thread is better by 2; its values are 16, 14, 12, ..."""
    return 18 - 2 * (cycle + thread)


def test_every_thread_runs_in_every_cycle_and_the_best_counts() -> None:
    search = Search(request(threads=2), falling)
    outcome = search.outcome()
    assert search.runs == [(cycle, thread) for cycle in range(6) for thread in range(2)]
    assert (outcome.stop, outcome.claimed, outcome.bound) == (Stop.COMPLETED, 6.0, 4.0)


@pytest.mark.parametrize(("limits", "bound", "found", "claimed", "stop", "runs"), [
    ({}, None, lambda cycle, thread: 5, 20, Stop.COMPLETED, 6),  # what breaks a rule never counts
    ({}, None, lambda cycle, thread: 4, 4, Stop.PROVEN, 1),  # the bound is met
    ({"rel_gap": 0.2}, 10.0, falling, 12, Stop.COMPLETED, 4),  # 12 is within 20 % of somebody else's 10
    ({"time_limit_s": 0.0}, None, falling, 20, Stop.TIME, 0),  # the starts alone
])  # fmt: skip
def test_when_it_ends(
    limits: dict[str, float],
    bound: float | None,
    found: Callable[[int, int], int],
    claimed: float,
    stop: Stop,
    runs: int,
) -> None:
    search = Search(request(board=Board(bound=bound), **limits), found)
    outcome = search.outcome()
    assert (outcome.claimed, outcome.stop, len(search.runs)) == (claimed, stop, runs)


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


def test_an_interrupt_between_two_threads_ends_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the pool waits for a thread that goes on as if nothing had happened."""
    stopped, submit = Event(), ThreadPoolExecutor.submit

    def found(cycle: int, thread: int) -> int:
        while not search.ended:
            sleep(0.001)
        stopped.set()
        return 20

    def interrupted(pool: ThreadPoolExecutor, *task: Any) -> Any:
        if pool._threads:
            raise KeyboardInterrupt
        return submit(pool, *task)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    search = Search(request(threads=2), found)
    with pytest.raises(KeyboardInterrupt):
        search.outcome()
    assert stopped.is_set()


def test_without_anything_that_fits_there_is_a_message_and_a_bound() -> None:
    class Hopeless(Search):
        def take_starts(self) -> None:
            self.cycles = 0

    nothing = Outcome(Stop.COMPLETED, bound=4.0, messages=("no start fits the memory",))
    assert Hopeless(request(), falling).outcome() == nothing


# ---- the loop, and the search over devices of groups ------------------------------------------------------


def network(layers: int = 60) -> PlacementProblem:
    """A long network with side branches, on three accelerators and a CPU."""
    nodes = tuple(Node(i, 1 + i % 4, 7, size_bytes=1, transfer_time=float(i < layers - 2)) for i in range(layers))
    edges = [(i, i + 2) for i in range(layers - 2)] + [(i, i + 5) for i in range(0, layers - 5, 7)]
    return PlacementProblem(nodes, tuple(edges), accelerators=3, cpus=1, memory_bytes=layers / 2)


def search(warm: PlacementPlan | None = None, **limits: float) -> Outcome:
    options = {"non_contiguous": True, "cycles": 3, "steps": 20_000}
    return PLANNER.plan(Request(network(), options, SolveOptions(**limits), warm))  # type: ignore[arg-type]


def test_runs_repeat_themselves_and_a_warm_start_is_never_lost() -> None:
    best, same = search(seed=3), search(seed=3)
    assert (best.plan, best.claimed) == (same.plan, same.claimed)
    again = search(best.plan, time_limit_s=0.0)  # type: ignore[arg-type]
    assert (again.stop, again.warm_start.outcome) == (Stop.TIME, StartOutcome.ACCEPTED)
    assert again.claimed <= (best.claimed or 0.0)


def test_a_warm_start_that_exceeds_the_memory_is_refused() -> None:
    crowded = PlacementPlan.from_assignment(network(), {node.id: 0 for node in network().nodes})
    assert search(crowded).warm_start.outcome == StartOutcome.REJECTED
