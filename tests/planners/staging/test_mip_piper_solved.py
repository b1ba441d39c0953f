"""`mip-piper` through the whole of `solve`: prices, warm start, solver, referee."""

from __future__ import annotations

import pytest
from problems.stagings import random_staging

from pipeplan.instances.base.result import Found, Stop
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.run.solve import solve


def test_it_proves_what_the_dynamic_program_proves() -> None:
    limits, proofs = SolveOptions(threads=1, time_limit_s=600), 0
    for seed in (0, 1, 2, 4):
        problem = random_staging(seed, layers=(3, 4), exact_batches=False)
        mip = solve(problem, formulation="mip-piper", limits=limits)
        program = solve(problem, planner="dp-piper", limits=limits)
        assert mip.stop in (Stop.PROVEN, Stop.INFEASIBLE), mip.messages
        assert (mip.objective is None) == (program.objective is None)
        if mip.objective is not None:
            assert mip.found == Found.OPTIMAL
            assert mip.objective == pytest.approx(program.objective, rel=1e-6)
            proofs += 1
    assert proofs


def test_where_there_is_no_plan_there_is_no_bound() -> None:
    problem = random_staging(1, exact_batches=False).replace(memory_bytes=0.5)
    result = solve(problem, formulation="mip-piper", limits=SolveOptions(threads=1))
    assert (result.stop, result.bound) == (Stop.INFEASIBLE, None)
