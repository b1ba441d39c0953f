"""`cp-graphpipe`: the exact choice of stages as a native CP-SAT model, behind the common contract.

With one micro-batch size for all stages 1F1B (k = 1) is as good as any kFkB, and heights say what is in flight; with
mixed sizes every stage has a schedule of its own. Over the sets of the decomposition the model says whether the dynamic
program is optimal; over all convex sets, what the restriction to the decomposition costs. Times are rounded down to
whole steps, so that bounds hold for the true ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from ...instances.base.errors import UsageError
from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.physics.tolerances import SUM_ROUNDING
from ...instances.registry import evaluation_of
from ..contract import (
    BuiltModel,
    CommonFormulation,
    NativeModel,
    NativeOnlyError,
    Options,
    Refuted,
    Stage,
    Values,
    Wanted,
    check_type,
    side_by_side,
)
from .columns import Column, Schedule, degrees, find_columns, held, sizes, useful_groups
from .cp_model import BUILDER
from .more_in_flight import with_more_in_flight
from .stage_sets import stage_sets

# Number of steps of the largest time that can matter: what rounding costs is far below the tolerance of a proof.
STEPS = 10**8

# A planner that knows more of iterations than the model, and sooner.
SHORTEST = Stage("search", seconds=900.0, planner="shortest-iteration", share=0.8)


class GraphPipeCp(CommonFormulation):
    """Minimise the time per sample of the slowest stage, or the iteration."""

    def check(self, problem: GraphPipelineProblem, options: Options) -> None:
        check_type("cp-graphpipe", problem, GraphPipelineProblem)
        useful_groups(sizes(problem, options), options.get("k", 1))
        if _by_iteration(options) and is_mixed(problem, options):
            raise UsageError(
                "cp-graphpipe minimises the iteration of stages that all have one micro-batch size; drop "
                "--option mixed-micro-batches, or give --objective time-per-sample."
            )

    def portfolio(self, problem: GraphPipelineProblem, options: Options, *, found: bool) -> tuple[Stage, ...]:
        whole = _by_iteration(options) and options["family"] == "series-parallel"
        return (SHORTEST, *side_by_side("cp-sat")) if whole else side_by_side("cp-sat")

    def lower_bound(self, problem: GraphPipelineProblem, options: Options) -> float:
        """The work alone, spread evenly over the devices, each operator with its best schedule."""
        which = options.get("degrees", "divisors")
        shares = {(b, d) for b in sizes(problem, options) for d in degrees(problem, b, which)}
        work = math.fsum(
            min(d * (x.forward(b / d) + x.backward(b / d)) / b for b, d in shares) for x in problem.operators
        )
        return work / problem.devices * (problem.mini_batch if _by_iteration(options) else 1)

    def model(self, problem: GraphPipelineProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        if not wanted.native:
            raise NativeOnlyError("cp-graphpipe")
        sets, mixed = stage_sets(problem, options["family"]), is_mixed(problem, options)
        # Groups of several micro-batches help only with mixed sizes and limited memory.
        largest_k = options.get("k", 1) if mixed and problem.memory_bytes is not None else 1
        groups = useful_groups(sizes(problem, options), largest_k)
        which, whole = options.get("degrees", "divisors"), _by_iteration(options)
        columns = find_columns(
            problem, sets, sizes(problem, options), None if whole else wanted.cutoff, which, groups
        )
        passes = within(problem, columns, wanted.cutoff) if whole else {}
        columns = list(passes) if whole else columns
        if reduce(or_, (column.members for column in columns), 0) != (1 << len(problem.operators)) - 1:
            return Refuted("some operator is in no stage that is fast enough and fits the memory")
        floor = self.lower_bound(problem, options)
        if whole:
            data = _iteration(problem, passes, wanted.cutoff, floor)
        else:
            scale = STEPS / (max(column.time for column in columns) or 1.0)
            rows = [(c.time, (c.k, c.most) if mixed else (c.highest(problem),)) for c in columns]
            data = _payload("mixed" if mixed else "uniform", problem, columns, rows, scale, floor)

        def decode_values(values: Values) -> StageGraphPlan:
            plan = decode(problem, columns, values)
            iteration = evaluation_of(problem, plan).iteration if whole else None
            # With more samples in flight where that shortens the iteration; the model has only what the rule asks.
            return plan if iteration is None else with_more_in_flight(problem, plan, iteration)[0]

        def encode_plan(plan: StageGraphPlan) -> Values | None:
            return encode(problem, columns, plan, groups, mixed)

        size = {"stage_sets": len(sets), "stage_columns": len(columns)}
        return BuiltModel(
            NativeModel(BUILDER, data),
            decode_values,
            encode_plan,
            size=size,
            rounding=math.inf if whole else 1 / scale,
        )


FORMULATION = GraphPipeCp()


def is_mixed(problem: GraphPipelineProblem, options: Options) -> bool:
    """May stages differ in their micro-batches?"""
    return bool(options.get("mixed_micro_batches")) and len(sizes(problem, options)) > 1


def _by_iteration(options: Options) -> bool:
    return options.get("objective") == "iteration"


def _iteration(
    problem: GraphPipelineProblem, passes: dict[Column, Passes], cutoff: float | None, floor: float
) -> dict[str, Any]:
    """Data of the model for iterations; without a cut-off, the longest time is that of one stage after the other."""
    columns, link = list(passes), problem.boundary_link
    shares = sorted({(c.micro_batch, c.devices) for c in passes})
    sent = [[(b, d, link.seconds(x.output_bytes * b / d)) for b, d in shares] for x in problem.operators]
    slowest = max(x.busy + x.synchronised for x in passes.values()) + max(t for row in sent for *_, t in row)
    longest = cutoff or 2 * problem.devices * slowest
    scale = STEPS / longest

    def steps(time: float) -> int:
        return math.floor(time * scale)

    rows = [(passes[c].busy, (c.highest(problem),)) for c in columns]
    return _payload("iteration", problem, columns, rows, scale, floor) | {
        "top": STEPS + 1,
        "passes": [(steps(x.forward), steps(x.backward), steps(x.synchronised)) for x in passes.values()],
        "delays": [[(b, d, steps(time)) for b, d, time in row] for row in sent],
    }


def _payload(
    model: str,
    problem: GraphPipelineProblem,
    columns: list[Column],
    rows: Sequence[tuple[float, tuple[int, ...]]],
    scale: float,
    floor: float,
) -> dict[str, Any]:
    """What the worker builds from. `rows`: the time of each column, and its last entries: the greatest height in the
    uniform model, k and the most samples in flight in the mixed one."""
    return {
        "model": model,
        "operators": len(problem.operators),
        "devices": problem.devices,
        "mini_batch": problem.mini_batch,
        "arcs": sorted(set(problem.arcs)),
        "columns": [
            (c.members, c.devices, c.micro_batch, math.floor(time * scale), *end)
            for c, (time, end) in zip(columns, rows, strict=True)
        ],
        "floor": math.floor(floor * scale * (1 - 1e-9)),
        "scale": scale,
    }


@dataclass(frozen=True, slots=True)
class Passes:
    """Times of a column: the two passes of one micro-batch, and all passes of an iteration."""

    forward: float
    backward: float
    synchronised: float
    busy: float

    @classmethod
    def of(cls, problem: GraphPipelineProblem, column: Column) -> Passes:
        inside = [x for v, x in enumerate(problem.operators) if column.members >> v & 1]
        share, d = column.micro_batch / column.devices, column.devices
        forward, backward = (
            math.fsum(x.forward(share) for x in inside),
            math.fsum(x.backward(share) for x in inside),
        )
        weights = math.fsum(x.weight_bytes for x in inside)
        synchronised = 0.0 if d == 1 else problem.inner_link(d).seconds(2 * (d - 1) / d * weights)
        busy = problem.mini_batch / column.micro_batch * (forward + backward)
        return cls(forward, backward, synchronised, busy)


def within(problem: GraphPipelineProblem, columns: Iterable[Column], cutoff: float | None) -> dict[Column, Passes]:
    """The columns that alone take no longer than the cut-off, with the times of their passes."""
    limit = math.inf if cutoff is None else cutoff * (1 + SUM_ROUNDING)
    passes_of = ((column, Passes.of(problem, column)) for column in columns)
    return {column: passes for column, passes in passes_of if passes.busy + passes.synchronised <= limit}


# Pairs of stages, by their positions in the plan.
Edges = set[tuple[int, int]]
# The k that the model has for each micro-batch size.
Groups = Mapping[int, tuple[int, ...]]


def decode(problem: GraphPipelineProblem, columns: list[Column], values: Values) -> StageGraphPlan:
    """The chosen columns, with no more in-flight samples than the stages after them ask for."""
    chosen = [column for n, column in enumerate(columns) if values[f"x[{n}]"] > 0.5]
    rank = {v: place for place, v in enumerate(problem.topological_order)}
    members = [sorted((v for v in rank if column.members >> v & 1), key=rank.__getitem__) for column in chosen]
    order = sorted(range(len(chosen)), key=lambda n: rank[members[n][0]])
    stage_of = {v: place for place, n in enumerate(order) for v in members[n]}
    edges = {(stage_of[u], stage_of[v]) for u, v in problem.arcs if stage_of[u] != stage_of[v]}
    schedules = [(chosen[n].micro_batch, chosen[n].k) for n in order]
    samples = samples_in_flight(schedules, edges, problem.mini_batch)
    stages = []
    for place, n in enumerate(order):
        nodes = tuple(problem.operators[v].id for v in members[n])
        stages.append(GraphStage(nodes, chosen[n].devices, *schedules[place], samples[place]))
    return StageGraphPlan(tuple(stages), tuple(sorted(edges)))


def heights(count: int, edges: Edges) -> list[int]:
    """Stages on the longest way to an end; the heights of the model prove that there is no circle."""
    levels = [1] * count
    for _ in range(count):
        for i, j in edges:
            levels[i] = max(levels[i], min(count, levels[j] + 1))
    return levels


def samples_in_flight(schedules: Sequence[Schedule], edges: Edges, mini_batch: int | None) -> list[int]:
    """The least samples that each stage must hold, worked out from the last stages to the first."""
    height = heights(len(schedules), edges)
    samples = [0] * len(schedules)
    for i in sorted(range(len(schedules)), key=height.__getitem__):
        samples[i] = held(schedules[i], [(schedules[j], samples[j]) for x, j in edges if x == i], mini_batch)
    return samples


def encode(
    problem: GraphPipelineProblem, columns: list[Column], plan: StageGraphPlan, groups: Groups, mixed: bool
) -> Values | None:
    """The plan's columns and heights, with groups no larger than the model's; None where a stage is no column."""
    place = {(column.members, column.devices, column.micro_batch, column.k): n for n, column in enumerate(columns)}
    values = {f"x[{n}]": 0.0 for n in range(len(columns))}
    schedules = []
    for stage, height in zip(plan.stages, heights(len(plan.stages), set(plan.edges)), strict=True):
        b = stage.micro_batch
        k = max((k for k in groups.get(b, ()) if k <= stage.k), default=1)
        members = sum(1 << problem.index[node] for node in stage.nodes)
        n = place.get((members, stage.devices, b, k))
        if n is None:
            return None
        schedules.append((b, k))
        values[f"x[{n}]"] = 1.0
        values |= {f"h[{problem.index[node]}]": float(height) for node in stage.nodes}
    limited = any(column.most < problem.mini_batch for column in columns)
    return values | _micro_batches(problem, columns, plan, schedules) if mixed and limited else values


def _micro_batches(
    problem: GraphPipelineProblem, columns: list[Column], plan: StageGraphPlan, schedules: list[Schedule]
) -> dict[str, float]:
    """Micro-batches in flight as the mixed model counts them: not cut at the mini-batch."""
    sizes: dict[int, int] = {}
    for column in columns:
        sizes[column.micro_batch] = sizes.get(column.micro_batch, 0) | column.members
    samples = samples_in_flight(schedules, set(plan.edges), None)
    values = {}
    for stage, (own, _), number in zip(plan.stages, schedules, samples, strict=True):
        for v in (problem.index[node] for node in stage.nodes):
            for b, covered in sizes.items():
                if covered >> v & 1:
                    values[f"w[{v},{b}]"] = float(number // b if b == own else 0)
    return values
