"""What every backend promises, on the same models; what a backend does not declare is tested as refused."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeplan import InputError, Progress, SolveOptions, StartOutcome, Stop, UsageError
from pipeplan.instances.base import clock
from pipeplan.planners.backends import (
    Backend,
    Incumbent,
    Job,
    MatrixModel,
    all_backends,
    client,
    from_rows,
    solve,
    submit,
)
from pipeplan.planners.backends.trust import SECOND_OPINION, second_opinion_limits

pytestmark = pytest.mark.xdist_group("conformance")  # one worker starts each solver

INF = float("inf")
ONE_THREAD = SolveOptions(threads=1)


def point(model: MatrixModel, values: Any) -> np.ndarray[Any, Any]:
    return np.array([values[name] for name in model.column_names])


def assert_solution(model: MatrixModel, values: Any, objective: float | None) -> None:
    """The values are a solution, and the objective is theirs."""
    assert values is not None
    x = point(model, values)
    assert model.is_feasible(x)
    assert objective == pytest.approx(model.objective(x), abs=1e-6)


def until(job: Job, wanted: type, seconds: float = 600.0) -> None:
    """Follow the job until it has told something of that kind."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and job.outcome is None:
        if any(isinstance(event, wanted) for event in job.poll(0.2)):
            return
    pytest.fail(f"no {wanted.__name__} within {seconds} s: {job.outcome}")


def events_of(job: Job) -> Iterator[Any]:
    """What the job tells, until it ends."""
    while job.outcome is None:
        yield from job.poll(0.2)


def finish(job: Job, seconds: float = 600.0) -> Any:
    deadline = time.monotonic() + seconds
    while job.outcome is None and time.monotonic() < deadline:
        job.poll(0.2)
    assert job.outcome is not None
    return job.outcome


# ---- answers -------------------------------------------------------------------------------------------


def test_the_solvers_of_every_installation_are_tested() -> None:
    """Of backends whose solver is missing there are no tests: these are in the packages that pipeplan needs."""
    assert all(all_backends()[name].available() for name in ("cp-sat", "highs", "scip"))


def test_an_optimum_is_proven(backend: Backend, knapsack: MatrixModel) -> None:
    outcome = solve(backend.name, knapsack, ONE_THREAD)
    assert outcome.stop == Stop.PROVEN
    assert outcome.values == pytest.approx({"first": 0, "item[1]": 1, "item[2]": 1, "big": 0})
    assert outcome.objective == pytest.approx(3)
    assert outcome.bound == pytest.approx(3)
    assert outcome.backend == backend.name
    assert outcome.version == backend.version() is not None
    assert outcome.size == {"rows": 2, "columns": 4, "integers": 4, "nonzeros": 6}
    assert outcome.warm_start.outcome == StartOutcome.NONE


@pytest.mark.parametrize(("model", "objective", "values"), [
    # x + 2y = -5 with x, y in -4..4: the least y is -4 with x = 3.
    (from_rows([0, 1], [({0: 1, 1: 2}, -5, -5)], [-4] * 2, [4] * 2, [True] * 2), -4, [3, -4]),
    (from_rows([-1, -1], [({0: 3, 1: 5}, 6, 7)], [0] * 2, [9] * 2, [True] * 2), -2, [2, 0]),
    (from_rows([1, 1, 0], [({0: 1}, 2, INF)], [0, 3, 1], [5, 3, 4], [True] * 3), 5, None),
    (from_rows([0] * 3, [({0: 1, 1: 1, 2: 1}, 2, 2)], [0] * 3, [1] * 3, [True] * 3, offset=4.5), 4.5, None),
    (from_rows([1, -1], [], [-2, 0], [2, 7], [True] * 2), -9, [-2, 7]),
    (from_rows([], [], [], [], [], offset=2), 2, []),
], ids=["equation", "two sides", "fixed and unused columns", "no costs", "no rows", "no columns"])  # fmt: skip
def test_small_models_have_their_optimum(
    backend: Backend, model: MatrixModel, objective: float, values: list[float] | None
) -> None:
    outcome = solve(backend.name, model, ONE_THREAD)
    assert (outcome.stop, outcome.objective, outcome.bound) == (Stop.PROVEN, objective, pytest.approx(objective))
    assert_solution(model, outcome.values, outcome.objective)
    assert values is None or list((outcome.values or {}).values()) == values


