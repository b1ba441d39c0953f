"""The API reads as one says it: packaged names, limits by name, what a result holds, and how all of it shows itself."""

from __future__ import annotations

import re
from pathlib import Path

import pandas
import pytest
from page_blocks import PAGES, blocks_of

import pipeplan
from pipeplan.instances.base.kind import Displayed

KINDS = ("tiny-chain", "golden-4", "tiny-stages", "tiny-levels", "tiny-graph", "tiny-training", "v-shape-4")
"""A problem of every kind that is planned in a moment."""


@pytest.fixture(scope="module", params=KINDS)
def result(request: pytest.FixtureRequest) -> pipeplan.Result:
    return pipeplan.solve(pipeplan.load(request.param), time_limit_s=600)


def test_the_page_has_ten_lines_of_code() -> None:
    code = next(block for block in blocks_of(PAGES["docs/ten-lines.md"]) if block.language == "python")
    assert len([line for line in code.text.splitlines() if line]) == 10


def test_load_takes_packaged_names_on_the_cluster_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pipeplan.load("tiny-stages") == pipeplan.load_packaged("tiny-stages")
    assert pipeplan.load("tiny-stages", devices=2).devices == 2  # type: ignore[union-attr]
    with pytest.raises(
        pipeplan.InputError, match="names a problem of the kind staging; name one of the kind chain"
    ):
        pipeplan.load("tiny-stages", kind="chain")
    monkeypatch.chdir(tmp_path)
    pipeplan.save(pipeplan.load("tiny-chain"), "tiny-stages")
    assert pipeplan.load("tiny-stages").kind == "placement", "a file of that name comes first"


def test_a_packaged_profile_becomes_a_problem_of_the_kind_that_is_asked_for() -> None:
    problem = pipeplan.load("llama-3-8b", kind="chain", devices=4, memory_bytes=80e9, bandwidth=450e9)
    assert (problem.kind, problem.gpus) == ("chain", 4)  # type: ignore[union-attr]


def test_limits_are_named_in_solve() -> None:
    done = pipeplan.solve("tiny-stages", time_limit_s=500, gap=0.01)
    assert (done.options["time_limit_s"], done.options["rel_gap"]) == (500, 0.01)
    with pytest.raises(pipeplan.UsageError, match=r"say it all in pipeplan.SolveOptions"):
        pipeplan.solve("tiny-stages", limits=pipeplan.SolveOptions(), gap=0.01)
    with pytest.raises(pipeplan.InputError, match=r"^gap is 5, which is 500 %"):
        pipeplan.solve("tiny-stages", gap=5)


def test_loads_and_memory_are_by_name_and_the_largest_load_is_the_value(result: pipeplan.Result) -> None:
    assert result.loads
    assert result.loads.keys() == result.memory.keys()
    if result.problem["kind"] in ("placement", "staging"):
        assert max(result.loads.values()) == pytest.approx(result.objective)
    assert all(held is None or held >= 0 for held in result.memory.values())


def test_a_result_takes_three_lines_and_more_in_a_notebook(result: pipeplan.Result) -> None:
    lines = repr(result).splitlines()
    assert len(lines) == 3
    assert str(result.problem["name"]) in lines[0]
    html = result._repr_html_()
    assert html.startswith("<div>")
    assert html.count("<table>") == 2
    assert all(re.escape(name.split()[-1]) for name in result.loads)


@pytest.mark.sweeps("tiny-graph")
def test_a_result_shows_what_the_command_prints(
    result: pipeplan.Result, capsys: pytest.CaptureFixture[str]
) -> None:
    result.show()
    assert "verified: yes" in capsys.readouterr().out


@pytest.mark.at_once(1, "slow")
@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_plan_is_drawn(result: pipeplan.Result, ending: str, tmp_path: Path) -> None:
    picture = result.plot(tmp_path / f"plan.{ending}")
    assert (tmp_path / f"plan.{ending}").stat().st_size > 1000
    assert picture._repr_svg_().lstrip().startswith("<?xml")


