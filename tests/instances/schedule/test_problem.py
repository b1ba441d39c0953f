"""The schedule problem: its door refuses in one sentence, its structure is by position, its
hash sees what counts."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.schedule.kind_functions import SCHEMA, schedule_from_json
from pipeplan.instances.schedule.plan import PeriodicSchedulePlan, SchedulePlan, exact, written
from pipeplan.instances.schedule.problem import (
    MAX_STARTS,
    Block,
    BlockEdge,
    ScheduleDevice,
    ScheduleProblem,
    whole_times,
)

DEVICES = (ScheduleDevice("d0", 10, 1), ScheduleDevice("d1", 10), ScheduleDevice("link"))
F0 = Block("F0", "F", ("d0",), 5, 0, {"d0": 2})
F1 = Block("F1", "F", ("d1",), 4.5, 1, {"d1": 2}, {"d1": 0.5})
SEND = Block("send", "X", ("d0", "link"), 0)
B1 = Block("B1", "B", ("d1",), 9, 1, {"d1": -2})
B0 = Block("B0", "B", ("d0",), 10, 0, {"d0": -2})
BLOCKS = (F0, SEND, F1, B1, B0)
EDGES = (
    BlockEdge("F0", "send"),
    BlockEdge("send", "F1", 0.25),
    BlockEdge("F1", "B1"),
    BlockEdge("B1", "B0", 0.1),
    BlockEdge("B0", "F0", 0, 1),
)
PROBLEM = ScheduleProblem(DEVICES, BLOCKS, EDGES, 3)


def refused(**changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        PROBLEM.replace(**changes)
    said = str(caught.value)
    assert "\n" not in said
    return said


def with_block(**changes: Any) -> str:
    return refused(blocks=(replace(F0, **changes), *BLOCKS[1:]))


def with_edge(**changes: Any) -> str:
    return refused(edges=(replace(EDGES[0], **changes), *EDGES[1:]))


def with_device(**changes: Any) -> str:
    return refused(devices=(replace(DEVICES[0], **changes), *DEVICES[1:]))


# ---- structure -----------------------------------------------------------------------------------------


def test_numbers_are_the_decimals_that_they_print_as() -> None:
    assert PROBLEM.times == (5, 0, Fraction(9, 2), 9, 10)
    assert PROBLEM.lags == (0, Fraction(1, 4), 0, Fraction(1, 10), 0)


def test_blocks_and_devices_are_positions() -> None:
    assert PROBLEM.ends == ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
    assert PROBLEM.on_device == ((0, 1, 4), (2, 3), (1,))
    assert PROBLEM.loads == (15, Fraction(27, 2), 0)
    assert PROBLEM.memory_bytes == 10


def test_an_edge_with_an_offset_is_none_within_a_micro_batch() -> None:
    assert PROBLEM.depths == (0, 1, 2, 3, 4)
    turned = PROBLEM.replace(blocks=BLOCKS[::-1])
    assert [turned.blocks[b].id for b in turned.order] == ["F0", "send", "F1", "B1", "B0"]


def test_devices_that_run_passes_are_computing() -> None:
    assert PROBLEM.computing == (0, 1)
    links = PROBLEM.replace(blocks=tuple(replace(block, kind="X") for block in BLOCKS))
    assert links.computing == (0, 1, 2)  # of nothing but other work, all of them


def test_whole_times_count_steps_in_which_all_numbers_are_whole() -> None:
    steps, times, lags = whole_times(PROBLEM)
    assert steps == 20
    assert times == (100, 0, 90, 180, 200)
    assert lags == (0, 5, 0, 2, 0)


# ---- the hash ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"micro_batches": 4},
        {"micro_batches": None},
        {"devices": (replace(DEVICES[0], memory=11), *DEVICES[1:])},
        {"devices": (replace(DEVICES[0], memory=None), *DEVICES[1:])},
        {"devices": (replace(DEVICES[0], standing=2), *DEVICES[1:])},
        {"blocks": (replace(F0, time=6), *BLOCKS[1:])},
        {"blocks": (F0, SEND, replace(F1, workspace={}), B1, B0)},
        {"blocks": (F0, replace(SEND, devices=("link",)), F1, B1, B0)},
        {"edges": EDGES[:-1]},
        {"edges": (replace(EDGES[0], lag=1), *EDGES[1:])},
        {"edges": (*EDGES[:-1], replace(EDGES[-1], offset=2))},
    ],
)
def test_what_can_change_a_plan_changes_the_hash(changes: dict[str, Any]) -> None:
    assert PROBLEM.replace(**changes).hash != PROBLEM.hash


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"time_unit": "ms"},
        {"memory_unit": "bytes"},
        {"blocks": (replace(F0, stage="first"), *BLOCKS[1:])},
        {"devices": tuple(replace(device, name=device.name) for device in DEVICES)},
    ],
)
def test_labels_leave_the_hash_alone(changes: dict[str, Any]) -> None:
    assert PROBLEM.replace(**changes).hash == PROBLEM.hash


# ---- the door ------------------------------------------------------------------------------------------


def test_a_cycle_is_named() -> None:
    said = refused(edges=(*EDGES, BlockEdge("B1", "send")))
    assert said == "edges form a cycle: send -> F1 -> B1 -> send; give one of its edges an offset, or drop it."


def test_a_block_that_waits_for_itself_is_a_cycle() -> None:
    assert "F0 -> F0" in refused(edges=(*EDGES, BlockEdge("F0", "F0")))
    assert PROBLEM.replace(edges=(*EDGES, BlockEdge("F0", "F0", 0, 1)))  # of the micro-batch before: welcome


def test_a_long_cycle_is_shortened() -> None:
    blocks = tuple(Block(f"b{i}", "X", ("d0",), 1) for i in range(30))
    edges = tuple(BlockEdge(f"b{i}", f"b{(i + 1) % 30}") for i in range(30))
    said = refused(blocks=blocks, edges=edges)
    assert "..." in said
    assert len(said) < 200


def test_an_unknown_device_is_named_with_the_one_that_was_meant() -> None:
    said = with_block(devices=("d00",))
    assert said == "blocks[0].devices[0] is 'd00', and no device is called so; write 'd0'."


def test_changes_that_do_not_sum_to_zero_name_device_and_sum() -> None:
    said = with_block(memory={"d0": 2.1})
    assert "change the memory of 'd0' by 0.1 in one micro-batch, not by 0" in said
    assert "leaks" in said


def test_changes_are_summed_exactly() -> None:
    """0.1 + 0.2 - 0.3 is 0, which floats deny."""
    thirds = (
        replace(F0, memory={"d0": 0.1}),
        replace(SEND, memory={"d0": 0.2}),
        F1,
        B1,
        replace(B0, memory={"d0": -0.3}),
    )
    assert PROBLEM.replace(blocks=thirds).blocks == thirds


def test_leaks_are_welcome_where_there_is_an_end() -> None:
    leaking = (replace(F0, memory={"d0": 3}), *BLOCKS[1:])
    assert PROBLEM.replace(blocks=leaking, leaks=True).leaks
    assert "leaks" in refused(blocks=leaking, leaks=True, micro_batches=None)


def test_standing_above_the_memory_is_refused() -> None:
    said = with_device(standing=10.5)
    assert "devices[0].standing" in said
    assert "10.5" in said
    assert PROBLEM.replace(devices=(replace(DEVICES[0], standing=10), *DEVICES[1:]))


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (lambda: with_block(time=-1), "blocks[0].time"),
        (lambda: with_block(devices=()), "blocks[0].devices"),
        (lambda: with_block(devices=("d0", "d0")), "blocks[0].devices[1].name"),
        (lambda: with_block(memory={"d1": 1}), "blocks[0].memory.d1"),
        (lambda: with_block(workspace={"d1": 1}), "blocks[0].workspace.d1"),
        (lambda: with_block(workspace={"d0": -1}), "blocks[0].workspace.d0"),
        (lambda: with_edge(source="G0"), "edges[0].from"),
        (lambda: with_edge(target="nobody at all"), "edges[0].to"),
        (lambda: with_edge(lag=-1), "edges[0].lag"),
        (lambda: with_device(memory=-1), "devices[0].memory"),
        (lambda: refused(devices=(*DEVICES, DEVICES[0])), "devices[3].name"),
        (lambda: refused(blocks=(*BLOCKS, F0)), "blocks[5].id"),
        (lambda: refused(devices=()), "devices"),
        (lambda: refused(blocks=(), edges=()), "blocks"),
        (lambda: refused(micro_batches=0), "micro_batches"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_field(said: Any, field: str) -> None:
    assert said().startswith(f"{field} ")


def test_more_starts_than_a_plan_can_hold_are_refused() -> None:
    blocks = tuple(Block(f"b{i}", "X", ("d0",), 1) for i in range(100))
    said = refused(blocks=blocks, edges=(), micro_batches=MAX_STARTS // 100 + 1)
    assert str(MAX_STARTS // 100) in said


# ---- Schedules as plans: exact times in and out, and a sentence for whatever is no time.


def test_thirds_are_written_as_ratios() -> None:
    plan = PeriodicSchedulePlan(Fraction(37, 3), {"F0": Fraction(0), "B0": Fraction(1, 4), "W0": Fraction(-2, 7)})
    data = plan.to_json()
    assert data == {
        "kind": "periodic-schedule", "period": "37/3", "starts": {"F0": 0, "B0": 0.25, "W0": "-2/7"},
    }  # fmt: skip
    assert PeriodicSchedulePlan.from_json(json.loads(json.dumps(data))) == plan


def test_a_finite_schedule_has_a_row_for_each_block() -> None:
    plan = SchedulePlan({"F0": (Fraction(0), Fraction(5)), "B0": (Fraction(7, 3), Fraction(1, 10))})
    assert plan.to_json() == {"kind": "schedule", "starts": {"F0": [0, 5], "B0": ["7/3", 0.1]}}
    assert SchedulePlan.from_json(plan.to_json()) == plan


def test_a_number_is_the_decimal_that_it_prints_as() -> None:
    assert exact("t", 0.1) == Fraction(1, 10)
    assert exact("t", 1e22) == 10**22
    assert exact("t", "6/4") == Fraction(3, 2)
    assert exact("t", "-12") == -12


@pytest.mark.parametrize("seed", range(5))
def test_every_time_comes_back(seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(500):
        time = Fraction(
            chosen.randint(-(10**25), 10**25), chosen.choice((1, 2, 3, 10**7, chosen.randint(1, 10**20)))
        )
        assert exact("t", json.loads(json.dumps(written(time)))) == time


@pytest.mark.parametrize(
    "value",
    [
        None, True, "three", "1/0", "1/2/3", "1.5", "", " 1", "1/-2", [1], {},
        float("nan"), float("inf"), -float("inf"), "9" * 401,
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(InputError) as caught:
        exact("plan.period", value)
    assert str(caught.value).startswith("plan.period is ")
    assert "37/3" in str(caught.value)
    assert len(str(caught.value)) < 300


# ---- ``pipeplan.schedule/1``: what is written comes back, further keys are welcome, slips and gaps are named.


def data(**changes: Any) -> dict[str, Any]:
    """The specification's example, shortened."""
    return {
        "schema": SCHEMA, "name": "p1m12", "time_unit": "ms", "memory_unit": "half-activation", "micro_batches": 12,
        "devices": [{"name": "d0", "memory": 10, "standing": 0}],
        "blocks": [
            {"id": "F0", "kind": "F", "stage": 0, "devices": ["d0"], "time": 5, "memory": {"d0": 2}},
            {"id": "I0", "kind": "I", "stage": 0, "devices": ["d0"], "time": 6, "memory": {"d0": -1}},
            {"id": "W0", "kind": "W", "stage": 0, "devices": ["d0"], "time": 4, "memory": {"d0": -1}},
        ],
        "edges": [{"from": "F0", "to": "I0", "lag": 0}, {"from": "I0", "to": "W0"}],
        **changes,
    }  # fmt: skip