@pytest.mark.parametrize(("row", "lower"), [
    (({0: 2.0, 1: 2.0}, 1.0, 1.0), 0.0),  # only the integers forbid it
    (({0: 1.0, 1: 1.0}, 3.0, INF), 0.0),  # the relaxation forbids it as well
    (({}, 1.0, INF), 0.0),  # no column can help
    (({0: 1.0, 1: 1.0}, 0.0, 3.0), 2.0),
], ids=["parity", "relaxation", "empty row", "crossed bounds"])  # fmt: skip
def test_infeasible(backend: Backend, row: Any, lower: float) -> None:
    model = from_rows([1.0, 1.0], [row], [lower, 0.0], [1.0] * 2, [True] * 2)
    outcome = solve(backend.name, model, ONE_THREAD)
    assert (outcome.stop, outcome.values, outcome.objective) == (Stop.INFEASIBLE, None, None)


UNBOUNDED = from_rows([-1.0, 0.0], [({0: 1.0, 1: -1.0}, -INF, 2.0)], [0.0] * 2, [INF] * 2, [True, True])
NEITHER = from_rows(
    [-1.0, 0.0, 0.0], [({0: 1.0, 1: -1.0}, -INF, 2.0), ({2: 2.0}, 1.0, 1.0)], [0.0] * 3, [INF, INF, 1.0], [True] * 3
)


def test_unbounded_is_told_or_refused(backend: Backend) -> None:
    if backend.capabilities.unbounded:
        assert solve(backend.name, UNBOUNDED, ONE_THREAD).stop == Stop.UNBOUNDED
    else:
        with pytest.raises(UsageError, match=r"x0 has no finite bounds; .* choose a solver"):
            solve(backend.name, UNBOUNDED, ONE_THREAD)


def test_infeasible_with_an_unbounded_direction_is_infeasible(backend: Backend) -> None:
    if not backend.capabilities.unbounded:
        pytest.skip("refuses columns without bounds, see the test above")
    assert solve(backend.name, NEITHER, ONE_THREAD).stop == Stop.INFEASIBLE


def test_a_linear_program(backend: Backend) -> None:
    """Continuous columns only, with an optimum off every obvious grid: a backend without them says so."""
    model = from_rows(
        [1.0, 1.0], [({0: 3.0, 1: 1.0}, 1.0, INF), ({0: 1.0, 1: 7.0}, 1.0, INF)], [0.0] * 2, [1.0] * 2, [False] * 2
    )
    outcome = solve(backend.name, model, ONE_THREAD)
    if backend.capabilities.continuous:
        assert outcome.stop == Stop.PROVEN
        assert outcome.objective == pytest.approx(0.4)
    assert outcome.bound <= 0.4 + 1e-6


# ---- limits: of a true second, whatever our clock says -------------------------------------------------


@pytest.mark.timing
def test_a_time_limit_keeps_what_was_found(loaded: Backend, hard: MatrixModel) -> None:
    outcome = solve(loaded.name, hard, SolveOptions(time_limit_s=clock.speed(), threads=1))
    assert outcome.stop == Stop.TIME
    assert_solution(hard, outcome.values, outcome.objective)
    assert outcome.bound is None or outcome.bound <= outcome.objective  # type: ignore[operator]


@pytest.mark.timing
def test_a_time_limit_without_any_solution(loaded: Backend, hopeless: MatrixModel) -> None:
    outcome = solve(loaded.name, hopeless, SolveOptions(time_limit_s=clock.speed(), threads=1))
    assert (outcome.stop, outcome.values, outcome.objective) == (Stop.TIME, None, None)


def test_no_time_at_all(backend: Backend, knapsack: MatrixModel) -> None:
    outcome = solve(backend.name, knapsack, SolveOptions(time_limit_s=0.0))
    assert (outcome.stop, outcome.values, outcome.bound) == (Stop.TIME, None, None)


