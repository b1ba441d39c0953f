"""``pipeplan.schedule/1``: what is written comes back, further keys are welcome, slips and gaps are named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recipes.other_kinds import measured_uneven

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.schedule.generators import SHAPES, divided_pipeline, equal_stages, random_schedule, shape
from pipeplan.instances.schedule.kind_functions import SCHEMA, schedule_from_json, schedule_to_json
from pipeplan.instances.schedule.problem import ScheduleProblem

MADE: list[ScheduleProblem] = [
    divided_pipeline(equal_stages(4, 5, 6, 4), 12, 10, 0.5),
    measured_uneven(),
    *(shape(name) for name in SHAPES),
    *(random_schedule(3, 8, None if seed % 2 else 4, seed) for seed in range(20)),
]


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


def refused(**changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        schedule_from_json(data(**changes))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("problem", MADE, ids=lambda problem: problem.name)
def test_what_is_written_comes_back(problem: ScheduleProblem) -> None:
    again = schedule_from_json(json.loads(json.dumps(schedule_to_json(problem))))
    assert again == problem
    assert again.hash == problem.hash


def test_the_specified_example_is_read() -> None:
    problem = schedule_from_json(data())
    assert (problem.name, problem.memory_unit, problem.micro_batches) == ("p1m12", "half-activation", 12)
    assert problem.loads == (15,)


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


def test_leaks_come_back() -> None:
    leaking = schedule_from_json(data(leaks=True, blocks=data()["blocks"][:2], edges=[]))
    assert schedule_from_json(schedule_to_json(leaking)) == leaking


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


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"schema": "pipeplan.schedule/9"}, "schema"),
        ({"devices": None}, "devices"),
        ({"devices": [3]}, "devices[0]"),
        ({"devices": [{}]}, "devices[0].name"),
        ({"blocks": [{"id": "a", "kind": "X", "time": 1}]}, "blocks[0].devices"),
        ({"blocks": [{"id": "a", "kind": "X", "devices": "d0", "time": 1}]}, "blocks[0].devices"),
        ({"blocks": [{"id": "a", "kind": "X", "devices": ["d0"]}]}, "blocks[0].time"),
        ({"blocks": [{"id": "a", "kind": "X", "devices": [["d0"]], "time": 1}]}, "blocks[0].devices[0]"),
        ({"blocks": [{"id": "a", "kind": "X", "devices": ["d0"], "time": 1, "memory": 3}]}, "blocks[0].memory"),
        ({"blocks": [{"id": {}, "kind": "X", "devices": ["d0"], "time": 1}], "edges": []}, "blocks[0].id"),
        ({"edges": [{"from": "F0"}]}, "edges[0].to"),
        ({"edges": [{"from": "F0", "to": ["I0"]}]}, "edges[0].to"),
        ({"edges": 5}, "edges"),
        ({"micro_batches": "12"}, "micro_batches"),
        ({"leaks": 1}, "leaks"),
    ],
)  # fmt: skip
def test_a_file_of_another_shape_is_refused_by_field(changes: dict[str, Any], field: str) -> None:
    assert refused(**changes).startswith(f"{field} ")
