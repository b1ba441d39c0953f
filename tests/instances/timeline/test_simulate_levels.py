"""Plans on devices within devices in the simulator: small ones by hand, one level against the flat network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from problems.stagings import random_staging
from typer.testing import CliRunner

import pipeplan
from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.simulate import simulate
from pipeplan.instances.staging.plan import LeveledPlan, LeveledStage, StagedPlan
from pipeplan.instances.staging.problem import Configuration, Layer, StagingLevel, StagingProblem
from pipeplan.instances.staging.referee import evaluate_leveled

FORWARD, BACKWARD = 8 / 3, 16 / 3


def tiny() -> StagingProblem:
    """Two servers of two devices; a layer takes 8; the tensor takes 2 inside a server and 20 between servers."""
    return load_packaged("tiny-levels")


def leaf(layer: str, copies: int = 1, tensor: int = 1) -> LeveledStage:
    return LeveledStage((layer,), copies, tensor, {layer: "vanilla"})


def cut_between_servers() -> LeveledPlan:
    return LeveledPlan(tuple(LeveledStage((name,), 1, children=(leaf(name),)) for name in "ab"))


def copied_servers() -> LeveledPlan:
    return LeveledPlan((LeveledStage(("a", "b"), 2, children=(leaf("a"), leaf("b"))),))


def one_layer(**way: Any) -> StagingProblem:
    layer = Layer("a", {1: (Configuration("vanilla", 8.0, **way),)})
    return StagingProblem((layer,), (), 4, 10.0, 4, levels=(StagingLevel(2, 10.0), StagingLevel(2, 1.0)))


# ---- by hand -------------------------------------------------------------------------------------------


def test_copies_on_servers_take_turns() -> None:
    """Each server runs two micro-batches. Stage b runs the first one from 14/3 to 38/3 and the second one until 62/3;
    its gradient is at stage a 2 s later, which takes 16/3."""
    found = simulate(tiny(), copied_servers())
    assert found.iteration == pytest.approx(62 / 3 + 2 + 16 / 3)
    assert [(stage.name, stage.devices, stage.replicas) for stage in found.stages] == [
        ("stage 0.0", 2, 2),
        ("stage 0.1", 2, 2),
    ]
    assert [task.micro_batch for task in found.stages[0].tasks if task.replica == 0] == [1, 3, 1, 3]


def test_tensors_cross_the_links_of_their_level() -> None:
    one = simulate(tiny(), cut_between_servers(), micro_batches=1)
    assert one.iteration == pytest.approx(FORWARD + 20 + 8 + 20 + BACKWARD)
    inside = simulate(tiny(), copied_servers(), micro_batches=1)
    assert inside.iteration == pytest.approx(FORWARD + 2 + 8 + 2 + BACKWARD)


def test_redistribution_stays_on_the_innermost_level() -> None:
    problem = tiny()
    ways = {"a": {"gather_out": {"b": 5.0}}, "b": {"gather_in": {"a": 10.0}}}
    layers = tuple(Layer(x, {1: (Configuration("vanilla", 8.0, **ways[x]),)}) for x in "ab")  # type: ignore[arg-type]
    found = simulate(problem.replace(layers=layers), cut_between_servers(), micro_batches=1)
    assert found.iteration == pytest.approx(FORWARD + 21.5 + 8 + 21.5 + BACKWARD)


def test_a_level_that_is_passed_over_costs_nothing() -> None:
    """Three levels, cut on the middle one: neither the slow links above nor the fast ones below are crossed."""
    levels = (StagingLevel(1, 1000.0), StagingLevel(2, 4.0), StagingLevel(2, 0.001))
    problem = tiny().replace(levels=levels)
    halves = tuple(LeveledStage((name,), 1, children=(leaf(name),)) for name in "ab")
    found = simulate(problem, LeveledPlan((LeveledStage(("a", "b"), 1, children=halves),)), micro_batches=1)
    assert found.iteration == pytest.approx(FORWARD + 5 + 8 + 5 + BACKWARD)
    assert [stage.name for stage in found.stages] == ["stage 0.0.0", "stage 0.1.0"]


def test_weights_are_synchronised_level_by_level() -> None:
    """Four copies run one micro-batch each; then 4 x 1/2 x 3 bytes inside the servers, and as many between them."""
    plan = LeveledPlan((LeveledStage(("a",), 2, children=(leaf("a", copies=2),)),))
    assert simulate(one_layer(weight_bytes=3.0), plan).iteration == pytest.approx(8 + 6 / 10 + 6 / 1)


# ---- against the flat network and the referee ----------------------------------------------------------


@pytest.mark.parametrize("schedule", ["planned", "gpipe"])
@pytest.mark.parametrize("seed", range(20))
def test_one_level_is_the_flat_network(seed: int, schedule: str) -> None:
    flat = random_staging(seed)
    plan = pipeplan.solve(flat).plan
    if plan is None:
        return
    assert isinstance(plan, StagedPlan)
    tree = LeveledPlan(
        tuple(LeveledStage(s.nodes, s.data_parallel, s.tensor_parallel, s.configurations) for s in plan.stages)
    )
    nested = flat.replace(levels=(StagingLevel(flat.devices, flat.bandwidth),))
    found, expected = simulate(nested, tree, schedule=schedule), simulate(flat, plan, schedule=schedule)
    assert found.iteration == pytest.approx(expected.iteration)
    assert [stage.name for stage in found.stages] == [stage.name for stage in expected.stages]
    for one, other in zip(found.stages, expected.stages, strict=True):
        assert one.memory_bytes == pytest.approx(other.memory_bytes)
        assert [task.start for task in one.tasks] == pytest.approx([task.start for task in other.tasks])


@pytest.mark.parametrize("seed", range(20))
def test_memory_is_what_the_referee_counts(seed: int) -> None:
    flat = random_staging(seed, layers=(2, 3), exact_batches=False)
    problem = flat.replace(devices=4, levels=(StagingLevel(2, flat.bandwidth), StagingLevel(2, flat.bandwidth / 4)))
    plan = pipeplan.solve(problem).plan
    if plan is None:
        return
    assert isinstance(plan, LeveledPlan)
    costs = evaluate_leveled(problem, plan).leaves
    runs = simulate(problem, plan, micro_batches=24).stages
    assert [run.memory_bytes for run in runs] == pytest.approx([cost.memory_bytes for cost in costs])
    assert [run.busy for run in runs] == pytest.approx(
        [
            24 * cost.compute * leaf.data_parallel / cost.copies
            for cost, leaf in zip(costs, plan.leaves(), strict=True)
        ]
    )


# ---- what is refused, and the command line -------------------------------------------------------------


def test_a_plan_that_ends_too_high_cannot_be_run() -> None:
    with pytest.raises(UsageError, match=r"cannot be simulated.*must be divided further"):
        simulate(tiny(), LeveledPlan((LeveledStage(("a", "b"), 1),)))


def test_too_much_memory_can() -> None:
    """The simulation shows what comes of it."""
    assert simulate(tiny().replace(memory_bytes=1.0), copied_servers()).peak_memory_bytes == 12.0


def test_the_command_line(tmp_path: Path) -> None:
    from pipeplan.cli.app import app

    file = tmp_path / "plan.json"
    file.write_text(json.dumps(copied_servers().to_json()))
    said = CliRunner().invoke(app, ["simulate", "tiny-levels", str(file), "--json"])
    assert said.exit_code == 0
    assert json.loads(said.stdout)["iteration"] == pytest.approx(28.0)
