"""What a native model's builder wants of the solver, and the user's own word on it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

CONFIGURED = """
import json, sys
from ortools.sat.python import cp_model
from pipeplan.planners.backends.cp_sat import _configure
from pipeplan.planners.options import SolveOptions

class NoLimit:
    def solver_seconds_left(self):
        return None

solver, own, wanted = cp_model.CpSolver(), *map(json.loads, sys.argv[1:])
_configure(solver, SolveOptions(native=own), NoLimit(), wanted)
print(json.dumps([solver.parameters.linearization_level, list(solver.parameters.subsolvers)]))
"""
"""In a process of its own: here no solver is loaded."""


@pytest.mark.parametrize(("own", "level"), [({}, 0), ({"linearization_level": 2}, 2)])
def test_the_users_own_parameters_come_last(own: dict[str, Any], level: int) -> None:
    wanted = {"linearization_level": 0, "subsolvers": ["no_lp", "max_lp"]}
    words = [json.dumps(own), json.dumps(wanted)]
    done = subprocess.run([sys.executable, "-c", CONFIGURED, *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [level, ["no_lp", "max_lp"]]
