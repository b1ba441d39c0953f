"""The program's plan starts the model, also where it is asked for by name and where it is interrupted."""

from __future__ import annotations

import pytest

import pipeplan
from pipeplan.planners.contract import Outcome, Request
from pipeplan.planners.staging.planner import PiperPlanner

PROBLEM = pipeplan.load_packaged("tiny-stages")


def test_the_program_starts_the_model_by_either_name() -> None:
    for asked in ("auto", "dp"):
        result = pipeplan.solve(PROBLEM, formulation="mip-piper", warm_start=asked)
        assert (result.stop, result.objective) == (pipeplan.Stop.PROVEN, 6.0)
        assert result.warm_start.source == "dp-piper", asked


def test_an_interrupt_while_the_program_runs_keeps_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    best = pipeplan.solve(PROBLEM, planner="dp-piper").plan

    def interrupted(_: PiperPlanner, request: Request) -> Outcome:
        request.board.post(best, 6.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(PiperPlanner, "plan", interrupted)
    result = pipeplan.solve(PROBLEM, formulation="mip-piper")
    assert (result.stop, result.objective, result.plan) == (pipeplan.Stop.INTERRUPTED, 6.0, best)
