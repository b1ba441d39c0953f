"""Pipelines with several stages on each device, and the generators of such."""

from __future__ import annotations

import pytest

from pipeplan import InputError, ScheduleProblem, solve
from pipeplan.instances.schedule.generators import GENERATORS, StagePasses, divided_pipeline, equal_stages


def places(problem: ScheduleProblem, kind: str) -> list[str]:
    return [block.devices[0] for block in problem.blocks if block.kind == kind]


@pytest.mark.parametrize(("layout", "devices"), [("loop", "d0 d1 d0 d1"), ("v", "d0 d1 d1 d0")])
def test_every_pass_of_a_stage_is_on_its_device(layout: str, devices: str) -> None:
    problem = divided_pipeline(equal_stages(4, 1, 2, 3), 8, 5, lag=0.5, virtual=2, layout=layout)
    assert [device.name for device in problem.devices] == ["d0", "d1"]
    for kind in "FIW":
        assert places(problem, kind) == devices.split()


def test_nothing_is_sent_where_two_stages_in_a_row_share_a_device() -> None:
    problem = divided_pipeline(equal_stages(4, 1, 2, None), 8, None, lag=0.5, virtual=2, layout="v")
    lags = {(edge.source, edge.target): edge.lag for edge in problem.edges}
    assert lags == {
        ("F0", "F1"): 0.5,
        ("F1", "F2"): 0,
        ("F2", "F3"): 0.5,
        ("B1", "B0"): 0.5,
        ("B2", "B1"): 0,
        ("B3", "B2"): 0.5,
        **{(f"F{i}", f"B{i}"): 0 for i in range(4)},
    }


def test_a_backward_pass_may_be_whole_and_then_gives_everything_back() -> None:
    problem = divided_pipeline([StagePasses(1, 2, None, taken=3)], 1, None)
    assert {block.id: dict(block.memory) for block in problem.blocks} == {"F0": {"d0": 3}, "B0": {"d0": -3}}


@pytest.mark.parametrize(("arguments", "words"), [
    ({"virtual": 3}, "virtual is 3 for 4 stages; give a divisor of their number"),
    ({"virtual": 0}, "virtual is 0"),
    ({"layout": "w"}, "layout is 'w'; give one of loop, v"),
])  # fmt: skip
def test_stages_that_cannot_be_laid_out_so(arguments: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        divided_pipeline(equal_stages(4, 1, 2, 3), 8, None, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("family", "planner", "virtual"), [
    ("interleaved-pipeline", "interleaved-1f1b", 2),
    ("interleaved-pipeline", "interleaved-1f1b", 3),
    ("v-pipeline", "dualpipe-v", 2),
    ("v-pipeline", "zb-v", 2),
])  # fmt: skip
def test_what_is_generated_has_the_memory_that_its_rule_needs(family: str, planner: str, virtual: int) -> None:
    problem = GENERATORS[family].build(virtual=virtual)
    assert solve(problem, planner=planner).plan is not None
    assert {block.kind for block in GENERATORS[family].build(undivided=True).blocks} == {"F", "B"}


def test_generated_memory_is_the_least_that_the_rule_needs() -> None:
    for family, planner in (("interleaved-pipeline", "interleaved-1f1b"), ("v-pipeline", "dualpipe-v")):
        usual = GENERATORS[family].build().devices[0].memory
        assert usual is not None
        assert solve(GENERATORS[family].build(limit=usual - 1), planner=planner).plan is None
