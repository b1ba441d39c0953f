"""`dp-piper` and what the paper compares it with: the same program with some choices taken away.

The bound is a proof where knapsacks are solved exactly. With the published greedy the plan is what the published
program finds; its bound comes from relaxed knapsacks and holds for all choices. Bounds of a restricted planner hold for
its restriction alone, so they are not reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...instances.base.errors import UsageError
from ...instances.base.result import Stop, met
from ...instances.registry import evaluation_of, violations_of
from ...instances.staging.leveled_plan import LeveledPlan
from ...instances.staging.plan import StagedPlan
from ...instances.staging.problem import FLUSH, StagingProblem, check_question
from ..contract import Outcome, Request
from ..referee import rules_of
from ..registry import TABLE
from ..search import OutOfTimeError, tick_of
from .degree_table import check_size, check_table, table_of, write_table
from .equal import recomputes
from .extended import is_extended, plan_extended
from .flushes import flushed_value, least_flushed
from .hierarchy import downsets, plan_levels
from .level_decisions import LevelDecisions
from .memory import ROUNDED_MEMORY, StagingMemory, whole_memory
from .model import Restriction, model_of
from .quick_trees import best_quick_tree
from .search import Found, Search, Step, TooManySumsError
from .tables import TooManyPairsError


@dataclass(frozen=True)
class PiperPlanner:
    restriction: Restriction | None = None
    """The choices that are left; None: the program decides over all of them, and its bounds are proofs."""

    def plan(self, request: Request) -> Outcome:
        check_question(request.problem, request.options)
        if request.problem.levels:
            _refuse_table(request, "devices within devices")
            flush = request.options.get("objective") == FLUSH
            return plan_flushed_levels(request) if flush else plan_with_levels(request)
        if is_extended(request.problem, request.options):
            _refuse_table(request, "flushes and several types of devices")
            return plan_extended(request)
        return _Run(self.restriction, request).outcome()


def _refuse_table(request: Request, what: str) -> None:
    if request.options.get(TABLE.name) is not None:
        raise UsageError(
            f"--{TABLE.name} is for one level, one type of device and throughput: with {what} drop it."
        )


PLANNER = PiperPlanner()
NO_DATA_PARALLELISM = PiperPlanner(Restriction(replicas=lambda d: d == 1))
NO_TENSOR_PARALLELISM = PiperPlanner(Restriction(allowed=lambda degree, way: degree == 1))
NO_RECOMPUTATION = PiperPlanner(Restriction(allowed=lambda degree, way: not recomputes(way)))


class _Run:
    def __init__(self, restriction: Restriction | None, request: Request) -> None:
        self.restriction, self.request = restriction, request
        self._tick = tick_of(request)
        self.plan: StagedPlan | None = None
        self.value: float | None = None
        self.bound: float | None = None
        self.search: Search | None = None
        self.messages: tuple[str, ...] = ()

    def outcome(self) -> Outcome:
        try:
            stop = self._solve()
        except OutOfTimeError:
            stop = Stop.TIME
        except TooManyPairsError:
            return Outcome(Stop.MEMORY, messages=("too many stages between downsets for the tables",))
        except TooManySumsError:
            message = "too many sums of degrees for a plan of exactly N micro-batches; plan for at most N"
            return Outcome(Stop.MEMORY, messages=(message,))
        return self._answer(stop)

    def _solve(self) -> Stop:
        self._tick()
        path = self.request.options.get(TABLE.name)
        if path is not None:
            check_table(self.request.problem, path)
        model = model_of(self.request.problem, self.request.options, self.restriction or Restriction())
        exact = self.request.options.get("knapsack", "exact") == "exact"
        if path is not None:
            check_size(model)
        self.search = Search(model, exact, self._tick)
        answer = self.search.best(self._hear)
        if answer is None:
            return Stop.INFEASIBLE if self.restriction is None else Stop.COMPLETED
        self._hear(answer[0], self.search.bound, answer[1])
        if self.value is None or self.value > answer[0]:  # the best plan does not fit: see `StagingMemory`
            self._again(Search(model.inside(), exact, self._tick))
        if path is not None:
            write_table(table_of(self.search), path)
        return Stop.COMPLETED

    def _again(self, search: Search) -> None:
        """Search in a memory in which rounding cannot make anything fit. The bound stays."""
        self.messages = (ROUNDED_MEMORY,)
        answer = search.best(lambda value, _, steps: self._take(search, value, steps))
        if answer is not None:
            self._take(search, *answer)

    def _hear(self, value: float, bound: float, steps: list[Step]) -> None:
        assert self.search is not None
        self.bound = bound if self.restriction is None else None
        self._take(self.search, value, steps)

    def _take(self, search: Search, value: float, steps: list[Step]) -> None:
        """Post the value and the bound, and the plan only where it is better and fits."""
        plan = None
        if self.value is None or value < self.value:
            plan = search.plan(steps)
            model = search.model
            if model.memory.exact or not violations_of(model.problem, plan, semantics=model.semantics):
                self.value, self.plan = value, plan
            else:
                plan = None
        self.request.board.post(plan, value, self.bound, nodes=search.decisions)

    def _answer(self, stop: Stop) -> Outcome:
        if self.search is None:
            return Outcome(stop)
        knapsacks = "exact" if self.search.exact else "relaxed"
        downsets = self.search.model.downsets
        checks = (f"the dynamic program decided over all {downsets} downsets, with {knapsacks} knapsacks",)
        if self.plan is None:
            return Outcome(stop, bound=self.bound, messages=self.messages, checks=checks)
        if met(self.value, self.bound):
            stop = Stop.PROVEN
        table = self.search.tables.table
        size = {
            "downsets": self.search.model.downsets,
            "stages": len(table.pair_source) * table.base.shape[1],
            "knapsacks": self.search.tables.extras,
            "decisions": self.search.decisions,
        }
        return Outcome(
            stop, self.plan, self.value, self.bound, model_size=size, messages=self.messages, checks=checks
        )


# `dp-piper` for problems with levels: the nested program, its options checked, within the limits of a request.

CHECKS = ("the dynamic program decided over all downsets, level by level",)


def plan_with_levels(request: Request) -> Outcome:
    """The best tree of stages, proven; where time runs out the best so far, at first one that needs no search."""
    problem, variant, bound = request.problem, request.options.get("hierarchy", "precise"), None
    messages: tuple[str, ...] = ()
    tick, board = tick_of(request), request.board

    def hear(found: Found[LeveledPlan], low: float) -> None:
        """A better plan on the way, if it fits with all digits."""
        fits = not violations_of(problem, found.plan, hierarchy=variant)
        board.post(found.plan if fits else None, found.load if fits else None, low)

    quick = best_quick_tree(problem, rules_of(problem, {"hierarchy": variant}), request.out_of_time)
    if quick is not None:
        board.post(quick, evaluation_of(problem, quick, hierarchy=variant).time_per_micro_batch)
    try:
        found = plan_levels(problem, variant, tick, hear=hear)
        if found is None:
            return Outcome(Stop.INFEASIBLE, checks=CHECKS)
        bound = found.load
        if violations_of(problem, found.plan, hierarchy=variant):
            messages = (ROUNDED_MEMORY,)
            found = plan_levels(problem, variant, tick, inside=True)
    except OutOfTimeError:
        return Outcome(Stop.TIME, board.plan, board.value, board.bound if bound is None else bound)
    if found is None:
        return Outcome(Stop.COMPLETED, bound=bound, messages=messages, checks=CHECKS)
    value = found.load
    request.board.post(found.plan, value, bound)
    stop = Stop.COMPLETED if messages else Stop.PROVEN
    return Outcome(stop, found.plan, value, bound, messages=messages, checks=CHECKS)


def plan_flushed_levels(request: Request) -> Outcome:
    """The best tree of stages with a flush behind every batch, proven; the best until then where time runs out."""
    problem, board, tick = request.problem, request.board, tick_of(request)
    if problem.exact_batches:
        raise UsageError("--objective flush plans trees for at most --batch replicas; drop --option exact-batches.")

    def post(found: Found[LeveledPlan], low: float | None) -> None:
        fits = not violations_of(problem, found.plan)
        board.post(found.plan if fits else None, flushed_value(problem, found) if fits else None, low)

    def best(memory: StagingMemory, bounds: bool) -> Found[LeveledPlan] | None:
        least = 0.0

        def hear(found: Found[LeveledPlan], low: float) -> None:
            nonlocal least
            least = low
            post(found, low if bounds else None)

        search = LevelDecisions(problem, downsets(problem), memory, tick)
        fastest = search.best(hear)  # a flush only adds to the largest load, so that bounds on it hold here, too
        if fastest is None:
            return None
        numbers = _copies(problem) if problem.replication else {1}
        return least_flushed(problem, search.decide, fastest, least, numbers, hear)

    messages: tuple[str, ...] = ()
    try:
        memory = whole_memory(problem, problem.devices)
        found = best(memory, bounds=True)
        if found is None:
            return Outcome(Stop.INFEASIBLE, checks=CHECKS)
        if violations_of(problem, found.plan):
            messages = (ROUNDED_MEMORY,)
            best(memory.inside(), bounds=False)
    except OutOfTimeError:
        return Outcome(Stop.TIME, board.plan, board.value, board.bound)
    stop = Stop.PROVEN if met(board.value, board.bound) else Stop.COMPLETED
    return Outcome(stop, board.plan, board.value, board.bound, messages=messages, checks=CHECKS)


def _copies(problem: StagingProblem) -> set[int]:
    """Numbers of copies that a stage may have: so many on each level."""
    numbers = {1}
    for level in problem.levels:
        numbers = {above * d for above in numbers for d in range(1, level.devices + 1)}
    return {number for number in numbers if number <= problem.micro_batches}