def test_no_time_but_a_good_start(loaded: Backend, knapsack: MatrixModel) -> None:
    start = {"first": 1.0, "item[1]": 0.0, "item[2]": 0.0, "big": 0.0}
    outcome = solve(loaded.name, knapsack, SolveOptions(time_limit_s=0.0), start)
    assert (outcome.stop, outcome.values, outcome.objective) == (Stop.TIME, start, 6.0)
    assert (outcome.warm_start.outcome, outcome.warm_start.value) == (StartOutcome.ACCEPTED, 6.0)


def test_a_gap_that_is_reached_stops(backend: Backend, mixed: MatrixModel) -> None:
    outcome = solve(backend.name, mixed, SolveOptions(rel_gap=0.9, threads=1))
    assert outcome.stop in (Stop.GAP, Stop.PROVEN)
    assert outcome.objective - outcome.bound <= 0.9 * outcome.objective + 1e-9


def test_an_absolute_gap_stops(backend: Backend, hard: MatrixModel) -> None:
    if not backend.capabilities.absolute_gap:
        pytest.skip(f"{backend.title} stops at relative gaps only")
    outcome = solve(backend.name, hard, SolveOptions(abs_gap=5000.0, threads=1, time_limit_s=600.0))
    assert outcome.stop == Stop.GAP
    assert_solution(hard, outcome.values, outcome.objective)


@pytest.mark.timing
def test_a_memory_limit_stops(backend: Backend, hard: MatrixModel) -> None:
    outcome = solve(backend.name, hard, SolveOptions(memory_limit_bytes=2**20, time_limit_s=600.0))
    assert outcome.stop == Stop.MEMORY
    assert "more than its limit" in outcome.message


# ---- options -------------------------------------------------------------------------------------------


def test_a_misspelt_option_is_named(backend: Backend, knapsack: MatrixModel) -> None:
    with pytest.raises(InputError, match=r"^native\.mip_rel_gpa "):
        solve(backend.name, knapsack, SolveOptions(native={"mip_rel_gpa": 0.5}))


def test_seed_threads_and_log(backend: Backend, knapsack: MatrixModel, tmp_path: Path) -> None:
    log = tmp_path / "solver.log"
    options = SolveOptions(threads=2, seed=17, log_path=str(log))
    outcome = solve(backend.name, knapsack, options)
    assert outcome.stop == Stop.PROVEN
    assert log.stat().st_size > 100
    assert solve(backend.name, knapsack, replace(options, threads=1)).stop == Stop.PROVEN


