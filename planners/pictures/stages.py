"""A staged plan as a picture: load and memory of each stage, with its degrees."""

from __future__ import annotations

import os

from ...instances.referee.staged import evaluate_stages
from ...instances.staged_plan import StagedPlan
from ...instances.staging import StagingProblem
from ..referees import Rules
from .canvas import legible
from .load_bars import Bars, draw_bars


def picture(problem: StagingProblem, plan: StagedPlan, rules: Rules, path: str | os.PathLike[str]) -> None:
    """Stages in execution order."""
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
