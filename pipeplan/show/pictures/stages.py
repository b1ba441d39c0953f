"""A staged plan as a picture: load and memory of each stage, with its degrees."""

from __future__ import annotations

import os

from ...instances.kind import Rules
from ...instances.staging.leveled_plan import LeveledPlan
from ...instances.staging.plan import PlannedStage, StagedPlan
from ...instances.staging.problem import StagingProblem
from ...instances.staging.referee.levels import evaluate_leveled
from ...instances.staging.referee.rows import LeveledRow, leveled_rows
from ...instances.staging.referee.stages import evaluate_stages, type_of
from .canvas import legible
from .load_bars import Bars, draw_bars


def picture(
    problem: StagingProblem, plan: StagedPlan | LeveledPlan, rules: Rules, path: str | os.PathLike[str]
) -> None:
    """Stages in execution order; on devices within devices those of all levels, each before what is inside of it."""
    if isinstance(plan, LeveledPlan):
        _draw_leveled(problem, plan, rules, path)
        return
    evaluation = evaluate_stages(problem, plan, rules.to_options()["semantics"])
    costs = evaluation.stages
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    names = [f"stage {i} {_label(stage)}" for i, stage in enumerate(plan.stages)]
    bars = Bars(
        title=f"{legible(problem.name)}: {evaluation.time_per_micro_batch:.6g}{unit} per micro-batch, "
        f"{evaluation.devices} of {problem.devices} devices (data x tensor parallel)",
        names=names,
        parts={
            "computation": [cost.compute for cost in costs],
            "transfers": [cost.transfers for cost in costs],
            "synchronisation": [cost.synchronisation for cost in costs],
        },
        memory_bytes=[cost.memory_bytes for cost in costs],
        limit_bytes=[_limit(problem, stage) for stage in plan.stages],
        unit=problem.time_unit,
    )
    draw_bars(bars, path)


def _label(stage: PlannedStage) -> str:
    kind = f", {legible(stage.device_type)}" if stage.device_type is not None else ""
    return f"({stage.data_parallel} x {stage.tensor_parallel}{kind})"


def _limit(problem: StagingProblem, stage: PlannedStage) -> float | None:
    kind = type_of(problem, stage)
    return None if kind is None else kind.memory_bytes


def _draw_leveled(problem: StagingProblem, plan: LeveledPlan, rules: Rules, path: str | os.PathLike[str]) -> None:
    """Loads of all levels per micro-batch of the whole, so that the longest bar is the time in the title."""
    evaluation = evaluate_leveled(problem, plan, rules.to_options()["hierarchy"])
    rows = list(leveled_rows(plan, evaluation))
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    bars = Bars(
        title=f"{legible(problem.name)}: {evaluation.time_per_micro_batch:.6g}{unit} per micro-batch, the largest over "
        f"{len(problem.levels)} levels",
        names=[_leveled_label(row) for row in rows],
        parts={
            "computation": [row.leaf.compute * row.share if row.leaf else 0.0 for row in rows],
            "transfers": [row.leaf.transfers * row.share if row.leaf else 0.0 for row in rows],
            "synchronisation": [row.leaf.synchronisation * row.share if row.leaf else 0.0 for row in rows],
            "larger of links and inside": [0.0 if row.leaf else row.load for row in rows],
        },
        memory_bytes=[row.leaf.memory_bytes if row.leaf else None for row in rows],
        limit_bytes=[problem.memory_bytes if row.leaf else None for row in rows],
        unit=problem.time_unit,
    )
    draw_bars(bars, path)


def _leveled_label(row: LeveledRow) -> str:
    d, t = row.stage.data_parallel, row.stage.tensor_parallel
    return f"stage {row.name} ({d} x {t})" if row.leaf else f"stage {row.name} (level {row.cost.level}, x {d})"
