"""Orders from files: what they are checked for, how long they should take, and that gradients are the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from problems.profiles import ROW

from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.instances.timeline.model import INPUTS, WEIGHTS, Pass
from pipeplan.models.run.orders import Schedule, schedule_of
from pipeplan.models.run.run import listed_schedule

BANDWIDTH = 1e9
TWO = PlacementPlan((Device("acc0", "accelerator", ("a", "b")), Device("acc1", "accelerator", ("c", "d"))))
WHOLE = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
DIVIDED = "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n"


@pytest.fixture
def listed(tmp_path: Path) -> Callable[..., Schedule]:
    def read(text: str, plan: PlacementPlan = TWO, micro_batches: int | None = None) -> Schedule:
        path = tmp_path / "schedule.csv"
        path.write_text(text)
        return listed_schedule(plan, ROW, path, micro_batches, BANDWIDTH)

    return read


# ---- orders and predictions ----------------------------------------------------------------------------


def test_the_file_says_the_order(listed: Callable[..., Schedule]) -> None:
    found = listed(DIVIDED)
    assert found.ranks == 2
    assert found.orders[1][:3] == (Pass(1, 1), Pass(1, -1, INPUTS), Pass(1, 2))
    assert found.orders[0][-1] == Pass(0, -2, WEIGHTS)
    assert [own.kind for own in found.orders[1]] == ["F", "I", "F", "I", "W", "W"]


def test_an_order_that_the_plan_has_as_well_is_predicted_alike(listed: Callable[..., Schedule]) -> None:
    own = schedule_of(TWO, ROW, 2, BANDWIDTH)
    found = listed(WHOLE)
    assert found.orders == own.orders
    assert found.predicted.iteration == pytest.approx(own.predicted.iteration)
    for one, other in zip(found.predicted.stages, own.predicted.stages, strict=True):
        assert one.tasks == other.tasks
        assert one.peak_in_flight == other.peak_in_flight
        assert one.memory_over_time() == other.memory_over_time()


def test_a_divided_backward_pass_lets_the_other_stage_begin_earlier(listed: Callable[..., Schedule]) -> None:
    assert listed(DIVIDED).predicted.iteration < listed(WHOLE).predicted.iteration


def test_a_stage_holds_a_micro_batch_until_its_weights_are_done(listed: Callable[..., Schedule]) -> None:
    first = listed(DIVIDED).predicted.stages[0]
    assert first.peak_in_flight == 2
    ends = [task.end for task in first.tasks if task.kind == "weights"]
    assert [time for time, _ in first.memory_over_time()[-2:]] == pytest.approx(ends)


def test_chunks_are_cut_evenly(listed: Callable[..., Schedule]) -> None:
    found = listed("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n")
    assert [stage.nodes for stage in found.stages] == [("a",), ("b",), ("c",), ("d",)]
    assert [stage.ranks for stage in found.stages] == [(0,), (1,), (0,), (1,)]
    v = listed("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n")
    assert [stage.ranks for stage in v.stages] == [(0,), (1,), (1,), (0,)]


def test_a_result_is_read_by_the_ids_of_its_blocks(tmp_path: Path, listed: Callable[..., Schedule]) -> None:
    starts = {"F0": [0, 1], "B0": [4, 8], "F1": [1, 4], "B1": [2, 6]}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"kind": "schedule", "starts": starts}))
    assert listed_schedule(TWO, ROW, path).orders == listed(WHOLE).orders
    path.write_text(json.dumps({"kind": "schedule", "starts": {**starts, "F2": [0, 1]}}))
    with pytest.raises(InputError, match=r"plan.starts.F2 is no pass of a stage of the plan; give the CSV"):
        listed_schedule(TWO, ROW, path)
    path.write_text(json.dumps(TWO.to_json()))
    with pytest.raises(InputError, match="plan is of the kind placement, not schedule"):
        listed_schedule(TWO, ROW, path)


# ---- refusals ------------------------------------------------------------------------------------------

REFUSED = {
    "a deadlock": ("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "0B0 (row 1, column 2) waits for 1B0 (row 2, column 3)"),
    "another rank": (WHOLE.split("\n")[1] + "\n" + WHOLE.split("\n")[0], "row 1, column 1 is 1F0, and stage 1"),
    "a missing pass": (WHOLE.replace(",0B1", ""), "schedule.csv: row 1 ends after column 3 without 0B1"),
    "another number of stages": (WHOLE + "2F0,2B0\n", "has 3 stages and the plan 2"),
    "no pass": (",,\n,\n", "holds no pass"),
    "no plan": ("{}", "content is no plan in a known format"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_does_not_fit_is_refused(name: str, listed: Callable[..., Schedule]) -> None:
    text, message = REFUSED[name]
    with pytest.raises(InputError) as error:
        listed(text)
    assert message in str(error.value)


def test_plans_and_numbers_that_a_file_does_not_have_are_refused(listed: Callable[..., Schedule]) -> None:
    assert listed(WHOLE, micro_batches=2).pipeline.mini_batch == 2
    with pytest.raises(UsageError, match="The schedule has 2 micro-batches, not 4; drop --micro-batches"):
        listed(WHOLE, micro_batches=4)
    both = StagedPlan((PlannedStage(tuple("abcd"), 2, 1, dict.fromkeys("abcd", "vanilla")),))
    with pytest.raises(UsageError, match="has 2 replicas, and a schedule's file has one rank for each stage"):
        listed("0F0,0F1,0B0,0B1\n", both)
    uneven = PlacementPlan((Device("acc0", "accelerator", ("a",)), Device("acc1", "accelerator", ("b", "c", "d"))))
    with pytest.raises(UsageError, match="has 1 node, which 2 chunks cannot share evenly"):
        listed("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n", uneven)


# ---- processes -----------------------------------------------------------------------------------------


def on_two_ranks(homes: Sequence[int], micro_batches: int) -> str:
    """Any order that can be run: each rank goes forward as long as it can, gradients of weights come last."""
    rows: list[list[str]] = [[], []]
    for n in range(micro_batches):
        for stage, rank in enumerate(homes):
            rows[rank].append(f"{stage}F{n}")
        for stage, rank in reversed(list(enumerate(homes))):
            rows[rank].append(f"{stage}I{n}")
            if n:
                rows[rank].append(f"{stage}W{n - 1}")
    for stage, rank in enumerate(homes):
        rows[rank].append(f"{stage}W{micro_batches - 1}")
    return "".join(",".join(row) + "\n" for row in rows)


ZERO_BUBBLE = "0F0,0F1,0I0,0F2,0I1,0W0,0F3,0I2,0W1,0I3,0W2,0W3\n1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1F3,1I3,1W2,1W3\n"
MIXED = "0F0,0F1,0B0,0F2,0I1,0F3,0W1,0B2,0B3\n1F0,1I0,1F1,1B1,1W0,1F2,1B2,1F3,1I3,1W3\n"
"""Some passes whole, some divided."""


@pytest.mark.torch
@pytest.mark.xdist_group("torch-runs")
@pytest.mark.parametrize("function", ["gpt", "skips"])
def test_gradients_are_those_of_one_process(function: str, tmp_path: Path) -> None:
    """Two stages, by turns, there and back; with what skips stages and with tied weights."""
    pytest.importorskip("torch")
    from run_cases import in_shares, profile_of, run_cases

    profile = profile_of(function)
    count = len(profile.nodes)
    two, turns = in_shares(profile, 3, count - 3), in_shares(profile, 1, 2, 2, count - 5)
    ends = in_shares(profile, 2, count - 3, 1)
    files = {
        "zero bubble": (two, ZERO_BUBBLE),
        "mixed": (two, MIXED),
        "by turns": (turns, on_two_ranks((0, 1, 0, 1), 4)),
        "there and back": (ends, on_two_ranks((0, 1, 0), 4)),
    }
    schedules = {}
    for name, (plan, text) in files.items():
        path = tmp_path / f"{name}.csv"
        path.write_text(text)
        schedules[name] = listed_schedule(plan, profile, path)
    cases = run_cases(function, profile, {}, listed=schedules, steps=2)
    for name, case in cases.items():
        assert case.check.agrees, f"{name}: {case.check}"
        assert case.check.difference < 1e-5
        assert case.check.compared > 0
        parts = [found.part for found in case.passes]
        assert parts.count(INPUTS) == parts.count(WEIGHTS) > 0, name
        assert case.schedule == "the given"
