"""A staged plan as a picture: load and memory of each stage, with its degrees."""

from __future__ import annotations

import os

from ...instances.leveled_plan import LeveledPlan
from ...instances.referee.staged import evaluate_stages
from ...instances.referee.staged_levels import evaluate_leveled
from ...instances.staged_plan import StagedPlan
from ...instances.staging import StagingProblem
from ..referees import Rules
from .canvas import legible
from .load_bars import Bars, draw_bars


def picture(
    problem: StagingProblem, plan: StagedPlan | LeveledPlan, rules: Rules, path: str | os.PathLike[str]
) -> None:
    """Stages in execution order; on devices within devices those of level 1, which hold the layers."""
    if isinstance(plan, LeveledPlan):
        _draw_leveled(problem, plan, rules, path)
        return
    evaluation = evaluate_stages(problem, plan, rules.semantics)
    costs = evaluation.stages
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    names = [f"stage {i} ({s.data_parallel} x {s.tensor_parallel})" for i, s in enumerate(plan.stages)]
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
        limit_bytes=[problem.memory_bytes] * len(costs),
        unit=problem.time_unit,
    )
    draw_bars(bars, path)


def _draw_leveled(problem: StagingProblem, plan: LeveledPlan, rules: Rules, path: str | os.PathLike[str]) -> None:
    """The loads of the levels above are in the title: the time is the largest over all levels."""
    evaluation = evaluate_leveled(problem, plan, rules.hierarchy)
    leaves, costs = plan.leaves(), evaluation.leaves
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    bars = Bars(
        title=f"{legible(problem.name)}: {evaluation.time_per_micro_batch:.6g}{unit} per micro-batch, the largest over "
        f"{len(problem.levels)} levels",
        names=[f"stage {i} ({s.data_parallel} x {s.tensor_parallel})" for i, s in enumerate(leaves)],
        parts={"load in a copy": [cost.load for cost in costs]},
        memory_bytes=[cost.memory_bytes for cost in costs],
        limit_bytes=[problem.memory_bytes] * len(costs),
        unit=problem.time_unit,
    )
    draw_bars(bars, path)
