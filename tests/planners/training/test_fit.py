"""Efficiencies fitted to runs: what is found again, what is left alone, and how it is on runs that were left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from problems.timed_trainings import PLAIN, configuration, measured_row, problem

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.physics.efficiencies import ABOUT, Efficiencies
from pipeplan.instances.training.iteration import timing_of
from pipeplan.planners.training.runs import Run, fit

DEGREES = (
    {"data": 8}, {"tensor": 8}, {"tensor": 2, "data": 4}, {"pipeline": 2, "data": 4}, {"context": 4, "data": 2},
)  # fmt: skip
START = replace(PLAIN, products=0.8, attention=0.6, memory=0.8, links=0.8)


def runs(truth: Efficiencies) -> list[Run]:
    """As many configurations as would be tried, with the times that they take with the true efficiencies."""
    own = problem(batch=32, efficiencies=truth)
    plans = [configuration(own, **degrees) for degrees in DEGREES]
    seconds = [timing_of(own, plan).seconds for plan in plans]
    known = own.replace(efficiencies=START)
    return [Run(known, plan, time, f"run {k}") for k, (plan, time) in enumerate(zip(plans, seconds, strict=True))]


def test_an_odd_run_moves_nothing_far_and_many_do() -> None:
    """One that took a third longer beside four as predicted; then all of them."""
    as_predicted = runs(START)
    odd = [replace(as_predicted[0], seconds=1.33 * as_predicted[0].seconds), *as_predicted[1:]]
    assert fit(odd).efficiencies.products == pytest.approx(START.products, rel=0.03)
    slow = runs(replace(START, products=0.6)) * 3
    assert fit(slow).worst < 0.5 * max(abs(run.error(START).error) for run in slow)


def test_runs_that_are_as_predicted_change_nothing() -> None:
    found = fit(runs(START))
    assert found.efficiencies == START
    assert found.worst == pytest.approx(0, abs=1e-12)


def test_a_number_that_no_run_depends_on_stays() -> None:
    found = fit(runs(replace(START, products=0.5)))
    assert found.efficiencies.products_fp8 == START.products_fp8
    assert found.efficiencies.expert_hidden == START.expert_hidden
    assert "products_fp8" not in found.runs[0].says


def test_numbers_stay_within_physical_bounds() -> None:
    """Runs that are ten times as fast as anything possible."""
    fast = [replace(run, seconds=run.seconds / 10) for run in runs(START)]
    found = fit(fast)
    for name, about in ABOUT.items():
        value = getattr(found.efficiencies, name)
        assert value >= about.least
        assert about.most is None or value <= about.most
    assert found.worst > 0.5


def test_what_a_run_says_of_a_number_is_its_part_of_the_time() -> None:
    own = problem(batch=32, efficiencies=START)
    plan = configuration(own, data=8)
    timing = timing_of(own, plan)
    found = fit([Run(own, plan, timing.seconds)])
    # A factor e in the efficiency of products takes away their part of the time, to the first order.
    assert found.runs[0].says["products"] == pytest.approx(-timing.ranks[0].products / timing.seconds, rel=1e-3)


def test_no_runs_and_no_time_are_refused() -> None:
    with pytest.raises(InputError, match="runs are none; give at least one"):
        fit([])
    own = measured_row(1, 1, 2, devices=1, batch=1)
    with pytest.raises(InputError, match="seconds of mine are 0"):
        fit([Run(own, configuration(own), 0, "mine")])
