"""Runs that are killed at random moments: four of the sixty of `benchmarks/kills.py`, one of each death."""

from __future__ import annotations

import kills
import pytest

from pipeplan.planners.registry import EXACT, all_methods

METHODS = {"worker": "exact-beaumont", "memory": "cp-schedule", "SIGINT": "cp-periodic", "SIGTERM": "ilp-beaumont"}


def test_every_exact_method_meets_every_death() -> None:
    exact = {entry.name for entry in all_methods() if entry.exact and entry.name != EXACT}
    pairs = len(exact) * len(kills.DEATHS)
    assert set(kills.PROBLEMS) == exact
    assert len({run[:2] for run in kills.drawn(pairs, 0)}) == pairs
    assert set(METHODS) == set(kills.DEATHS)


@pytest.mark.slow("SIGTERM", "memory", "worker")
@pytest.mark.sweeps
@pytest.mark.parametrize("death", METHODS)
def test_a_run_ends_as_it_should_whatever_dies(death: str) -> None:
    """At the moment that the first seed draws for this pair."""
    (moment,) = (
        moment for *pair, moment in kills.drawn(4 * len(kills.PROBLEMS), 0) if pair == [METHODS[death], death]
    )
    code, _, faults = kills.run(METHODS[death], death, moment)
    assert not faults
    assert code in (0, 1, 130)