def test_what_equals_its_default_may_be_omitted() -> None:
    short = schedule_from_json(
        {
            "schema": SCHEMA,
            "devices": [{"name": "d"}],
            "blocks": [{"id": "a", "kind": "X", "devices": ["d"], "time": 1}],
        }
    )
    assert (short.edges, short.micro_batches, short.leaks) == ((), None, False)
    assert (short.devices[0].memory, short.devices[0].standing) == (None, 0)
    assert (dict(short.blocks[0].memory), dict(short.blocks[0].workspace)) == ({}, {})


def test_further_keys_are_welcome() -> None:
    more = data(source="a measurement")
    more["devices"][0]["serial"] = 7
    more["blocks"][0]["colour"] = "red"
    more["edges"][0]["tensor"] = [1, 2]
    assert schedule_from_json(more) == schedule_from_json(data())


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        (lambda d: d.update(micro_batch=d.pop("micro_batches")), 'write "micro_batches"'),
        (lambda d: d["devices"][0].update(standin=d["devices"][0].pop("standing")), 'write "standing"'),
        (lambda d: d["blocks"][0].update(memry=d["blocks"][0].pop("memory")), 'write "memory"'),
        (lambda d: d["edges"][0].update(lags=d["edges"][0].pop("lag")), 'write "lag"'),
    ],
)
def test_a_key_that_looks_like_one_of_ours_is_a_slip(slip: Any, said: str) -> None:
    mistaken = data()
    slip(mistaken)
    with pytest.raises(InputError, match=said):
        schedule_from_json(mistaken)
