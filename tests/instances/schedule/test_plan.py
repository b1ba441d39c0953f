"""Schedules as plans: exact times in and out, and a sentence for whatever is no time."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import pytest

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.schedule.plan import PeriodicSchedulePlan, SchedulePlan, exact, written


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


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ({"kind": "schedule"}, "plan.starts"),
        ({"kind": "schedule", "starts": [1]}, "plan.starts"),
        ({"kind": "schedule", "starts": {"F0": 3}}, "plan.starts.F0"),
        ({"kind": "schedule", "starts": {"F0": [0, "x"]}}, "plan.starts.F0[1]"),
        ({"kind": "placement", "starts": {}}, "plan.kind"),
        (3, "plan"),
    ],
)
def test_a_plan_of_another_shape_is_named_by_field(data: Any, where: str) -> None:
    with pytest.raises(InputError) as caught:
        SchedulePlan.from_json(data)
    assert str(caught.value).startswith(f"{where} ")


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ({"kind": "periodic-schedule", "starts": {}}, "plan.period"),
        ({"kind": "periodic-schedule", "period": "a", "starts": {}}, "plan.period"),
        ({"kind": "periodic-schedule", "period": 3, "starts": {"F0": [1]}}, "plan.starts.F0"),
        ({"kind": "schedule", "period": 3, "starts": {}}, "plan.kind"),
    ],
)
def test_a_periodic_plan_of_another_shape_is_named_by_field(data: Any, where: str) -> None:
    with pytest.raises(InputError) as caught:
        PeriodicSchedulePlan.from_json(data)
    assert str(caught.value).startswith(f"{where} ")
