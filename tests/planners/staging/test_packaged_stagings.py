"""What is said of the packaged staging problems, checked by the program for devices within devices on one level."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeplan.instances.catalogue import best_known, load_packaged
from pipeplan.instances.staging.problem import Layer, StagingLevel, StagingProblem
from pipeplan.planners.staging.levels import plan_levels


@pytest.mark.parametrize("name", ["tiny-stages", "resnet50-stages"])
def test_what_is_known_of_stagings_is_found_by_another_program(name: str) -> None:
    problem = load_packaged(name)
    found = plan_levels(problem.replace(levels=(StagingLevel(problem.devices, problem.bandwidth),)))
    known = best_known(name, "paper")
    assert found is not None
    assert known is not None
    assert found.load == pytest.approx(known.value, rel=1e-9)


def without(problem: StagingProblem, what: str) -> StagingProblem:
    """The same problem, one device to a layer or nothing computed again."""

    def left(layer: Layer) -> Layer:
        ways = {
            t: tuple(way for way in row if what != "recomputation" or way.id == "vanilla")
            for t, row in layer.configurations.items()
            if what != "tensor parallelism" or t == 1
        }
        return replace(layer, configurations=ways)

    return problem.replace(
        layers=tuple(map(left, problem.layers)), levels=(StagingLevel(problem.devices, problem.bandwidth),)
    )


@pytest.mark.parametrize("what", ["recomputation", "tensor parallelism"])
def test_gpt2_medium_needs_recomputation_and_tensor_parallelism(what: str) -> None:
    problem = load_packaged("gpt2-medium-stages")
    assert best_known("gpt2-medium-stages", "paper") is not None
    assert plan_levels(without(problem, what)) is None
