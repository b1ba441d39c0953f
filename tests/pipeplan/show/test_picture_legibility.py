"""Pictures of every kind in a real browser, wide and narrow, light and dark: what is written in them can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest
from legibility import DESK, PHONE, faults, opened
from problems.graph_pipelines_with_plans import chain_plan, chain_problem

from pipeplan.instances.base.result import Stop
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.simulate import simulate
from pipeplan.instances.staging.plan import StagedPlan
from pipeplan.planners.referee import rules_of
from pipeplan.planners.run.solve import solve
from pipeplan.show.front import draw_front, of_chain, of_staging
from pipeplan.show.pictures import draw_plan, draw_view, write_profile
from pipeplan.show.views.simulated import view_of_simulation
from pipeplan.studies.chain_memory import Chains
from pipeplan.studies.memory import Stagings
from pipeplan.studies.sweep import Candidate, Curve, CurvePoint, Settings

pytestmark = pytest.mark.xdist_group("browser")


def planned(name: str, planner: str) -> Callable[[Path], None]:
    def draw(path: Path) -> None:
        problem = load_packaged(name)
        result = solve(problem, planner=planner)
        assert result.plan is not None
        draw_plan(problem, result.plan, path, rules_of(problem, result.options))

    return draw


def draw_simulation(path: Path) -> None:
    problem, plan = chain_problem(4, 12), chain_plan(4, 1, 12)
    draw_view(view_of_simulation(problem, simulate(problem, plan)), path)


def draw_periods(path: Path) -> None:
    """A rule of thumb that reaches the optimum in the end, and one that has nothing at first."""
    memory = [1e9, 2e9, 3e9, 4e9]
    periods: dict[str, list[float | None]] = {
        "exact-beaumont": [40.0, 31.0, 25.0, 25.0],
        "contiguous": [44.0, 31.0, 26.0, 25.0],
        "pipedream-eager": [None, 50.0, 33.0, 25.0],
    }
    points = tuple(
        CurvePoint(
            size,
            Stop.PROVEN if size > 1e9 else Stop.TIME,
            None if period is None else Candidate(None, period, size, method),
            20.0,
            method=method,
        )
        for method, values in periods.items()
        for size, period in zip(memory, values, strict=True)
    )
    problem = load_packaged("golden-4")
    draw_front(of_chain(Curve(problem, Settings(), None, points, True, Chains)), path)


def draw_memory(path: Path) -> None:
    problem = load_packaged("tiny-stages")
    staged = [Candidate(StagedPlan(()), value, 1e9, "dp-piper") for value in (9.0, 5.0, 5.0)]
    points = tuple(
        CurvePoint(size, Stop.PROVEN, one, bound=one.value, rival=10.0 - i)
        for i, (size, one) in enumerate(zip((1e9, 2e9, 4e9), staged, strict=True))
    )
    draw_front(of_staging(Curve(problem, Settings(), None, points, True, Stagings)), path)


def draw_profile(path: Path) -> None:
    methods = {"dp": [1.0, 1.0, 1.0], "greedy": [0.2, 0.6, 0.9], "local-search": [0.9, 1.0, 1.0]}
    shares = {"ratio": [1.0, 1.1, 1.5], **methods}
    write_profile(pandas.DataFrame(shares), path)


PICTURES: dict[str, Callable[[Path], None]] = {
    "chain": planned("resnet34-chain", "contiguous"),
    "placement": planned("tiny-chain", "dp"),
    "latency": planned("tiny-chain", "latency-greedy"),
    "staging": planned("resnet50-stages", "equi"),
    "graph pipeline": planned("case-study", "graphpipe"),
    "schedule": planned("zero-bubble-4x12", "list-schedule"),
    "simulation": draw_simulation,
    "periods": draw_periods,
    "memory": draw_memory,
    "profile": draw_profile,
}


QUICK = ("placement", "latency", "periods")


@pytest.mark.sweeps("latency", "placement")
@pytest.mark.slow("chain", "graph pipeline", "periods", "profile", "schedule", "simulation")
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.sweeps) for name in PICTURES]
)
def test_everything_can_be_read(browser: Any, tmp_path: Path, name: str) -> None:
    path, found = tmp_path / "picture.svg", {}
    PICTURES[name](path)
    for size in (DESK, PHONE):
        for scheme in ("light", "dark"):
            found[size, scheme] = faults(opened(browser, path, size, scheme))
    assert not any(found.values()), found
