"""The public functions and what they give: each says what it takes, what it does not take ends in a sentence, and
every object shows itself."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas
import pytest
from page_blocks import PAGES, blocks_of
from problems.profiles import ROW
from random_placements import layered

import pipeplan
from pipeplan import ChainProblem, PlacementPlan
from pipeplan.instances.base.kind import Displayed
from pipeplan.instances.files import problem_to_text

CLASSES: dict[str, type] = {
    name: value for name in pipeplan.__all__ if inspect.isclass(value := getattr(pipeplan, name))
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: value for name in pipeplan.__all__ if inspect.isfunction(value := getattr(pipeplan, name))
}


def parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


# ---- what they say of themselves -----------------------------------------------------------------------


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in CLASSES.items():
        for key, member in vars(value).items():
            function = getattr(member, "__func__", member)  # of class methods
            if inspect.isfunction(function) and not key.startswith("_"):
                yield f"{name}.{key}", function


LONG = {name: function for name, function in [*FUNCTIONS.items(), *methods()] if len(parameters(function)) > 2}


def section(text: str, title: str) -> str:
    """What stands below the underlined title, up to the next one."""
    found = re.search(rf"^{title}\n-{{{len(title)}}}\n(.*?)(?=^\w+\n---|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def test_there_are_long_functions_and_methods() -> None:
    assert {"solve", "verify", "load", "simulate", "Formulation.build"} <= set(LONG)


@pytest.mark.parametrize("name", LONG)
def test_more_than_two_arguments_are_explained_one_by_one(name: str) -> None:
    text = inspect.cleandoc(LONG[name].__doc__ or "")
    told = re.findall(r"^(\w+) : \S.*\n    \S", section(text, "Parameters"), re.MULTILINE)
    assert told == parameters(LONG[name])
    assert section(text, "Returns")
    assert section(text, "Raises")


@pytest.mark.parametrize("name", LONG)
def test_what_may_be_none_is_optional_and_says_what_none_means(name: str) -> None:
    text = section(inspect.cleandoc(LONG[name].__doc__ or ""), "Parameters")
    entries = re.findall(r"^(\w+) : (.*)\n((?:    .*\n?)+)", text, re.MULTILINE)
    may_be_none = {key for key, value in inspect.signature(LONG[name]).parameters.items() if value.default is None}
    assert {key for key, kind, _ in entries if kind.endswith(", optional")} == may_be_none
    here_and_below = "None, here and below" in text
    assert here_and_below or all("None" in words for key, _, words in entries if key in may_be_none)


# ---- what they do not take -----------------------------------------------------------------------------

CHAIN = pipeplan.load_packaged("golden-4")
RESULT = pipeplan.solve(CHAIN, planner="contiguous")
GIVEN: dict[str, Any] = {
    "problem": CHAIN, "plan": RESULT.plan, "result": RESULT, "value": CHAIN, "path": "nowhere/file.json",
    "name": "golden-4", "micro_batches": 4, "build": "my.py:build", "problems": ["tiny-chain"], "methods": ["dp"],
}  # fmt: skip
"""What every function takes that has an argument of this name; all others have defaults."""

REMEDIES = {
    "problem": r"packaged instance.*pipeplan\.load\(path\)",
    "plan": r"result\.plan.*pipeplan\.load_plan\(path\)",
    "warm_start": r"result\.plan.*pipeplan\.load_plan\(path\)",
    "result": r"pipeplan\.solve\(problem\).*pipeplan\.load_result\(path\)",
    "value": r"pipeplan\.load\(path\).*pipeplan\.solve\(problem\)",
    "path": r"name a file",
    "limits": r"pipeplan\.SolveOptions\(",
    "options": r"give a dict",
    "on_progress": r"pipeplan\.Progress",
    "formulation": r"plan formulations",
    "planner": r"plan planners",
    "solver": r"plan solvers",
}
"""How to get what an argument of this name takes, as the sentence says it."""

WRONG: Mapping[str, object] = {
    "None": None, "a number": 5.5, "a dict": {"kind": "chain", "schema": "pipeplan.chain/1"},
    "a list": ["golden-4"], "bytes": b"golden-4", "an object": object(), "a class": ChainProblem,
    "a problem": CHAIN, "a plan": RESULT.plan, "a result": RESULT, "a text": "golden-4",
    "a path": Path("golden-4.json"),
}  # fmt: skip
TAKEN = {
    "problem": {"a problem", "a text", "a path"}, "plan": {"a plan"}, "warm_start": {"a plan", "a text"},
    "result": {"a result"}, "value": {"a problem", "a plan", "a result"}, "path": {"a text", "a path"},
    "limits": {"None"}, "options": {"None", "a dict"}, "on_progress": {"None", "a class"},
    "formulation": {"None", "a text"}, "planner": {"None", "a text"}, "solver": {"a text"},
}  # fmt: skip
"""Which of these are of the right type; `test_names_that_nothing_has` has the texts."""


def call(function: Callable[..., Any], **wrong: object) -> Any:
    """With what is wrong in place of good arguments."""
    known = GIVEN | ({"profile": ROW} if function is pipeplan.run else {})
    return function(**{name: known[name] for name in parameters(function) if name in known} | wrong)


def taking(*arguments: str) -> list[Any]:
    return [
        pytest.param(function, argument, id=f"{name}-{argument}")
        for name, function in FUNCTIONS.items()
        for argument in parameters(function)
        if argument in arguments
    ]


@pytest.mark.parametrize(("function", "argument"), taking(*REMEDIES))
def test_an_argument_of_another_type_ends_in_a_sentence(function: Callable[..., Any], argument: str) -> None:
    """It says which argument, what was given, what is expected and how to get it."""
    optional = inspect.signature(function).parameters[argument].default is None
    for name in WRONG.keys() - TAKEN[argument] - ({"None"} if optional else set()):
        with pytest.raises(pipeplan.InputError, match=REMEDIES[argument]) as told:
            call(function, **{argument: WRONG[name]})
        assert re.match(
            rf"argument {argument} is (None|the text '.*'|an? \w+), not (an? |limits|options)", str(told.value)
        )
        assert "\n" not in str(told.value)


@pytest.mark.parametrize(("function", "argument"), taking("problem"))
def test_a_name_that_no_instance_has(function: Callable[..., Any], argument: str) -> None:
    for given in ("nowhere", Path("nowhere"), "", "golden-5"):
        with pytest.raises(
            pipeplan.UsageError, match=r"neither a file nor a packaged instance.*packaged_names\(\)"
        ):
            call(function, **{argument: given})
    with pytest.raises(pipeplan.InputError, match=r"nowhere\.json: file does not exist"):
        call(function, **{argument: Path("nowhere.json")})


def test_load_proposes_packaged_names() -> None:
    with pytest.raises(pipeplan.UsageError, match=r"\(did you mean 'tiny-stages'\?\).*packaged_names"):
        pipeplan.load("tiny-stage")
    with pytest.raises(pipeplan.InputError, match="file does not exist"):
        pipeplan.load("tiny-stage.json")


WRONG_WORDS: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (
    (pipeplan.solve, {"warm_start": "golden-4", "formulation": "nonsense", "planner": "nonsense",
     "solver": "nonsense", "options": {"nonsense": 1}}),
    (pipeplan.simulate, {"schedule": "nonsense"}), (pipeplan.simulate, {"schedule": None}),
    (pipeplan.load_packaged, {"name": {}}), (pipeplan.packaged_names, {"kind": {}}),
)  # fmt: skip
"""Each of these arguments alone is refused."""


def test_words_that_nothing_has() -> None:
    for function, wrong in WRONG_WORDS:
        for name, value in wrong.items():
            with pytest.raises(pipeplan.UsageError):
                call(function, **{name: value})


@pytest.mark.parametrize("contiguity", ["chian", None, 5])
def test_a_misspelt_contiguity_is_not_taken_for_the_default(contiguity: Any) -> None:
    problem = pipeplan.load_packaged("tiny-chain")
    plan = pipeplan.solve(problem, planner="dp").plan
    assert plan is not None
    with pytest.raises(pipeplan.UsageError, match="choose one of none, device, chain"):
        pipeplan.verify(problem, plan, contiguity)
    assert RESULT.plan is not None
    with pytest.raises(pipeplan.UsageError, match="contiguity says nothing about a chain problem; drop it"):
        pipeplan.verify(CHAIN, RESULT.plan, contiguity="chain")


@pytest.mark.parametrize(
    ("function", "argument"), [case for case in taking("plan") if "problem" in parameters(case.values[0])]
)
def test_a_plan_for_another_kind_of_problem(function: Callable[..., Any], argument: str) -> None:
    with pytest.raises(pipeplan.UsageError, match="A placement plan does not fit a chain problem"):
        call(function, **{argument: PlacementPlan(())})


# ---- instances by name and by path ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "argument"), [case for case in taking("problem") if case.values[0] is not pipeplan.load_plan]
)
def test_a_problem_may_be_given_by_name_or_by_path(
    function: Callable[..., Any], argument: str, tmp_path: Path
) -> None:
    """The same answer as for the problem itself; times of runs differ."""
    path = tmp_path / "copy.json"
    path.write_text(problem_to_text(CHAIN), encoding="utf-8")
    more = {"planner": "contiguous"} if "planner" in parameters(function) else {}
    answers = [call(function, **{argument: given}, **more) for given in (CHAIN, "golden-4", path, str(path))]
    if function is pipeplan.solve:
        assert {(answer.objective, answer.problem["hash"]) for answer in answers} == {
            (RESULT.objective, CHAIN.hash)
        }
    elif function is pipeplan.verify_proof:
        assert {answer.answer for answer in answers} == {"not confirmed"}
    else:
        assert all(answer == answers[0] for answer in answers)


def test_a_plan_is_read_for_an_instance_by_name(tmp_path: Path) -> None:
    pipeplan.save(RESULT, tmp_path / "result.json")
    assert pipeplan.load_plan(tmp_path / "result.json", "golden-4") == RESULT.plan
    with pytest.raises(pipeplan.InputError, match="is of the kind pattern, but the problem is a placement"):
        pipeplan.load_plan(tmp_path / "result.json", "tiny-chain")


def test_an_option_that_no_method_has_is_refused() -> None:
    with pytest.raises(
        pipeplan.UsageError, match=r"There is no option 'nonsense' for a chain problem; give one of"
    ):
        pipeplan.smallest_memory("golden-4", options={"nonsense": True})


KINDS = ("tiny-chain", "golden-4", "tiny-stages", "tiny-levels", "tiny-graph", "tiny-training", "v-shape-4")
"""A problem of every kind that is planned in a moment."""


@pytest.fixture(scope="module", params=KINDS)
def result(request: pytest.FixtureRequest) -> pipeplan.Result:
    return pipeplan.solve(pipeplan.load(request.param), time_limit_s=600)


def test_the_page_has_ten_lines_of_code() -> None:
    blocks = [block for block in blocks_of(PAGES["docs/howto.md"]) if block.language == "python"]
    code = next(block for block in blocks if "import pipeplan" in block.text)
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
def test_a_plan_takes_three_lines_and_has_a_table_and_a_picture_in_a_notebook(result: pipeplan.Result) -> None:
    assert result.plan is not None
    lines = repr(result.plan).splitlines()
    assert (len(lines) <= 3, lines[0].partition(":")[0]) == (True, type(result.plan).__name__)
    assert max(map(len, lines)) < 200
    html = result.plan._repr_html_()
    assert (html.count("<table>"), html.count("<svg")) == (2, 1)
    alone = dataclasses.replace(result.plan, judged=None)
    assert alone == result.plan, "for what it was judged is no part of it"
    assert len(repr(alone).splitlines()) <= 3
    assert "<svg" not in alone._repr_html_()
    assert list(result.table().iloc[:, 0]), "a line for each device or stage"


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
    assert pipeplan.generate("pipeline") == pipeplan.generate("pipeline", stages=4)
    with pytest.raises(pipeplan.UsageError, match=r"no parameter stags \(did you mean 'stages'\?\)"):
        pipeplan.generate("pipeline", stags=1)


@pytest.mark.slow
def test_methods_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    problem = layered(nodes=8, seed=1, accelerators=2)
    comparison = pipeplan.compare([problem, "tiny-chain"], ["dp", "greedy"], time_limit_s=600, jobs=1)
    frame = comparison.table()
    assert list(frame["method"]) == ["dp", "greedy"] * 2
    assert frame["verified"].all()
    comparison.show()
    assert "values, recomputed by the referee" in capsys.readouterr().out
    assert repr(comparison).splitlines()[0] == "Comparison: 4 of 4 runs finished."
    assert comparison._repr_html_().count("<table>") == 5  # facts, values, methods, pairs, runs
    comparison.plot(tmp_path / "profile.pdf")
    assert (tmp_path / "profile.pdf").exists()


@pytest.mark.parametrize(("problems", "methods"), [("tiny-chain", ["dp"]), (["tiny-chain"], "dp"), ([5], ["dp"])])
def test_a_comparison_takes_lists(problems: object, methods: object) -> None:
    with pytest.raises(pipeplan.InputError, match=r"argument (problems|methods) is"):
        pipeplan.compare(problems, methods)  # type: ignore[arg-type]


def test_a_training_is_configured_like_anything_else(capsys: pytest.CaptureFixture[str]) -> None:
    answer = pipeplan.configure(pipeplan.load("tiny-training"), judge=["pipeline=2 tensor=2"])  # type: ignore[arg-type]
    assert answer.result.objective == answer.report.best.seconds
    assert answer.result.loads
    assert len(repr(answer).splitlines()) == 3
    answer.show()
    assert "pipeline=2 tensor=2" in capsys.readouterr().out
    with pytest.raises(pipeplan.InputError, match="batch is missing"):
        pipeplan.configure("llama-3-8b", "8xh100-80gb", sequence=8192)
