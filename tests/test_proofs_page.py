"""The page of proofs: what counts as best known, what a run keeps and skips, and how releases stand side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import proofs as under_limits
import proofs_page as proofs
import pytest
from oracles.published_optima import CONTIGUOUS
from problems.nasty import KINDS

import pipeplan
from pipeplan.instances.catalogue import best_known

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def _own_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The script has a history and a page of its own."""
    monkeypatch.setattr(proofs, "HISTORY", tmp_path / "history.jsonl")
    monkeypatch.setattr(proofs, "PAGE", tmp_path / "page.md")


def run(**changes: Any) -> Any:
    usual = {
        "version": "1.0", "commit": "abc", "date": "2026-11-01", "time_limit_s": 10.0, "threads": 2, "machine": "quiet",
        "input": "tiny-chain", "variant": "contiguous", "hash": "h", "method": "dp", "value": 6.0, "bound": 6.0,
        "stop": "proven", "seconds": 0.1,
    }  # fmt: skip
    return proofs.Run(**{**usual, **changes})


KEY = ("tiny-chain", "contiguous")


def test_the_best_known_value_is_that_of_the_tables_or_of_any_release() -> None:
    table = [best_known(*KEY)]
    assert proofs.best_of([run(value=7.0)], table)[KEY] == proofs.Known(6.0, True)
    assert proofs.best_of([run(value=5.0, bound=4.0)], table)[KEY].value == 5.0


def test_a_value_is_proven_where_anybodys_bound_meets_it() -> None:
    found, bounded = run(bound=3.0), run(version="2.0", value=8.0, bound=6.0)
    assert proofs.best_of([found], [])[KEY] == proofs.Known(6.0, False)
    assert proofs.best_of([found, bounded], [])[KEY] == proofs.Known(6.0, True)


def test_a_bound_on_fewer_plans_proves_nothing_of_a_better_plan_outside_them() -> None:
    wide, narrow = run(value=6.0, bound=3.0), run(version="2.0", value=7.0, bound=7.0)
    known = proofs.best_of([wide, narrow], [])
    assert known[KEY] == proofs.Known(6.0, False)
    assert "| proven in its scope |" in proofs.page([narrow], known)


def test_values_are_in_the_unit_in_which_people_read_them() -> None:
    found = run(value=0.0123, bound=0.0123, time_unit="s")
    assert "| tiny-chain | contiguous | 12.3 ms | yes | 12.3 ms |" in proofs.page(
        [found], proofs.best_of([found], [])
    )


def test_the_variants_of_a_placement_settle_each_other() -> None:
    chain, free = run(bound=3.0), run(variant="non-contiguous", value=7.0, bound=6.0)
    known = proofs.best_of([chain, free], [])
    assert known[KEY] == known["tiny-chain", "non-contiguous"] == proofs.Known(6.0, True)


def test_other_commits_and_limits_of_a_version_give_way_and_other_versions_stay() -> None:
    usual = run()
    older, same = run(version="0.9", commit="xyz"), run(input="other")
    gone = [run(commit="def"), run(time_limit_s=5.0), run(threads=1)]
    assert proofs.kept([older, *gone, same], usual) == [older, same]


def test_an_interrupted_run_goes_on_with_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pipeplan.load_packaged("tiny-chain")
    inputs = [
        proofs.Input("tiny-chain", variant, *proofs.asked(problem, variant))
        for variant in ("contiguous", "non-contiguous")
    ]
    usual = run(input="", variant="")
    planned: list[str] = []

    def solve(problem: Any, *, interrupted_at: int = 2, **method: Any) -> Any:
        planned.append(method["formulation"])
        if len(planned) == interrupted_at:
            raise KeyboardInterrupt
        return real(problem, **method)

    real = pipeplan.solve
    monkeypatch.setattr(pipeplan, "solve", solve)
    with pytest.raises(KeyboardInterrupt):
        proofs.measure(inputs, usual, proofs.HISTORY)
    assert [kept.variant for kept in proofs.read(proofs.HISTORY)] == ["contiguous"]
    proofs.measure(inputs, usual, proofs.HISTORY)
    assert [kept.variant for kept in proofs.read(proofs.HISTORY)] == ["contiguous", "non-contiguous"]
    assert len(planned) == 3


def test_releases_stand_side_by_side_the_newest_first_in_full() -> None:
    old = run(version="0.9", date="2026-10-01", value=7.5, bound=5.0, stop="time")
    runs = [run(), old]
    lines = proofs.page(runs, proofs.best_of(runs, [])).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    releases = [row for row in rows if row[0] in ("1.0", "0.9")]
    assert releases == [
        ["1.0", "2026-11-01", "abc", "1", "1", "1", "0.000 %", "0.000 %", "10 s, 2 threads", "0 min", "quiet"],
        ["0.9", "2026-10-01", "abc", "1", "0", "0", "25.000 %", "33.333 %", "10 s, 2 threads", "0 min", "quiet"],
    ]
    assert rows[-1] == [
        *("tiny-chain", "contiguous", "6", "yes"),
        *("6", "0.000 %", "0.000 %", "dp", "proven", "0.1"),
        *("25.000 %", "33.333 %"),
    ]


def test_one_command_plans_keeps_and_writes() -> None:
    proofs.main(["--only", "three-chain", "--time-limit", "30", "--machine", "a test"])
    text = proofs.PAGE.read_text()
    assert "| three-chain | general | 2 | yes | 2 | 0.000 % | 0.000 % | exact-beaumont | proven |" in text
    assert "| three-chain | contiguous | 3 | yes | 3 | 0.000 % | - | contiguous | completed |" in text
    assert "| a test |" in text
    assert {kept.commit for kept in proofs.read(proofs.HISTORY)} == {proofs.commit()}


def test_the_committed_page_is_made_of_the_committed_history() -> None:
    runs = proofs.read(FOLDER / "proofs_history.jsonl")
    tables = [*proofs.read_best_known(), *proofs.read_best_known(proofs.PUBLISHED)]
    page = FOLDER / "results" / "proofs.md"
    assert page.read_text("utf-8") == proofs.page(runs, proofs.best_of(runs, tables))


def test_published_optima_are_those_of_the_tests() -> None:
    table = proofs.read_best_known(proofs.PUBLISHED)
    contiguous = {row.instance.removeprefix("tarnawski/throughput/"): row for row in table if row.proven}
    for name, optimum in CONTIGUOUS.items():
        assert contiguous[name].value == contiguous[name].bound == optimum


@pytest.mark.workloads
def test_every_published_input_has_a_row(workloads: Path) -> None:
    asked = {item.key for item in proofs.published_inputs(workloads)}
    known = {run.key for run in proofs.read(FOLDER / "proofs_history.jsonl")}
    assert asked
    assert asked <= known


@pytest.mark.parametrize("kind", KINDS)
def test_under_short_limits_every_kind_has_its_methods_and_a_larger_problem(kind: str) -> None:
    """`benchmarks/proofs.py --limits`."""
    methods = [method for method in under_limits._every_method() if method.kind == kind]
    assert methods
    assert under_limits._ending(under_limits._larger(kind), methods[0], 0.0)[0] != "error"
