"""What other processes make for the search is what it calls, with arguments of the same types."""

from __future__ import annotations

import math
import os

import pytest

from pipeplan.instances.base import compiled as machine_code
from pipeplan.instances.catalogue import load_packaged
from pipeplan.planners.training import ahead
from pipeplan.planners.training.bounds import LoadBound
from pipeplan.planners.training.cases import NONE
from pipeplan.planners.training.judging import Judge
from pipeplan.planners.training.paths import PathBound
from pipeplan.planners.training.search import Search


@pytest.fixture(scope="module", autouse=True)
def searched() -> None:
    """A search, and a bound that it needs for longer pipelines alone."""
    search = Search(load_packaged("tiny-training"))
    search.run()
    rows = (gamma for row in range(len(search.space)) for gamma in search.space.gammas(row))
    gamma = next(gamma for gamma in rows if gamma.degrees.pipeline > 1)
    PathBound(LoadBound(search.loads(gamma), Judge(search.case(gamma), NONE))).seconds(math.inf, math.inf)


@pytest.mark.parametrize("part", ahead.calls())
def test_arguments_have_the_types_of_the_search(part: str) -> None:
    import numba  # half a second, which the reading of all tests need not wait for

    for unit, entry, like in ahead.calls()[part]:
        made = machine_code.dispatcher(unit, entry).signatures
        assert made == [tuple(map(numba.typeof, like))], entry


def test_nothing_is_begun_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "make_beside", lambda *asked: pytest.fail(f"{asked} was begun"))
    ahead.begin()


@pytest.mark.parametrize("part", ahead.calls())
def test_a_process_makes_what_is_not_there(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(ahead, "die_with_parent", lambda: None)
    monkeypatch.setattr(ahead, "is_kept", lambda unit, entry: entry == "in_flight")
    monkeypatch.setattr(ahead, "make", lambda unit, entry, *like: made.append(entry))
    ahead.main(part, os.getppid())
    assert made == [entry for _, entry, _ in ahead.calls()[part] if entry != "in_flight"]
