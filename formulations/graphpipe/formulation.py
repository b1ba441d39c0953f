"""`cp-graphpipe`: the exact choice of stages as a native CP-SAT model, behind the common contract.

With one micro-batch size for all stages 1F1B (k = 1) is as good as any kFkB, and heights say what is in flight; with
mixed sizes every stage has a schedule of its own. Over the sets of the decomposition the model says whether the dynamic
program is optimal; over all convex sets, what the restriction to the decomposition costs. Times are rounded down to
whole steps, so that bounds hold for the true ones.
"""

from __future__ import annotations

import math
from typing import Any

from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ..contract import (
    BuiltModel,
    CommonFormulation,
    NativeModel,
    NativeOnlyError,
    Options,
    Refuted,
    Values,
    Wanted,
    check_type,
)
from . import cp_mixed, cp_model
from .columns import Column, find_columns
from .families import stage_sets
from .plans import decode, encode
from .schedules import degrees, sizes, useful_groups

STEPS = 10**8
"""Of the largest time that can matter: what rounding costs is far below the tolerance of a proof."""


class GraphPipeCp(CommonFormulation):
    """Minimise the time per sample of the slowest stage."""

    def check(self, problem: GraphPipelineProblem, options: Options) -> None:
        check_type("cp-graphpipe", problem, GraphPipelineProblem)
        useful_groups(sizes(problem, options), options.get("k", 1))

    def lower_bound(self, problem: GraphPipelineProblem, options: Options) -> float:
        """The work alone, spread evenly over the devices, each operator with its best schedule."""
        which = options.get("degrees", "divisors")
        shares = {(b, d) for b in sizes(problem, options) for d in degrees(problem, b, which)}
        work = math.fsum(
            min(d * (x.forward(b / d) + x.backward(b / d)) / b for b, d in shares) for x in problem.operators
        )
        return work / problem.devices

    def model(self, problem: GraphPipelineProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        if not wanted.native:
            raise NativeOnlyError("cp-graphpipe")
        sets, mixed = stage_sets(problem, options["family"]), is_mixed(problem, options)
        groups = _groups(problem, options, mixed)
        which = options.get("degrees", "divisors")
        columns = find_columns(problem, sets, sizes(problem, options), wanted.cutoff, which, groups)
        covered = 0
        for column in columns:
            covered |= column.members
        if covered != (1 << len(problem.operators)) - 1:
            return Refuted("some operator is in no stage that is fast enough and fits the memory")
        scale = STEPS / (max(column.time for column in columns) or 1.0)
        floor = math.floor(self.lower_bound(problem, options) * scale * (1 - 1e-9))
        builder = cp_mixed.BUILDER if mixed else cp_model.BUILDER
        native_model = NativeModel(builder, _payload(problem, columns, mixed, scale, floor))

        def decode_values(values: Values) -> StageGraphPlan:
            return decode(problem, columns, values)

        def encode_plan(plan: StageGraphPlan) -> Values | None:
            return encode(problem, columns, plan, groups, mixed)

        size = {"stage_sets": len(sets), "stage_columns": len(columns)}
        return BuiltModel(native_model, decode_values, encode_plan, size=size)


FORMULATION = GraphPipeCp()


def is_mixed(problem: GraphPipelineProblem, options: Options) -> bool:
    """May stages differ in their micro-batches?"""
    return bool(options.get("mixed_micro_batches")) and len(sizes(problem, options)) > 1


def _groups(problem: GraphPipelineProblem, options: Options, mixed: bool) -> dict[int, tuple[int, ...]]:
    """Groups of several micro-batches can help only where sizes are mixed and memory is short."""
    largest = options.get("k", 1) if mixed and problem.memory_bytes is not None else 1
    return useful_groups(sizes(problem, options), largest)


def _payload(
    problem: GraphPipelineProblem, columns: list[Column], mixed: bool, scale: float, floor: int
) -> dict[str, Any]:
    """What the worker builds from; the uniform model's columns end in heights, the mixed one's in k and samples."""
    rows = []
    for c in columns:
        end = (c.k, c.most) if mixed else (c.highest(problem),)
        rows.append((c.members, c.devices, c.micro_batch, math.floor(c.time * scale), *end))
    return {
        "operators": len(problem.operators),
        "devices": problem.devices,
        "mini_batch": problem.mini_batch,
        "arcs": sorted(set(problem.arcs)),
        "columns": rows,
        "floor": floor,
        "scale": scale,
    }
