"""`cp-graphpipe`: the exact choice of stages as a native CP-SAT model, behind the common contract.

With one micro-batch size for all stages 1F1B (k = 1) is as good as any kFkB, and heights say what is in flight; with
mixed sizes every stage has a schedule of its own. Over the sets of the decomposition the model says whether the dynamic
program is optimal; over all convex sets, what the restriction to the decomposition costs. Times are rounded down to
whole steps, so that bounds hold for the true ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...instances.base.errors import UsageError
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
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
from . import cp_iteration, cp_mixed, cp_model
from .columns import Column, find_columns
from .iterations import Passes, delays, held_longer, within
from .plans import decode, encode
from .schedules import degrees, sizes, useful_groups
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
        groups = _groups(problem, options, mixed)
        which, whole = options.get("degrees", "divisors"), _by_iteration(options)
        columns = find_columns(
            problem, sets, sizes(problem, options), None if whole else wanted.cutoff, which, groups
        )
        passes = within(problem, columns, wanted.cutoff) if whole else {}
        columns = list(passes) if whole else columns
        covered = 0
        for column in columns:
            covered |= column.members
        if covered != (1 << len(problem.operators)) - 1:
            return Refuted("some operator is in no stage that is fast enough and fits the memory")
        floor = self.lower_bound(problem, options)
        if whole:
            native_model = NativeModel(cp_iteration.BUILDER, _iteration(problem, passes, wanted.cutoff, floor))
        else:
            scale = STEPS / (max(column.time for column in columns) or 1.0)
            rows = [(c.time, (c.k, c.most) if mixed else (c.highest(problem),)) for c in columns]
            builder = cp_mixed.BUILDER if mixed else cp_model.BUILDER
            native_model = NativeModel(builder, _payload(problem, columns, rows, scale, floor))

        def decode_values(values: Values) -> StageGraphPlan:
            plan = decode(problem, columns, values)
            return held_longer(problem, plan) if whole else plan

        def encode_plan(plan: StageGraphPlan) -> Values | None:
            return encode(problem, columns, plan, groups, mixed)

        size = {"stage_sets": len(sets), "stage_columns": len(columns)}
        return BuiltModel(
            native_model, decode_values, encode_plan, size=size, rounding=math.inf if whole else 1 / scale
        )


FORMULATION = GraphPipeCp()


def is_mixed(problem: GraphPipelineProblem, options: Options) -> bool:
    """May stages differ in their micro-batches?"""
    return bool(options.get("mixed_micro_batches")) and len(sizes(problem, options)) > 1


def _groups(problem: GraphPipelineProblem, options: Options, mixed: bool) -> dict[int, tuple[int, ...]]:
    """The k to try for each size: groups of several micro-batches help only with mixed sizes and limited memory."""
    largest = options.get("k", 1) if mixed and problem.memory_bytes is not None else 1
    return useful_groups(sizes(problem, options), largest)


def _by_iteration(options: Options) -> bool:
    return options.get("objective") == "iteration"


def _iteration(
    problem: GraphPipelineProblem, passes: dict[Column, Passes], cutoff: float | None, floor: float
) -> dict[str, Any]:
    """Data of the model for iterations; without a cut-off, the longest time is that of one stage after the other."""
    columns, sent = list(passes), delays(problem, {(c.micro_batch, c.devices) for c in passes})
    slowest = max(x.busy + x.synchronised for x in passes.values()) + max(t for row in sent for *_, t in row)
    longest = cutoff or 2 * problem.devices * slowest
    scale = STEPS / longest

    def steps(time: float) -> int:
        return math.floor(time * scale)

    rows = [(passes[c].busy, (c.highest(problem),)) for c in columns]
    return _payload(problem, columns, rows, scale, floor) | {
        "top": STEPS + 1,
        "passes": [(steps(x.forward), steps(x.backward), steps(x.synchronised)) for x in passes.values()],
        "delays": [[(b, d, steps(time)) for b, d, time in row] for row in sent],
    }


def _payload(
    problem: GraphPipelineProblem,
    columns: list[Column],
    rows: Sequence[tuple[float, tuple[int, ...]]],
    scale: float,
    floor: float,
) -> dict[str, Any]:
    """What the worker builds from. `rows`: the time of each column, and its last entries: the greatest height in the
    uniform model, k and the most samples in flight in the mixed one."""
    return {
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
