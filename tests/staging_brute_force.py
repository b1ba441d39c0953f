"""Every chain of stages of a tiny staging problem, judged by the referee: what all planners are measured against."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction

from pipeplan.instances.referee.staged import evaluate_stages, verify_stages
from pipeplan.instances.staged_plan import PlannedStage, StagedPlan
from pipeplan.instances.staging import StagingProblem

Cut = tuple[tuple[int, ...], int, int]
"""Layers of one stage, data-parallel degree, tensor-parallel degree."""
Choice = tuple[float, dict[int | str, str]]
"""Load of a stage and the configurations that give it."""


def best_stages(problem: StagingProblem, semantics: str = "paper") -> tuple[float, StagedPlan] | None:
    """The least time per micro-batch and a plan that takes it; None where no plan obeys all rules."""
    best: tuple[float, StagedPlan] | None = None
    known: dict[tuple[Cut, int], Choice | None] = {}
    for cuts in _chains(problem, frozenset(), problem.devices, problem.micro_batches):
        degrees = [d for _, d, _ in cuts]
        if problem.exact_batches and sum(degrees) != problem.micro_batches:
            continue
        if semantics == "reference" and any(problem.micro_batches % d for d in degrees):
            continue
        plan = _with_best_choices(problem, cuts, semantics, known)
        if plan is None:
            continue
        value = evaluate_stages(problem, plan, semantics).time_per_micro_batch
        if best is None or value < best[0]:
            assert not verify_stages(problem, plan, semantics)
            best = (value, plan)
    return best


def _chains(problem: StagingProblem, done: frozenset[int], devices: int, batches: int) -> Iterator[tuple[Cut, ...]]:
    """All chains of downsets with all degrees."""
    rest = [v for v in range(len(problem.layers)) if v not in done]
    if not rest:
        yield ()
        return
    for size in range(1, len(rest) + 1):
        for nodes in itertools.combinations(rest, size):
            now = done | set(nodes)
            if any(u not in now for v in nodes for u in problem.predecessors[v]):
                continue
            for t in range(1, devices + 1):
                if not all(problem.layers[v].configurations.get(t) for v in nodes):
                    continue
                for d in range(1, min(devices // t, batches) + 1):
                    for later in _chains(problem, now, devices - d * t, batches - d):
                        yield ((nodes, d, t), *later)


def _with_best_choices(
    problem: StagingProblem, cuts: tuple[Cut, ...], semantics: str, known: dict[tuple[Cut, int], Choice | None]
) -> StagedPlan | None:
    """Load and memory of a stage depend on its own choices and on the degrees alone: each stage chooses for itself."""
    stages = []
    for i, (nodes, d, t) in enumerate(cuts):
        key = (cuts[i], sum(later for _, later, _ in cuts[i:]))
        if key not in known:
            known[key] = _best_choice(problem, cuts, i, semantics)
        choice = known[key]
        if choice is None:
            return None
        stages.append(PlannedStage(tuple(problem.layers[v].id for v in nodes), d, t, choice[1]))
    return StagedPlan(tuple(stages))


def _best_choice(problem: StagingProblem, cuts: tuple[Cut, ...], i: int, semantics: str) -> Choice | None:
    """All choices of stage i, in a plan whose other stages choose anything; None where none fits."""
    best: Choice | None = None
    stages = [
        PlannedStage(tuple(problem.layers[v].id for v in nodes), d, t, next(_choices(problem, nodes, t)))
        for nodes, d, t in cuts
    ]
    for names in _choices(problem, cuts[i][0], cuts[i][2]):
        stages[i] = PlannedStage(stages[i].nodes, cuts[i][1], cuts[i][2], names)
        cost = evaluate_stages(problem, StagedPlan(tuple(stages)), semantics).stages[i]
        if not fits(problem, cuts[i][2], names, cost.in_flight, problem.memory_bytes):
            continue
        if best is None or cost.load < best[0]:
            best = (cost.load, names)
    return best


def fits(problem: StagingProblem, t: int, names: Mapping[int | str, str], in_flight: int, limit: float | None) -> bool:
    """Numbers are the decimals that they print as, and a hair too much is too much."""
    total = Fraction(0)
    for node_id, name in names.items():
        ways = problem.layers[problem.index[node_id]].configurations[t]
        way = next(way for way in ways if way.id == name)
        total += Fraction(repr(way.memory_per_batch)) * in_flight + Fraction(repr(way.memory_fixed))
    return limit is None or total <= Fraction(repr(limit))


def _choices(problem: StagingProblem, nodes: tuple[int, ...], t: int) -> Iterator[dict[int | str, str]]:
    ways = [[way.id for way in problem.layers[v].configurations[t]] for v in nodes]
    for ids in itertools.product(*ways):
        yield {problem.layers[v].id: name for v, name in zip(nodes, ids, strict=True)}
