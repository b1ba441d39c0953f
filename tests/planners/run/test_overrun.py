"""A method of another package that does not look at its time limit is interrupted, and at last left behind."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import pipeplan
from pipeplan.formulations import registry
from pipeplan.formulations.registry import FORMULATIONS, Entry
from pipeplan.instances.base.result import Stop
from pipeplan.planners.contract import Board, Outcome, Request
from pipeplan.planners.run import solve as solving

LIMIT_S = 3.0


class Clock:
    """A clock that stands still unless it is moved."""

    seconds = 0.0


def work_on() -> None:
    """Work that looks at no clock; it ends only so that a test that fails does."""
    for _ in range(20_000):
        threading.Event().wait(0.001)
    raise AssertionError("it was not interrupted")


class Plugin:
    """Posts a plan, and then does what the test wants."""

    def __init__(self, then: Callable[[Request], Outcome]) -> None:
        self.then = then

    def plan(self, request: Request) -> Outcome:
        found = pipeplan.solve(request.problem, planner="greedy")
        request.board.post(found.plan, found.objective)
        return self.then(request)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(Board, "seconds", property(lambda board: moved.seconds))
    monkeypatch.setattr(solving, "TICK_S", 0.001)
    return moved


@pytest.fixture
def solve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., pipeplan.Result]]:
    module: Any = ModuleType("late_plugin")
    module.ENTRY = Entry("late", "Late", "placement", "late_plugin:PLANNER", exact=False)
    monkeypatch.setitem(sys.modules, "late_plugin", module)

    def solve(then: Callable[[Request], Outcome], **more: Any) -> pipeplan.Result:
        registry.plugged_in.cache_clear()
        module.PLANNER = Plugin(then)
        return pipeplan.solve("tiny-chain", planner="late_plugin:ENTRY", **{"time_limit_s": LIMIT_S, **more})

    yield solve
    registry.plugged_in.cache_clear()


def test_who_looks_at_no_clock_is_interrupted_and_its_plan_counts(
    clock: Clock, solve: Callable[..., pipeplan.Result]
) -> None:
    def forever(request: Request) -> Outcome:
        assert request.seconds_left() == LIMIT_S, "it is told its limit"
        clock.seconds = 61.0
        work_on()
        raise AssertionError

    result = solve(forever)
    assert (result.stop, result.verified) == (Stop.TIME, True)
    said = "late_plugin:ENTRY did not stop at its time limit of 3 s and was interrupted after 61 s"
    assert said in result.messages


def test_an_interrupted_method_may_still_answer(clock: Clock, solve: Callable[..., pipeplan.Result]) -> None:
    def answers(request: Request) -> Outcome:
        clock.seconds = 5.0
        try:
            work_on()
            raise AssertionError
        except KeyboardInterrupt:
            return Outcome(Stop.TIME, request.board.plan, messages=("my last word",))

    result = solve(answers)
    assert (result.stop, result.verified) == (Stop.TIME, True)
    assert "my last word" in result.messages
    assert any("interrupted after 5 s" in message for message in result.messages)


def test_who_ignores_the_interrupt_is_left_behind_and_heard_no_more(
    clock: Clock, solve: Callable[..., pipeplan.Result]
) -> None:
    let_go, gone = threading.Event(), threading.Event()
    boards: list[Board] = []

    def stubborn(request: Request) -> Outcome:
        clock.seconds = 5.0
        while not let_go.is_set():
            try:
                work_on()
            except KeyboardInterrupt:
                clock.seconds = 60.0
            except SystemExit:
                let_go.wait()
        boards.append(request.board)
        request.board.post(request.board.plan, 0.5)
        gone.set()
        return Outcome(Stop.COMPLETED)

    result = solve(stubborn)
    assert (result.stop, result.verified) == (Stop.TIME, True)
    let_go.set()
    assert gone.wait(10)
    assert boards[0].value == result.objective


@pytest.mark.parametrize("seconds", [0.0, LIMIT_S, LIMIT_S * 1.1 + 0.9])
def test_who_answers_soon_after_its_limit_is_not_interrupted(
    clock: Clock, solve: Callable[..., pipeplan.Result], seconds: float
) -> None:
    def punctual(request: Request) -> Outcome:
        clock.seconds = seconds
        threading.Event().wait(0.05)
        return Outcome(Stop.COMPLETED, request.board.plan)

    result = solve(punctual)
    assert (result.stop, result.verified) == (Stop.COMPLETED, True)
    assert not any("did not stop" in message for message in result.messages)


def test_without_a_limit_it_runs_where_it_was_called(solve: Callable[..., pipeplan.Result]) -> None:
    def here(request: Request) -> Outcome:
        assert threading.current_thread() is threading.main_thread()
        return Outcome(Stop.COMPLETED, request.board.plan)

    assert solve(here, time_limit_s=None).verified


def test_a_mistake_in_its_thread_is_told_as_ever(solve: Callable[..., pipeplan.Result]) -> None:
    def fails(request: Request) -> Outcome:
        raise ZeroDivisionError

    assert any("The plug-in late_plugin:ENTRY failed" in message for message in solve(fails).messages)


def test_a_formulation_that_overruns_costs_no_more_than_its_grace(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(type(FORMULATIONS["ip-tarnawski"].load())):  # type: ignore[misc]
        def lower_bound(self, problem: Any, options: Any) -> float | None:
            clock.seconds = 61.0
            work_on()
            raise AssertionError

    module: Any = ModuleType("slow_plugin")
    theirs = FORMULATIONS["ip-tarnawski"]
    module.MODEL = Slow()
    module.ENTRY = Entry("slow", "Slow", "placement", "slow_plugin:MODEL", theirs.options, scope=theirs.scope)
    monkeypatch.setitem(sys.modules, "slow_plugin", module)
    result = pipeplan.solve("tiny-chain", formulation="slow_plugin:ENTRY", time_limit_s=LIMIT_S, warm_start="none")
    assert result.stop == Stop.TIME
    assert any("did not stop at its time limit" in message for message in result.messages)
