"""Which pipelines the named rules recognise, whatever their blocks are called and however the file orders them."""

from __future__ import annotations

import random

import pytest

from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.problem import Block, ScheduleDevice
from pipeplan.planners.schedule.named import chain_shape


@pytest.mark.parametrize("layout", ["loop", "v"])
@pytest.mark.parametrize("virtual", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_stages_are_found_in_the_order_of_the_network(layout: str, virtual: int, seed: int) -> None:
    problem = divided_pipeline(equal_stages(4 * virtual, 1, 1, 1), 8, None, virtual=virtual, layout=layout)
    blocks, edges = list(problem.blocks), list(problem.edges)
    random.Random(seed).shuffle(blocks)
    random.Random(seed).shuffle(edges)
    mixed = problem.replace(blocks=tuple(blocks), edges=tuple(edges))
    shape = chain_shape(mixed, "test")
    assert [mixed.blocks[stage.forward].id for stage in shape.stages] == [f"F{i}" for i in range(4 * virtual)]
    assert [mixed.blocks[stage.backward].id for stage in shape.stages] == [f"I{i}" for i in range(4 * virtual)]
    assert shape.devices == (0, 1, 2, 3)
    assert shape.virtual == virtual
    assert shape.layout == ("loop" if virtual == 1 else layout)
    assert shape.divided


def test_other_layouts_are_none() -> None:
    """Both stages of each device come one after the other."""
    problem = divided_pipeline(equal_stages(4, 1, 2, None), 8, None)
    places = {"d0": "d0", "d1": "d0", "d2": "d1", "d3": "d1"}
    blocks = tuple(
        Block(block.id, block.kind, (places[block.devices[0]],), block.time, block.stage)
        for block in problem.blocks
    )
    shape = chain_shape(
        problem.replace(blocks=blocks, devices=(ScheduleDevice("d0"), ScheduleDevice("d1"))), "test"
    )
    assert shape.layout is None
    assert shape.virtual == 2
    assert not shape.divided


def test_work_of_another_kind_on_the_stages_devices_is_refused() -> None:
    problem = divided_pipeline(equal_stages(2, 1, 2, None), 4, None)
    with pytest.raises(UsageError, match="block 'update' of the kind X runs on a device of the stages"):
        chain_shape(problem.replace(blocks=(*problem.blocks, Block("update", "X", ("d0",), 1))), "test")
