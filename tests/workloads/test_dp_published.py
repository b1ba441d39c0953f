"""The dynamic program on the published throughput inputs: the paper's contiguous optima."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles.published_optima import CONTIGUOUS

from pipeplan.instances.base.result import Found, Stop
from pipeplan.instances.lookup import load
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.run.solve import solve

pytestmark = pytest.mark.workloads


@pytest.mark.parametrize("name", CONTIGUOUS)
def test_the_papers_optimum_to_all_digits(workloads: Path, name: str) -> None:
    problem = load(workloads / "tarnawski" / "throughput" / f"{name}.json")
    result = solve(problem, planner="dp", limits=SolveOptions(threads=2))
    assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
    # The listed digits end at the ninth decimal: half a unit there, and no more than 1e-9 of the value.
    assert result.objective == pytest.approx(CONTIGUOUS[name], rel=1e-9, abs=5.1e-10)
    assert result.plan is not None
    assert not verify(problem, result.plan, contiguity="chain")


def test_every_throughput_input_at_hand_is_in_the_list(workloads: Path) -> None:
    folder = workloads / "tarnawski" / "throughput"
    assert {f"{path.parent.name}/{path.stem}" for path in folder.glob("*/*.json")} == set(CONTIGUOUS)


def test_merging_free_nodes_makes_a_large_lattice_small(workloads: Path) -> None:
    """GNMT: 590,824 ideals as it stands (17,914 by the published contraction), 125 after merging."""
    result = solve(load(workloads / "tarnawski/throughput/layer/gnmt_inference.json"), planner="dp")
    assert result.model_size["ideals"] == 125


def test_inception_has_more_ideals_than_a_table_of_pairs_could_hold(workloads: Path) -> None:
    result = solve(load(workloads / "tarnawski/throughput/layer/inceptionv3_inference.json"), planner="dp")
    assert result.model_size["ideals"] == 34_730