@pytest.mark.parametrize("name", pipeplan.packaged_names())
def test_every_packaged_problem_takes_three_lines(name: str) -> None:
    problem = pipeplan.load(name)
    assert isinstance(problem, Displayed)
    assert len(repr(problem).splitlines()) == 3
    assert name in repr(problem)
    assert "<table>" in problem._repr_html_()


def test_the_history_is_a_table() -> None:
    result = pipeplan.solve("tiny-stages")
    table = result.history.table()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == ["seconds", "incumbent", "bound"]
    assert table["incumbent"].iloc[-1] == result.objective
    assert repr(result.history).splitlines()[0].split() == ["seconds", "incumbent", "bound"]
    assert "incumbent" in result.history.plot().svg
    with pytest.raises(pipeplan.UsageError, match="There is no history to draw"):
        pipeplan.History().plot()


def test_a_result_from_a_file_finds_a_packaged_problem_and_asks_for_any_other(tmp_path: Path) -> None:
    pipeplan.save(pipeplan.solve("tiny-stages"), tmp_path / "a.json")
    assert pipeplan.load_result(tmp_path / "a.json").loads
    other = pipeplan.load("tiny-stages", devices=3)
    pipeplan.save(pipeplan.solve(other), tmp_path / "b.json")
    read = pipeplan.load_result(tmp_path / "b.json")
    with pytest.raises(pipeplan.UsageError, match=r"result\.about\(problem\)\.show\(\)"):
        read.show()
    assert read.about(other).loads
    with pytest.raises(pipeplan.UsageError, match="about another problem"):
        read.about(pipeplan.load("tiny-stages"))


def test_problems_are_generated_by_name() -> None:
    assert pipeplan.generate("layered", seed=1) == pipeplan.generate("layered", seed=1, devices=4)
    assert pipeplan.generate("bert-large", memory="16GiB").memory_bytes == 16 * 2**30  # type: ignore[union-attr]
    with pytest.raises(pipeplan.UsageError, match=r"no parameter sead \(did you mean 'seed'\?\)"):
        pipeplan.generate("layered", sead=1)


@pytest.mark.slow
def test_methods_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    problem = pipeplan.generate("layered", seed=1, nodes=8, devices=2)
    comparison = pipeplan.compare([problem, "tiny-chain"], ["dp", "greedy"], time_limit_s=600, jobs=1)
    frame = comparison.table()
    assert list(frame["method"]) == ["dp", "greedy"] * 2
    assert frame["verified"].all()
    comparison.show()
    assert "values, recomputed by the referee" in capsys.readouterr().out
    assert repr(comparison).splitlines()[0] == "Comparison: 4 of 4 runs finished."
    assert comparison._repr_html_().count("<table>") == 3
    comparison.plot(tmp_path / "profile.pdf")
    assert (tmp_path / "profile.pdf").exists()


@pytest.mark.parametrize(("problems", "methods"), [("tiny-chain", ["dp"]), (["tiny-chain"], "dp"), ([5], ["dp"])])
def test_a_comparison_takes_lists(problems: object, methods: object) -> None:
    with pytest.raises(pipeplan.InputError, match=r"argument (problems|methods) is"):
        pipeplan.compare(problems, methods)  # type: ignore[arg-type]


def test_a_training_is_configured_like_anything_else(capsys: pytest.CaptureFixture[str]) -> None:
    answer = pipeplan.configure(pipeplan.load("tiny-training"), judge=["pipeline=2 tensor=2"])  # type: ignore[arg-type]
    assert answer.report is not None
    assert answer.report.best is not None
    assert answer.result.objective == answer.report.best.seconds
    assert answer.result.loads
    assert len(repr(answer).splitlines()) == 3
    answer.show()
    assert "pipeline=2 tensor=2" in capsys.readouterr().out
    with pytest.raises(pipeplan.InputError, match="batch is missing"):
        pipeplan.configure("llama-3-8b", "8xh100-80gb", sequence=8192)
