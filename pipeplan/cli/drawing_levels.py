"""A plan on devices within devices, drawn nested: the stages of each level inside those of the level above."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..instances.leveled_plan import LeveledPlan, LeveledStage
from ..instances.referee.staged_levels import LeafCost, LevelCost, evaluate_leveled
from ..instances.staging import StagingProblem
from ..planners.rules import Rules
from .console import can_draw, out, styled
from .drawing_shapes import MAX_DEVICES_DRAWN, bar, columns, new_table, several, size
from .progress import number

EQUAL = 1e-9
"""Relative: a part of a load that is as large as the whole, but for rounding, is what binds."""


def draw(problem: StagingProblem, plan: LeveledPlan, rules: Rules) -> None:
    """One line per stage of each level, those that set the pace marked, and what binds in each."""
    evaluation = evaluate_leveled(problem, plan, rules.hierarchy)
    table = new_table()
    columns(table, "stage,level,layers,d,t,share,load,in flight,memory,full,binds,", left="stage,share,binds")
    leaves = iter(evaluation.leaves)
    rows = list(_rows(problem, plan.stages, evaluation.stages, leaves, evaluation.time_per_micro_batch, ""))
    for row in rows[:MAX_DEVICES_DRAWN]:
        table.add_row(*row)
    console = out()
    console.print(table)
    if len(rows) > MAX_DEVICES_DRAWN:
        console.print(styled(f"... and {len(rows) - MAX_DEVICES_DRAWN} more stages"))
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    console.print(styled(f"a load is the largest over its levels: {number(evaluation.time_per_micro_batch)}{unit}"))
    console.print(styled(f"{several(len(evaluation.leaves), 'stage')} of level 1; copies sum to {evaluation.degrees}"))


def _rows(
    problem: StagingProblem,
    stages: tuple[LeveledStage, ...],
    costs: tuple[LevelCost, ...],
    leaves: Iterator[LeafCost],
    largest: float,
    indent: str,
    scale: float = 1.0,
) -> Iterator[list[Any]]:
    """Depth first; `scale` turns a load inside copies into time per micro-batch of the whole."""
    deeper = indent + ("│ " if can_draw("│") else "| ")
    for number_, (stage, cost) in enumerate(zip(stages, costs, strict=True)):
        load = cost.load * scale
        slowest = load >= largest * (1 - EQUAL)
        leaf = next(leaves) if cost.level == 1 else None
        yield [
            styled(f"{indent}{number_}", "bold" if slowest else ""),
            str(cost.level),
            str(len(stage.nodes)),
            str(stage.data_parallel),
            str(stage.tensor_parallel) if leaf else "",
            styled(bar(load, largest), "red" if slowest else "cyan"),
            f"{load:.4g}",
            *_memory(problem, leaf),
            styled(", ".join(cost.binds)),
            styled("<--" if slowest else "", "bold red"),
        ]
        yield from _rows(problem, stage.children, cost.children, leaves, largest, deeper, scale / stage.data_parallel)


def _memory(problem: StagingProblem, leaf: LeafCost | None) -> list[str]:
    if leaf is None:
        return ["", "", ""]
    limit = problem.memory_bytes
    full = f"{100 * leaf.memory_bytes / limit:.0f}%" if limit else "-"
    return [str(leaf.in_flight), size(leaf.memory_bytes), full]