def test_a_log_that_cannot_be_written_is_refused(backend: Backend, knapsack: MatrixModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^log_path .* cannot be written"):
        solve(backend.name, knapsack, SolveOptions(log_path=str(tmp_path / "missing" / "solver.log")))


# ---- warm starts ---------------------------------------------------------------------------------------


def start_of(model: MatrixModel, numbers: list[float]) -> dict[str, float]:
    return dict(zip(model.column_names, numbers, strict=False))


@pytest.mark.parametrize(("numbers", "outcome", "value"), [
    ([1, 0, 1, 0, 1, 0, 4.5], StartOutcome.ACCEPTED, 4.5),
    ([1, 0, 1, 0, 1, 0], StartOutcome.ACCEPTED, 4.5),  # the continuous column is filled in
    ([1, 0, 1, 0, 1, 0, 1.0], StartOutcome.REPAIRED, 4.5),  # ... or corrected
    ([1, 1, 1, 0, 1, 0, 9.0], StartOutcome.REJECTED, None),  # the integers contradict the rows
    ([0.5, 0.5, 1, 0, 1, 0, 9.0], StartOutcome.REJECTED, None),  # fractions are no choice
], ids=["complete", "integers only", "wrong time", "wrong choice", "fractions"])  # fmt: skip
def test_integers_and_a_continuous_column_have_their_optimum_whatever_the_start(
    backend: Backend, mixed: MatrixModel, numbers: list[float], outcome: StartOutcome, value: float | None
) -> None:
    result = solve(backend.name, mixed, ONE_THREAD, start_of(mixed, numbers))
    assert result.warm_start.outcome == outcome
    assert result.warm_start.value == (None if value is None else pytest.approx(value))
    assert (result.stop, result.objective) == (Stop.PROVEN, pytest.approx(2.5))
    assert_solution(mixed, result.values, result.objective)


@pytest.mark.timing
def test_an_accepted_start_is_the_first_incumbent(loaded: Backend, hard: MatrixModel) -> None:
    """It is told before the solver has done anything, so it cannot be lost."""
    choice = [float(j % 2) for j in range(40)]
    job = submit(loaded.name, hard, ONE_THREAD, start=start_of(hard, choice))
    first = next(event for event in events_of(job) if isinstance(event, Incumbent))
    job.kill()
    assert first.source == "start"
    assert [first.values[f"x{j}"] for j in range(40)] == choice


def test_a_start_outside_of_bounds_by_a_hair_is_a_start(backend: Backend) -> None:
    """Within our tolerance, which grows with the bound, and beyond what HiGHS takes for a value of the column."""
    if not backend.capabilities.continuous:
        pytest.skip("takes no such column")
    model = from_rows([-1.0, -1.0], [({0: 1.0, 1: 1.0}, -INF, 2.0)], [0, 0], [1, 1], [False, True])
    outcome = solve(backend.name, model, start=start_of(model, [1 + 1.0005e-6, 1]))
    assert outcome.stop == Stop.PROVEN, outcome.message
    assert outcome.objective == pytest.approx(-2.0, abs=1e-5)


def test_an_unknown_column_in_a_start_is_an_error(backend: Backend, knapsack: MatrixModel) -> None:
    with pytest.raises(InputError, match=r"^start names the unknown column 'third'"):
        solve(backend.name, knapsack, ONE_THREAD, {"third": 1.0})


# ---- progress, interrupts, deaths ----------------------------------------------------------------------


@pytest.mark.parametrize("second", SECOND_OPINION)
def test_what_a_second_opinion_counts_ends_it_without_a_clock(second: str, hard: MatrixModel) -> None:
    _, native = second_opinion_limits(second, 0.0)
    tenth = {option: type(work)(work / 10) for option, work in native.items()}
    outcome = solve(second, hard, SolveOptions(threads=1, native=tenth))
    assert outcome.stop == Stop.TIME
    assert "a limit of the native options" in outcome.message


@pytest.mark.timing
@pytest.mark.sweeps
def test_progress_comes_as_records(loaded: Backend, hard: MatrixModel) -> None:
    events: list[Any] = []
    outcome = solve(loaded.name, hard, SolveOptions(time_limit_s=clock.speed(), threads=1), on_event=events.append)
    incumbents = [event for event in events if isinstance(event, Incumbent)]
    bounds = [event.bound for event in events if isinstance(event, Progress) and event.bound is not None]
    if loaded.capabilities.incumbents:
        assert [event.value for event in incumbents] == sorted((event.value for event in incumbents), reverse=True)
        for event in incumbents[:3]:
            assert_solution(hard, event.values, event.value)
        # On a busy machine the limit may come before the first one.
        assert outcome.objective == (pytest.approx(incumbents[-1].value) if incumbents else None)
    if loaded.capabilities.progress:
        assert bounds == sorted(bounds)
        assert bounds[-1] <= outcome.objective + 1e-6


@pytest.mark.timing
def test_an_interrupt_brings_home_the_incumbent(
    backend: Backend, hard: MatrixModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody kills a solver that stops by itself."""
    monkeypatch.setattr(client, "INTERRUPT_GRACE_S", math.inf)
    job = submit(backend.name, hard, ONE_THREAD)
    if backend.capabilities.incumbents:
        until(job, Incumbent)
    else:
        job.poll(1.0)
    job.interrupt()
    outcome = finish(job)
    assert outcome.stop == Stop.INTERRUPTED
    if backend.capabilities.interrupt:
        assert_solution(hard, outcome.values, outcome.objective)


@pytest.mark.timing
def test_an_interrupt_without_any_solution(backend: Backend, hopeless: MatrixModel) -> None:
    job = submit(backend.name, hopeless, ONE_THREAD)
    job.poll(0.5)
    job.interrupt()
    outcome = finish(job)
    assert (outcome.stop, outcome.values) == (Stop.INTERRUPTED, None)


@pytest.mark.timing
def test_a_killed_solver_costs_neither_the_incumbent_nor_the_next_task(
    backend: Backend, hard: MatrixModel, knapsack: MatrixModel
) -> None:
    start = start_of(hard, [float(j % 2) for j in range(40)])
    job = submit(backend.name, hard, ONE_THREAD, start)
    until(job, Incumbent)
    os.kill(job.pid, signal.SIGKILL)
    outcome = finish(job)
    assert outcome.stop == Stop.ERROR
    assert outcome.message == "the solver process was killed (signal 9)"
    assert_solution(hard, outcome.values, outcome.objective)
    following = submit(backend.name, knapsack, ONE_THREAD)
    assert following.pid != job.pid
    assert finish(following).stop == Stop.PROVEN


@pytest.mark.timing
def test_kill_ends_a_job_at_once(backend: Backend, hopeless: MatrixModel) -> None:
    job = submit(backend.name, hopeless, ONE_THREAD)
    job.poll(0.3)
    job.kill()
    assert finish(job, 3.0).stop == Stop.INTERRUPTED


@pytest.mark.timing
def test_a_busy_worker_is_not_waited_for(backend: Backend, hopeless: MatrixModel, knapsack: MatrixModel) -> None:
    busy = submit(backend.name, hopeless, ONE_THREAD)
    other = submit(backend.name, knapsack, ONE_THREAD)
    assert finish(other).stop == Stop.PROVEN
    assert busy.outcome is None
    assert busy.pid != other.pid
    busy.kill()


@pytest.mark.timing
@pytest.mark.sweeps
def test_offers_reach_a_running_solver_or_are_declined(backend: Backend, hard: MatrixModel) -> None:
    """An offer better than what the solver has found so far becomes its incumbent."""
    if not backend.capabilities.takes_solutions:
        job = submit(backend.name, hard, ONE_THREAD)
        assert job.offer({}) is False
        job.kill()
        return
    good = solve("cp-sat", hard, SolveOptions(time_limit_s=2.5 * clock.speed(), threads=1)).values or {}
    job = submit(backend.name, hard, ONE_THREAD)
    until(job, Incumbent)
    assert job.offer(good) is True
    deadline = time.monotonic() + 600
    events: list[Any] = []
    while time.monotonic() < deadline and not any(getattr(event, "source", "") == "offer" for event in events):
        events += job.poll(0.2)
    job.interrupt()
    outcome = finish(job)
    offered = hard.objective(point(hard, good))
    assert any(isinstance(event, Incumbent) and event.value == pytest.approx(offered) for event in events)
    assert outcome.objective <= offered + 1e-6


# ---- wanted parameters -------------------------------------------------------------------------------------
# What a native model's builder wants of the solver, and the user's own word on it.


CONFIGURED = """
import json, sys
from ortools.sat.python import cp_model
from pipeplan.planners.backends.cp_sat import _configure
from pipeplan.planners.options import SolveOptions

class NoLimit:
    def solver_seconds_left(self):
        return None

solver, own, wanted = cp_model.CpSolver(), *map(json.loads, sys.argv[1:])
_configure(solver, SolveOptions(native=own), NoLimit(), wanted)
print(json.dumps([solver.parameters.linearization_level, list(solver.parameters.subsolvers)]))
"""
"""In a process of its own: here no solver is loaded."""


@pytest.mark.parametrize(("own", "level"), [({}, 0), ({"linearization_level": 2}, 2)])
def test_the_users_own_parameters_come_last(own: dict[str, Any], level: int) -> None:
    wanted = {"linearization_level": 0, "subsolvers": ["no_lp", "max_lp"]}
    words = [json.dumps(own), json.dumps(wanted)]
    done = subprocess.run([sys.executable, "-c", CONFIGURED, *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [level, ["no_lp", "max_lp"]]
