"""The sentence of advice behind the values of better clusters, and the words of what changes."""

from __future__ import annotations

import pytest

import pipeplan
from pipeplan.cli.sweeps import advice, lines
from pipeplan.instances.catalogue import load_packaged
from pipeplan.studies.sensitivity import Sensitivity, Worth

PROBLEM = load_packaged("tiny-stages")
PLAN = pipeplan.solve(PROBLEM).plan


def result(value: float | None, stop: str = "proven") -> pipeplan.Result:
    found = pipeplan.Found.NOTHING if value is None else pipeplan.Found.FEASIBLE
    plan = None if value is None else PLAN
    return pipeplan.Result(problem={}, stop=pipeplan.Stop(stop), found=found, plan=plan, objective=value)


def found(base: float | None, stop: str = "proven", **changes: float | None) -> Sensitivity:
    told = []
    for name, value in changes.items():
        ratio = None if base is None or value is None else value / base
        bigger = PROBLEM.replace(devices=5) if name == "one_more_device" else PROBLEM
        possible = base is None and value is not None
        told.append(Worth(name.replace("_", " "), result(value, stop), ratio, bigger, possible))
    return Sensitivity(result(base), tuple(told))


SOON = " Not every value is proven, so longer runs may say otherwise."


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (found(6.0, one_more_device=5.0), "5 devices help most, with 16.67 % less time for 25 % more devices."),
        (found(6.0, more=3.0, one_more_device=5.0), "more helps most, with 50.00 % less time."),
        (found(6.0, more=3.0, other=3.0), "more and other help most, with 50.00 % less time."),
        (found(6.0, more=6.0, other=5.9999),
         "none of these changes alone saves 0.1 % of the time: what there is suffices."),
        (found(6.0, **{"10_%_more_bandwidth": 5.0}), "10 % more bandwidth helps most, with 16.67 % less time."),
        (found(None, more=None), "none of these changes alone makes a plan possible."),
        (found(None, more=None, one_more_device=5.0), "5 devices make a plan possible."),
        (found(None, more=4.0, other=5.0), "more and other each make a plan possible."),
        (found(6.0, "time", more=3.0), f"more helps most, with 50.00 % less time.{SOON}"),
        (found(6.0, "interrupted", more=3.0), ""),
        (found(6.0), ""),
    ],
)  # fmt: skip
def test_advice(asked: Sensitivity, sentence: str) -> None:
    assert advice(PROBLEM, asked) == (f"Advice: {sentence}" if sentence else "")


def test_every_change_has_a_line_and_worse_clusters_take_more_time() -> None:
    assert lines(PROBLEM, found(None, more=4.0, other=None)) == [
        "as it is (4 devices, 35 B): no plan (proven)", "more: 4 s, where there was no plan (proven)",
        "other: no plan (proven)",
    ]  # fmt: skip
    worse = lines(PROBLEM, found(6.0, less=9.0, same=6.0))[1:]
    assert worse == ["less: 9 s, 50.00 % more time (proven)", "same: 6 s, no difference (proven)"]
