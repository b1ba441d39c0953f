"""Which schedule: one table of all of them, for plans of every kind, uneven stages and levels included."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, refused

import pipeplan
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule
from pipeplan.instances.simulate import lower_to_schedule
from pipeplan.planners.options import SolveOptions
from pipeplan.studies.stage_schedule import ScheduleComparison, compare_schedules

QUICKLY = SolveOptions(time_limit_s=1.0, threads=1)
NAMED = ("gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-h2", "zb-greedy", "zb-v", "dualpipe-v")


def uneven_levels(layers: int = 10) -> tuple[Any, Any]:
    """A row of layers on two servers of two devices, with an embedding and a head: no stage is like another."""
    from pipeplan.instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor

    names = ["embedding", *(f"block {i}" for i in range(layers)), "head"]
    times = [1.0, *(4.0 for _ in range(layers)), 6.0]
    nodes = tuple(ProfileNode(n, t, 2 * t, 10.0, parameters={n: 1.0}) for n, t in zip(names, times, strict=True))
    tensors = tuple(ProfileTensor(n, n, (m,), 1.0) for n, m in pairwise(names))
    problem = Profile(nodes, tensors).to_staging(levels=((2, 100.0), (2, 10.0)), memory_bytes=400.0, batch=8)
    result = pipeplan.solve(problem)
    assert result.plan is not None
    return problem, result.plan


def check(found: ScheduleComparison) -> None:
    """Every schedule is one apart from its memory, and what is said of memory is so."""
    for row in found.rows:
        if row.plan is None or row.problem is None:
            assert row.why_none
            continue
        assert row.verified, row.name
        assert row.fits == (not verify_schedule(row.problem, row.plan)), row.name
        if found.limit is not None and row.peak is not None:
            assert row.fits == (row.peak <= found.limit), row.name
        uses = evaluate_schedule(row.problem, row.plan).devices
        running = [float(use.busy) for use in uses if use.busy]
        assert row.idle == pytest.approx(1 - sum(running) / (len(running) * row.time)), (row.name, "of its time")
    searched = [row for row in found.rows if row.name == "best" and row.time is not None]
    for row in searched:
        rivals = [r for r in found.rows if r.cut == row.cut and r.fits and r.time is not None]
        assert all(row.time <= r.time * (1 + 1e-9) for r in rivals), row.cut


@pytest.mark.sweeps
def test_uneven_stages_on_levels_have_all_schedules() -> None:
    found = compare_schedules(*uneven_levels(), limits=QUICKLY)
    check(found)
    assert found.micro_batches == 8
    assert {row.name for row in found.rows if row.time is not None} == {*NAMED, "best"}
    assert found.best is not None
    assert "a third" not in " ".join(found.notes)


@pytest.mark.slow("vgg16-training")
@pytest.mark.at_once(2)
@pytest.mark.parametrize("name", ["golden-4", "tiny-levels", "tiny-stages", "vgg16-training"])
def test_every_kind_has_a_table(name: str) -> None:
    """Where a schedule is not for the plan, a row says why."""
    problem = pipeplan.load_packaged(name)
    result = pipeplan.solve(problem)
    assert result.plan is not None
    found = compare_schedules(problem, result.plan, micro_batches=4, limits=QUICKLY)
    check(found)
    assert {row.name for row in found.rows} >= {*NAMED} - {"zb-greedy"}


def test_a_batch_of_samples_has_as_many_micro_batches_as_they_fill() -> None:
    """16 samples in micro-batches of 2."""
    problem = pipeplan.load_packaged("tiny-graph")
    result = pipeplan.solve(problem, planner="graphpipe")
    assert {stage.micro_batch for stage in result.plan.stages} == {2}
    assert compare_schedules(problem, result.plan, limits=QUICKLY).micro_batches == 8


def test_chunks_of_levels_pay_for_the_links_between_their_devices() -> None:
    """The way from the last device of the second server to the first one of the first server is the slow one."""
    problem, plan = uneven_levels()
    made = lower_to_schedule(problem, plan, micro_batches=4, virtual=2).problem
    lags = {(edge.source, edge.target): edge.lag for edge in made.edges}
    assert [lags[f"F{i}", f"F{i + 1}"] for i in range(7)] == pytest.approx([0.01, 0.1, 0.01, 0.1, 0.01, 0.1, 0.01])
    assert [len(block.devices) for block in made.blocks] == [1] * 16


@pytest.mark.slow
def test_the_command_prints_the_table_and_refuses_what_is_for_one_schedule(plan: Plan, tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    assert plan("solve", "tiny-stages", "-o", target).code == 0
    said = done(plan("schedule", "tiny-stages", target, "--compare", "--micro-batches", 4, "--time-limit", "1s"))
    assert "is the shortest that fits: 4 micro-batches in" in " ".join(said.out.split())
    assert "verified: yes, every row" in said.out
    data = plan(
        "schedule", "tiny-stages", target, "--compare", "--micro-batches", 4, "--time-limit", "1s", "--json"
    ).json
    assert {row["name"] for row in data["rows"]} == {*NAMED, "best"}
    said = plan("schedule", "tiny-stages", target, "--compare", "--virtual", 2)
    refused(said, "--compare tries all schedules, and --virtual is for one; drop one of them.")
