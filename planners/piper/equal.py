"""`equi`: equal groups of layers in a row, the same degrees for all; what people do by hand (specification, section 4).

Transformers are grouped by their layers of that name, everything before them goes into the first stage and everything
behind them into the last one, or into stages of their own. Other networks are cut in their topological order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...instances.result import Stop
from ...instances.staging.plan import PlannedStage, StagedPlan
from ...instances.staging.problem import Configuration, StagingProblem
from ...instances.staging.referee.stages import evaluate_stages, verify_stages
from ..contract import Outcome, Request
from ..placement.orders import in_turn
from .restriction import recomputes

TRANSFORMER = "ParallelTransformerLayer"


@dataclass(frozen=True)
class EqualPlanner:
    tensor_parallel: bool

    def plan(self, request: Request) -> Outcome:
        problem, board, semantics = request.problem, request.board, request.options.get("semantics", "paper")
        for plan in equal_plans(problem, semantics, self.tensor_parallel):
            if request.out_of_time():
                break
            if not verify_stages(problem, plan, semantics):
                value = evaluate_stages(problem, plan, semantics).time_per_micro_batch
                if board.value is None or value < board.value:
                    board.post(plan, value)
        stop = Stop.TIME if request.out_of_time() else Stop.COMPLETED
        messages = ("no equal stages fit",) if board.plan is None else ()
        return Outcome(stop, board.plan, board.value, messages=messages)


PLANNER = EqualPlanner(tensor_parallel=True)
NO_TENSOR_PARALLELISM = EqualPlanner(tensor_parallel=False)


def equal_plans(problem: StagingProblem, semantics: str, tensor_parallel: bool) -> Iterator[StagedPlan]:
    """Every grouping with every pair of degrees, with and without recomputation everywhere."""
    transformers = any(layer.name == TRANSFORMER for layer in problem.layers)
    groupings = _transformer_groups(problem) if transformers else _plain_groups(problem)
    first = problem.layers[0]
    degrees = [t for t in problem.degrees if t == 1 or (tensor_parallel and transformers)]
    for groups in groupings:
        for d in range(1, min(problem.devices, problem.micro_batches) // len(groups) + 1):
            if semantics == "reference" and problem.micro_batches % d:
                continue
            for t in degrees:
                if len(groups) * d * t <= problem.devices and first.configurations.get(t):
                    for again in (False, True):
                        plan = _plan(problem, groups, d, t, again)
                        if plan is not None:
                            yield plan


def _plan(
    problem: StagingProblem, groups: Sequence[Sequence[int]], d: int, t: int, again: bool
) -> StagedPlan | None:
    """None where a layer cannot be run on t devices in this way."""
    stages = []
    for group in groups:
        chosen: dict[int | str, str] = {}
        for i in group:
            way = _way(problem.layers[i].configurations.get(t, ()), again)
            if way is None:
                return None
            chosen[problem.layers[i].id] = way.id
        stages.append(PlannedStage(tuple(chosen), d, t, chosen))
    return StagedPlan(tuple(stages))


def _way(ways: Sequence[Configuration], again: bool) -> Configuration | None:
    """The configuration with or without recomputation; where there is only one kind, that one."""
    fitting = [way for way in ways if recomputes(way) == again]
    return next(iter(fitting or ways), None)


def _shares(items: Sequence[int], groups: int) -> list[list[int]]:
    """In a row, of equal sizes; the last ones get one more where it does not divide."""
    size, more = divmod(len(items), groups)
    shares, at = [], 0
    for g in range(groups):
        end = at + size + (g >= groups - more)
        shares.append(list(items[at:end]))
        at = end
    return shares


def _plain_groups(problem: StagingProblem) -> Iterator[list[list[int]]]:
    order = last_in_first_out(problem)
    for stages in range(1, min(problem.devices, len(order)) + 1):
        yield _shares(order, stages)


def _transformer_groups(problem: StagingProblem) -> Iterator[list[list[int]]]:
    order = last_in_first_out(problem)
    middle = [i for i in order if problem.layers[i].name == TRANSFORMER]
    before = _reaching(problem, middle)
    initial = [i for i in order if i in before and problem.layers[i].name != TRANSFORMER]
    final = [i for i in order if i not in before and problem.layers[i].name != TRANSFORMER]
    for separate in (0, 1):
        for stages in range(1 + 2 * separate, min(problem.devices, len(middle) + 2 * separate) + 1):
            groups = _shares(middle, stages - 2 * separate)
            if separate:
                groups = [initial, *groups, final]
            else:
                groups[0] = initial + groups[0]
                groups[-1] = groups[-1] + final
            yield [group for group in groups if group]


def _reaching(problem: StagingProblem, targets: Sequence[int]) -> set[int]:
    """Layers from which a way leads to one of the targets, and these."""
    reached, waiting = set(targets), list(targets)
    while waiting:
        for u in problem.predecessors[waiting.pop()]:
            if u not in reached:
                reached.add(u)
                waiting.append(u)
    return reached


def last_in_first_out(problem: StagingProblem) -> list[int]:
    """Kahn's topological order with a stack, sources and successors in the order of the input, the last one first."""
    return in_turn(problem.successors, list.pop)
