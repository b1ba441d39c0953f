"""Every chain of stages of a tiny staging problem on every choice of device types, with or without a flush."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from staging_brute_force import fits

from pipeplan.instances.referee.staged import evaluate_stages, verify_stages
from pipeplan.instances.staged_plan import PlannedStage, StagedPlan
from pipeplan.instances.staging import StagingProblem


class Cut(NamedTuple):
    """A stage without its configurations."""

    nodes: tuple[int, ...]
    replicas: int
    degree: int
    kind: str | None


def best_extended(problem: StagingProblem, semantics: str = "paper", flush: bool = False) -> float | None:
    """The least time per micro-batch; None where no plan obeys the rules. The referee judges every plan."""
    kinds = [kind.name for kind in problem.device_types] or [None]
    values = []
    for cuts in _chains(problem, frozenset(), problem.devices, problem.micro_batches, kinds):
        plan = _with_best_choices(problem, cuts, semantics)
        if plan is not None and not verify_stages(problem, plan, semantics):
            value = evaluate_stages(problem, plan, semantics).time_per_micro_batch
            stages, batches = len(cuts), problem.micro_batches
            values.append(value * (batches + stages - 1) / batches if flush else value)
    return min(values, default=None)


def _chains(
    problem: StagingProblem, done: frozenset[int], devices: int, batches: int, kinds: list[str | None]
) -> Iterator[tuple[Cut, ...]]:
    """All chains of downsets, with all degrees and types; how many there are of a type is for the referee to say."""
    rest = [v for v in range(len(problem.layers)) if v not in done]
    if not rest:
        yield ()
    for size in range(1, len(rest) + 1):
        for nodes in itertools.combinations(rest, size):
            now = done | set(nodes)
            if any(u not in now for v in nodes for u in problem.predecessors[v]):
                continue
            for t in range(1, devices + 1):
                if all(problem.layers[v].configurations.get(t) for v in nodes):
                    for d, kind in itertools.product(range(1, min(devices // t, batches) + 1), kinds):
                        for later in _chains(problem, now, devices - d * t, batches - d, kinds):
                            yield (Cut(nodes, d, t, kind), *later)


def _with_best_choices(problem: StagingProblem, cuts: tuple[Cut, ...], semantics: str) -> StagedPlan | None:
    """Loads and memory of a stage depend on its own configurations alone: each stage takes the fastest that fit."""
    stages = [_planned(problem, cut, next(_choices(problem, cut))) for cut in cuts]
    for number, cut in enumerate(cuts):
        limit = next((kind.memory_bytes for kind in problem.device_types if kind.name == cut.kind), None)
        limit = limit if problem.device_types else problem.memory_bytes
        best: tuple[float, int, PlannedStage] | None = None
        for position, names in enumerate(_choices(problem, cut)):
            stages[number] = _planned(problem, cut, names)
            cost = evaluate_stages(problem, StagedPlan(tuple(stages)), semantics).stages[number]
            enough = fits(problem, cut.degree, names, cost.in_flight, limit)
            if enough and (best is None or (cost.load, position) < best[:2]):
                best = (cost.load, position, stages[number])
        if best is None:
            return None
        stages[number] = best[2]
    return StagedPlan(tuple(stages))


def _planned(problem: StagingProblem, cut: Cut, names: dict[int | str, str]) -> PlannedStage:
    ids = tuple(problem.layers[v].id for v in cut.nodes)
    return PlannedStage(ids, cut.replicas, cut.degree, names, cut.kind)


def _choices(problem: StagingProblem, cut: Cut) -> Iterator[dict[int | str, str]]:
    ways = [[way.id for way in problem.layers[v].configurations[cut.degree]] for v in cut.nodes]
    for ids in itertools.product(*ways):
        yield {problem.layers[v].id: name for v, name in zip(cut.nodes, ids, strict=True)}
