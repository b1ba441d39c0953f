"""Building a model takes time of the limit: what is left is the solver's, and where nothing is left none is asked."""

from __future__ import annotations

from typing import Any

import pytest

import pipeplan
from pipeplan.instances.base import clock
from pipeplan.planners.backends import compiler
from pipeplan.planners.exact import attempt
from pipeplan.planners.options import SolveOptions

BUILDING_S = 4.0


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of limits goes on while a model is built, and then alone."""
    compile_pyomo, seconds = compiler.compile_pyomo, 0.0

    def slowly(*given: Any, **named: Any) -> Any:
        nonlocal seconds
        seconds += BUILDING_S
        return compile_pyomo(*given, **named)

    monkeypatch.setattr(clock, "wall", lambda: seconds)

    monkeypatch.setattr(compiler, "compile_pyomo", slowly)


def solved(limit: float, solver: str = "highs") -> pipeplan.Result:
    return pipeplan.solve(
        "tiny-chain",
        formulation="ip-tarnawski",
        solver=solver,
        limits=SolveOptions(time_limit_s=limit),
        warm_start="none",
    )


@pytest.mark.usefixtures("slow")
def test_a_solver_has_the_time_that_building_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    submit = attempt.submit

    def heard(name: str, model: Any, options: SolveOptions, **more: Any) -> Any:
        limits.append(options.time_limit_s or 0.0)
        return submit(name, model, options, **more)

    monkeypatch.setattr(attempt, "submit", heard)
    assert solved(60.0).stop == pipeplan.Stop.PROVEN
    assert limits
    assert max(limits) <= 60.0 - BUILDING_S


@pytest.mark.usefixtures("slow")
def test_a_model_that_took_all_the_time_is_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the next one built."""
    monkeypatch.setattr(attempt, "submit", None)
    result = solved(BUILDING_S / 2, "highs,cp-sat")
    assert (result.stop, result.plan) == (pipeplan.Stop.TIME, None)
    assert result.seconds["build"] == BUILDING_S
