"""What large-neighbourhood searches share: starts, cycles of runs on all threads, and when a value is good enough."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable

from ....instances.base.result import StartOutcome, Stop, WarmStart, relative_gap
from ....instances.placement.plan import PlacementPlan
from ...contract import Outcome, Request
from ...search import Incumbent

# Relative gap to a bound at which every search ends.
ENOUGH = 1e-9

# Finds an assignment, in a thread of its own.
Run = Callable[[], "list[int] | None"]


class LargeNeighbourhoodSearch(ABC):
    """With several threads each makes its own run; after a cycle their plans are offered to the incumbent."""

    def __init__(self, request: Request, incumbent: Incumbent, cycles: int) -> None:
        self.request = request
        self.incumbent = incumbent
        self.cycles = cycles
        self.rng = random.Random(request.limits.seed)
        self.warm_start = WarmStart()
        self._interrupted = False

    @abstractmethod
    def read(self, plan: PlacementPlan) -> list[int] | None:
        """The assignment of a warm start; None where it is not one that the search can start from."""

    @abstractmethod
    def take_starts(self) -> None:
        """Offer plans that are quick to make; set `cycles` to 0 where a search cannot improve on them."""

    @abstractmethod
    def run(self, cycle: int, thread: int, rng: random.Random) -> Run:
        """What one thread does in a cycle. It has to end soon after `ended` has become true."""

    @property
    def ended(self) -> bool:
        return self._interrupted or self.request.out_of_time()

    def outcome(self) -> Outcome:
        self._take_warm_start()
        self.take_starts()
        stop = Stop.COMPLETED
        for cycle in range(self.cycles):
            if self._good_enough():
                break
            if self.request.out_of_time():
                stop = Stop.TIME
                break
            self._cycle(cycle)
        messages = ["no start fits the memory"] if self.incumbent.best is None else []
        return self.incumbent.outcome(stop, *messages, warm_start=self.warm_start)

    def _good_enough(self) -> bool:
        """The value meets our own bound, or one on the board within the gap that was asked for."""
        value = self.incumbent.value
        bounds = [bound for bound in (self.incumbent.bound, self.request.board.bound) if bound is not None]
        gap = relative_gap(value, max(bounds)) if bounds else None
        return value == 0 or (gap is not None and gap <= max(self.request.limits.rel_gap, ENOUGH))

    def _take_warm_start(self) -> None:
        if self.request.warm_start is None:
            return
        start = self.read(self.request.warm_start)
        if start is None:
            self.warm_start = WarmStart(StartOutcome.REJECTED)
            return
        self.warm_start = WarmStart(StartOutcome.ACCEPTED, value=self.incumbent.value_of(start))
        self.incumbent.offer(start)

    def _cycle(self, cycle: int) -> None:
        """One run per thread; compiled annealing leaves Python alone meanwhile."""
        from concurrent.futures import ThreadPoolExecutor

        threads = self.request.limits.threads or 1
        runs = [self.run(cycle, thread, random.Random(self.rng.getrandbits(62))) for thread in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            tasks = [pool.submit(run) for run in runs]
            try:
                assignments = [task.result() for task in tasks]
            except BaseException:
                self._interrupted = True  # an interrupt: the threads see it at their next look at the clock
                raise
        for assignment in assignments:
            if assignment is not None:
                self.incumbent.offer(assignment)
