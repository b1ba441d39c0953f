"""A schedule rule is one record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipeplan.instances.physics.schedules import SCHEDULES
from pipeplan.instances.registry import violations_of
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.planners.schedule.named import Named, schedule_by

MODEL = ("llama-3-8b", "--devices", "8xh100-80gb", "--sequence", 512, "--batch", 8, "--framework", "torchtitan")
JUDGED = ("--fix", "tensor=8", "--judge", "pipeline=2 data=4 zero=2 schedule=")


def test_a_new_schedule_rule_is_one_record(monkeypatch: pytest.MonkeyPatch, plan: Callable[..., Any]) -> None:
    """Schedules of given stages, configurations, and the framework that runs it know the rule by its record alone."""
    new = replace(SCHEDULES["gpipe"], name="all-forward", frameworks={"torchtitan": "AllForward"})
    unknown = plan("configure", *MODEL, *JUDGED[:-1], JUDGED[-1] + new.name)
    assert (unknown.code, "all-forward" in unknown.err) == (2, True)
    monkeypatch.setitem(SCHEDULES, new.name, new)  # type: ignore[arg-type]

    stages = divided_pipeline(equal_stages(4, 1, 2, None), micro_batches=6, memory=None)
    schedule = schedule_by(Named(new), stages)
    assert not violations_of(stages, schedule)
    assert schedule.starts == schedule_by(Named(SCHEDULES["gpipe"]), stages).starts

    def seconds(rule: str) -> float:
        said = plan("configure", *MODEL, *JUDGED[:-1], JUDGED[-1] + rule, "--json")
        assert said.code == 0, said.err
        return float(said.json["judged"][0]["seconds"])

    assert seconds(new.name) == seconds("gpipe")
