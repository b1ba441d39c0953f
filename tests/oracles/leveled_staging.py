"""Every tree of stages of a tiny staging problem on levels: costs by the referee, what fits decided exactly here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from oracles.staging import bytes_held, gathered

from pipeplan import LeveledPlan, LeveledStage, StagingProblem
from pipeplan.instances.base.amounts import fits
from pipeplan.instances.staging.referee import evaluate_leveled, verify_leveled


def best_leveled(problem: StagingProblem, flush: bool = False) -> tuple[float, LeveledPlan] | None:
    """The least time per micro-batch and a plan that takes it; None where no plan obeys all rules.

    `flush`: filling and draining the pipeline is part of the time.
    Loads and memory of a stage of level 1 depend on its own configurations and on the degrees alone, so its
    configurations are chosen stage by stage, with everything else fixed.
    """
    best: tuple[float, LeveledPlan] | None = None
    everything = tuple(range(len(problem.layers)))
    for stages in _divisions(problem, everything, len(problem.levels)):
        plan = _with_best_configurations(problem, LeveledPlan(stages))
        if plan is None or any(fault.rule != "memory" for fault in verify_leveled(problem, plan)):
            continue
        value = evaluate_leveled(problem, plan).time_per_micro_batch
        if flush:
            copies = list(_copies_of(plan.stages, 1))
            value *= (problem.micro_batches + sum(copies) - min(copies)) / problem.micro_batches
        if best is None or value < best[0]:
            best = (value, plan)
    return best


def _copies_of(stages: tuple[LeveledStage, ...], above: int) -> Iterator[int]:
    """Copies of each stage of level 1, on all levels."""
    for stage in stages:
        if stage.children:
            yield from _copies_of(stage.children, above * stage.data_parallel)
        else:
            yield above * stage.data_parallel


def _divisions(problem: StagingProblem, layers: tuple[int, ...], level: int) -> Iterator[tuple[LeveledStage, ...]]:
    """All ways to divide some layers into stages of a level, down to level 1, with a configuration that exists."""
    for parts in _ordered_parts(problem, layers):
        for shapes in itertools.product(*(list(_shapes(problem, part, level)) for part in parts)):
            used = sum(shape.data_parallel * shape.tensor_parallel for shape in shapes)
            if used <= problem.levels[level - 1].devices:
                yield shapes


def _shapes(problem: StagingProblem, part: tuple[int, ...], level: int) -> Iterator[LeveledStage]:
    ids = tuple(problem.layers[v].id for v in part)
    devices = problem.levels[level - 1].devices
    if level > 1:
        inside = list(_divisions(problem, part, level - 1))
        for d in range(1, devices + 1):
            yield from (LeveledStage(ids, d, children=children) for children in inside)
        return
    for t in range(1, devices + 1):
        ways = [problem.layers[v].configurations.get(t, ()) for v in part]
        if all(ways):
            first = {node_id: row[0].id for node_id, row in zip(ids, ways, strict=True)}
            yield from (LeveledStage(ids, d, t, first) for d in range(1, devices // t + 1))


def _ordered_parts(problem: StagingProblem, layers: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All sequences of parts in which no layer comes before what it reads."""
    if not layers:
        yield ()
    for size in range(1, len(layers) + 1):
        for part in itertools.combinations(layers, size):
            rest = tuple(v for v in layers if v not in part)
            if not any(u in rest for v in part for u in problem.predecessors[v]):
                for later in _ordered_parts(problem, rest):
                    yield (part, *later)


def _with_best_configurations(problem: StagingProblem, plan: LeveledPlan) -> LeveledPlan | None:
    """The fastest configurations that fit; None where a stage has none."""
    for number, leaf in enumerate(list(plan.leaves())):
        options = []
        for names in _choices(problem, leaf):
            changed = LeveledPlan(tuple(_changed(plan.stages, [number], names)))
            cost = evaluate_leveled(problem, changed).leaves[number]
            if _fits(problem, leaf, names, cost.in_flight, cost.copies):
                options.append((cost.load, len(options), changed))
        if not options:
            return None
        plan = min(options, key=lambda option: option[:2])[2]
    return plan


def _fits(
    problem: StagingProblem, leaf: LeveledStage, names: dict[int | str, str], in_flight: int, copies: int
) -> bool:
    rows = (
        (problem.layers[problem.index[v]].configurations[leaf.tensor_parallel], name) for v, name in names.items()
    )
    ways = (next(way for way in row if way.id == name) for row, name in rows)
    held = [bytes_held(way, in_flight, copies) for way in ways]
    return fits((*held, gathered(problem, copies, leaf.tensor_parallel)), problem.memory_bytes)


def _choices(problem: StagingProblem, leaf: LeveledStage) -> Iterator[dict[int | str, str]]:
    rows = [problem.layers[problem.index[v]].configurations[leaf.tensor_parallel] for v in leaf.nodes]
    for ways in itertools.product(*rows):
        yield {v: way.id for v, way in zip(leaf.nodes, ways, strict=True)}


def _changed(
    stages: tuple[LeveledStage, ...], countdown: list[int], names: dict[int | str, str]
) -> Iterator[LeveledStage]:
    """The same stages, the leaf that the countdown meets at 0 with other configurations."""
    for stage in stages:
        if stage.children:
            yield replace(stage, children=tuple(_changed(stage.children, countdown, names)))
        else:
            yield replace(stage, configurations=names) if countdown[0] == 0 else stage
            countdown[0] -= 1
