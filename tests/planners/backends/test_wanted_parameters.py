"""What a native model's builder wants of the solver, and the user's own word on it."""

from __future__ import annotations

from typing import Any

import pytest
from ortools.sat.python import cp_model

from pipeplan.planners.backends.cp_sat import _configure
from pipeplan.planners.options import SolveOptions


class NoLimit:
    """A session without a limit of time."""

    def seconds_left(self) -> float | None:
        return None


@pytest.mark.parametrize(("own", "level"), [({}, 0), ({"linearization_level": 2}, 2)])
def test_the_users_own_parameters_come_last(own: dict[str, Any], level: int) -> None:
    solver = cp_model.CpSolver()
    wanted = {"linearization_level": 0, "subsolvers": ["no_lp", "max_lp"]}
    _configure(solver, SolveOptions(native=own), NoLimit(), wanted)  # type: ignore[arg-type]
    assert solver.parameters.linearization_level == level
    assert list(solver.parameters.subsolvers) == ["no_lp", "max_lp"]
