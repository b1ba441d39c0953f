"""All stage graphs of a tiny problem, one by one, from the definitions: no code is shared with what it checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, product

from pipeplan import GraphPipelineProblem, GraphStage, Link, StageGraphPlan
from pipeplan.instances.base.amounts import as_written, fits
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph, verify_stage_graph
from pipeplan.instances.graph_pipeline.series_parallel import Leaf, Parallel, Series, Tree, decompose, operators

Stage = frozenset[int]


def all_vertices(problem: GraphPipelineProblem) -> Stage:
    return frozenset(range(len(problem.operators)))


def paths(problem: GraphPipelineProblem) -> set[tuple[int, int]]:
    pairs = set(problem.arcs)
    for middle in range(len(problem.operators)):
        into = [u for u, v in pairs if v == middle]
        pairs |= {(u, w) for v, w in list(pairs) if v == middle for u in into}
    return pairs


def convex_sets(problem: GraphPipelineProblem) -> set[Stage]:
    everything, before = sorted(all_vertices(problem)), paths(problem)
    found = set()
    for size in range(1, len(everything) + 1):
        for members in map(frozenset, combinations(everything, size)):
            outside = set(everything) - members
            if not any(
                any((u, w) in before for u in members) and any((w, v) in before for v in members) for w in outside
            ):
                found.add(members)
    return found


def tree_sets(problem: GraphPipelineProblem, free_joins: bool = True) -> set[Stage]:
    """Leaves, runs of series children, choices of parallel children, and ends of a branch with what follows it."""
    return set(_tree_sets(decompose(len(problem.operators), problem.arcs), free_joins))


def _tree_sets(tree: Tree, free_joins: bool) -> Iterator[Stage]:
    if isinstance(tree, Leaf):
        yield frozenset(tree.operators)
        return
    for child in tree.children:
        yield from _tree_sets(child, free_joins)
    parts = [frozenset(operators(child)) for child in tree.children]
    if isinstance(tree, Parallel):
        for size in range(1, len(parts) + 1):
            yield from (frozenset().union(*chosen) for chosen in combinations(parts, size))
        return
    for first, last in combinations(range(len(parts) + 1), 2):
        yield frozenset().union(*parts[first:last])
        before = tree.children[first - 1] if first and free_joins else None
        if isinstance(before, Parallel):
            for branch in before.children:
                row = branch.children if isinstance(branch, Series) else (branch,)
                for cut in range(len(row)):
                    end = [frozenset(operators(child)) for child in row[cut:]]
                    yield frozenset().union(*end, *parts[first:last])


def partitions(left: Stage, family: list[Stage]) -> Iterator[list[Stage]]:
    if not left:
        yield []
        return
    first = min(left)
    for members in family:
        if first in members and members <= left:
            for rest in partitions(left - members, family):
                yield [members, *rest]


def heights(problem: GraphPipelineProblem, stages: list[Stage]) -> list[int] | None:
    """Stages on the longest way to an end; None where stages wait for each other."""
    owner = {v: n for n, stage in enumerate(stages) for v in stage}
    after = [{owner[v] for u, v in problem.arcs if u in stage} - {n} for n, stage in enumerate(stages)]
    height = [0] * len(stages)
    for _ in stages:
        for n in range(len(stages)):
            height[n] = 1 + max((height[m] for m in after[n]), default=0)
    settled = all(height[n] == 1 + max((height[m] for m in after[n]), default=0) for n in range(len(stages)))
    return height if settled and max(height) <= len(stages) else None


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def stage_time(problem: GraphPipelineProblem, stage: Stage, b: int, d: int) -> float:
    """Time per sample of a stage in micro-batches of b on d devices."""
    time = math.fsum(problem.operators[v].forward(b / d) + problem.operators[v].backward(b / d) for v in stage)
    crossing = {u for u, v in problem.arcs if (u in stage) != (v in stage)}
    between = link_of(problem, problem.devices)
    time += 2 * math.fsum(sending(between, problem.operators[u].output_bytes * b / d) for u in crossing)
    weights = math.fsum(problem.operators[v].weight_bytes for v in stage)
    sync = 0.0 if d == 1 else sending(link_of(problem, d), 2 * (d - 1) / d * weights)
    return time / b + sync / problem.mini_batch


def shortest_iteration(problem: GraphPipelineProblem, b: int, family: set[Stage]) -> float | None:
    """Of all stages of the family, numbers of devices and samples in flight, with k = 1; None: nothing fits."""
    best = math.inf
    for stages in partitions(all_vertices(problem), sorted(family, key=sorted)):
        height = None if len(stages) > problem.devices else heights(problem, stages)
        if height is None:
            continue
        owner = {v: n for n, stage in enumerate(stages) for v in stage}
        edges = tuple(sorted({(owner[u], owner[v]) for u, v in problem.arcs if owner[u] != owner[v]}))
        most = problem.mini_batch
        for shares in compositions(problem.devices, len(stages)):
            for held in product(*(range(min(h * b, most), most + 1, b) for h in height)):
                plan = StageGraphPlan(
                    tuple(
                        GraphStage(tuple(problem.operators[v].id for v in sorted(stage)), d, b, 1, samples)
                        for stage, d, samples in zip(stages, shares, held, strict=True)
                    ),
                    edges,
                )
                if not verify_stage_graph(problem, plan):
                    iteration = evaluate_stage_graph(problem, plan).iteration
                    best = best if iteration is None else min(best, iteration)
    return None if best == math.inf else best


def link_of(problem: GraphPipelineProblem, devices: int) -> Link:
    """Of so many devices: within a node, or between nodes."""
    if problem.node_link is None or problem.devices_per_node is None or devices <= problem.devices_per_node:
        return problem.link
    return problem.node_link


def sending(link: Link, amount: float) -> float:
    return link.latency_s + (0.0 if link.bandwidth is None else amount / link.bandwidth)


def stage_fits(problem: GraphPipelineProblem, stage: Stage, in_flight: int, d: int) -> bool:
    """With so many samples in flight, on d devices; decided exactly."""
    held = [as_written(problem.workspace_bytes)]
    for v in stage:
        held.append(as_written(problem.weight_copies) * as_written(problem.operators[v].weight_bytes))
        held.append(Fraction(in_flight, d) * as_written(problem.operators[v].stash_bytes))
    return fits(held, problem.memory_bytes)


def splits(b: int, d: int, degrees: str) -> bool:
    """May d devices share a micro-batch of b samples?"""
    if degrees == "none":
        return d == 1
    return b % d == 0 and (degrees == "divisors" or d & (d - 1) == 0)


def best_time(problem: GraphPipelineProblem, b: int, family: set[Stage], degrees: str = "divisors") -> float | None:
    """The least time per sample of the slowest stage, micro-batches of b everywhere; None where nothing fits."""
    return best_mixed_time(problem, [(b, 1)], family, degrees)


# ---- stages that differ in micro-batch size and k ------------------------------------------------------


def more_in_flight(b_x: int, k_x: int, b_y: int, k_y: int) -> int:
    """What x holds beyond what y after it holds: the first of the published rows that applies."""
    x, y, m = k_x * b_x, k_y * b_y, max(b_x, b_y)
    rows = (
        (m < x < y, 2 * m), (m == x < y, m), (b_x <= b_y < y < x, x - y + 2 * b_y), (b_x <= b_y == y < x, x),
        (b_y <= b_x < y < x, x - y + 2 * b_x), (b_y <= b_x == y < x, x), (m == y == x, y), (m < y == x, 2 * m),
        (b_x <= x < b_y <= y, b_y), (b_y <= y < b_x <= x, x - y + b_x),
    )  # fmt: skip
    return next(more for applies, more in rows if applies)


def samples_held(
    problem: GraphPipelineProblem, stages: list[Stage], height: list[int], schedules: tuple[tuple[int, int], ...]
) -> list[int]:
    """In flight of each stage with schedules (b, k), the last stages first."""
    owner = {v: n for n, stage in enumerate(stages) for v in stage}
    held = [0] * len(stages)
    for n in sorted(range(len(stages)), key=lambda n: height[n]):
        b, k = schedules[n]
        after = {owner[v] for u, v in problem.arcs if u in stages[n]} - {n}
        need = max([held[m] + more_in_flight(b, k, *schedules[m]) for m in after], default=b * k)
        held[n] = min(problem.mini_batch, math.ceil(need / b) * b)
    return held


def all_plans(
    problem: GraphPipelineProblem,
    schedules: list[tuple[int, int]],
    family: set[Stage],
    mixed: bool = True,
    degrees: str = "divisors",
) -> Iterator[StageGraphPlan]:
    """Every stage graph with these schedules (b, k) that fits the memory; `mixed`: stages may differ in b."""
    has_room = cache(partial(stage_fits, problem))
    for stages in partitions(all_vertices(problem), sorted(family, key=sorted)):
        height = heights(problem, stages) if len(stages) <= problem.devices else None
        if height is None:
            continue
        for chosen in product(schedules, repeat=len(stages)):
            if not mixed and len({b for b, _ in chosen}) > 1:
                continue
            held = samples_held(problem, stages, height, chosen)
            for shares in compositions(problem.devices, len(stages)):
                facts = list(zip(stages, chosen, held, shares, strict=True))
                if all(splits(b, d, degrees) for _, (b, _), _, d in facts) and all(
                    has_room(stage, samples, d) for stage, _, samples, d in facts
                ):
                    yield _plan(problem, facts)


def _plan(problem: GraphPipelineProblem, facts: list[tuple[Stage, tuple[int, int], int, int]]) -> StageGraphPlan:
    owner = {v: n for n, (stage, *_) in enumerate(facts) for v in stage}
    edges = {(owner[u], owner[v]) for u, v in problem.arcs if owner[u] != owner[v]}
    stages = [
        GraphStage(tuple(problem.operators[v].id for v in sorted(stage)), d, *schedule, held)
        for stage, schedule, held, d in facts
    ]
    return StageGraphPlan(tuple(stages), tuple(sorted(edges)))


def slowest_stage(
    problem: GraphPipelineProblem, plan: StageGraphPlan, time: Callable[[Stage, int, int], float] | None = None
) -> float:
    """The largest time per sample; `time`: of a stage, where it is known already."""
    time = time or partial(stage_time, problem)
    sets = [frozenset(problem.index[node] for node in stage.nodes) for stage in plan.stages]
    return max(time(s, x.micro_batch, x.devices) for s, x in zip(sets, plan.stages, strict=True))


def best_mixed_time(
    problem: GraphPipelineProblem, schedules: list[tuple[int, int]], family: set[Stage], degrees: str = "divisors"
) -> float | None:
    """As `best_time`, with any of the schedules (b, k) for each stage."""
    time = cache(partial(stage_time, problem))
    plans = all_plans(problem, schedules, family, degrees=degrees)
    return min((slowest_stage(problem, plan, time) for plan in plans), default=None)
