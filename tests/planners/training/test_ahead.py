"""What other processes make for the search is what it calls, with arguments of the same types."""

from __future__ import annotations

import math
import os
from types import ModuleType

import pytest

from pipeplan.instances.base import compiled as machine_code
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.training.cases import NONE
from pipeplan.planners.training import ahead
from pipeplan.planners.training.bounds import LoadBound, PathBound
from pipeplan.planners.training.judging import LayoutEvaluator
from pipeplan.planners.training.search import Search

# To make the code takes half a minute of a processor.
pytestmark = pytest.mark.sweeps


@pytest.fixture(scope="module", autouse=True)
def searched() -> None:
    """A search, and a bound that it needs for longer pipelines alone, with machine code where plain Python would do."""
    with machine_code.always_compiled():
        search = Search(load_packaged("tiny-training"))
        search.run()
        rows = (gamma for row in range(len(search.space)) for gamma in search.space.gammas(row))
        gamma = next(gamma for gamma in rows if gamma.degrees.pipeline > 1)
        PathBound(LoadBound(search.loads(gamma), LayoutEvaluator(search.case(gamma), NONE))).seconds(
            math.inf, math.inf
        )


def test_arguments_have_the_types_of_the_search() -> None:
    import numba  # half a second, which the reading of all tests need not wait for

    for unit, entry, like in ahead.calls():
        made = machine_code.dispatcher(unit, entry).signatures
        assert made == [tuple(map(numba.typeof, like))], entry


def test_nothing_is_begun_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "make_beside", lambda *asked: pytest.fail(f"{asked} was begun"))
    ahead.begin(long_rows=False)


@pytest.mark.parametrize(("processors", "long_rows", "beside"), [
    (1, False, []),
    (2, False, [["least_seconds", "longest_path", "plan_row"]]),
    (2, True, [["least_seconds", "plan_row", "longest_path"]]),
    (3, False, [["least_seconds", "plan_row"], ["longest_path"]]),
    (16, False, [["least_seconds"], ["longest_path"], ["plan_row"]]),
])  # fmt: skip
def test_processes_make_what_is_not_there(
    processors: int, long_rows: bool, beside: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[str]] = []
    made: list[str] = []

    def make_beside(command: tuple[str, ...], environment: object, entries: list[tuple[ModuleType, str]]) -> None:
        ahead.main(os.getppid(), [int(number) for number in command[3:]])
        assert made == [entry for _, entry in entries]
        begun.append(made.copy())
        made.clear()

    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(ahead, "own_python", lambda *command: command)
    monkeypatch.setattr(ahead, "die_with_parent", lambda: None)
    monkeypatch.setattr(ahead, "is_kept", lambda unit, entry: False)
    monkeypatch.setattr(ahead, "make", lambda unit, entry, *like: made.append(entry))
    monkeypatch.setattr(ahead, "make_beside", make_beside)
    ahead.begin(long_rows)
    assert begun == beside
    assert made == (["climb"] if beside else []), "one processor makes all code where it is called"


def test_no_process_is_begun_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it made would be lost."""
    monkeypatch.setattr(ahead, "can_be_kept", lambda unit, entry: False)
    monkeypatch.setattr(ahead, "is_kept", lambda unit, entry: False)
    monkeypatch.setattr(ahead, "make_beside", lambda *asked: pytest.fail(f"{asked} was begun"))
    ahead.begin(long_rows=False)
