"""Sequential pipelines over all downsets, by the usual memoised recursion.

This is Piper's search with the costs of this problem. A state is what is left to plan, the number of stages after it
(which decides what is in flight) and the devices left. The recursion shares only the prices with the search over the
decomposition, and tests hold that search against it over a row of operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...instances.base.checks import check_whole
from ...instances.base.errors import InputError
from ...instances.base.graph import closed_sets
from ...instances.base.result import Stop
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.series_parallel import Leaf, Parallel, Tree, decompose
from ..contract import FunctionPlanner, Outcome, Request
from ..placement.ideals import MOST_IDEALS
from ..registry import MAX_GRAPH_DOWNSETS
from ..search import OutOfTimeError, tick_of
from .configurations import Menu, menu
from .costs import Costs
from .planner import bounded, in_a_row, sizes_of, too_full, value_of
from .search import Decision, plan_of


def downsets(problem: GraphPipelineProblem, most: int) -> list[int] | None:
    """All sets of operators closed under predecessors; None: there are more than `most`."""
    sets = closed_sets([sum(1 << u for u in set(us)) for us in problem.predecessors], most)
    return None if sets is None else sorted(sets, key=lambda members: (members.bit_count(), members))


def count_downsets(problem: GraphPipelineProblem) -> int:
    """Number of downsets by the decomposition: a product over branches. It is a lower bound where parts of the graph
    are kept whole."""

    def count(tree: Tree) -> int:
        if isinstance(tree, Leaf):
            return 2
        numbers = [count(child) for child in tree.children]
        return math.prod(numbers) if isinstance(tree, Parallel) else sum(numbers) - len(numbers) + 1

    return count(decompose(len(problem.operators), problem.arcs))


@dataclass
class SequentialSearch:
    """The recursion for one micro-batch size."""

    problem: GraphPipelineProblem
    menu: Menu
    sets: list[int]
    tick: Callable[[], None] = lambda: None
    states: int = 0
    inside: bool = False
    """Does it plan in a memory so much smaller that what fits there is sure to fit? `Costs` says why."""
    _memo: dict[tuple[int, int, int], tuple[float, int, int]] = field(default_factory=dict)
    _prices: dict[int, list[tuple[int, float, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._costs = Costs(self.problem, self.menu, self.inside)
        self._inside: Mapping[int, list[int]] = {
            large: [small for small in self.sets if small != large and small & large == small]
            for large in self.sets
        }

    def best(self) -> tuple[float, list[Decision]] | None:
        """The least time per sample, and the stages from last to first."""
        left, devices, after = self.sets[-1], self.menu.devices, 0
        value = self._value(left, after, devices)
        if value == math.inf:
            return None
        decisions = []
        while left:
            _, rest, d = self._memo[left, after, devices]
            after += 1
            members = tuple(v for v in range(left.bit_length()) if (left & ~rest) >> v & 1)
            decisions.append(Decision(members, 0, d, self._in_flight(after)))
            left, devices = rest, devices - d
        return value, decisions

    def _in_flight(self, position: int) -> int:
        """Samples in flight of the stage at this position from the end."""
        return min(self.menu.mini_batch, position * self.menu.configurations[0].b)

    def _value(self, left: int, after: int, devices: int) -> float:
        if not left or not devices:
            return 0.0 if not left and not devices else math.inf
        key = left, after, devices
        if key in self._memo:
            return self._memo[key][0]
        self.tick()
        samples = self._in_flight(after + 1)
        best = (math.inf, 0, 0)
        for rest in self._inside[left]:
            for d, time, most in self._price(left & ~rest):
                if d <= devices and samples <= most and time < best[0]:
                    value = max(time, self._value(rest, after + 1, devices - d))
                    if value < best[0]:
                        best = value, rest, d
        self._memo[key] = best
        return best[0]

    def _price(self, members: int) -> list[tuple[int, float, int]]:
        """(devices, time per sample, most samples in flight) of a stage."""
        if members not in self._prices:
            prices = self._costs.price_set([v for v in range(members.bit_length()) if members >> v & 1])
            times, most = prices.time_per_sample[0].tolist(), prices.most_in_flight[0].tolist()
            entries = zip(self.menu.degrees, times, most, strict=True)
            self._prices[members] = [entry for entry in entries if entry[1] < math.inf and entry[2] > 0]
        return self._prices[members]


def plan_over_downsets(request: Request) -> Outcome:
    """Sequential stages over all downsets, as far as these can be listed."""
    problem, options, board = request.problem, request.options, request.board
    sizes = sizes_of(request)
    most = options[MAX_GRAPH_DOWNSETS.name]
    check_whole("option max_downsets", most, MOST_IDEALS)
    number = count_downsets(problem)
    sets = None if number > most else downsets(problem, most)
    if sets is None:
        found = f"have {number} downsets or more, over the limit of {most}"
        raise InputError("operators", found, "choose --planner graphpipe")
    stop = Stop.COMPLETED
    try:
        for b in sizes:
            best = _best(request, sets, b, board.value)
            if best is not None and (board.value is None or best[0] < board.value):
                board.post(best[1], best[0])
    except OutOfTimeError:
        stop = Stop.TIME
    return bounded(request, Outcome(stop, board.plan, board.value, model_size={"downsets": len(sets)}))


def _best(request: Request, sets: list[int], b: int, known: float | None) -> tuple[float, StageGraphPlan] | None:
    """The best plan with micro-batches of b samples, and its value; None: there is none, or `known` is better."""
    problem, options = request.problem, request.options
    choice = menu(problem, [b], 1, options.get("degrees", "divisors"))
    for inside in (False, True):  # the second time where memory has more digits than are counted
        answer = SequentialSearch(problem, choice, sets, tick_of(request), inside=inside).best()
        if answer is None:
            return None
        period, decisions = answer
        plan = in_a_row(plan_of(problem, choice, decisions, in_order=True))
        if not too_full(problem, plan):
            break
    value = value_of(problem, plan, options.get("objective", "iteration"), period, known)
    return None if value is None else (value, plan)


PLANNER = FunctionPlanner(plan_over_downsets)
