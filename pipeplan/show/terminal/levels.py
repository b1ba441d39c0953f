"""A plan on devices within devices, drawn nested: the stages of each level inside those of the level above."""

from __future__ import annotations

from typing import Any

from ...cli.console import can_draw, out, styled
from ...cli.progress import number
from ...instances.kind import Rules
from ...instances.staging.leveled_plan import LeveledPlan
from ...instances.staging.plan import counted
from ...instances.staging.problem import StagingProblem
from ...instances.staging.referee.levels import LeafCost, evaluate_leveled
from ...instances.staging.referee.rows import LeveledRow, leveled_rows
from .shapes import MAX_DEVICES_DRAWN, bar, columns, new_table, several, size

EQUAL = 1e-9
"""Relative: a part of a load that is as large as the whole, but for rounding, is what binds."""


def draw(problem: StagingProblem, plan: LeveledPlan, rules: Rules) -> None:
    """One line per stage of each level, those that set the pace marked, and what binds in each."""
    evaluation = evaluate_leveled(problem, plan, rules.to_options()["hierarchy"])
    table = new_table()
    columns(table, "stage,level,layers,d,t,share,load,in flight,memory,full,binds,", left="stage,share,binds")
    rows = list(leveled_rows(plan, evaluation))
    for row in rows[:MAX_DEVICES_DRAWN]:
        table.add_row(*_cells(problem, row, evaluation.time_per_micro_batch))
    console = out()
    console.print(table)
    if len(rows) > MAX_DEVICES_DRAWN:
        console.print(styled(f"... and {len(rows) - MAX_DEVICES_DRAWN} more stages"))
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    console.print(styled(f"a load is the largest over its levels: {number(evaluation.time_per_micro_batch)}{unit}"))
    console.print(styled(f"{several(len(evaluation.leaves), 'stage')} of level 1; copies sum to {evaluation.degrees}"))
    for row in rows[:MAX_DEVICES_DRAWN]:
        if row.leaf is not None:
            console.print(styled(f"stage {row.name}: {counted(row.stage.configurations)}"))


def _cells(problem: StagingProblem, row: LeveledRow, largest: float) -> list[Any]:
    slowest = row.load >= largest * (1 - EQUAL)
    indent = ("│ " if can_draw("│") else "| ") * (len(row.path) - 1)
    return [
        styled(f"{indent}{row.path[-1]}", "bold" if slowest else ""),
        str(row.cost.level),
        str(len(row.stage.nodes)),
        str(row.stage.data_parallel),
        str(row.stage.tensor_parallel) if row.leaf else "",
        styled(bar(row.load, largest), "red" if slowest else "cyan"),
        f"{row.load:.4g}",
        *_memory(problem, row.leaf),
        styled(", ".join(row.cost.binds)),
        styled("<--" if slowest else "", "bold red"),
    ]


def _memory(problem: StagingProblem, leaf: LeafCost | None) -> list[str]:
    if leaf is None:
        return ["", "", ""]
    limit = problem.memory_bytes
    full = f"{100 * leaf.memory_bytes / limit:.0f}%" if limit else "-"
    return [str(leaf.in_flight), size(leaf.memory_bytes), full]
